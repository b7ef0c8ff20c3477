"""TiCDC's row checksum (`protocols.row_checksum`) against the fields that Avro carried.

The order of the fields is that of the column ids where checksums are on.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.conditions import any_of
from pipeline.model.tidb_types import JSON, ChecksumForm
from pipeline.protocols import row_checksum
from pipeline.protocols.avro.fields import SentField, row_of
from pipeline.protocols.row_checksum import Hashed, doubts, sum_of, unless

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column

    from registry import AvroColumn, TicdcSchema

_SENT, _CORRUPTED, _VERSION, _OP = "_tidb_row_level_checksum", "_tidb_corrupted", "_tidb_checksum_version", "_tidb_op"


def verdict(schema: TicdcSchema, field: Callable[[str], Column], timezone: str) -> Column:
    """Whether the sent checksum is the row's; NULL where it is not certain (see `change.CHECKSUM`).

    `field` gives a decoded field by its name.
    """
    hashed = [_hashed(field(column.name), column, timezone) for column in schema.columns]
    sent, version = field(_SENT), field(_VERSION)
    right = sum_of(hashed).cast("string").eqNullSafe(sent)
    json = [field(column.name).isNotNull() for column in schema.columns if row_of(column) is JSON]
    excused = any_of(json)  # a date within makes TiCDC itself go wrong (docs/reference/protocols/avro.md)
    corrupted = F.coalesce(field(_CORRUPTED), F.lit(False))
    right = unless([*doubts(hashed), *([corrupted & excused] if json else [])], right)
    is_of_a_version = any_of(version == number for number in row_checksum.VERSIONS)
    upsert = field(_OP) != "d"  # the newer TiCDC's: its checksum is of the values before
    is_sent = is_of_a_version & (sent != "") & (sent != "0")  # split key updates are sent with 0
    return F.when(upsert & corrupted & ~excused, F.lit(False)).when(upsert & is_sent, right)


def _hashed(value: Column, column: AvroColumn, timezone: str) -> Hashed:
    hashed = _of_type(SentField(value, column, timezone))
    return hashed.where_sent(value) if column.nullable else hashed


def _of_type(sent: SentField) -> Hashed:
    row = row_of(sent.column)
    if row is None or sent.column.precision is not None:
        return Hashed(F.lit(b""), sent.value.isNotNull())
    return FORMS[row.checksum](sent)


def _unsigned(sent: SentField) -> Hashed:
    """BIGINT UNSIGNED in both of its modes, and BIT."""
    match sent.column.avro_type:
        case "bytes":
            return Hashed(row_checksum.bits(sent.value))
        case "string":
            return Hashed(row_checksum.unsigned_text(sent.value))
    return Hashed(row_checksum.whole(sent.value))


def _instant(sent: SentField) -> Hashed:
    if sent.timezone == "UTC":
        return Hashed(row_checksum.text_bytes(sent.value))
    return row_checksum.timestamp(sent.value, sent.timezone)


def _by_member(number: Callable[[Column, tuple[str, ...]], Column]) -> Callable[[SentField], Hashed]:
    def hashed(sent: SentField) -> Hashed:
        members = sent.column.allowed
        return Hashed(number(sent.value, members), None if _are_exact(members) else sent.value.isNotNull())

    return hashed


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


FORMS: Mapping[ChecksumForm, Callable[[SentField], Hashed]] = {
    ChecksumForm.SIGNED: lambda sent: Hashed(row_checksum.whole(sent.value)),
    ChecksumForm.SMALL: lambda sent: Hashed(row_checksum.small(sent.value)),
    ChecksumForm.UNSIGNED: _unsigned,
    ChecksumForm.REAL: lambda sent: Hashed(row_checksum.real(sent.value)),
    ChecksumForm.TEXT: lambda sent: Hashed(row_checksum.text_bytes(sent.value)),
    ChecksumForm.BYTES: lambda sent: Hashed(row_checksum.text_bytes(sent.value)),
    ChecksumForm.INSTANT: _instant,
    ChecksumForm.MEMBER: _by_member(_enum),
    ChecksumForm.MASK: _by_member(_set),
    ChecksumForm.VECTOR: lambda sent: Hashed(row_checksum.vector(sent.value)),
}
"""What a field adds to its row's checksum, by the form that its type has there."""
