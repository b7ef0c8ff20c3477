"""Values of TiCDC's Avro fields as warehouse columns: pure functions, Column in, Column out.

Wire rules: TiCDC Avro Protocol, "Column data format"; wire-formats.md, "Avro" and "Types".
Every function gives NULL for NULL, so that the fields of several schema ids can be coalesced, and for what is no such
value (`fields.is_doubtful`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import types as t
from pipeline.model.projection import let
from pipeline.model.text import Value

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pipeline.model.types import WarehouseType

_TWO_64 = "18446744073709551616"
_WHOLE = "decimal(38,0)"
_CHUNK_BYTES = 7
_CHUNKS = 4
_LIMB_DIGITS = 20
_BIT_BYTES = 8


def unsigned_long(value: Column) -> Column:
    """BIGINT UNSIGNED in `long` mode: two's complement above 2^63-1, undone."""
    wide = value.cast("decimal(20,0)")
    return F.when(value < 0, wide + F.lit(_TWO_64).cast("decimal(20,0)")).otherwise(wide).cast(t.UNSIGNED_BIGINT)


def bits(value: Column, kind: WarehouseType) -> Value:
    """BIT(n): big-endian bytes without leading zero bytes, as an unsigned number; what is too large is kept as hex."""
    eight = F.when(F.octet_length(value) <= _BIT_BYTES, value)
    number = F.conv(F.concat(F.lit("0"), F.hex(eight)), 16, 10).try_cast("decimal(20,0)").try_cast(kind)
    return Value(number, F.when(number.isNull(), F.hex(value)))


def big_decimal_text(value: Column, scale: int) -> Column:
    """DECIMAL beyond 38 digits: the two's complement bytes of the unscaled number as decimal text.

    The bytes are cut into four chunks of 56 bits, from which four limbs of 20 decimal digits are built by Horner's
    rule in DECIMAL(38,0), where no intermediate value passes 10^37. Up to 28 bytes, which is 67 digits. Lambdas
    share what is used twice: without them the expression has tens of thousands of nodes, a minute's planning.
    More bytes are no DECIMAL of TiDB's: NULL.
    """
    value = F.when(F.octet_length(value) <= _CHUNKS * _CHUNK_BYTES, value)
    filler = F.when(_is_negative(value), F.lit(b"\xff")).otherwise(F.lit(b"\x00"))
    padded = F.lpad(value, _CHUNKS * _CHUNK_BYTES, filler)
    return let(padded, lambda bytes_: let(_digits(_chunks(bytes_)), lambda digits: _with_point(digits, scale, bytes_)))


def _is_negative(padded: Column) -> Column:
    return F.substring(padded, 1, 1) >= F.lit(b"\x80")


def _whole(text: str) -> Column:
    return F.lit(text).cast(_WHOLE)


def _chunks(padded: Column) -> Column:
    """The absolute value in base 2^56, most significant first: an array of DECIMAL(38,0)."""
    chunks = []
    for index in range(_CHUNKS):
        part = F.conv(F.hex(F.substring(padded, 1 + index * _CHUNK_BYTES, _CHUNK_BYTES)), 16, 10).cast(_WHOLE)
        flipped = F.when(_is_negative(padded), _whole(str(2**56 - 1)) - part).otherwise(part)
        if index == _CHUNKS - 1:
            flipped = flipped + F.when(_is_negative(padded), F.lit(1)).otherwise(F.lit(0))
        chunks.append(flipped.cast(_WHOLE))
    return F.array(*chunks)


def _digits(chunks: Column) -> Column:
    """Base 2^56 chunks as 80 decimal digits with leading zeros."""
    zero = F.array(*(_whole("0") for _ in range(_CHUNKS)))
    limbs = F.aggregate(chunks, zero, _shifted_in)
    texts = F.transform(F.reverse(limbs), lambda limb: F.lpad(limb.cast("string"), _LIMB_DIGITS, "0"))
    return F.when(chunks[0].isNotNull(), F.array_join(texts, ""))


def _shifted_in(limbs: Column, chunk: Column) -> Column:
    """Limbs (base 10^20, least first) times 2^56 plus a chunk: one step of Horner's rule."""
    base = _whole(str(10**_LIMB_DIGITS))
    start = F.struct(chunk.alias("carry"), F.array().cast(f"array<{_WHOLE}>").alias("limbs"))

    def step(done: Column, limb: Column) -> Column:
        number = ((limb * _whole(str(2**56))).cast(_WHOLE) + done["carry"]).cast(_WHOLE)
        remainder = (number % base).cast(_WHOLE)
        carry = ((number - remainder).cast(_WHOLE) / base).cast(_WHOLE)
        return F.struct(carry.alias("carry"), F.concat(done["limbs"], F.array(remainder)).alias("limbs"))

    return F.aggregate(limbs, start, step, lambda done: done["limbs"])


def _with_point(digits: Column, scale: int, padded: Column) -> Column:
    length = _CHUNKS * _LIMB_DIGITS
    text = F.regexp_replace(F.substring(digits, 1, length - scale), "^0+(?=.)", "")
    if scale:
        text = F.concat(text, F.lit("."), F.substring(digits, length - scale + 1, scale))
    sign = F.when(_is_negative(padded) & digits.rlike("[1-9]"), F.lit("-")).otherwise(F.lit(""))
    return F.concat(sign, text)
