"""TiCDC's Avro columns in the words of the warehouse: type, and how a value is read.

The type follows design.md, 4.4: `tidb_type` decides, not the Avro type (older TiCDC sends FLOAT as double).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.model import text
from pipeline.model import types as t
from pipeline.model.columns import SourceColumn
from pipeline.model.text import Value
from pipeline.protocols.avro import values
from pipeline.protocols.avro.defaults import origin_default

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pipeline.model.types import WarehouseType
    from registry import AvroColumn


def family(column: AvroColumn) -> str:
    """The type family that decides the warehouse type, such as `INT` or `BIGINT UNSIGNED`."""
    sent = column.tidb_type.upper()
    if "VECTOR" in sent:
        return "VECTOR"
    if sent == "INT UNSIGNED" and column.avro_type == "int":
        return "INT"  # TINYINT, SMALLINT and MEDIUMINT UNSIGNED; INT UNSIGNED itself is sent as long
    return sent


def warehouse_type(column: AvroColumn) -> WarehouseType:
    """The warehouse type of a column without an override (design.md, 4.4)."""
    kind = family(column)
    if kind == "DECIMAL":
        if column.precision is None:
            return t.STRING
        return t.decimal(column.precision, column.scale or 0)
    if kind == "BIT":
        return t.bit(column.length or t.MAX_BITS)
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
    target = override or warehouse_type(column)
    return SourceColumn(
        column.name,
        target,
        described,
        column.nullable,
        origin_default(column, kind, target),
        unsigned="UNSIGNED" in column.tidb_type.upper(),
        members=tuple(column.allowed),
    )


def read_value(sent: Column, column: AvroColumn, kind: WarehouseType, timezone: str) -> Value:
    """One decoded Avro field as a value of the warehouse type `kind`."""
    natural = _natural(sent, column, timezone)
    return text.under(natural, warehouse_type(column), kind, exact=family(column) == "DECIMAL")


def is_doubtful(column: AvroColumn) -> bool:
    """Whether a field may be none of its TiDB type's values, though it is its Avro type's: then it reads as NULL."""
    match family(column):
        case "VECTOR":
            return True
        case "BIGINT UNSIGNED":
            return column.avro_type == "string"
        case "INT" | "YEAR":
            return column.avro_type == "long"
        case "DECIMAL":
            return (column.precision or 0) > t.MAX_DECIMAL_PRECISION
    return False


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
        case _ if column.avro_type == "string" and warehouse_type(column) == t.STRING:
            return text.sound(sent)
        case _:
            return Value(sent.try_cast(warehouse_type(column)) if column.avro_type != "bytes" else sent)


def _unsigned_text(sent: Column) -> Column:
    return text.number_of(sent, t.UNSIGNED_BIGINT)
