"""Rows of a partition as a Spark condition."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.ddl.partitions import Everything, Members, Ranges, Remainders, ValueKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

    from pipeline.ddl.partitions import Deciding, Edge, RowPredicate, Value, ValueRange

_MOMENT_LENGTH = len("2024-05-25 00:00:00.123456")
_WIDEST = "decimal(20,0)"
_SIGNED = 2**63
_NOTHING_LOST: Mapping[str, Column] = {}


def rows_in(
    predicate: RowPredicate, columns: Mapping[str, Column], lost: Mapping[str, Column] = _NOTHING_LOST
) -> Column:
    """The condition, never NULL, under which a row is one of the predicate's.

    `columns` and `lost` by the names that the predicate has; `lost` is the text of a date or time that its column
    cannot hold (`_unrepresentable`), without which it is taken for NULL.
    """
    match predicate:
        case Everything():
            return F.lit(True)
        case Ranges():
            cells = _cells(predicate.columns, columns, lost)
            return _any([_in_span(cells, span) for span in predicate.spans])
        case Members():
            return _in_list(_cells(predicate.columns, columns, lost), predicate)
        case Remainders():
            remainder = _remainder(columns[predicate.column.name], predicate.modulus)
            return remainder.isin(*predicate.remainders)


@dataclass(frozen=True, slots=True)
class _Cell:
    """A value of a row; `lost` its text where the column cannot hold it."""

    kind: ValueKind
    column: Column
    lost: Column | None

    def is_null(self) -> Column:
        null = self.column.isNull()
        return null if self.lost is None else null & self.lost.isNull()

    def is_below(self, value: Value) -> Column:
        """NULL is below every value."""
        terms = [self.column < _literal(value)]
        if self.lost is not None:
            terms.append(self.lost < F.lit(_text(value)))
        return F.coalesce(*terms, F.lit(True))

    def equals(self, value: Value) -> Column:
        """NULL equals none."""
        terms = [self.column == _literal(value)]
        if self.lost is not None:
            terms.append(self.lost == F.lit(_text(value)))
        return F.coalesce(*terms, F.lit(False))

    def is_one_of(self, values: Sequence[Value | None]) -> Column:
        wanted = [value for value in values if value is not None]
        conditions = [self.is_null()] if None in values else []
        if wanted:
            conditions.append(F.coalesce(self.column.isin(*map(_literal, wanted)), F.lit(False)))
        if wanted and self.lost is not None:
            conditions.append(F.coalesce(self.lost.isin(*map(_text, wanted)), F.lit(False)))
        return _any(conditions)


def _cells(deciding: Sequence[Deciding], columns: Mapping[str, Column], lost: Mapping[str, Column]) -> list[_Cell]:
    return [_cell(column.kind, columns[column.name], lost.get(column.name)) for column in deciding]


def _cell(kind: ValueKind, column: Column, lost: Column | None) -> _Cell:
    if kind is ValueKind.PADDED_TEXT:
        return _Cell(kind, F.rtrim(column), None)
    if kind not in (ValueKind.DATE, ValueKind.MOMENT):
        return _Cell(kind, column, None)
    if lost is not None and kind is ValueKind.MOMENT:
        pointed = F.when(lost.contains("."), lost).otherwise(F.concat(lost, F.lit(".")))
        lost = F.rpad(pointed, _MOMENT_LENGTH, "0")
    return _Cell(kind, column, lost)


def _literal(value: Value) -> Column:
    if isinstance(value, int):
        return F.lit(value) if -_SIGNED <= value < _SIGNED else F.lit(str(value)).cast(_WIDEST)
    if isinstance(value, str):
        return F.lit(value)
    return F.lit(_text(value)).cast("timestamp_ntz" if isinstance(value, dt.datetime) else "date")


def _text(value: Value) -> str:
    if isinstance(value, dt.datetime):
        return value.isoformat(" ", "microseconds")
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def _in_span(cells: Sequence[_Cell], span: ValueRange) -> Column:
    low = F.lit(True) if span.low is None else ~_is_below(cells, span.low)
    return low if span.high is None else low & _is_below(cells, span.high)


def _is_below(cells: Sequence[_Cell], edge: Edge) -> Column:
    """From the right: below in this column, or equal in it and below in those after it."""
    below = F.lit(edge.reached)
    for cell, value in reversed(list(zip(cells, edge.values, strict=False))):
        below = cell.is_below(value) | (cell.equals(value) & below)
    return below


def _in_list(cells: Sequence[_Cell], members: Members) -> Column:
    among = _equals_any(cells, members.among)
    return among if members.others is None else among | ~_equals_any(cells, members.others)


def _equals_any(cells: Sequence[_Cell], rows: Sequence[tuple[Value | None, ...]]) -> Column:
    if len(cells) == 1:
        return cells[0].is_one_of([value for (value,) in rows])
    return _any(
        [reduce(and_, [cell.is_one_of([value]) for cell, value in zip(cells, row, strict=True)]) for row in rows]
    )


def _remainder(column: Column, modulus: int) -> Column:
    """TiDB takes the 64 bits for a signed number, also those of an unsigned one."""
    wide = column.cast(_WIDEST)
    signed = F.when(wide >= F.lit(str(_SIGNED)).cast(_WIDEST), wide - F.lit(str(2 * _SIGNED)).cast(_WIDEST))
    return F.abs(F.coalesce(signed.otherwise(wide).cast("bigint"), F.lit(0)) % F.lit(modulus))


def _any(conditions: Sequence[Column]) -> Column:
    """One of them, as a tree that is not deep."""
    if len(conditions) <= 1:
        return conditions[0] if conditions else F.lit(False)
    middle = len(conditions) // 2
    return _any(conditions[:middle]) | _any(conditions[middle:])
