"""Raw records as tables of what is set aside keep them, and as the raw frame has them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.messages import INDEX
from pipeline.model.places import (
    FILE,
    FILES,
    PARTITION,
    POSITION,
    RAW,
    RECORD_BITS,
    STREAM,
    shown,
    shown_key,
)
from pipeline.warehouse import changes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from pipeline.warehouse.pairs import TablePair


def as_raw(restored: Mapping[str, Column]) -> list[Column]:
    """A row of `held` as the raw record that it was. `restored`: what the source has of it beyond `RAW`."""
    own = {name: F.col("kafka_partition" if name == PARTITION else name) for name in RAW}
    if FILE in restored:
        position = F.shiftleft(restored[FILE].getField("ordinal"), RECORD_BITS) + F.col("offset")
        own |= {STREAM: F.lit(FILES), POSITION: position}
    return [column.alias(name) for name, column in (own | dict(restored)).items()]


def as_held(columns: Collection[str]) -> list[Column]:
    """A raw record as `held` keeps it; `columns`: those of its frame."""
    place = shown(columns)
    own = [place[STREAM].alias("topic"), place[PARTITION].alias("kafka_partition"), place[POSITION].alias("offset")]
    return [*own, F.col("timestamp"), shown_key(columns).alias("key"), F.col("value")]


def without(raw: DataFrame, places: DataFrame) -> DataFrame:
    """The raw records that do not stand at these places (`shown`; of events also the index)."""
    if FILE not in raw.columns:
        return raw.join(places, list(places.columns), "left_anti").select(*raw.columns)
    place = {name: F.col(INDEX) if name == INDEX else shown(raw.columns)[name] for name in places.columns}
    named = places.select(*(F.col(name).alias(f"_shown_{name}") for name in place))
    placed = raw.withColumns({f"_shown_{name}": column for name, column in place.items()})
    return placed.join(named, list(named.columns), "left_anti").select(*raw.columns)


def places_since(spark: SparkSession, table: TablePair, batch_id: int) -> DataFrame:
    """Where the records stand (stream, partition, position) that this batch and later ones put into a changes table."""
    rows = changes.as_written(spark, table).where(F.col(change.BATCH_ID) >= batch_id)
    return rows.select(
        F.col(change.TOPIC).alias("topic"),
        F.col(change.PARTITION).alias("partition"),
        F.col(change.OFFSET).alias("offset"),
    )
