"""The first columns of a change frame, which every protocol makes alike from what it has read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.columns import LOGICAL_BITS
from pipeline.model.places import PARTITION, POSITION, STREAM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column

_LOST = change.ENVELOPE[change.UNREPRESENTABLE]


def envelope(
    *,
    op: Column,
    commit_ts: Column,
    index: Column,
    schema_id: Column,
    lost: Iterable[Mapping[str, Column | None]],
    commit_time: Column | None = None,
) -> list[Column]:
    """The columns from `_op` to `_unrepresentable`, from a frame with the columns `RAW` as users see them.

    `commit_time`: when the change was committed, where the commit ts does not say it.

    `lost`: the texts that could not be represented, by target; a mapping for each version, of which for any row all
    but one have NULL alone. None: a value of that target is never lost.
    """
    if commit_time is None:
        commit_time = F.timestamp_millis(F.shiftright(commit_ts, LOGICAL_BITS))
    return [
        op.alias(change.OP),
        commit_ts.alias(change.COMMIT_TS),
        commit_time.alias(change.COMMIT_TIME),
        F.col(STREAM).alias(change.TOPIC),
        F.col(PARTITION).alias(change.PARTITION),
        F.col(POSITION).alias(change.OFFSET),
        index.alias(change.INDEX),
        schema_id.alias(change.SCHEMA_ID),
        unrepresentable(lost),
    ]


def unrepresentable(versions: Iterable[Mapping[str, Column | None]]) -> Column:
    """`_unrepresentable` of a row (`envelope`), without a lambda: Spark makes no code for a projection that has one."""
    maps = []
    for version in versions:
        lost = {name: text for name, text in version.items() if text is not None}
        if lost:
            some = F.coalesce(*lost.values()).isNotNull()
            maps.append(F.when(some, F.map_concat(*(_entry(name, text) for name, text in lost.items()))))
    return (F.coalesce(*maps) if maps else F.lit(None).cast(_LOST)).alias(change.UNREPRESENTABLE)


def _entry(name: str, text: Column) -> Column:
    nothing = F.create_map().cast(_LOST)
    return F.when(text.isNotNull(), F.create_map(F.lit(name), text)).otherwise(nothing)
