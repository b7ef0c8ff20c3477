r"""BINARY and VARBINARY, which the Open protocol sends as Go quotes them (`strconv.Quote`, without the quotes).

What prints stands there as it is, in UTF-8. A backslash begins one of `\a \b \f \n \r \t \v \\ \' \"`, a byte (`\xff`),
or a character (`\u2028`, `\U0001f600`).
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

_PIECE = r"""(?s)\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\[abfnrtv\\'"]|[^\\]+"""
_SINGLE = {
    r"\a": "07", r"\b": "08", r"\t": "09", r"\n": "0A", r"\v": "0B", r"\f": "0C", r"\r": "0D",
    r"\"": "22", r"\'": "27", r"\\": "5C",
}  # fmt: skip
_UTF8 = ((0x80, 0x00, 0), (0x800, 0xC0, 1), (0x10000, 0xE0, 2), (0x110000, 0xF0, 3))
"""Below which code point, what leads the first byte, how many bytes follow."""


def unquoted(text: Column) -> Column:
    """The bytes of a quoted text; NULL where it is not one."""
    pieces = F.regexp_extract_all(text, F.lit(_PIECE), F.lit(0))
    whole = F.array_join(pieces, "") == text
    digits = F.array_join(F.transform(pieces, _hex), "", "?")
    plain = ~F.contains(text, F.lit("\\"))
    return F.when(plain, text.cast("binary")).otherwise(F.when(whole, F.unhex(digits)))


def _hex(piece: Column) -> Column:
    kind = F.substring(piece, 1, 2)
    digits = F.when(~F.startswith(piece, F.lit("\\")), F.hex(piece.cast("binary")))
    digits = digits.when(kind == r"\x", F.substring(piece, 3, 2))
    digits = digits.when(kind.isin(r"\u", r"\U"), _character(F.conv(F.substring(piece, 3, 8), 16, 10).cast("bigint")))
    return reduce(lambda so_far, one: so_far.when(piece == one[0], F.lit(one[1])), _SINGLE.items(), digits)


def _character(point: Column) -> Column:
    """The UTF-8 bytes of a code point, as hexadecimal digits; NULL for a number that is no character."""
    return F.coalesce(*(F.when(point < limit, _utf8(point, lead, rest)) for limit, lead, rest in _UTF8))


def _utf8(point: Column, lead: int, rest: int) -> Column:
    following = (F.shiftright(point, 6 * n).bitwiseAND(F.lit(0x3F)) + 0x80 for n in reversed(range(rest)))
    return F.concat(*(F.lpad(F.hex(byte), 2, "0") for byte in (F.shiftright(point, 6 * rest) + lead, *following)))
