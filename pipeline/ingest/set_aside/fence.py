"""Key fencing: later changes of a key wait behind one that is quarantined, where `quality.fenced` is `hold`.

Deletes never wait: what is quarantined of their key is superseded by them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.ingest.set_aside.dead_letters import key_values, of_table
from pipeline.model import change
from pipeline.model.change import Op
from pipeline.model.projection import walled
from pipeline.quality.suites import SETTING_ASIDE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.ingest.context import PipelineContext
    from pipeline.model.names import TableName
    from pipeline.quality.rules import RuleSet
    from pipeline.warehouse.layout import Layout

_KEY, _FIRST, _AT = "_fence_key", "_fence_first", "_fence_at"


def fence(context: PipelineContext, judged: DataFrame, rules: RuleSet, layout: Layout, source: TableName) -> DataFrame:
    """A judged change frame with `_fenced`. It reads the batch twice: first to find the rows that break a rule."""
    place = F.struct(change.TOPIC, change.PARTITION, change.OFFSET, change.INDEX)
    keyed = judged.withColumns({_KEY: key_values(layout), _AT: place})
    broken = walled(keyed).where(F.col(change.ERROR).isNull() & rules.breaks(*SETTING_ASIDE)).select(_KEY, _AT)
    nowhere = F.lit(None).cast(_PLACE).alias(_AT)
    open_fences = open_keys(context, source).select(F.col("key_values").alias(_KEY), nowhere)
    first = (
        broken.union(open_fences)
        .groupBy(_KEY)
        .agg(F.min(_AT).alias(_FIRST), F.max(F.col(_AT).isNull()).alias("_fence_open"))
    )
    is_fenced = F.col("_fence_open") | (F.col(_AT) > F.col(_FIRST))
    fenced = F.coalesce(is_fenced, F.lit(False)) & (F.col(change.OP) != Op.DELETE.value)
    fenced = fenced & F.col(change.ERROR).isNull() & ~rules.breaks(*SETTING_ASIDE)
    joined = keyed.join(F.broadcast(first), _KEY, "left").withColumn(change.FENCED, fenced)
    return joined.drop(_KEY, _AT, _FIRST, "_fence_open")


def open_keys(context: PipelineContext, source: TableName) -> DataFrame:
    """The keys of a table that have something in quarantine, as `key_values`."""
    rows = context.records.read("quarantine").where(of_table(source) & (F.col("status") == "open"))
    return rows.where(F.col("key_values").isNotNull()).select("key_values").distinct()


_PLACE = "struct<_topic: string, _kafka_partition: int, _offset: bigint, _index: int>"
