"""Rows that are in the driver, written without a job: as one task of Spark's would write them."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pipeline.runtime.driver.catalyst import NotInDriver, left_to_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from pipeline.runtime.driver.catalyst import Catalyst, DriverPlan, DriverRows
    from pipeline.warehouse.iceberg import Table


def plan_of_append(catalyst: Catalyst, table: Table, frame: DataFrame) -> DriverPlan:
    """The plan of a frame's rows as an append by name gives them to a table. Raises `NotInDriver`."""
    return catalyst.plan(catalyst.assigned(frame, _spark_table(table)))


@left_to_spark
def begun(table: Table, plan: DriverPlan) -> Any:
    """A write of a plan's rows, of Spark's data source API. `NotInDriver`: the table wants them in an order."""
    jvm = table.jvm
    writing, nothing = jvm.org.apache.spark.sql.connector.write, jvm.java.util.Optional.empty()
    options = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap.empty()
    info = writing.LogicalWriteInfoImpl(str(uuid.uuid4()), plan.schema, options, nothing, nothing)
    write = _spark_table(table).newWriteBuilder(info).build()
    if len(write.requiredOrdering()):
        raise NotInDriver("rows in an order")
    return write


def written(catalyst: Catalyst, table: Table, write: Any, rows: DriverRows) -> Sequence[Any]:
    """Write the rows; the data files. None is committed: if no commit follows, they are orphans."""
    info = table.jvm.org.apache.spark.sql.connector.write.PhysicalWriteInfoImpl(1)
    writer = write.toBatch().createBatchWriterFactory(info).createWriter(0, 0)
    try:
        catalyst.write(writer, rows)
        files = catalyst.files(writer.commit())
    except BaseException:
        with suppress(Exception):
            writer.abort()
        raise
    writer.close()
    return files


def _spark_table(table: Table) -> Any:
    """A table as Spark sees it: one that goes when the write has ended, as each write gives its table a reporter."""
    iceberg = table.jvm.org.apache.iceberg
    own = iceberg.BaseTable(table.java.operations(), table.java.name())
    return iceberg.spark.source.SparkTable(own, False)
