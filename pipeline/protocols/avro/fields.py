"""TiCDC's Avro columns in the words of the warehouse: type, and how a value is read.

The type follows design.md, 4.4: `tidb_type` decides, not the Avro type (older TiCDC sends FLOAT as double).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.model import text, tidb_types
from pipeline.model import types as t
from pipeline.model.columns import SourceColumn
from pipeline.model.text import Value
from pipeline.model.tidb_types import DECIMAL, TYPES, Parameters
from pipeline.protocols.avro import values
from pipeline.protocols.avro.defaults import origin_default

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column

    from pipeline.model.tidb_types import TidbType
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


def row_of(column: AvroColumn) -> TidbType | None:
    """The column's type; None of a type that a later TiCDC sends."""
    return TYPES.get(family(column))


def warehouse_type(column: AvroColumn) -> WarehouseType:
    """The warehouse type of a column without an override (design.md, 4.4)."""
    row = row_of(column)
    if row is None:
        return t.BINARY if column.avro_type == "bytes" else t.STRING
    match row.parameters:
        case Parameters.DIGITS if column.precision is not None:
            return row.warehouse_type(column.precision, column.scale or 0)
        case Parameters.BITS if column.length:
            return row.warehouse_type(column.length)
    return row.warehouse_type()


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


@dataclass(frozen=True, slots=True)
class SentField:
    """One decoded Avro field, and what decides how it is read."""

    value: Column
    column: AvroColumn
    timezone: str


def read_value(sent: Column, column: AvroColumn, kind: WarehouseType, timezone: str) -> Value:
    """One decoded Avro field as a value of the warehouse type `kind`."""
    row = row_of(column)
    decode = _unknown if row is None else DECODERS[row]
    natural = decode(SentField(sent, column, timezone))
    return text.under(natural, warehouse_type(column), kind, exact=row is DECIMAL)


def is_doubtful(column: AvroColumn) -> bool:
    """Whether the column's Avro type allows values that its TiDB type does not have, and whose text is not kept.

    Example: VECTOR is sent as a string, and `no vector` is a string. `read_value` makes NULL of it. Only the columns
    for which this is true become `Materialised`, which sees the NULL: the message becomes a dead letter.
    """
    match row_of(column):
        case tidb_types.VECTOR:
            return True
        case tidb_types.BIGINT_UNSIGNED:
            return column.avro_type == "string"
        case tidb_types.INT | tidb_types.YEAR:
            return column.avro_type == "long"
        case tidb_types.DECIMAL:
            return (column.precision or 0) > t.MAX_DECIMAL_PRECISION
    return False


def _cast(sent: SentField) -> Value:
    return Value(sent.value.try_cast(warehouse_type(sent.column)))


def _text(sent: SentField) -> Value:
    return text.sound(sent.value)


def _bytes(sent: SentField) -> Value:
    return Value(sent.value)


def _unknown(sent: SentField) -> Value:
    """A value of a type that this reader does not know goes by its Avro type."""
    return {"bytes": _bytes, "string": _text}.get(sent.column.avro_type, _cast)(sent)


def _unsigned(sent: SentField) -> Value:
    if sent.column.avro_type == "long":
        return Value(values.unsigned_long(sent.value))
    return Value(text.number_of(sent.value, t.UNSIGNED_BIGINT))


def _decimal(sent: SentField) -> Value:
    """In `string` mode there is no precision. Up to 38 digits Spark has read the bytes already."""
    if sent.column.precision is None:
        return _text(sent)
    if sent.column.precision <= t.MAX_DECIMAL_PRECISION:
        return _bytes(sent)
    return Value(values.big_decimal_text(sent.value, sent.column.scale or 0))


DECODERS: Mapping[TidbType, Callable[[SentField], Value]] = {
    tidb_types.INT: _cast,
    tidb_types.INT_UNSIGNED: _cast,
    tidb_types.BIGINT: _cast,
    tidb_types.BIGINT_UNSIGNED: _unsigned,
    tidb_types.BIT: lambda sent: values.bits(sent.value, warehouse_type(sent.column)),
    tidb_types.YEAR: _cast,
    tidb_types.FLOAT: lambda sent: Value(sent.value.cast(t.FLOAT)),
    tidb_types.DOUBLE: lambda sent: Value(sent.value.cast(t.DOUBLE)),
    tidb_types.DECIMAL: _decimal,
    tidb_types.TEXT: _text,
    tidb_types.BLOB: _bytes,
    tidb_types.JSON: _text,
    tidb_types.ENUM: _text,
    tidb_types.SET: _text,
    tidb_types.DATE: lambda sent: text.date(sent.value),
    tidb_types.DATETIME: lambda sent: text.datetime(sent.value),
    tidb_types.TIMESTAMP: lambda sent: text.timestamp(sent.value, sent.timezone),
    tidb_types.TIME: _text,
    tidb_types.VECTOR: lambda sent: Value(text.vector(sent.value)),
}
"""How a field of each type is read."""
