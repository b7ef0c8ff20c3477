"""Building a current table again from its changes table, which is the durable record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import Refused
from pipeline.warehouse import advance, current
from pipeline.warehouse.tables import EXCHANGED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.warehouse.tables import WarehouseTable


def rebuild(spark: SparkSession, table: WarehouseTable, timezone: str) -> int:
    """Replay every change and statement; readers see the old rows until the new ones are published. Keys written.

    In the cut regime, whose tables know their names over time, up to the table's cut, which stays.
    """
    if EXCHANGED in table.changes.properties:
        raise Refused(
            "ROWS_EXCHANGED",
            f"{table.source} has rows that came by EXCHANGE PARTITION, which its changes do not have",
            "its current table stays as it is",
        )
    spark.sparkContext.setJobDescription(f"rebuild {table.source}")
    if table.spans:
        return advance.advance(spark, table, timezone, "rebuild", lambda _step: None, table.cut, afresh=True).keys
    done = current.publish(spark, table, timezone, "rebuild", lambda _step: None, afresh=True)
    return done.keys
