"""Values of the Open protocol as warehouse columns: pure functions, Column in, Column out.

Each value arrives as the text of its JSON (`cells`): a number as it is written, a text without its quotes (TiCDC Open
Protocol, "Column type codes"; wire-formats.md, "Open protocol").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import text
from pipeline.model import types as t
from pipeline.model.members import member, members
from pipeline.model.text import Value
from pipeline.protocols.open.columns import BASE64, UNSIGNED, SentColumn, family_of, natural_type
from pipeline.protocols.open.quoting import unquoted
from pipeline.protocols.open.shapes import NUMBERS

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pipeline.model.columns import SourceColumn
    from pipeline.model.types import WarehouseType


_NUMBERS = frozenset(SentColumn("", code, flags, handle=False).family for code in NUMBERS for flags in (0, UNSIGNED))


@dataclass(frozen=True, slots=True)
class Cell:
    """One value as it was sent: its text, and its type code, where that decides how it is read (`is_encoded`)."""

    text: Column
    code: Column | None = None


def is_encoded(column: SourceColumn) -> bool:
    """Whether the type code of each value decides how it is read."""
    return column.tidb_type in ("TEXT", "BLOB")


def is_number(column: SourceColumn) -> bool:
    """Whether its values are sent as numbers."""
    return family_of(column.tidb_type) in _NUMBERS


def read_value(cell: Cell, column: SourceColumn, kind: WarehouseType, timezone: str) -> Value:
    """One cell as a value of the warehouse type `kind`."""
    is_decimal = family_of(column.tidb_type) == "DECIMAL"
    return text.under(_natural(cell, column, timezone), natural_type(column), kind, exact=is_decimal)


def _natural(cell: Cell, column: SourceColumn, timezone: str) -> Value:  # noqa: C901, PLR0911 - a table of types
    sent, kind = cell.text, natural_type(column)
    match family_of(column.tidb_type):
        case "TEXT":
            return _text(cell)
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


def _text(cell: Cell) -> Value:
    """Text that is sent in base64 may be no UTF-8: it is lost as it was sent."""
    sent = cell.text
    read = F.when(_in_base64(cell), F.try_validate_utf8(_bytes(sent).cast("string"))).otherwise(sent)
    return Value(read, F.when(sent.isNotNull() & read.isNull() & _bytes(sent).isNotNull(), sent))


def _in_base64(cell: Cell) -> Column:
    return F.lit(False) if cell.code is None else cell.code.between(*BASE64)


def _bytes(sent: Column) -> Column:
    return F.try_to_binary(sent, F.lit("base64"))
