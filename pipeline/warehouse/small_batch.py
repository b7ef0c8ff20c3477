"""Appends of a few rows, which the driver decodes, judges, counts and writes without a job (decision 012).

They are those that `changes.append` would make. The plan has the same expressions, made over a frame without rows;
Iceberg's writer and commit are those that a task and the driver of Spark would call.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as F

from pipeline.runtime.driver.catalyst import Catalyst, NotInDriver
from pipeline.warehouse import changes
from pipeline.warehouse.changes import IN_ONE_STAGE, STAMP
from pipeline.warehouse.iceberg import MAIN
from pipeline.warehouse.state import ENDS, IN_DRIVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.model.messages import Recipe
    from pipeline.quality.rules import RuleSet
    from pipeline.runtime.driver.catalyst import DriverPlan, DriverRows
    from pipeline.warehouse.changes import Appended, Entry
    from pipeline.warehouse.pairs import TablePair

MOST_EVENTS = 20_000
MOST_BYTES = 64 << 20
"""A batch of more is for Spark's tasks: they run compiled code on all cores, and hold one row at a time."""
_KEPT = 512
"""Plans that are kept."""


class SmallBatch:
    """The prepared events of a small batch. They come to the driver when they are first asked for.

    `empty`: a frame with their columns and no rows. Plans are made over it.
    """

    def __init__(self, catalyst: Catalyst, frame: DataFrame) -> None:
        self._frame = frame
        self._collecting = Lock()
        self._rows: DriverRows | None = None
        self.catalyst = catalyst
        self.empty = self.catalyst.empty(frame)

    @classmethod
    def of(cls, spark: SparkSession, frame: DataFrame, events: int) -> SmallBatch | None:
        """A batch of so many events as a small one; None where it is not. `frame`: as Spark has it, read and kept.

        `spark`: the pipeline's own session. That of a stream's frame goes with the stream, and its plans with it.
        """
        catalyst = Catalyst.of(spark)
        return cls(catalyst, frame) if events <= MOST_EVENTS and catalyst.size(frame) <= MOST_BYTES else None

    @property
    def rows(self) -> DriverRows:
        """The events."""
        with self._collecting:  # tables are landed side by side
            if self._rows is None:
                self._rows = self.catalyst.collected(self._frame)
            return self._rows


def append(
    table: TablePair, batch: SmallBatch, within: DataFrame, recipe: Recipe, entry: Entry, branch: str | None = None
) -> Appended | None:
    """As `changes.append`, of those events of a batch that `within`, a frame over its `empty` one, lets through.

    None where that is left to Spark: frames that need more than conditions and select lists, and tables whose rows are
    to be in an order.
    """
    catalyst, jvm, reached = batch.catalyst, table.changes.jvm, {**table.ends, **entry.ends}
    summary = {**ENDS.entry(reached), **entry.summary, **IN_DRIVER.entry(True)}
    try:
        chosen = catalyst.plan(within)
        plan = _plan(_PlanKey(batch.empty, recipe, entry.rules, table.changes.uuid, table.changes.schema_id, table))
        write = _write(jvm, _spark_table(table), plan.rows.schema)
    except NotInDriver:
        return None
    stamp = catalyst.pair(entry.batch_id, time.time_ns() // 1000)
    rows, counts = catalyst.run(batch.rows, chosen, plan.judged, stamp, plan.rows)
    appended = changes.appended_by(counts, entry.rules)
    if appended.rows != rows.count:
        raise AssertionError(f"{entry.operation}: {rows.count} rows come of {appended.rows} that were counted")
    files = _written(catalyst, jvm, write, rows)
    table.changes.append_files(files, summary, branch or MAIN)
    table.changes.refresh()
    if not branch:
        table.ends = reached
    return appended


@dataclass(frozen=True, slots=True)
class _AppendPlan:
    """From events to judged changes, which are counted, and from these and `STAMP` to the rows that are added."""

    judged: DriverPlan
    rows: DriverPlan


@dataclass(frozen=True, slots=True)
class _PlanKey:
    """All that a plan depends on."""

    empty: DataFrame
    recipe: Recipe
    rules: RuleSet
    uuid: str
    schema_id: int
    table: TablePair = field(compare=False)


@lru_cache(maxsize=_KEPT)
def _plan(wanted: _PlanKey) -> _AppendPlan:
    """The plan of a table's appends. Raises `NotInDriver`."""
    catalyst = Catalyst.of(wanted.empty.sparkSession)
    entry = changes.Entry(0, {}, "", wanted.rules)
    mine = changes.judged(wanted.table, wanted.recipe.of(wanted.empty), entry)
    judged = catalyst.plan(catalyst.counting(mine.frame, mine.counters))
    stamped = catalyst.empty(mine.frame.withColumn(STAMP, F.lit(None).cast("array<bigint>")))
    rows = catalyst.assigned(mine.rows(stamped), _spark_table(wanted.table))
    return _AppendPlan(judged, catalyst.plan(rows))


def _spark_table(table: TablePair) -> Any:
    """A changes table as Spark sees it."""
    return table.changes.jvm.org.apache.iceberg.spark.source.SparkTable(table.changes.java, False)


def _write(jvm: Any, target: Any, columns: Any) -> Any:
    """A write of Spark's data source API, of rows with these columns. `NotInDriver`: they are to be in an order."""
    options, nothing = jvm.java.util.HashMap(), jvm.java.util.Optional.empty()
    for name, value in IN_ONE_STAGE.items():
        options.put(name, value)
    given = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(options)
    writing = jvm.org.apache.spark.sql.connector.write
    info = writing.LogicalWriteInfoImpl(str(uuid.uuid4()), columns, given, nothing, nothing)
    write = target.newWriteBuilder(info).build()
    if len(write.requiredOrdering()):
        raise NotInDriver("rows in an order")
    return write


def _written(catalyst: Catalyst, jvm: Any, write: Any, rows: DriverRows) -> Sequence[Any]:
    """Write the rows as one task would; the data files. None is committed: if no commit follows, they are orphans."""
    info = jvm.org.apache.spark.sql.connector.write.PhysicalWriteInfoImpl(1)
    writer = write.toBatch().createBatchWriterFactory(info).createWriter(0, 0)
    try:
        catalyst.write(writer, rows)
        return catalyst.files(writer.commit())
    except Py4JJavaError:
        writer.abort()
        raise
    finally:
        writer.close()
