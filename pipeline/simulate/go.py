"""Values as Go writes them into JSON, which is what TiCDC's JSON protocols show."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Literal

Bits = Literal[32, 64]

ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
"""For `str.translate` of JSON: these letters stand in texts only."""
_LETTERS = {"\a": "a", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v", '"': '"', "\\": "\\"}
_SMALLEST_PLAIN, _LARGEST_PLAIN = 1e-6, 1e21
_LEAST_SHORT, _MOST_SHORT = -4, 6
_LONG = 1 << 16
_ASCII = 0x80


def json_text(text: str) -> str:
    r"""Return a JSON string; what HTML or JavaScript would misread becomes `\u003c` and the like."""
    return json.dumps(text, ensure_ascii=False).translate(ESCAPES)


def plain_float(value: float, bits: Bits) -> str:
    """Return the shortest digits that give the value back, never with an exponent."""
    text = f"{Decimal(_shortest(value, bits)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def json_float(value: float, bits: Bits) -> str:
    """Return a JSON number: with an exponent below 1e-6 and from 1e21 on."""
    if value == 0 or _SMALLEST_PLAIN <= abs(value) < _LARGEST_PLAIN:
        return plain_float(value, bits)
    number = Decimal(_shortest(value, bits)).normalize()
    digits = "".join(map(str, number.as_tuple().digits))
    fraction = f".{digits[1:]}" if digits[1:] else ""
    return f"{'-' if value < 0 else ''}{digits[0]}{fraction}e{number.adjusted():+d}"


def short_float(value: float, bits: Bits) -> str:
    """Return a number as `strconv.FormatFloat` has it with format `g`: with an exponent below 1e-4 and from 1e6 on."""
    number = Decimal(_shortest(value, bits)).normalize()
    if value == 0 or _LEAST_SHORT <= number.adjusted() < _MOST_SHORT:
        return plain_float(value, bits)
    digits = "".join(map(str, number.as_tuple().digits))
    fraction = f".{digits[1:]}" if digits[1:] else ""
    return f"{'-' if value < 0 else ''}{digits[0]}{fraction}e{number.adjusted():+03d}"


def quoted(data: bytes) -> str:
    r"""Return bytes as `strconv.Quote` does, without the quotes: `\x00` where they are no printable UTF-8."""
    text = data.decode("utf-8", "surrogateescape")
    return "".join(map(_quoted_letter, text))


def _quoted_letter(letter: str) -> str:
    number = ord(letter)
    if letter in _LETTERS:
        return f"\\{_LETTERS[letter]}"
    if letter.isprintable():
        return letter
    if 0xDC80 <= number <= 0xDCFF:  # noqa: PLR2004 - how surrogateescape marks a byte that is no UTF-8
        return f"\\x{number & 0xFF:02x}"
    if number < _ASCII:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < _LONG else f"\\U{number:08x}"


def _shortest(value: float, bits: Bits) -> str:
    if bits == 64:  # noqa: PLR2004 - a double
        return repr(value)
    wanted = struct.pack("<f", value)
    for digits in range(1, 9):
        text = f"{value:.{digits}g}"
        try:
            if struct.pack("<f", float(text)) == wanted:
                return text
        except OverflowError:  # rounded up beyond the largest float
            continue
    return f"{value:.9g}"
