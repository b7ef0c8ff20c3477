"""The value after DEFAULT: a literal, or an expression that only TiDB can compute."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from pipeline.ddl.lexemes import LexemeKind
from pipeline.model.columns import NULL_DEFAULT, UNKNOWN_DEFAULT, Default, literal

if TYPE_CHECKING:
    from pipeline.ddl.lexemes import Cursor

_CLOCKS = ("CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_USER")
_UNICODE = frozenset({"_UTF8MB4", "_UTF8", "_UTF8MB3"})
_BITS = re.compile(r"[01]*")
_HEX = re.compile(r"[0-9A-Fa-f]*")
_LOST = "\ufffd"


class LiteralKind(Enum):
    """What stands after DEFAULT."""

    NULL = auto()
    NUMBER = auto()
    TEXT = auto()
    BYTES = auto()
    EXPRESSION = auto()


@dataclass(frozen=True, slots=True)
class Literal:
    """A default as written: `text` for NUMBER and TEXT, `raw` for BYTES (`b'101'`, `x'ff'`)."""

    kind: LiteralKind
    text: str = ""
    raw: bytes = b""

    @property
    def number(self) -> int:
        """BYTES as the number that they are where a number is wanted."""
        return int.from_bytes(self.raw, "big")


NULL = Literal(LiteralKind.NULL)
EXPRESSION = Literal(LiteralKind.EXPRESSION)


def read_default(cursor: Cursor) -> Literal:
    """Read what follows DEFAULT; a literal may stand in parentheses."""
    if cursor.at_symbol("("):
        return _parenthesis(cursor)
    match cursor.peek().kind:
        case LexemeKind.NUMBER | LexemeKind.SYMBOL:
            return Literal(LiteralKind.NUMBER, _digits(cursor))
        case LexemeKind.STRING | LexemeKind.BITS | LexemeKind.HEX:
            return _quoted(cursor)
    return _word(cursor)


def _parenthesis(cursor: Cursor) -> Literal:
    """TiDB writes `SET DEFAULT (-1)`; anything longer than a literal is an expression."""
    ahead = 2 if cursor.at_symbol("-", "+", ahead=1) else 1
    simple = cursor.peek(ahead).kind in (LexemeKind.NUMBER, LexemeKind.STRING)
    if simple and cursor.at_symbol(")", ahead=ahead + 1):
        cursor.take()
        default = read_default(cursor)
        cursor.expect_symbol(")")
        return default
    cursor.skip_parentheses()
    return EXPRESSION


def _digits(cursor: Cursor) -> str:
    sign = "-" if cursor.accept_symbol("-") else ""
    if not sign:
        cursor.accept_symbol("+")
    point = "0." if cursor.accept_symbol(".") else ""
    return sign + point + cursor.expect_kind(LexemeKind.NUMBER, "a default").text


def _quoted(cursor: Cursor) -> Literal:
    lexeme = cursor.take()
    digits = lexeme.text
    if lexeme.kind is LexemeKind.STRING:
        return Literal(LiteralKind.TEXT, digits)
    if lexeme.kind is LexemeKind.BITS and _BITS.fullmatch(digits):
        size = (len(digits) + 7) // 8
        return Literal(LiteralKind.BYTES, raw=int(digits or "0", 2).to_bytes(size, "big"))
    if lexeme.kind is LexemeKind.HEX and _HEX.fullmatch(digits):
        return Literal(LiteralKind.BYTES, raw=bytes.fromhex("0" * (len(digits) % 2) + digits))
    return EXPRESSION


def _word(cursor: Cursor) -> Literal:
    if cursor.accept("NULL"):
        return NULL
    if truth := cursor.accept_any("TRUE", "FALSE"):
        return Literal(LiteralKind.NUMBER, "1" if truth == "TRUE" else "0")
    if cursor.accept("NEXT", "VALUE", "FOR"):
        cursor.table_name("")
        return EXPRESSION
    word = cursor.peek()
    if word.kind is LexemeKind.WORD and cursor.peek(1).kind in (LexemeKind.STRING, LexemeKind.BITS, LexemeKind.HEX):
        return _introduced(cursor)
    skip_call(cursor)
    return EXPRESSION


def _introduced(cursor: Cursor) -> Literal:
    """`_UTF8MB4'é'`; a text in another character set is sent as something else than its bytes."""
    word = cursor.expect_kind(LexemeKind.WORD, "a character set").text
    if not word.startswith("_"):
        raise cursor.fault("a default")
    value = _quoted(cursor)
    exact = word in _UNICODE or value.text.isascii()
    return value if exact else EXPRESSION


def skip_call(cursor: Cursor) -> None:
    """Move past `CURRENT_TIMESTAMP`, or a function with its arguments."""
    word = cursor.expect_kind(LexemeKind.WORD, "a value").text
    if cursor.at_symbol("("):
        cursor.skip_parentheses()
    elif word not in _CLOCKS:
        raise cursor.fault(f"the arguments of {word[:40]}")


def as_written(value: Literal) -> Default:
    """Give the default of a column whose type the statement does not repeat (SET DEFAULT)."""
    match value.kind:
        case LiteralKind.NULL:
            return NULL_DEFAULT
        case LiteralKind.NUMBER | LiteralKind.TEXT:
            return literal(value.text)
        case LiteralKind.BYTES:
            return literal(value.raw.hex())
    return UNKNOWN_DEFAULT


def utf8(value: Literal) -> bytes | None:
    """Give the bytes of a text; None where some that are no UTF-8 were lost (JSON puts U+FFFD there)."""
    return None if _LOST in value.text else value.text.encode()
