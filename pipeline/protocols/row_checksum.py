"""The row checksum of TiDB, computed again from the values that a changefeed sends.

It is the CRC-32 of the columns' values, one after the other in the order of their ids; NULL adds nothing (TiDB,
pkg/util/rowcodec, `appendDatumForChecksum`). TiCDC sends this one whatever version the checksum of TiDB's own bytes
has, after it has compared that one itself: where it could not, it says that the row is corrupted (tiflow,
cdc/entry/mounter.go, `verifyChecksum`).

Whole numbers are hashed as eight bytes, little-endian. Spark has no function for that, but Avro writes a double so,
and the double whose bits are n is n times the smallest one, exactly, for n below 2^53.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro

from pipeline.model import text
from pipeline.model.conditions import any_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

VERSIONS = (0, 1, 2)
"""Of checksums, as far as they are known."""

_SMALLEST = 5e-324
_EXACT = 2**53
_EXACT_DIGITS = 15
_LARGEST = str(2**64 - 1)
_SECONDS, _FRACTION = len("2024-01-01 00:00:00"), len(".000000")
_LATIN = "ISO-8859-1"
"""Makes a character of a byte and the byte again of the character."""


@dataclass(frozen=True, slots=True)
class Hashed:
    """What a value adds to the bytes of its row, and where TiDB may have hashed other ones."""

    bytes: Column
    doubtful: Column | None = None

    def where_sent(self, value: Column) -> Hashed:
        """This, and nothing for NULL."""
        return Hashed(F.when(value.isNotNull(), self.bytes).otherwise(F.lit(b"")), self.doubtful)


def sum_of(row: Sequence[Hashed]) -> Column:
    """The checksum of a row of values in their order, a number of 32 bits."""
    return F.crc32(F.concat(*(one.bytes for one in row)))


def doubts(row: Sequence[Hashed]) -> list[Column]:
    """Conditions under which a sum that is not the sent one proves nothing."""
    return [one.doubtful for one in row if one.doubtful is not None]


def unless(doubtful: Sequence[Column], right: Column) -> Column:
    """A sum that is right is right whatever was doubtful about it; a wrong one then is NULL."""
    return F.when(right, F.lit(True)).when(~any_of(doubtful), F.lit(False)) if doubtful else right


def small(number: Column) -> Column:
    """A whole number from 0 to 2^53 - 1, in eight bytes; NULL gives bytes that no number has here."""
    return to_avro(F.coalesce(number.cast("double"), F.lit(-1.0)) * F.lit(_SMALLEST))


def _half(number: Column) -> Column:
    """A whole number from 0 to 2^32 - 1, in four bytes."""
    return F.substring(small(number), 1, 4)


def whole(value: Column) -> Column:
    """A BIGINT or anything smaller, in eight bytes."""
    number = value.cast("bigint")
    halves = F.concat(_half(number.bitwiseAND(F.lit(2**32 - 1))), _half(F.shiftrightunsigned(number, 32)))
    return F.when((number >= 0) & (number < _EXACT), small(number)).otherwise(halves)


def unsigned_text(value: Column) -> Column:
    """BIGINT UNSIGNED in `string` mode. `conv` fails beyond 64 bits: NULL for these, which is never right."""
    length = F.octet_length(value)
    fits = (length < len(_LARGEST)) | ((length == len(_LARGEST)) & (value <= _LARGEST))
    big = F.unhex(F.lpad(F.conv(F.when(fits, value), 10, 16), 16, "0"))
    return F.when(length <= _EXACT_DIGITS, small(value.try_cast("bigint"))).otherwise(_reversed(big))


def _reversed(value: Column) -> Column:
    return F.encode(F.reverse(F.decode(value, _LATIN)), _LATIN)


def bits(value: Column) -> Column:
    """BIT: big-endian bytes without leading zero bytes."""
    return _reversed(F.lpad(value, 8, F.lit(b"\x00")))


def real(value: Column) -> Column:
    """FLOAT and DOUBLE: both as a double."""
    return to_avro(F.coalesce(value.cast("double"), F.lit(0.0)))


def text_bytes(value: Column) -> Column:
    """Text or bytes: the length in four bytes, then what was sent. TiDB prints dates and the like for the purpose."""
    return F.concat(_half(F.octet_length(value)), value.cast("binary"))


def timestamp(value: Column, timezone: str) -> Hashed:
    """TIMESTAMP: hashed in UTC, sent in the changefeed's zone, where a wall clock may stand for two instants.

    The zero timestamp is in no zone.
    """
    instant = text.timestamp(value, timezone)
    seconds = F.substring(instant.column.cast("string"), 1, _SECONDS)
    utc = F.coalesce(F.concat(seconds, F.substring(value, _SECONDS + 1, _FRACTION)), value)
    twice = F.lit(False) if instant.lost is None else instant.column.isNotNull() & instant.lost.isNotNull()
    return Hashed(F.concat(_half(F.octet_length(value)), utc.cast("binary")), twice)


def vector(value: Column) -> Column:
    """VECTOR: the number of dimensions in four bytes, then each as a float of four.

    An Avro array is a count, its items, and a zero byte; here without the first and the last.
    """
    numbers = F.transform(text.vector(value), lambda number: F.coalesce(number, F.lit(0.0).cast("float")))
    dimensions = F.when(value == "[]", F.lit(0)).otherwise(F.size(F.split(value, ",")))
    return F.concat(_half(dimensions), F.substring(to_avro(numbers), -(dimensions * 4 + 1), dimensions * 4))
