"""Values of rows as warehouse columns: pure functions, Column in, `Value` out.

Wire rules: wire-formats.md, "Simple, JSON" and "Simple, Avro".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import text, tidb_types
from pipeline.model import types as t
from pipeline.model.members import octets_of
from pipeline.model.text import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column

    from pipeline.model.columns import SourceColumn
    from pipeline.model.tidb_types import TidbType
    from pipeline.model.types import WarehouseType
    from pipeline.protocols.described.encoding import Values

_ALL_BITS = 64


@dataclass(frozen=True, slots=True)
class SentValue:
    """One value as it was sent, and what decides how it is read."""

    value: Column
    column: SourceColumn
    timezone: str
    values: Values

    @property
    def natural(self) -> WarehouseType:
        """The warehouse type of its column without an override."""
        return natural_type(self.column)

    @property
    def text(self) -> Column:
        """The value as text."""
        return self.values.text(self.value)


def read_value(sent: Column, column: SourceColumn, kind: WarehouseType, timezone: str, values: Values) -> Value:
    """One sent value as a value of the warehouse type `kind`."""
    row, own = tidb_types.of(column.tidb_type), natural_type(column)
    if kind != own and row is tidb_types.DECIMAL:
        return text.under(values.sound(sent), t.STRING, kind, exact=True)
    decode = _sound if row is None else DECODERS[row]
    return text.under(decode(SentValue(sent, column, timezone, values)), own, kind)


def natural_type(column: SourceColumn) -> WarehouseType:
    """The warehouse type of a column without an override (design.md, 4.4)."""
    return tidb_types.natural(column.tidb_type)


def _sound(sent: SentValue) -> Value:
    return sent.values.sound(sent.value)


def _whole(sent: SentValue) -> Value:
    return Value(sent.values.whole(sent.value, sent.natural))


def _real(sent: SentValue) -> Value:
    return Value(sent.values.real(sent.value, sent.natural))


def _bit(sent: SentValue) -> Value:
    number = sent.values.unsigned(sent.value)
    return Value(number if sent.natural == t.UNSIGNED_BIGINT else number.try_cast(sent.natural))


def _decimal(sent: SentValue) -> Value:
    return _sound(sent) if sent.natural == t.STRING else text.casted(sent.text, sent.natural)


def zoned_timestamp(moment: Column, timezone: str) -> Value:
    """TIMESTAMP: a wall clock in the zone that stands beside it, which is the changefeed's unless that was changed.

    `moment` is a struct of `location` and `value`.
    """
    clock, zone = moment.getField("value"), moment.getField("location")
    expected, other = text.timestamp(clock, timezone), text.zoned(clock, zone)
    here = zone == timezone
    return Value(
        F.when(here, expected.column).otherwise(other.column), F.when(here, expected.lost).otherwise(other.lost)
    )


def member_of(number: Column, members: tuple[str, ...]) -> Value:
    """ENUM, by the number of a member."""
    return _named(_member(number, members), members)


def members_of(mask: Column, members: tuple[str, ...]) -> Value:
    """SET, by the 64 bits of its members, as BIGINT."""
    return _named(_members(mask, members), members)


def _named(name: Column, members: tuple[str, ...]) -> Value:
    """The name of a member, or of several: bytes that are no UTF-8 have no name in a column."""
    return text.sound(name) if any(octets_of(member) for member in members) else Value(name)


def _literal(member: str) -> Column:
    octets = octets_of(member)
    return F.lit(member) if octets is None else F.lit(octets).cast(t.STRING)


def _member(number: Column, members: tuple[str, ...]) -> Column:
    """ENUM: the member of this number, from 1; 0 is the empty text of a value that was none."""
    return F.get(F.array(F.lit(""), *map(_literal, members)), number)


def _members(mask: Column, members: tuple[str, ...]) -> Column:
    """SET: the members whose bits are set, the first is the lowest."""
    chosen = [
        F.when(mask.bitwiseAND(F.lit(_mask(place))) != 0, _literal(member)) for place, member in enumerate(members)
    ]
    beyond = F.lit(False)
    if len(members) < _ALL_BITS:
        beyond = F.shiftright(mask, len(members)) != 0
    return F.when(mask.isNotNull() & ~beyond, F.concat_ws(",", *chosen))


def _mask(place: int) -> int:
    return (1 << place) - (2**64 if place == _ALL_BITS - 1 else 0)


DECODERS: Mapping[TidbType, Callable[[SentValue], Value]] = {
    tidb_types.INT: _whole,
    tidb_types.INT_UNSIGNED: _whole,
    tidb_types.BIGINT: _whole,
    tidb_types.BIGINT_UNSIGNED: lambda sent: Value(sent.values.unsigned(sent.value)),
    tidb_types.BIT: _bit,
    tidb_types.YEAR: _whole,
    tidb_types.FLOAT: _real,
    tidb_types.DOUBLE: _real,
    tidb_types.DECIMAL: _decimal,
    tidb_types.TEXT: _sound,
    tidb_types.BLOB: lambda sent: Value(sent.values.octets(sent.value)),
    tidb_types.JSON: _sound,
    tidb_types.ENUM: lambda sent: sent.values.member(sent.value, sent.column.members),
    tidb_types.SET: lambda sent: sent.values.members(sent.value, sent.column.members),
    tidb_types.DATE: lambda sent: text.date(sent.text),
    tidb_types.DATETIME: lambda sent: text.datetime(sent.text),
    tidb_types.TIMESTAMP: lambda sent: sent.values.instant(sent.value, sent.timezone),
    tidb_types.TIME: _sound,
    tidb_types.VECTOR: lambda sent: Value(text.vector(sent.text)),
}
"""How a value of each type is read."""
