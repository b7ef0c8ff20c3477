"""From events to the change frame of one table, in Spark expressions.

The texts of an event's values come first (`reading`), of all versions of the table in one array; then each is read as
what its column is, once; then the frame is put together. Which version a row is, its layout says, and its commit ts
where two versions have one layout.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.change import ARRIVED_AT, ERROR, KEY_BYTES, VALUE_BYTES, Op
from pipeline.model.columns import NULL_DEFAULT
from pipeline.model.conditions import any_of
from pipeline.model.messages import INDEX
from pipeline.model.places import RAW
from pipeline.model.projection import Projection, through
from pipeline.model.types import STRING
from pipeline.protocols.envelope import envelope, unrepresentable
from pipeline.protocols.layouts.head import COMMIT_TS, DELETE, HEAD, head
from pipeline.protocols.materialised import Materialised, first_unread
from pipeline.protocols.open.events import AFTER, BEFORE, reading, sides
from pipeline.protocols.open.reading import Wanted
from pipeline.protocols.open.values import Cell, is_encoded, read_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.model.columns import SchemaId, SourceColumn
    from pipeline.model.messages import ColumnMapping
    from pipeline.protocols.layouts.readers import VersionRows

    _Row = Mapping[str, Sequence[Materialised]]
    """By target, the ways in which the versions fill it; for one row all but one are NULL."""

UNREADABLE = "OPEN_VALUE_UNREADABLE"

_NUMBER = "_number"


@dataclass(frozen=True, slots=True)
class OpenRecipe:
    """From the table's events to its change frame: texts, values, frame."""

    steps: tuple[Projection, ...]

    def of(self, frame: DataFrame) -> DataFrame:
        """The change frame of these events."""
        return through(self.steps, frame)


@lru_cache(maxsize=2048)
def recipe(
    readers: tuple[VersionRows, ...], mapping: ColumnMapping, timezone: str, *, old_values: bool, at_once: bool = False
) -> OpenRecipe:
    """The expressions of a change frame. They are the same in every batch that has the same versions.

    `at_once`: the events have been read for what is `wanted` of these readers.
    """
    plan = _Plan(readers, wanted(readers), mapping, timezone)
    after = plan.row(F.col(AFTER), AFTER)
    both = [after]
    before: list[Column] = []
    if mapping.before:
        both.append(plan.row(F.col(BEFORE), BEFORE))
        fields = [column.alias(name) for name, column in _targets(both[-1], mapping).items()]
        has_before = F.col(BEFORE).isNotNull()
        before = [F.when(has_before, F.struct(*fields, unrepresentable([_lost(both[-1])]))).alias(change.BEFORE)]
    targets = [column.alias(name) for name, column in _targets(after, mapping).items()]
    frame = [*_envelope(after, old_values=old_values), *targets, *before, *_bytes(both)]
    numbers = [F.when(one.mine, F.lit(one.version.version)) for one in readers]
    number = F.coalesce(*numbers, F.lit(None)).cast("bigint").alias(_NUMBER)
    kept = [F.col(name) for name in (*RAW, INDEX, HEAD)]
    values = [column for one in _all(both) for column in one.columns]
    read = [[*kept, F.col(AFTER), F.col(BEFORE), number]] if at_once else _read(kept, number, plan.wanted)
    steps = [*read, [*kept, F.col(_NUMBER), F.col(AFTER), F.col(BEFORE), *values], frame]
    return OpenRecipe(tuple(map(Projection, steps)))


def wanted(readers: Iterable[VersionRows]) -> Wanted:
    """What is wanted of the events of a table."""
    columns = [column for one in readers for column in one.version.columns]
    coded = dict.fromkeys(column.name for column in columns if is_encoded(column))
    return Wanted(tuple(dict.fromkeys(column.name for column in columns)), tuple(coded))


def _read(kept: Sequence[Column], number: Column, of: Wanted) -> list[list[Column]]:
    return [[*kept, number, reading(of)], [*kept, F.col(_NUMBER), *sides()]]


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the values of a table are read."""

    readers: tuple[VersionRows, ...]
    wanted: Wanted
    mapping: ColumnMapping
    timezone: str

    def row(self, sent: Column, side: str) -> _Row:
        """One side of the changes. `side`: what the names of its columns begin with."""
        ways: dict[tuple[str, str, SourceColumn], list[SchemaId]] = defaultdict(list)
        for reader in self.readers:
            number = reader.version.version
            fields = self.mapping.fields[number]
            for column in reader.version.columns:
                if column.name in fields:
                    ways[fields[column.name], column.name, _wire(column)].append(number)
        types = {target.name: target.type for target in self.mapping.targets}
        row: dict[str, list[Materialised]] = defaultdict(list)
        for place, ((target, name, column), versions) in enumerate(ways.items()):
            text = self.wanted.text(sent, name)
            if len(versions) < len(self.readers):
                text = F.when(F.col(_NUMBER).isin(*versions), text)
            cell = Cell(text, self.wanted.code(sent, name) if is_encoded(column) else None)
            value = read_value(cell, column, types[target], self.timezone)
            row[target].append(Materialised(value, text, f"{side}{place}"))
        return row


def _wire(column: SourceColumn) -> SourceColumn:
    """What of a column decides how it is read."""
    return replace(column, type=STRING, nullable=True, default=NULL_DEFAULT)


def _all(rows: Iterable[_Row]) -> Iterable[Materialised]:
    return (one for row in rows for ways in row.values() for one in ways)


def _targets(row: _Row, mapping: ColumnMapping) -> dict[str, Column]:
    return {
        target.name: F.coalesce(*(one.column for one in row[target.name]))
        if target.name in row
        else F.lit(None).cast(target.type)
        for target in mapping.targets
    }


def _envelope(row: _Row, *, old_values: bool) -> list[Column]:
    new = Op.INSERT if old_values else Op.UPSERT
    op = F.when(head(DELETE), F.lit(Op.DELETE.value)).when(F.col(BEFORE).isNotNull(), F.lit(Op.UPDATE.value))
    return envelope(
        op=op.otherwise(F.lit(new.value)),
        commit_ts=head(COMMIT_TS),
        index=F.col(INDEX),
        schema_id=F.col(_NUMBER),
        lost=[_lost(row)],
    )


def _lost(row: _Row) -> dict[str, Column]:
    texts = {name: [one.lost for one in ways if one.lost is not None] for name, ways in row.items()}
    return {name: F.coalesce(*lost) for name, lost in texts.items() if lost}


def _bytes(rows: Sequence[_Row]) -> list[Column]:
    unread = [one.unread for one in _all(rows) if one.unread is not None]
    failed = F.col(AFTER).isNull() | F.col(_NUMBER).isNull()
    return [
        F.when(any_of([failed, *unread]), F.lit(UNREADABLE)).alias(ERROR),
        first_unread(((name, one) for row in rows for name, ways in row.items() for one in ways), ~failed),
        F.col("key").alias(KEY_BYTES),
        F.col("value").alias(VALUE_BYTES),
        F.col("timestamp").alias(ARRIVED_AT),
        F.lit(None).cast("boolean").alias(change.CHECKSUM),
    ]
