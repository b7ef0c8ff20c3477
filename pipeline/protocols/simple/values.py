"""Values of Simple's rows as warehouse columns: pure functions, Column in, `Value` out.

Wire rules: wire-formats.md, "Simple, JSON" and "Simple, Avro".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import text
from pipeline.model import types as t
from pipeline.model.members import octets_of
from pipeline.model.text import Value

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pipeline.model.columns import SourceColumn
    from pipeline.model.types import WarehouseType
    from pipeline.protocols.simple.encoding import Values

_ALL_BITS = 64


def read_value(sent: Column, column: SourceColumn, kind: WarehouseType, timezone: str, values: Values) -> Value:
    """One sent value as a value of the warehouse type `kind`."""
    own = natural_type(column)
    if kind != own and _family(column) == "DECIMAL":
        return text.under(values.sound(sent), t.STRING, kind, exact=True)
    return text.under(_natural(sent, column, timezone, values), own, kind)


def natural_type(column: SourceColumn) -> WarehouseType:
    """The warehouse type of a column without an override (design.md, 4.4)."""
    return t.natural(column.tidb_type)


def _family(column: SourceColumn) -> str:
    return column.tidb_type.partition("(")[0]


def _natural(sent: Column, column: SourceColumn, timezone: str, values: Values) -> Value:  # noqa: C901, PLR0911 - a table of types
    kind = natural_type(column)
    match _family(column):
        case "INT" | "INT UNSIGNED" | "BIGINT" | "YEAR":
            return Value(values.whole(sent, kind))
        case "BIGINT UNSIGNED":
            return Value(values.unsigned(sent))
        case "BIT":
            number = values.unsigned(sent)
            return Value(number if kind == t.UNSIGNED_BIGINT else number.try_cast(kind))
        case "FLOAT" | "DOUBLE":
            return Value(values.real(sent, kind))
        case "DECIMAL" if kind != t.STRING:
            return text.casted(values.text(sent), kind)
        case "DATE":
            return text.date(values.text(sent))
        case "DATETIME":
            return text.datetime(values.text(sent))
        case "TIMESTAMP":
            return _timestamp(values.moment(sent), timezone)
        case "ENUM":
            return _named(_member(values.whole(sent, t.INT), column.members), column.members)
        case "SET":
            return _named(_members(values.mask(sent), column.members), column.members)
        case "VECTOR":
            return Value(text.vector(values.text(sent)))
        case "BLOB":
            return Value(values.octets(sent))
    return values.sound(sent)


def _timestamp(moment: Column, timezone: str) -> Value:
    """TIMESTAMP: a wall clock in the zone that stands beside it, which is the changefeed's unless that was changed."""
    clock, zone = moment.getField("value"), moment.getField("location")
    expected, other = text.timestamp(clock, timezone), text.zoned(clock, zone)
    here = zone == timezone
    return Value(
        F.when(here, expected.column).otherwise(other.column), F.when(here, expected.lost).otherwise(other.lost)
    )


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
    chosen = [F.when(mask.bitwiseAND(F.lit(_bit(at))) != 0, _literal(member)) for at, member in enumerate(members)]
    beyond = F.lit(False)
    if len(members) < _ALL_BITS:
        beyond = F.shiftright(mask, len(members)) != 0
    return F.when(mask.isNotNull() & ~beyond, F.concat_ws(",", *chosen))


def _bit(at: int) -> int:
    return (1 << at) - (2**64 if at == _ALL_BITS - 1 else 0)
