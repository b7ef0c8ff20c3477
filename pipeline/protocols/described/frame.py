"""From prepared messages to the change frame of one table, in Spark expressions.

Each version has its own expressions; the results are coalesced, since for any row all but one are NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model import types as t
from pipeline.model.change import ARRIVED_AT, CHECKSUM, ERROR, KEY_BYTES, VALUE_BYTES, Op
from pipeline.model.conditions import any_of
from pipeline.model.messages import INDEX
from pipeline.model.places import RAW, shown, shown_key
from pipeline.model.projection import Projection, through
from pipeline.protocols.described.head import HEAD, field_of
from pipeline.protocols.described.values import read_value
from pipeline.protocols.envelope import envelope, unrepresentable
from pipeline.protocols.materialised import Materialised, first_unread

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.model.columns import TableVersion
    from pipeline.model.messages import ColumnMapping
    from pipeline.protocols.described.encoding import RowEncoding


@dataclass(frozen=True, slots=True)
class ChangeRecipe:
    """From prepared messages to the change frame of one table: decode, take both sides of a row, read values."""

    steps: tuple[Projection, ...]

    def of(self, frame: DataFrame) -> DataFrame:
        """The change frame of these messages."""
        return through(self.steps, frame)


@dataclass(frozen=True, slots=True)
class _Side:
    """One version's rows on one side of a change: `after` or `before`."""

    version: TableVersion
    alias: str

    @property
    def row(self) -> Column:
        return F.col(self.alias)


_Read = dict[str, Materialised]
"""The values of one version on one side, by target."""


@lru_cache(maxsize=2048)
def recipe(
    versions: tuple[TableVersion, ...], mapping: ColumnMapping, timezone: str, encoding: RowEncoding
) -> ChangeRecipe:
    """The expressions of a change frame. They are the same in every batch that has the same versions."""
    after = [_Side(version, f"_after{version.version}") for version in versions]
    before = [_Side(version, f"_before{version.version}") for version in versions]
    read_after = [_read(side, mapping, timezone, encoding) for side in after]
    read_before = [_read(side, mapping, timezone, encoding) for side in before] if mapping.before else []
    kept = [F.col(name) for name in (*encoding.columns, INDEX, HEAD)]
    faults = [fault for version in versions if (fault := encoding.fault(version)) is not None]
    sides = [
        *(encoding.after(side.version).alias(side.alias) for side in after),
        *(encoding.before(side.version).alias(side.alias) for side in before),
    ]
    binary = {target.name for target in mapping.targets if target.type == t.BINARY}
    frame = [
        *_envelope(read_after, encoding),
        *_targets(read_after, mapping),
        *([_before(read_before, before, mapping)] if mapping.before else []),
        _error(after, before, [*read_after, *read_before], encoding, binary).alias(ERROR),
        first_unread(_binary_first([*read_after, *read_before], encoding, binary), F.col(_FAULT).isNull()),
        F.col("key").alias(KEY_BYTES),
        F.col("value").alias(VALUE_BYTES),
        F.col("timestamp").alias(ARRIVED_AT),
        _checksum(after, before, timezone, encoding).alias(CHECKSUM),
    ]
    decoding, decoded = [], [*kept]
    for step in encoding.decoded(versions):
        decoding.append(Projection([*decoded, *(column.alias(name) for name, column in step.items())]))
        decoded += map(F.col, step)
    needed = [F.col(name) for name in (*RAW, INDEX, HEAD, _FAULT, *(side.alias for side in (*after, *before)))]
    values = [column for read in (*read_after, *read_before) for one in read.values() for column in one.columns]
    return ChangeRecipe(
        (
            *decoding,
            Projection([*_slimmed(encoding), F.coalesce(*faults, F.lit(None).cast("string")).alias(_FAULT), *sides]),
            Projection([*needed, *values]),
            Projection(frame),
        )
    )


_FAULT = "_fault"
_OF_THE_TABLE = ("kind", "database", "table")
_ROWS = ("data", "old")


def _slimmed(encoding: RowEncoding) -> list[Column]:
    """`RAW`, as users see it, index, and of the head what single rows differ in: steps copy what they are given."""
    record = {**shown(encoding.columns), "key": shown_key(encoding.columns)}
    raw = [record.get(name, F.col(name)).alias(name) for name in RAW]
    return [*raw, F.col(INDEX), F.col(HEAD).dropFields(*_OF_THE_TABLE, *_ROWS).alias(HEAD)]


def _read(side: _Side, mapping: ColumnMapping, timezone: str, encoding: RowEncoding) -> _Read:
    fields = mapping.fields[side.version.version]
    types = {target.name: target.type for target in mapping.targets}
    values: _Read = {}
    for place, column in enumerate(side.version.columns):
        target = fields.get(column.name)
        if target is not None:
            sent = encoding.item(side.row, side.version, place)
            value = read_value(sent, column, types[target], timezone, encoding.values)
            values[target] = Materialised(value, sent, f"{side.alias}_{place}")
    return values


def _envelope(read: Sequence[_Read], encoding: RowEncoding) -> list[Column]:
    return envelope(
        op=field_of("op"),
        commit_ts=field_of("commit_ts"),
        index=F.col(INDEX),
        schema_id=field_of("version"),
        lost=_lost(read),
        commit_time=encoding.commit_time,
    )


def _lost(read: Sequence[_Read]) -> list[dict[str, Column | None]]:
    return [{name: value.lost for name, value in one.items()} for one in read]


def _targets(read: Sequence[_Read], mapping: ColumnMapping) -> list[Column]:
    return [
        F.coalesce(*values).alias(target.name)
        if (values := [row[target.name].column for row in read if target.name in row])
        else F.lit(None).cast(target.type).alias(target.name)
        for target in mapping.targets
    ]


def _before(read: Sequence[_Read], sides: Sequence[_Side], mapping: ColumnMapping) -> Column:
    sent = any_of([side.row.isNotNull() for side in sides])
    row = F.struct(*_targets(read, mapping), unrepresentable(_lost(read)))
    return F.when((field_of("op") != Op.INSERT) & sent, row).alias(change.BEFORE)


def _error(
    after: Sequence[_Side],
    before: Sequence[_Side],
    read: Sequence[_Read],
    encoding: RowEncoding,
    binary: Collection[str],
) -> Column:
    """An insert has `data`, a delete `old`, an update both, and each value is one of its type."""
    no_row = ~any_of([side.row.isNotNull() for side in after])
    has_old = field_of("op") != Op.INSERT if encoding.always_sends_before else field_of("op") == Op.DELETE
    no_old = has_old & ~any_of([side.row.isNotNull() for side in before])
    broken = any_of([no_row, no_old, *(value.unread for one in read for value in one.values())])
    faults = [F.col(_FAULT)]
    if encoding.codes.binary:
        no_bytes = any_of(value.unread for one in read for name, value in one.items() if name in binary)
        faults.append(F.when(no_bytes, F.lit(encoding.codes.binary)))
    return F.coalesce(*faults, F.when(broken, F.lit(encoding.codes.value)))


def _binary_first(
    read: Sequence[_Read], encoding: RowEncoding, binary: Collection[str]
) -> list[tuple[str, Materialised]]:
    """Values with their targets; first those whose code counts more than others'."""
    values = [value for one in read for value in one.items()]
    return sorted(values, key=lambda value: value[0] not in binary) if encoding.codes.binary else values


def _checksum(after: Sequence[_Side], before: Sequence[_Side], timezone: str, encoding: RowEncoding) -> Column:
    """By version, since each has other columns to add up."""
    verdicts = [
        F.when(field_of("version") == F.lit(now.version.version), verdict)
        for now, then in zip(after, before, strict=True)
        if now.version.has_checksum
        and (verdict := encoding.checksum(now.version, now.row, then.row, timezone)) is not None
    ]
    return F.coalesce(*verdicts, F.lit(None).cast("boolean"))
