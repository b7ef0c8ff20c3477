"""Column types as DDL writes them: what the warehouse makes of each (design.md, 4.4), and TiCDC's word for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.ddl.lexemes import LexemeKind, NotParsedError
from pipeline.model import types as t
from pipeline.model.tidb_types import DOUBLE, FLOAT, TEXT, TYPES, VECTOR, Domain, Parameters, TidbType, of_sql

if TYPE_CHECKING:
    from pipeline.ddl.lexemes import Cursor
    from pipeline.model.types import WarehouseType

_MAX_DECIMAL = (65, 30)
_MAX_FRACTION = 6
_MAX_FLOAT_PRECISION = 24
_MAX_LENGTH = 2**32
_MAX_FIXED = 65535
_DEFAULT_DECIMAL_PRECISION = 10


@dataclass(frozen=True, slots=True)
class SqlType:
    """One column type.

    `family` is TiCDC's `tidb_type` without parameters. `length`: the digits of DECIMAL and FLOAT(m,d), the bits of
    BIT, the size of CHAR(n), BINARY(n). `scale`: digits after the point of DECIMAL and FLOAT(m,d), fraction digits of
    a time. `fixed`: CHAR and BINARY, which TiDB trims and pads.
    """

    family: str
    length: int | None = None
    scale: int | None = None
    members: tuple[str, ...] = ()
    fixed: bool = False

    @property
    def row(self) -> TidbType:
        """What is known of the type."""
        return TYPES[self.family]

    @property
    def tidb_type(self) -> str:
        """TiCDC's word for it, with the parameters that decide how a value reads."""
        match self.row.parameters:
            case Parameters.DIGITS:
                return f"{self.family}({self.length},{self.scale})"
            case Parameters.BITS:
                return f"{self.family}({self.length})"
            case Parameters.FRACTION:
                return f"{self.family}({self.scale})"
        return self.family

    @property
    def written(self) -> str:
        """The type as SQL writes it, where `tidb_type` does not say how TiDB pads, trims or rounds its values."""
        match self.family:
            case "TEXT" if self.fixed:
                return "CHAR"
            case "BLOB" if self.fixed:
                return f"BINARY({self.length})"
            case "FLOAT" | "DOUBLE" if self.scale is not None:
                return f"{self.family}({self.length},{self.scale})"
        return ""

    def warehouse_type(self, *, decimals_as_text: bool) -> WarehouseType:
        """Give the warehouse type."""
        match self.row.parameters:
            case Parameters.DIGITS if not decimals_as_text:
                return self.row.warehouse_type(self.length or 0, self.scale or 0)
            case Parameters.BITS:
                return self.row.warehouse_type(self.length or 1)
        return self.row.warehouse_type()

    def as_binary(self) -> SqlType:
        """Give the type under CHARACTER SET binary: texts become bytes."""
        return replace(self, family="BLOB") if self.family == "TEXT" else self


_NAMED_BY_LENGTH = ("CHAR", "BINARY")
"""Names that TiDB gives to texts and bytes alike; the character set says which it is."""


def family_of(name: str, *, unsigned: bool, binary: bool) -> str:
    """TiCDC's word for a type by MySQL's name in capitals; `binary`: whether its character set is.

    Raises `NotParsedError` for a type that is not known.
    """
    if name in _NAMED_BY_LENGTH:
        return "BLOB" if binary else "TEXT"
    row = of_sql(name, unsigned=unsigned)
    if row is None:
        raise NotParsedError(f"“{name[:40]}” is not a known type")
    return "BLOB" if row is TEXT and binary else row.name


def read_type(cursor: Cursor) -> SqlType:
    """Read the type at the cursor, with UNSIGNED and ZEROFILL; a character set is the column's business."""
    lexeme = cursor.peek()
    word = cursor.expect_kind(LexemeKind.WORD, "a type").text
    if word in ("CHAR", "CHARACTER", "NCHAR", "NATIONAL", "BINARY", "LONG"):
        return _text_or_bytes(cursor, word)
    if word == "SERIAL":
        return SqlType("BIGINT UNSIGNED")
    row = of_sql(word)
    if row is None:
        raise NotParsedError(f"“{lexeme.raw[:40]}” is not a known type")
    if row.parameters is Parameters.MEMBERS:
        return SqlType(row.name, members=_members(cursor))
    return _with_parameters(cursor, word, row)


def _with_parameters(cursor: Cursor, word: str, row: TidbType) -> SqlType:
    if row is DOUBLE:
        cursor.accept("PRECISION")
    if row is VECTOR and cursor.accept_symbol("<"):
        cursor.expect("FLOAT")
        cursor.expect_symbol(">")
    first, second = _parameters(cursor)
    name = (of_sql(word, unsigned=_unsigned(cursor)) or row).name
    match row.parameters:
        case Parameters.DIGITS:
            return _decimal(name, first or _DEFAULT_DECIMAL_PRECISION, second or 0)
        case Parameters.BITS:
            return SqlType(name, length=_within(1 if first is None else first, 1, t.MAX_BITS, name))
        case Parameters.FRACTION:
            return SqlType(name, scale=_within(first or 0, 0, _MAX_FRACTION, name))
    if row.domain is Domain.FLOATING:
        return _floating(row, first, second)
    return SqlType(name)


def _decimal(name: str, precision: int, scale: int) -> SqlType:
    _within(precision, 1, _MAX_DECIMAL[0], name)
    _within(scale, 0, min(precision, _MAX_DECIMAL[1]), name)
    return SqlType(name, length=precision, scale=scale)


def _floating(row: TidbType, first: int | None, second: int | None) -> SqlType:
    """FLOAT(p) with many bits is a DOUBLE; FLOAT(m,d) rounds."""
    if second is not None:
        return SqlType(row.name, length=first, scale=second)
    return SqlType(DOUBLE.name if row is FLOAT and (first or 0) > _MAX_FLOAT_PRECISION else row.name)


def _within(number: int, least: int, most: int, of: str) -> int:
    if not least <= number <= most:
        raise NotParsedError(f"{of} cannot have the parameter {number}")
    return number


def _text_or_bytes(cursor: Cursor, word: str) -> SqlType:
    if word == "LONG":
        family = "BLOB" if cursor.accept("VARBINARY") else "TEXT"
        cursor.accept("VARCHAR")
        return SqlType(family)
    varying = False
    if word == "NATIONAL":
        varying = cursor.accept_any("CHARACTER", "CHAR", "VARCHAR", "VARCHARACTER").startswith("VAR")
    if word != "BINARY":
        varying = bool(cursor.accept_any("VARYING", "VARCHAR", "VARCHARACTER")) or varying
    length, _ = _parameters(cursor)
    size = _within(1 if length is None else length, 0, _MAX_FIXED, word)
    if word == "BINARY":
        return SqlType("BLOB", length=size, fixed=True)
    return SqlType("TEXT", length=size, fixed=not varying)


def _parameters(cursor: Cursor) -> tuple[int | None, int | None]:
    """Read the numbers in `(p)` or `(p,s)`."""
    if not cursor.accept_symbol("("):
        return None, None
    first, second = _whole(cursor), None
    if cursor.accept_symbol(","):
        second = _whole(cursor)
    cursor.expect_symbol(")")
    return first, second


def _whole(cursor: Cursor) -> int:
    digits = cursor.expect_kind(LexemeKind.NUMBER, "a number").text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(_MAX_LENGTH))):
        raise NotParsedError(f"“{digits[:40]}” is not a size")
    return int(digits)


def _unsigned(cursor: Cursor) -> bool:
    """Say whether UNSIGNED or ZEROFILL, which implies it, comes next."""
    sign = ""
    while word := cursor.accept_any("UNSIGNED", "SIGNED", "ZEROFILL"):
        sign = word if word != "SIGNED" else sign
    return bool(sign)


def _members(cursor: Cursor) -> tuple[str, ...]:
    """Read members of ENUM and SET. TiDB writes them with quotes doubled, but backslashes as they are."""
    cursor.expect_symbol("(")
    members = [_member(cursor)]
    while cursor.accept_symbol(","):
        members.append(_member(cursor))
    cursor.expect_symbol(")")
    return tuple(members)


def _member(cursor: Cursor) -> str:
    lexeme = cursor.expect_kind(LexemeKind.STRING, "a member in quotes")
    raw = lexeme.raw
    if raw[:1] != "'" or raw[-1:] != "'":
        return lexeme.text
    return raw[1:-1].replace("''", "'")
