"""Values of TiCDC's Avro fields as warehouse columns: pure functions, Column in, Column out.

Wire rules: TiCDC Avro Protocol, "Column data format"; golden/WIRE-FORMATS.md, "Avro" and "Types".
Every function gives NULL for NULL, so that the fields of several schema ids can be coalesced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import types as t
from pipeline.model.text import vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

    from pipeline.model.types import WarehouseType

_TWO_64 = "18446744073709551616"
_CHUNK_BYTES = 7
_CHUNKS = 4
_LIMB_DIGITS = 20


def unsigned_long(value: Column) -> Column:
    """BIGINT UNSIGNED in `long` mode: two's complement above 2^63-1, undone."""
    wide = value.cast("decimal(20,0)")
    return F.when(value < 0, wide + F.lit(_TWO_64).cast("decimal(20,0)")).otherwise(wide).cast(t.UNSIGNED_BIGINT)


def bits(value: Column, kind: WarehouseType) -> Column:
    """BIT(n): big-endian bytes without leading zero bytes, as an unsigned number."""
    return F.conv(F.hex(value), 16, 10).cast("decimal(20,0)").cast(kind)


def big_decimal_text(value: Column, scale: int) -> Column:
    """DECIMAL beyond 38 digits: the two's complement bytes of the unscaled number as decimal text.

    The bytes are cut into four chunks of 56 bits and divided by 10^20 again and again, in DECIMAL(38,0) whose
    remainder is exact; no intermediate value passes 10^37. Up to 28 bytes, which is 67 digits.
    """
    negative = F.substring(value, 1, 1) >= F.lit(b"\x80")
    filler = F.when(negative, F.lit(b"\xff")).otherwise(F.lit(b"\x00"))
    padded = F.lpad(value, _CHUNKS * _CHUNK_BYTES, filler)
    chunks = [_chunk(padded, index) for index in range(_CHUNKS)]
    top = F.lit(str(2**56 - 1)).cast("decimal(38,0)")
    flipped = [F.when(negative, top - chunk).otherwise(chunk) for chunk in chunks]
    flipped[-1] = flipped[-1] + F.when(negative, F.lit(1)).otherwise(F.lit(0))
    digits = _digits([chunk.cast("decimal(38,0)") for chunk in flipped])
    return _with_point(digits, scale, negative)


def _chunk(padded: Column, index: int) -> Column:
    part = F.substring(padded, 1 + index * _CHUNK_BYTES, _CHUNK_BYTES)
    return F.conv(F.hex(part), 16, 10).cast("decimal(38,0)")


def _digits(chunks: list[Column]) -> Column:
    """Base 2^56 chunks, most significant first, as 80 decimal digits with leading zeros."""
    limbs: list[Column] = []
    base = F.lit(str(10**_LIMB_DIGITS)).cast("decimal(38,0)")
    shift = F.lit(str(2**56)).cast("decimal(38,0)")
    for _ in range(_CHUNKS):
        remainder = F.lit("0").cast("decimal(38,0)")
        quotients: list[Column] = []
        for chunk in chunks:
            number = ((remainder * shift).cast("decimal(38,0)") + chunk).cast("decimal(38,0)")
            remainder = (number % base).cast("decimal(38,0)")
            quotients.append(((number - remainder).cast("decimal(38,0)") / base).cast("decimal(38,0)"))
        limbs.append(F.lpad(remainder.cast("string"), _LIMB_DIGITS, "0"))
        chunks = quotients
    return F.concat(*reversed(limbs))


def _with_point(digits: Column, scale: int, negative: Column) -> Column:
    length = _CHUNKS * _LIMB_DIGITS
    whole = F.regexp_replace(F.substring(digits, 1, length - scale), "^0+(?=.)", "")
    text = F.concat(whole, F.lit("."), F.substring(digits, length - scale + 1, scale)) if scale else whole
    zero = F.regexp_replace(text, "[0.]", "") == ""
    return F.when(negative & ~zero, F.concat(F.lit("-"), text)).otherwise(text)


PLAIN: dict[str, Callable[[Column], Column]] = {
    "FLOAT": lambda value: value.cast(t.FLOAT),
    "DOUBLE": lambda value: value.cast(t.DOUBLE),
    "VECTOR": vector,
}
