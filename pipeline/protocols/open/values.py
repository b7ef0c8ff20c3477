"""Values of the Open protocol as warehouse columns: pure functions, Column in, Column out.

Each value arrives as the text of its JSON: a number as it is written, a text without its quotes (TiCDC Open Protocol,
"Column type codes"; golden/WIRE-FORMATS.md, "Open protocol").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import text
from pipeline.model import types as t
from pipeline.model.text import Value
from pipeline.protocols.open.columns import BASE64, family_of, natural_type
from pipeline.protocols.open.quoting import unquoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

    from pipeline.model.columns import SourceColumn
    from pipeline.model.types import WarehouseType

_UNSIGNED = "decimal(20,0)"


@dataclass(frozen=True, slots=True)
class Read:
    """A value, and whether it was sent but cannot be read."""

    value: Value
    broken: Column


def is_encoded(column: SourceColumn) -> bool:
    """Whether the type code of each value decides how it is read."""
    return column.tidb_type in ("TEXT", "BLOB")


def read_value(cell: Column, column: SourceColumn, kind: WarehouseType, timezone: str) -> Read:
    """One cell (a struct of `v`, and of `t` where it `is_encoded`) as a value of the warehouse type `kind`."""
    sent = cell["v"]
    natural = _natural(cell, column, timezone)
    broken = sent.isNotNull() & natural.column.isNull()
    if natural.lost is not None:
        broken = broken & natural.lost.isNull()
    return Read(_as(kind, natural, column), broken)


def _as(kind: WarehouseType, natural: Value, column: SourceColumn) -> Value:
    if kind == natural_type(column):
        return natural
    if natural.lost is None and t.absorbs(kind, natural_type(column)):
        return Value(natural.column.cast(kind))
    if t.decimal_parameters(kind) and family_of(column.tidb_type) == "DECIMAL":
        return text.exact_decimal(natural.column.cast("string"), kind)
    return text.casted(natural.column, kind)


def _natural(cell: Column, column: SourceColumn, timezone: str) -> Value:  # noqa: C901, PLR0911 - a table of types
    sent, kind = cell["v"], natural_type(column)
    match family_of(column.tidb_type):
        case "TEXT":
            return Value(F.when(_in_base64(cell), F.try_validate_utf8(_bytes(sent).cast("string"))).otherwise(sent))
        case "BLOB":
            return Value(F.when(_in_base64(cell), _bytes(sent)).otherwise(unquoted(sent)))
        case "ENUM" if column.members:
            return Value(member(sent, column.members))
        case "SET" if column.members:
            return Value(members(sent, column.members))
        case "ENUM" | "SET" | "JSON" | "TIME":
            return Value(sent)
        case "DATE":
            return text.date(sent)
        case "DATETIME":
            return text.datetime(sent)
        case "TIMESTAMP":
            return text.timestamp(sent, timezone)
        case "DECIMAL" if t.decimal_parameters(kind):
            return text.exact_decimal(sent, kind)
        case "VECTOR":
            return Value(text.vector(sent))
    return Value(text.number_of(sent, kind) if t.decimal_parameters(kind) else sent.try_cast(kind))


def _in_base64(cell: Column) -> Column:
    return cell["t"].between(*BASE64)


def _bytes(sent: Column) -> Column:
    return F.try_to_binary(sent, F.lit("base64"))


def member(number: Column, names: Sequence[str]) -> Column:
    """ENUM: the name behind a number, from 1; 0 is the empty text of an invalid value."""
    listed = F.array(F.lit(""), *(F.lit(name) for name in names))
    return F.get(listed, number.try_cast("int"))


def members(mask: Column, names: Sequence[str]) -> Column:
    """SET: the names of the bits, the first is the lowest. NULL for a bit without a name."""
    number = text.number_of(mask, t.UNSIGNED_BIGINT)
    known = (number >= 0) & (number < F.lit(str(1 << len(names))).cast(_UNSIGNED))
    bits = F.conv(F.when(known, number.cast("string")), 10, -10).cast("bigint")
    chosen = [F.when(F.getbit(bits, F.lit(place)) == 1, F.lit(name)) for place, name in enumerate(names)]
    return F.when(known, F.concat_ws(",", *chosen))
