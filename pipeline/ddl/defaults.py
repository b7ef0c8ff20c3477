"""Defaults as the text that TiDB returns for rows from before an ADD COLUMN.

Each function gives the text for one family of types, or None where the text is not certain. The text casts to
the column's warehouse type; binary text is hexadecimal, BIT text an unsigned number (`columns.Default`).
"""

from __future__ import annotations

import json
import re
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import TYPE_CHECKING

from pipeline.ddl.literals import LiteralKind, utf8
from pipeline.model.columns import NULL_DEFAULT, UNKNOWN_DEFAULT, Default, literal
from pipeline.model.tidb_types import BLOB, ENUM, Parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pipeline.ddl.literals import Literal
    from pipeline.ddl.sql_types import SqlType

EXPRESSION = re.compile(r"\w+\(.*\)|CURRENT_\w+|NOW\b.*", re.IGNORECASE | re.DOTALL)
"""A default that a protocol sends as bare text: it may be an expression, or a text that looks like one."""
_NUMBER = re.compile(r"[+-]?([0-9]{1,100}(\.[0-9]{0,100})?|\.[0-9]{1,100})([eE][+-]?[0-9]{1,3})?")
_PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,9}))?)?)?"
)
_TIME = re.compile(r"(-?)(?:([0-9]{1,2}) +)?([0-9]{1,3}):([0-5]?[0-9])(?::([0-5]?[0-9])(?:\.([0-9]{0,9}))?)?")
_COMPACT_TIME = re.compile(r"(-?)([0-9]{1,7})")
_COMPACT_MOMENT = re.compile(r"([1-9][0-9]{3})([0-9]{2})([0-9]{2})(?:([0-9]{2})([0-9]{2})([0-9]{2}))?")
_JSON_SPECIAL = re.compile("[\x00-\x1f\x7f<>&\u2028\u2029\ufffd]")
_LARGEST = {"FLOAT": Decimal("3.4028234e38"), "DOUBLE": Decimal("1.7976931348623157e308")}
_YEARS = (1901, 2155)
"""Besides 0."""
_TWO_DIGITS = 100
_CENTURY_TURN = 70
_LONGEST_HOURS = 838
_DIGITS = 250
"""Enough for any product of the patterns above."""


def default_of(value: Literal | None, kind: SqlType, *, nullable: bool) -> Default:
    """Give the column's default; `value` is None where the definition has none."""
    if value is None:
        return NULL_DEFAULT if nullable else _certain(_zero(kind))
    if value.kind is LiteralKind.NULL:
        return NULL_DEFAULT
    if value.kind is LiteralKind.EXPRESSION:
        return UNKNOWN_DEFAULT
    return _certain(_BY_FAMILY[kind.family](value, kind))


def _certain(text: str | None) -> Default:
    return UNKNOWN_DEFAULT if text is None else literal(text)


def _zero(kind: SqlType) -> str | None:
    """Give what TiDB puts into existing rows of a NOT NULL column without default."""
    if kind.row is ENUM:
        return kind.members[0] if kind.members else None
    if kind.row is BLOB:
        return "00" * (kind.length or 0) if kind.fixed else ""
    zero = kind.row.zero
    if zero is None or kind.row.parameters not in (Parameters.DIGITS, Parameters.FRACTION):
        return zero
    return f"{zero}{_fraction('', kind.scale or 0) or ''}"


_LONG_BYTES = 8


def _exact(value: Literal) -> Decimal | None:
    if value.kind is LiteralKind.BYTES:
        return Decimal(value.number) if len(value.raw) <= _LONG_BYTES else None
    return Decimal(value.text) if _NUMBER.fullmatch(value.text) else None


def _rounded(number: Decimal, digits: int) -> Decimal | None:
    """TiDB rounds half away from zero; None for a number too long to be one of TiDB's."""
    if number.adjusted() > _DIGITS // 2:
        return None
    with localcontext() as context:
        context.prec = _DIGITS
        return number.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


def _whole(value: Literal, kind: SqlType) -> str | None:
    number = _exact(value)
    rounded = None if number is None else _rounded(number, 0)
    if rounded is None:
        return None
    least, most = kind.row.range or (0, 2 ** (kind.length or 1) - 1)
    return str(int(rounded)) if least <= rounded <= most else None


def _bit(value: Literal, kind: SqlType) -> str | None:
    return None if value.kind is LiteralKind.TEXT else _whole(value, kind)


def _decimal(value: Literal, kind: SqlType) -> str | None:
    number = _exact(value)
    rounded = None if number is None else _rounded(number, kind.scale or 0)
    if rounded is None or rounded.adjusted() >= (kind.length or 0) - (kind.scale or 0):
        return None
    return f"{abs(rounded) if rounded == 0 else rounded:f}"


def _floating(value: Literal, kind: SqlType) -> str | None:
    number = _exact(value)
    if number is None:
        return None
    if kind.scale is not None and _rounded(number, kind.scale) != number:
        return None
    if abs(number) > _LARGEST[kind.family]:
        return None
    return str(value.number) if value.kind is LiteralKind.BYTES else value.text.removeprefix("+")


def _text(value: Literal, kind: SqlType) -> str | None:
    match value.kind:
        case LiteralKind.NUMBER:
            text = _printed(value.text)
        case LiteralKind.BYTES:
            try:
                text = value.raw.decode()
            except UnicodeDecodeError:
                text = None
        case _:
            text = value.text
    return text.rstrip(" ") if text is not None and kind.fixed else text


def _printed(number: str) -> str | None:
    """A number as text; one with an exponent is a DOUBLE to TiDB, and printed without."""
    if _PLAIN.fullmatch(number):
        return number
    if "e" not in number.lower() or not _NUMBER.fullmatch(number):
        return None
    double = float(number)
    return None if abs(double) > _LARGEST["DOUBLE"] else f"{Decimal(repr(double)):f}".removesuffix(".0")


def _binary(value: Literal, kind: SqlType) -> str | None:
    raw: bytes | None = value.raw
    if value.kind is LiteralKind.NUMBER:
        raw = (_printed(value.text) or "").encode() or None
    elif value.kind is LiteralKind.TEXT:
        raw = utf8(value)
    if raw is None:
        return None
    return raw.ljust((kind.length or 0) if kind.fixed else 0, b"\0").hex()


def _json(value: Literal, _: SqlType) -> str | None:
    """JSON as TiDB prints it: keys sorted, a space after colon and comma. No floats, no escapes."""
    if value.kind is not LiteralKind.TEXT or _JSON_SPECIAL.search(value.text):
        return None
    try:
        parsed = json.loads(value.text, parse_float=_refuse, parse_constant=_refuse, parse_int=_small_int)
        printed = json.dumps(parsed, sort_keys=True, ensure_ascii=False, separators=(", ", ": "))
    except (ValueError, RecursionError):
        return None
    return None if _JSON_SPECIAL.search(printed) or "\\u" in printed else printed


def _refuse(number: str) -> float:
    raise ValueError(number)


def _small_int(number: str) -> int:
    parsed = int(number)
    if number == "-0" or not -(2**63) <= parsed < 2**63:
        raise ValueError(number)
    return parsed


def _date(value: Literal, _: SqlType) -> str | None:
    match = _DATE.fullmatch(_spelled(value.text))
    return f"{match[1]}-{match[2]:0>2}-{match[3]:0>2}" if match else None


def _moment(value: Literal, kind: SqlType) -> str | None:
    """Complete a wall clock. That of a TIMESTAMP was the session's, which is taken to be the changefeed's."""
    match = _MOMENT.fullmatch(_spelled(value.text))
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction = (part or "" for part in match.groups())
    digits = _fraction(fraction, kind.scale or 0)
    if digits is None:
        return None
    return f"{year}-{month:0>2}-{day:0>2} {hour:0>2}:{minute:0>2}:{second:0>2}{digits}"


def _spelled(text: str) -> str:
    """A date, or a moment, of 8 or 14 digits with what stands between them elsewhere."""
    match = _COMPACT_MOMENT.fullmatch(text)
    if match is None:
        return text
    year, month, day, hour, minute, second = match.groups()
    return f"{year}-{month}-{day}" if hour is None else f"{year}-{month}-{day} {hour}:{minute}:{second}"


def _time(value: Literal, kind: SqlType) -> str | None:
    """TiDB rounds to the fraction digits of the column."""
    match = _TIME.fullmatch(_clock(value.text))
    if match is None:
        return None
    sign, days, hours, minutes, seconds, fraction = (part or "0" for part in match.groups())
    exact = (int(days) * 24 + int(hours)) * 3600 + int(minutes) * 60 + int(seconds)
    rounded = _rounded(Decimal(f"{exact}.{fraction}"), kind.scale or 0)
    if rounded is None or rounded >= (_LONGEST_HOURS + 1) * 3600:
        return None
    whole, point, digits = f"{rounded:f}".partition(".")
    left = int(whole)
    text = f"{left // 3600:0>2}:{left // 60 % 60:0>2}:{left % 60:0>2}{point}{digits}"
    return sign + text if sign == "-" and rounded else text


def _clock(text: str) -> str:
    """`10` is ten seconds, `1010` ten minutes and ten seconds."""
    match = _COMPACT_TIME.fullmatch(text)
    if match is None:
        return text
    digits = match[2].rjust(6, "0")
    return f"{match[1]}{digits[:-4]}:{digits[-4:-2]}:{digits[-2:]}"


def _fraction(digits: str, wanted: int) -> str | None:
    """Give the fraction as many digits as the column has; None where that would round."""
    if digits[wanted:].strip("0"):
        return None
    return "." + digits[:wanted].ljust(wanted, "0") if wanted else ""


def _year(value: Literal, _: SqlType) -> str | None:
    text = str(value.number) if value.kind is LiteralKind.BYTES else value.text
    if not re.fullmatch("[0-9]{1,4}", text):
        return None
    year = int(text)
    if text == "0000":
        return "0"
    if 0 < year < _TWO_DIGITS:
        year += 2000 if year < _CENTURY_TURN else 1900
    return str(year) if _YEARS[0] <= year <= _YEARS[1] else None


def _enum(value: Literal, kind: SqlType) -> str | None:
    if value.kind is LiteralKind.TEXT:
        named = _member(value.text, kind.members)
        return _numbered(value.text, kind.members) if named is None else named
    number = _index(value)
    return kind.members[number - 1] if number is not None and 0 < number <= len(kind.members) else None


def _numbered(text: str, members: Sequence[str]) -> str | None:
    """Find the member of this number; not among names that a collation may take for it."""
    plain = re.fullmatch("[1-9][0-9]{0,4}", text) and all(member.isascii() for member in members)
    return members[int(text) - 1] if plain and int(text) <= len(members) else None


def _set(value: Literal, kind: SqlType) -> str | None:
    """TiDB returns the members in the order of the definition, each once."""
    if value.kind is not LiteralKind.TEXT:
        mask = _index(value)
        if mask is None or mask >> len(kind.members):
            return None
        chosen = {member for bit, member in enumerate(kind.members) if mask >> bit & 1}
    else:
        named = [_member(name, kind.members) for name in value.text.split(",")] if value.text else []
        if None in named:
            return None
        chosen = {name for name in named if name is not None}
    return ",".join(member for member in kind.members if member in chosen)


def _index(value: Literal) -> int | None:
    if value.kind is LiteralKind.BYTES:
        return None
    return int(value.text) if re.fullmatch("[0-9]{1,20}", value.text) else None


def _member(name: str, members: Sequence[str]) -> str | None:
    """Find the member of this name; a collation without case allows another spelling."""
    trimmed = name.rstrip(" ")
    if trimmed in members:
        return trimmed
    alike = [member for member in members if member.casefold() == trimmed.casefold()]
    return alike[0] if len(alike) == 1 else None


def _vector(_value: Literal, _kind: SqlType) -> str | None:
    return None


_BY_FAMILY: dict[str, Callable[[Literal, SqlType], str | None]] = {
    "INT": _whole,
    "INT UNSIGNED": _whole,
    "BIGINT": _whole,
    "BIGINT UNSIGNED": _whole,
    "BIT": _bit,
    "DECIMAL": _decimal,
    "FLOAT": _floating,
    "DOUBLE": _floating,
    "TEXT": _text,
    "BLOB": _binary,
    "JSON": _json,
    "DATE": _date,
    "DATETIME": _moment,
    "TIMESTAMP": _moment,
    "TIME": _time,
    "YEAR": _year,
    "ENUM": _enum,
    "SET": _set,
    "VECTOR": _vector,
}
