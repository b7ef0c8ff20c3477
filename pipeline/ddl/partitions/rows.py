"""Which rows lie in a partition, as data: conditions on the values of columns, without any SQL.

After TiDB `pkg/table/tables/partition.go` (locateRangePartition, locateRangeColumnPartition, locateListPartition,
locateHashPartition) and its documentation “Partitioning”, “How TiDB partitioning handles NULL”.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from pipeline.ddl.actions import NotUnderstood
from pipeline.ddl.defaults import default_of
from pipeline.ddl.literals import LiteralKind, utf8
from pipeline.ddl.partitions.scheme import LISTS, RANGES, Extreme
from pipeline.ddl.sql_types import SqlType
from pipeline.model.names import folded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.ddl.literals import Literal
    from pipeline.ddl.partitions.scheme import Bound, PartitionScheme

Value = int | str | dt.date | dt.datetime


class ValueKind(Enum):
    """How values of a column compare."""

    NUMBER = auto()
    TEXT = auto()
    """By the bytes of UTF-8."""
    PADDED_TEXT = auto()
    """As TEXT, without the spaces at the end."""
    DATE = auto()
    MOMENT = auto()


@dataclass(frozen=True, slots=True)
class Deciding:
    """A column that decides where a row lies."""

    name: str
    kind: ValueKind


@dataclass(frozen=True, slots=True)
class Edge:
    """Rows whose values are below these, compared from the left; with `reached` also those that begin with them."""

    values: tuple[Value, ...]
    reached: bool = False


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Rows below `high` and not below `low`; None where there is no such edge. NULL is below every value."""

    low: Edge | None
    high: Edge | None


@dataclass(frozen=True, slots=True)
class Everything:
    """Every row."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """Rows in one of these spans."""

    columns: tuple[Deciding, ...]
    spans: tuple[ValueRange, ...]


@dataclass(frozen=True, slots=True)
class Members:
    """Rows with one of these values; or, unless `others` is None, with none of those. NULL is a value."""

    columns: tuple[Deciding, ...]
    among: tuple[tuple[Value | None, ...], ...]
    others: tuple[tuple[Value | None, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class Remainders:
    """Rows whose value, as a signed number of 64 bits, without its sign, leaves one of these; NULL leaves 0."""

    column: Deciding
    modulus: int
    remainders: tuple[int, ...]


RowPredicate = Everything | Ranges | Members | Remainders


class _Refusal(ValueError):
    """It is not known which rows lie in which partition."""


_NUMBERS = ("INT", "INT UNSIGNED", "BIGINT", "BIGINT UNSIGNED", "YEAR")
_PADDED = ("utf8mb4_bin", "utf8_bin", "utf8mb3_bin", "latin1_bin", "ascii_bin")
_NOT_PADDED = ("utf8mb4_0900_bin",)
_DEFAULT_COLLATION = "utf8mb4_bin"
_WHOLE = re.compile(r"-?[0-9]{1,20}")
_TIDB_TYPE = re.compile(r"([A-Z ]+)(?:\((\d)\))?")
_MOST_DIGITS = 6
_NO_COLLATIONS: Mapping[str, str] = {}


def predicate(
    scheme: PartitionScheme | None,
    names: Sequence[str] | None,
    types: Mapping[str, str],
    collations: Mapping[str, str] = _NO_COLLATIONS,
) -> RowPredicate | NotUnderstood:
    """Tell which rows of a table lie in these partitions, in all without `names`.

    `types` are TiCDC's words for the types of the table's columns (`tidb_type`), by name; the predicate spells
    columns as they do. `collations` overrule what the text of the table said, which where it says none is taken to be
    TiDB's default, utf8mb4_bin. Names match without case.
    """
    if names is None:
        return Everything()
    if scheme is None:
        return NotUnderstood("no statement has said how the table is partitioned")
    if scheme.unsupported:
        return NotUnderstood(scheme.unsupported)
    try:
        return _predicate(scheme, _places(scheme, names), _columns(scheme, types, collations))
    except _Refusal as refusal:
        return NotUnderstood(str(refusal))


def _places(scheme: PartitionScheme, names: Sequence[str]) -> list[int]:
    places = scheme.places(names)
    unknown = [name for name, place in zip(names, places, strict=True) if place is None]
    if unknown:
        raise _Refusal(f"partition {', '.join(unknown)} is not known")
    return sorted({place for place in places if place is not None})


def _predicate(scheme: PartitionScheme, places: list[int], columns: tuple[_Column, ...]) -> RowPredicate:
    deciding = tuple(column.deciding for column in columns)
    if scheme.kind in RANGES:
        return Ranges(deciding, _spans(scheme, places, columns))
    if scheme.kind in LISTS:
        return _listed(scheme, places, columns)
    if deciding[0].kind is not ValueKind.NUMBER:
        raise _Refusal(f"HASH of column {deciding[0].name}, which is not a whole number")
    return Remainders(deciding[0], len(scheme.partitions), tuple(places))


@dataclass(frozen=True, slots=True)
class _Column:
    """A deciding column and what its values are read as."""

    deciding: Deciding
    type: SqlType

    def value(self, literal: Literal) -> Value:
        read = _READERS[self.deciding.kind](literal, self.type)
        if read is None:
            raise _Refusal(
                f"a value of column {self.deciding.name} is no exact {self.type.family}: {literal.text[:40]}"
            )
        return read


def _columns(scheme: PartitionScheme, types: Mapping[str, str], collations: Mapping[str, str]) -> tuple[_Column, ...]:
    spelled = {folded(name): name for name in types}
    overruled = {folded(name): collation.lower() for name, collation in collations.items()}
    columns = []
    for column in scheme.columns:
        key = folded(column.name)
        if key not in spelled:
            raise _Refusal(f"the table is partitioned by column {column.name}, which it does not have")
        collation = overruled.get(key) or column.collation or _DEFAULT_COLLATION
        columns.append(_column(spelled[key], types[spelled[key]], collation))
    return tuple(columns)


def _column(name: str, tidb_type: str, collation: str) -> _Column:
    read = _TIDB_TYPE.fullmatch(tidb_type)
    family, digits = (read[1], read[2]) if read else (tidb_type, None)
    kind = _text_kind(name, collation) if family == "TEXT" else _KINDS.get(family)
    if kind is None:
        raise _Refusal(f"the table is partitioned by column {name} of type {tidb_type}")
    return _Column(Deciding(name, kind), SqlType(family, scale=_MOST_DIGITS if digits is None else int(digits)))


_KINDS = dict.fromkeys(_NUMBERS, ValueKind.NUMBER) | {"DATE": ValueKind.DATE, "DATETIME": ValueKind.MOMENT}


def _text_kind(name: str, collation: str) -> ValueKind:
    if collation in _PADDED:
        return ValueKind.PADDED_TEXT
    if collation in _NOT_PADDED:
        return ValueKind.TEXT
    raise _Refusal(f"the table is partitioned by column {name}, whose collation is {collation}")


def _number(literal: Literal, _: SqlType) -> int | None:
    plain = literal.kind is LiteralKind.NUMBER and _WHOLE.fullmatch(literal.text)
    return int(literal.text) if plain else None


def _text(literal: Literal, _: SqlType) -> str | None:
    exact = literal.kind is LiteralKind.TEXT and utf8(literal) is not None
    return literal.text if exact else None


def _padded(literal: Literal, kind: SqlType) -> str | None:
    text = _text(literal, kind)
    return None if text is None else text.rstrip(" ")


def _date(literal: Literal, kind: SqlType) -> dt.date | None:
    try:
        return dt.date.fromisoformat(_calendar(literal, kind))
    except ValueError:
        return None


def _moment(literal: Literal, kind: SqlType) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(_calendar(literal, kind))
    except ValueError:
        return None


def _calendar(literal: Literal, kind: SqlType) -> str:
    """The canonical text; empty where there is none."""
    return default_of(literal, kind, nullable=True).text if literal.kind is LiteralKind.TEXT else ""


_READERS = {
    ValueKind.NUMBER: _number,
    ValueKind.TEXT: _text,
    ValueKind.PADDED_TEXT: _padded,
    ValueKind.DATE: _date,
    ValueKind.MOMENT: _moment,
}


def _members(among: tuple[tuple[Literal, ...], ...], columns: tuple[_Column, ...]) -> list[tuple[Value | None, ...]]:
    return [
        tuple(
            None if literal.kind is LiteralKind.NULL else column.value(literal)
            for literal, column in zip(member, columns, strict=True)
        )
        for member in among
    ]


def _listed(scheme: PartitionScheme, places: list[int], columns: tuple[_Column, ...]) -> Members:
    chosen = [scheme.partitions[place] for place in places]
    members = Members(
        tuple(column.deciding for column in columns),
        tuple(member for partition in chosen for member in _members(partition.among, columns)),
    )
    if not any(partition.default for partition in chosen):
        return members
    left = (partition for place, partition in enumerate(scheme.partitions) if place not in places)
    return replace(members, others=tuple(member for partition in left for member in _members(partition.among, columns)))


def _spans(scheme: PartitionScheme, places: list[int], columns: tuple[_Column, ...]) -> tuple[ValueRange, ...]:
    """One span for partitions that stand side by side."""

    def edge(place: int) -> Edge | None:
        return _edge(scheme.partitions[place].below, columns) if place >= 0 else None

    firsts = [place for place in places if place - 1 not in places]
    lasts = [place for place in places if place + 1 not in places]
    return tuple(ValueRange(edge(first - 1), edge(last)) for first, last in zip(firsts, lasts, strict=True))


def _edge(bound: Bound, columns: tuple[_Column, ...]) -> Edge | None:
    """Values up to the first MAXVALUE, which whatever begins with the values before it is below."""
    values: list[Value] = []
    for literal, column in zip(bound, columns, strict=True):
        if isinstance(literal, Extreme):
            return Edge(tuple(values), reached=True) if values else None
        values.append(column.value(literal))
    return Edge(tuple(values))
