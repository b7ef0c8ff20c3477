"""Rows of `_pipeline.cuts` that answer nothing any more: they grow with every batch, and snapshots expire."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame, SparkSession

    from pipeline.warehouse.iceberg import Table
    from pipeline.warehouse.pairs import TablePair

_THERE, _IDLE = "_ticdc_there", "_ticdc_idle"
_KIND = "array<struct<table_uuid: string, _ticdc_there: array<bigint>>>"


def forget(spark: SparkSession, cuts: Table, pairs: Iterable[TablePair]) -> int:
    """Delete the rows without which `tables as-of` answers as before; how many.

    A cut is refused if its snapshot of a table has expired, and so is every cut up to the table's next row. If the
    next row's snapshot has expired, too, the first row is enough for both. The newest row of a table stays. So do all
    rows of tables that no longer exist.
    """
    cuts.refresh()
    if cuts.head() is None:
        return 0
    spark.sparkContext.setJobDescription("forget cuts")
    rows = spark.table(cuts.name.sql)
    columns = rows.columns
    judged = rows.join(F.broadcast(_there(spark, pairs)), "table_uuid", "left").withColumn(_IDLE, _is_idle())
    count = judged.where(_IDLE).count()
    if count:
        left = judged.where(~F.col(_IDLE)).select(*columns)
        left.coalesce(1).sortWithinPartitions("cut_ts").writeTo(cuts.name.sql).overwrite(F.lit(True))
        cuts.refresh()
    return count


def _there(spark: SparkSession, pairs: Iterable[TablePair]) -> DataFrame:
    """The snapshots that each current table has: `table_uuid`, an array of ids."""
    snapshots = []
    for pair in pairs:
        if pair.current is not None:
            pair.current.refresh()
            snapshots.append({"table_uuid": pair.uuid, _THERE: sorted(pair.current.snapshots())})
    return spark.range(1).select(F.inline(F.from_json(F.lit(json.dumps(snapshots)), _KIND, {"mode": "FAILFAST"})))


def _is_idle() -> Column:
    """Whether the snapshots of a row and of its table's row before it have expired, and the row is not the newest."""
    order = Window.partitionBy("table_uuid").orderBy("cut_ts", "batch_id", "recorded_at")
    expired = F.coalesce(~F.array_contains(_THERE, F.col("snapshot_id")), F.lit(False))
    before = F.coalesce(F.lag(expired).over(order), F.lit(False))
    return expired & before & F.lead("cut_ts").over(order).isNotNull()
