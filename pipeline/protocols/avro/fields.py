"""TiCDC's Avro columns in the words of the warehouse: type, default, and how a value is read.

The type follows DESIGN 4.4: `tidb_type` decides, not the Avro type (older TiCDC sends FLOAT as double).
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from pipeline.model import text
from pipeline.model import types as t
from pipeline.model.columns import NULL_DEFAULT, UNKNOWN_DEFAULT, Default, SourceColumn, literal
from pipeline.model.ddl.defaults import EXPRESSION
from pipeline.model.text import Value
from pipeline.protocols.avro import values

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pipeline.model.types import WarehouseType
    from registry import AvroColumn

_MAX_BITS = 64
_CALENDAR = re.compile(r"-?\d[\d:. -]*")
_CALENDAR_FAMILIES = frozenset({"DATE", "DATETIME", "TIMESTAMP", "TIME"})
_ZERO = {"INT": "0", "BIGINT": "0", "FLOAT": "0", "DOUBLE": "0", "DECIMAL": "0", "BIT": "0", "YEAR": "0"}
_ZERO_TEXT = {
    "TEXT": "", "BLOB": "", "SET": "", "JSON": "null", "TIME": "00:00:00",
    "DATE": "0000-00-00", "DATETIME": "0000-00-00 00:00:00", "TIMESTAMP": "0000-00-00 00:00:00",
}  # fmt: skip


def family(column: AvroColumn) -> str:
    """The type family that decides the warehouse type, such as `INT` or `BIGINT UNSIGNED`."""
    sent = column.tidb_type.upper()
    if "VECTOR" in sent:
        return "VECTOR"
    if sent == "INT UNSIGNED" and column.avro_type == "int":
        return "INT"  # TINYINT, SMALLINT and MEDIUMINT UNSIGNED; INT UNSIGNED itself is sent as long
    return sent


def warehouse_type(column: AvroColumn) -> WarehouseType:
    """The warehouse type of a column without an override (DESIGN 4.4)."""
    kind = family(column)
    if kind == "DECIMAL":
        if column.precision is None:
            return t.STRING
        return t.decimal(column.precision, column.scale or 0)
    if kind == "BIT":
        return t.bit(column.length or _MAX_BITS)
    known = t.fixed(kind)
    if known is not None:
        return known
    return t.BINARY if column.avro_type == "bytes" else t.STRING


def source_column(column: AvroColumn, override: WarehouseType | None = None) -> SourceColumn:
    """The column as the warehouse sees it."""
    kind = family(column)
    described = kind
    if column.precision is not None:
        described = f"DECIMAL({column.precision},{column.scale or 0})"
    elif column.length is not None:
        described = f"BIT({column.length})"
    return SourceColumn(
        column.name,
        override or warehouse_type(column),
        described,
        column.nullable,
        origin_default(column),
        unsigned="UNSIGNED" in column.tidb_type.upper(),
        members=tuple(column.allowed),
    )


def origin_default(column: AvroColumn) -> Default:
    """What rows from before the column show: its default where Avro carries it exactly.

    NOT NULL without default: the type's zero value (ENUM: its first member). DECIMAL precise never shows its
    default, expressions are sent as text: both unknown.
    """
    kind = family(column)
    if kind == "DECIMAL" and column.precision is not None:
        return UNKNOWN_DEFAULT
    if not column.has_default:
        return NULL_DEFAULT if column.nullable else _zero(column, kind)
    if column.default is None:
        return NULL_DEFAULT
    return _sent_default(column, kind)


def _zero(column: AvroColumn, kind: str) -> Default:
    if kind == "ENUM":
        return literal(column.allowed[0]) if column.allowed else UNKNOWN_DEFAULT
    base = kind.removesuffix(" UNSIGNED")
    if base in _ZERO:
        return literal(_ZERO[base])
    return literal(_ZERO_TEXT[base]) if base in _ZERO_TEXT else UNKNOWN_DEFAULT


def _sent_default(column: AvroColumn, kind: str) -> Default:
    sent = str(column.default)
    if kind in ("BLOB", "BIT"):
        return _bytes_default(sent, kind)
    if kind == "BIGINT UNSIGNED":
        number = int(sent)
        return literal(str(number + 2**64 if number < 0 else number))
    if kind in _CALENDAR_FAMILIES and not _CALENDAR.fullmatch(sent):
        return UNKNOWN_DEFAULT
    if kind in ("TEXT", "JSON") and EXPRESSION.fullmatch(sent):
        return UNKNOWN_DEFAULT
    return literal(sent)


def _bytes_default(text: str, kind: str) -> Default:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return UNKNOWN_DEFAULT
    return literal(str(int.from_bytes(raw, "big")) if kind == "BIT" else raw.hex())


def read_value(sent: Column, column: AvroColumn, kind: WarehouseType, timezone: str) -> Value:
    """One decoded Avro field as a value of the warehouse type `kind`."""
    natural = _natural(sent, column, timezone)
    return text.under(natural, warehouse_type(column), kind, exact=family(column) == "DECIMAL")


def _natural(sent: Column, column: AvroColumn, timezone: str) -> Value:  # noqa: PLR0911 - a table of types
    match family(column):
        case "DATE":
            return text.date(sent)
        case "DATETIME":
            return text.datetime(sent)
        case "TIMESTAMP":
            return text.timestamp(sent, timezone)
        case "BIGINT UNSIGNED":
            unsigned = values.unsigned_long if column.avro_type == "long" else _unsigned_text
            return Value(unsigned(sent))
        case "BIT":
            return values.bits(sent, warehouse_type(column))
        case "DECIMAL" if column.precision is not None and column.precision > t.MAX_DECIMAL_PRECISION:
            return Value(values.big_decimal_text(sent, column.scale or 0))
        case kind if kind in values.PLAIN:
            return Value(values.PLAIN[kind](sent))
        case _:
            return Value(sent.cast(warehouse_type(column)) if column.avro_type != "bytes" else sent)


def _unsigned_text(sent: Column) -> Column:
    return text.number_of(sent, t.UNSIGNED_BIGINT)
