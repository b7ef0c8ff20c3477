"""TiCDC's row checksum (`protocols.row_checksum`) against the fields that Avro carried.

The order of the fields is that of the column ids where checksums are on.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.conditions import any_of
from pipeline.protocols import row_checksum
from pipeline.protocols.avro.fields import family
from pipeline.protocols.row_checksum import Hashed, doubts, sum_of, unless

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

    from registry import AvroColumn, TicdcSchema

_SENT, _CORRUPTED, _VERSION, _OP = "_tidb_row_level_checksum", "_tidb_corrupted", "_tidb_checksum_version", "_tidb_op"


def verdict(schema: TicdcSchema, field: Callable[[str], Column], timezone: str) -> Column:
    """Whether the sent checksum is the row's; NULL where that cannot be told (see `change.CHECKSUM`).

    `field` gives a decoded field by its name.
    """
    hashed = [_hashed(field(column.name), column, timezone) for column in schema.columns]
    sent, version = field(_SENT), field(_VERSION)
    right = sum_of(hashed).cast("string").eqNullSafe(sent)
    json = [field(column.name).isNotNull() for column in schema.columns if family(column) == "JSON"]
    excused = any_of(json)  # a date within makes TiCDC itself go wrong (docs/avro.md)
    corrupted = F.coalesce(field(_CORRUPTED), F.lit(False))
    right = unless([*doubts(hashed), *([corrupted & excused] if json else [])], right)
    known = any_of(version == number for number in row_checksum.VERSIONS)
    upsert = field(_OP) != "d"  # the newer TiCDC's: its checksum is of the values before
    is_sent = known & (sent != "") & (sent != "0")  # split key updates are sent with 0
    return F.when(upsert & corrupted & ~excused, F.lit(False)).when(upsert & is_sent, right)


def _hashed(value: Column, column: AvroColumn, timezone: str) -> Hashed:
    one = _of_type(value, column, timezone)
    return one.where_sent(value) if column.nullable else one


def _of_type(value: Column, column: AvroColumn, timezone: str) -> Hashed:
    kind = family(column)
    if kind == "TIMESTAMP" and timezone != "UTC":
        return row_checksum.timestamp(value, timezone)
    if kind in ("ENUM", "SET"):
        number = _enum(value, column.allowed) if kind == "ENUM" else _set(value, column.allowed)
        return Hashed(number, None if _are_exact(column.allowed) else value.isNotNull())
    if kind == "BIGINT UNSIGNED" and column.avro_type == "string":
        return Hashed(row_checksum.unsigned_text(value))
    if kind not in _BY_TYPE or column.precision is not None:
        return Hashed(F.lit(b""), value.isNotNull())
    return Hashed(_BY_TYPE[kind](value))


def _enum(value: Column, members: tuple[str, ...]) -> Column:
    """ENUM: the number of the member, from 1."""
    if any("," in member for member in members):
        value, members = F.replace(value, F.lit(","), F.lit("\0")), tuple(m.replace(",", "\0") for m in members)
    return row_checksum.small(F.find_in_set(value, F.lit(",".join(members))))


def _set(value: Column, members: tuple[str, ...]) -> Column:
    """SET: a bit for each member, the first is the lowest."""
    bits = [
        F.when(F.find_in_set(F.lit(member), value) > 0, F.lit(_signed(1 << index))).otherwise(F.lit(0)).cast("bigint")
        for index, member in enumerate(members)
    ]
    return row_checksum.whole(reduce(lambda some, bit: some.bitwiseOR(bit), bits))


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _are_exact(members: tuple[str, ...]) -> bool:
    """Whether the schema tells the members as they are (`members_of` says which it does not).

    The schema is JSON, where U+FFFD stands for bytes that are no UTF-8; values have the bytes.
    """
    return len(set(members)) == len(members) and not any(set(m) & {",", "'", "\ufffd"} or not m for m in members)


_BY_TYPE: dict[str, Callable[[Column], Column]] = {
    "INT": row_checksum.whole,
    "INT UNSIGNED": row_checksum.small,
    "BIGINT": row_checksum.whole,
    "BIGINT UNSIGNED": row_checksum.whole,
    "YEAR": row_checksum.small,
    "BIT": row_checksum.bits,
    "FLOAT": row_checksum.real,
    "DOUBLE": row_checksum.real,
    "DECIMAL": row_checksum.text_bytes,
    "TEXT": row_checksum.text_bytes,
    "BLOB": row_checksum.text_bytes,
    "JSON": row_checksum.text_bytes,
    "DATE": row_checksum.text_bytes,
    "DATETIME": row_checksum.text_bytes,
    "TIMESTAMP": row_checksum.text_bytes,
    "TIME": row_checksum.text_bytes,
    "VECTOR": row_checksum.vector,
}
