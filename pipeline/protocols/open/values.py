"""Values of the Open protocol as warehouse columns: pure functions, Column in, Column out.

Each value arrives as the text of its JSON (`reading`): a number as it is written, a text without its quotes (TiCDC Open
Protocol, "Column type codes"; wire-formats.md, "Open protocol").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import text, tidb_types
from pipeline.model import types as t
from pipeline.model.members import member, members
from pipeline.model.text import Value
from pipeline.protocols.layouts.columns import natural_type
from pipeline.protocols.open.columns import BASE64
from pipeline.protocols.open.quoting import unquoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column

    from pipeline.model.columns import SourceColumn
    from pipeline.model.tidb_types import TidbType
    from pipeline.model.types import WarehouseType


@dataclass(frozen=True, slots=True)
class Cell:
    """One value as it was sent: its text, and its type code, where that decides how it is read (`is_encoded`)."""

    text: Column
    code: Column | None = None


def is_encoded(column: SourceColumn) -> bool:
    """Whether the type code of each value decides how it is read."""
    return column.tidb_type in ("TEXT", "BLOB")


@dataclass(frozen=True, slots=True)
class SentCell:
    """One cell, and what decides how it is read."""

    cell: Cell
    column: SourceColumn
    timezone: str

    @property
    def text(self) -> Column:
        """The text of its JSON."""
        return self.cell.text


def read_value(cell: Cell, column: SourceColumn, kind: WarehouseType, timezone: str) -> Value:
    """One cell as a value of the warehouse type `kind`."""
    row = tidb_types.of(column.tidb_type)
    decode = _cast if row is None else DECODERS[row]
    natural = decode(SentCell(cell, column, timezone))
    return text.under(natural, natural_type(column), kind, exact=row is tidb_types.DECIMAL)


def _cast(sent: SentCell) -> Value:
    kind = natural_type(sent.column)
    return Value(text.number_of(sent.text, kind) if t.decimal_parameters(kind) else sent.text.try_cast(kind))


def _as_sent(sent: SentCell) -> Value:
    return Value(sent.text)


def _decimal(sent: SentCell) -> Value:
    kind = natural_type(sent.column)
    return text.exact_decimal(sent.text, kind) if t.decimal_parameters(kind) else _cast(sent)


def _blob(sent: SentCell) -> Value:
    return Value(F.when(_in_base64(sent.cell), _bytes(sent.text)).otherwise(unquoted(sent.text)))


def _enum(sent: SentCell) -> Value:
    return Value(member(sent.text, sent.column.members)) if sent.column.members else _as_sent(sent)


def _set(sent: SentCell) -> Value:
    return Value(members(sent.text, sent.column.members)) if sent.column.members else _as_sent(sent)


def _text(sent: SentCell) -> Value:
    """Text that is sent in base64 may be no UTF-8: it is lost as it was sent."""
    value = sent.text
    read = F.when(_in_base64(sent.cell), F.try_validate_utf8(_bytes(value).cast("string"))).otherwise(value)
    return Value(read, F.when(value.isNotNull() & read.isNull() & _bytes(value).isNotNull(), value))


def _in_base64(cell: Cell) -> Column:
    return F.lit(False) if cell.code is None else cell.code.between(*BASE64)


def _bytes(sent: Column) -> Column:
    return F.try_to_binary(sent, F.lit("base64"))


DECODERS: Mapping[TidbType, Callable[[SentCell], Value]] = {
    tidb_types.INT: _cast,
    tidb_types.INT_UNSIGNED: _cast,
    tidb_types.BIGINT: _cast,
    tidb_types.BIGINT_UNSIGNED: _cast,
    tidb_types.BIT: _cast,
    tidb_types.YEAR: _cast,
    tidb_types.FLOAT: _cast,
    tidb_types.DOUBLE: _cast,
    tidb_types.DECIMAL: _decimal,
    tidb_types.TEXT: _text,
    tidb_types.BLOB: _blob,
    tidb_types.JSON: _as_sent,
    tidb_types.ENUM: _enum,
    tidb_types.SET: _set,
    tidb_types.DATE: lambda sent: text.date(sent.text),
    tidb_types.DATETIME: lambda sent: text.datetime(sent.text),
    tidb_types.TIMESTAMP: lambda sent: text.timestamp(sent.text, sent.timezone),
    tidb_types.TIME: _as_sent,
    tidb_types.VECTOR: lambda sent: Value(text.vector(sent.text)),
}
"""How a cell of each type is read."""
