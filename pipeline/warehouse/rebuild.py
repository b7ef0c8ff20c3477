"""Building a current table again from its changes table, which is the durable record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.warehouse import current

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.warehouse.tables import WarehouseTable


def rebuild(spark: SparkSession, table: WarehouseTable, timezone: str) -> int:
    """Replay every change and statement; readers see the old rows until the new ones are published. Keys written."""
    done = current.publish(spark, table, timezone, "rebuild", lambda _step: None, afresh=True)
    return done.keys
