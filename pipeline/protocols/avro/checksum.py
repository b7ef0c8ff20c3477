"""TiCDC's row checksum, computed again from the fields that Avro carried.

It is the CRC-32 of the columns' values, one after the other in the order of their ids, which is the order of the
fields where checksums are on; NULL adds nothing (TiDB, pkg/util/rowcodec, `appendDatumForChecksum`). TiCDC sends this
one whatever version the checksum of TiDB's own bytes has, after it has compared that one itself: where it could not,
it says `_tidb_corrupted` (tiflow, cdc/entry/mounter.go, `verifyChecksum`).

Whole numbers are hashed as eight bytes, little-endian. Spark has no function for that, but Avro writes a double so,
and the double whose bits are n is n times the smallest one, exactly, for n below 2^53.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro

from pipeline.model import text
from pipeline.protocols.avro.fields import family

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

    from registry import AvroColumn, TicdcSchema

_SENT, _CORRUPTED, _VERSION, _OP = "_tidb_row_level_checksum", "_tidb_corrupted", "_tidb_checksum_version", "_tidb_op"
_VERSIONS = (0, 1, 2)
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


def verdict(schema: TicdcSchema, field: Callable[[str], Column], timezone: str) -> Column:
    """Whether the sent checksum is the row's; NULL where that cannot be told (see `change.CHECKSUM`).

    `field` gives a decoded field by its name. A checksum that is right is right whatever was doubtful about it.
    """
    hashed = [_hashed(field(column.name), column, timezone) for column in schema.columns]
    sent, version = field(_SENT), field(_VERSION)
    right = F.crc32(F.concat(*(one.bytes for one in hashed))).cast("string").eqNullSafe(sent)
    json = [field(column.name).isNotNull() for column in schema.columns if family(column) == "JSON"]
    excused = reduce(or_, json) if json else F.lit(False)  # a date within makes TiCDC itself go wrong (docs/avro.md)
    corrupted = F.coalesce(field(_CORRUPTED), F.lit(False))
    doubts = [one.doubtful for one in hashed if one.doubtful is not None]
    if json:
        doubts.append(corrupted & excused)
    if doubts:
        right = F.when(right, F.lit(True)).when(~reduce(or_, doubts), F.lit(False))
    known = reduce(or_, (version == number for number in _VERSIONS))
    upsert = field(_OP) != "d"  # the newer TiCDC's: its checksum is of the values before
    is_sent = known & (sent != "") & (sent != "0")  # split key updates are sent with 0
    return F.when(upsert & corrupted & ~excused, F.lit(False)).when(upsert & is_sent, right)


def _hashed(value: Column, column: AvroColumn, timezone: str) -> Hashed:
    one = _of_type(value, column, timezone)
    if not column.nullable:
        return one
    return Hashed(F.when(value.isNotNull(), one.bytes).otherwise(F.lit(b"")), one.doubtful)


def _of_type(value: Column, column: AvroColumn, timezone: str) -> Hashed:
    kind = family(column)
    if kind == "TIMESTAMP" and timezone != "UTC":
        return _timestamp(value, timezone)
    if kind in ("ENUM", "SET"):
        number = _enum(value, column.allowed) if kind == "ENUM" else _set(value, column.allowed)
        return Hashed(number, None if _are_exact(column.allowed) else value.isNotNull())
    if kind == "BIGINT UNSIGNED" and column.avro_type == "string":
        return Hashed(_unsigned_text(value))
    if kind not in _BY_TYPE or column.precision is not None:
        return Hashed(F.lit(b""), value.isNotNull())
    return Hashed(_BY_TYPE[kind](value))


def _small(number: Column) -> Column:
    """A whole number from 0 to 2^53 - 1, in eight bytes; NULL gives bytes that no number has here."""
    return to_avro(F.coalesce(number.cast("double"), F.lit(-1.0)) * F.lit(_SMALLEST))


def _half(number: Column) -> Column:
    """A whole number from 0 to 2^32 - 1, in four bytes."""
    return F.substring(_small(number), 1, 4)


def _whole(value: Column) -> Column:
    """A BIGINT or anything smaller, in eight bytes."""
    number = value.cast("bigint")
    halves = F.concat(_half(number.bitwiseAND(F.lit(2**32 - 1))), _half(F.shiftrightunsigned(number, 32)))
    return F.when((number >= 0) & (number < _EXACT), _small(number)).otherwise(halves)


def _unsigned_text(value: Column) -> Column:
    """BIGINT UNSIGNED in `string` mode. `conv` fails beyond 64 bits: NULL for these, which is never right."""
    length = F.octet_length(value)
    fits = (length < len(_LARGEST)) | ((length == len(_LARGEST)) & (value <= _LARGEST))
    big = F.unhex(F.lpad(F.conv(F.when(fits, value), 10, 16), 16, "0"))
    return F.when(length <= _EXACT_DIGITS, _small(value.try_cast("bigint"))).otherwise(_reversed(big))


def _reversed(value: Column) -> Column:
    return F.encode(F.reverse(F.decode(value, _LATIN)), _LATIN)


def _bits(value: Column) -> Column:
    """BIT: big-endian bytes without leading zero bytes."""
    return _reversed(F.lpad(value, 8, F.lit(b"\x00")))


def _real(value: Column) -> Column:
    """FLOAT and DOUBLE: both as a double."""
    return to_avro(F.coalesce(value.cast("double"), F.lit(0.0)))


def _text(value: Column) -> Column:
    """Text or bytes: the length in four bytes, then what was sent. TiDB prints dates and the like for the purpose."""
    return F.concat(_half(F.octet_length(value)), value.cast("binary"))


def _timestamp(value: Column, timezone: str) -> Hashed:
    """TIMESTAMP: hashed in UTC, sent in the changefeed's zone, where a wall clock may stand for two instants.

    The zero timestamp is in no zone.
    """
    instant = text.timestamp(value, timezone)
    seconds = F.substring(instant.column.cast("string"), 1, _SECONDS)
    utc = F.coalesce(F.concat(seconds, F.substring(value, _SECONDS + 1, _FRACTION)), value)
    twice = F.lit(False) if instant.lost is None else instant.column.isNotNull() & instant.lost.isNotNull()
    return Hashed(F.concat(_half(F.octet_length(value)), utc.cast("binary")), twice)


def _vector(value: Column) -> Column:
    """VECTOR: the number of dimensions in four bytes, then each as a float of four.

    An Avro array is a count, its items, and a zero byte; here without the first and the last.
    """
    numbers = F.transform(text.vector(value), lambda number: F.coalesce(number, F.lit(0.0).cast("float")))
    dimensions = F.when(value == "[]", F.lit(0)).otherwise(F.size(F.split(value, ",")))
    return F.concat(_half(dimensions), F.substring(to_avro(numbers), -(dimensions * 4 + 1), dimensions * 4))


def _enum(value: Column, members: tuple[str, ...]) -> Column:
    """ENUM: the number of the member, from 1."""
    if any("," in member for member in members):
        value, members = F.replace(value, F.lit(","), F.lit("\0")), tuple(m.replace(",", "\0") for m in members)
    return _small(F.find_in_set(value, F.lit(",".join(members))))


def _set(value: Column, members: tuple[str, ...]) -> Column:
    """SET: a bit for each member, the first is the lowest."""
    bits = [
        F.when(F.find_in_set(F.lit(member), value) > 0, F.lit(_signed(1 << index))).otherwise(F.lit(0)).cast("bigint")
        for index, member in enumerate(members)
    ]
    return _whole(reduce(lambda some, bit: some.bitwiseOR(bit), bits))


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _are_exact(members: tuple[str, ...]) -> bool:
    """Whether the schema tells the members as they are (`members_of` says which it does not)."""
    return len(set(members)) == len(members) and not any(set(m) & {",", "'"} or not m for m in members)


_BY_TYPE: dict[str, Callable[[Column], Column]] = {
    "INT": _whole,
    "INT UNSIGNED": _small,
    "BIGINT": _whole,
    "BIGINT UNSIGNED": _whole,
    "YEAR": _small,
    "BIT": _bits,
    "FLOAT": _real,
    "DOUBLE": _real,
    "DECIMAL": _text,
    "TEXT": _text,
    "BLOB": _text,
    "JSON": _text,
    "DATE": _text,
    "DATETIME": _text,
    "TIMESTAMP": _text,
    "TIME": _text,
    "VECTOR": _vector,
}
