"""TiCDC's row checksums (`protocols.row_checksum`) against the rows of Simple's messages.

A message has one of `data` and one of `old`, 0 where there is none. The order of the columns in `tableSchema` is that
of the column ids where checksums are on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F

from pipeline.model import tidb_types
from pipeline.model import types as t
from pipeline.model.change import Op
from pipeline.model.conditions import any_of
from pipeline.model.tidb_types import ChecksumForm
from pipeline.protocols.described.encoding import Values
from pipeline.protocols.described.head import field_of
from pipeline.protocols.described.values import SentValue
from pipeline.protocols.row_checksum import (
    VERSIONS,
    Hashed,
    doubts,
    real,
    small,
    sum_of,
    text_bytes,
    timestamp,
    unless,
    unsigned_text,
    vector,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column

    from pipeline.model.columns import SourceColumn, TableVersion

SENT = "checksum"
"""The head's field with what was sent."""


class SimpleRows(Protocol):
    """How rows of Simple are read: see `RowEncoding`."""

    @property
    def values(self) -> SimpleValues:
        """See `RowEncoding`."""
        ...

    def item(self, row: Column, version: TableVersion, place: int) -> Column:
        """See `RowEncoding`."""
        ...


class SimpleValues(Values, Protocol):
    """Values as Simple sends them: what it hashes may be another form than what a column takes."""

    def replaced(self, sent: Column) -> Column | None:
        """Whether a text may have had bytes that are no UTF-8 and are not in it any more; None where that cannot be."""
        ...

    def mask(self, sent: Column) -> Column:
        """The 64 bits of a SET, as BIGINT."""
        ...

    def moment(self, sent: Column) -> Column:
        """A TIMESTAMP as a struct of `location` and `value`."""
        ...


@dataclass(frozen=True, slots=True)
class _SimpleValue(SentValue):
    values: SimpleValues


def verdict(version: TableVersion, after: Column, before: Column, rows: SimpleRows, timezone: str) -> Column:
    """Whether the sent checksums are those of the rows; NULL where it is not certain (see `change.CHECKSUM`).

    `after` and `before` are the row as it is and as it was; of a delete `after` is the row as it was too.
    """
    deleted, inserted = field_of("op") == Op.DELETE, field_of("op") == Op.INSERT
    new = F.when(~deleted, _is_right(version, after, "current", rows, timezone))
    old = F.when(~inserted, _is_right(version, before, "previous", rows, timezone))
    is_of_a_version = field_of(SENT).getField("version").isin(*VERSIONS)
    wrong = F.when((new == F.lit(False)) | (old == F.lit(False)), F.lit(False))
    return F.when(is_of_a_version, wrong.when(new | old, F.lit(True)))


def _is_right(version: TableVersion, row: Column, side: str, rows: SimpleRows, timezone: str) -> Column:
    sent, corrupted = field_of(SENT).getField(side), field_of(SENT).getField("corrupted")
    cells = [(rows.item(row, version, place), column) for place, column in enumerate(version.columns)]
    hashed = [_hashed(cell, column, rows.values, timezone) for cell, column in cells]
    json = [cell.isNotNull() for cell, column in cells if column.tidb_type == "JSON"]
    excused = any_of(json)  # a date within makes TiCDC itself go wrong (docs/reference/protocols/avro.md)
    right = unless([*doubts(hashed), *([corrupted & excused] if json else [])], sum_of(hashed).eqNullSafe(sent))
    return F.when(corrupted & ~excused, F.lit(False)).when(row.isNotNull() & (sent != 0), right)


def _hashed(cell: Column, column: SourceColumn, values: SimpleValues, timezone: str) -> Hashed:
    row = tidb_types.of(column.tidb_type)
    hashed = _text if row is None else FORMS[row.checksum]
    return hashed(_SimpleValue(cell, column, timezone, values)).where_sent(cell)


def _text(sent: _SimpleValue) -> Hashed:
    return Hashed(text_bytes(sent.text), sent.values.replaced(sent.value))


def _instant(sent: _SimpleValue) -> Hashed:
    moment = sent.values.moment(sent.value)
    hashed = timestamp(moment.getField("value"), sent.timezone)
    elsewhere = moment.getField("location") != sent.timezone
    return Hashed(hashed.bytes, elsewhere if hashed.doubtful is None else elsewhere | hashed.doubtful)


def _unsigned(sent: _SimpleValue) -> Hashed:
    return Hashed(unsigned_text(sent.values.unsigned(sent.value).cast("string")))


FORMS: Mapping[ChecksumForm, Callable[[_SimpleValue], Hashed]] = {
    ChecksumForm.SIGNED: lambda sent: Hashed(whole(sent.values.whole(sent.value, t.BIGINT))),
    ChecksumForm.SMALL: lambda sent: Hashed(small(sent.values.whole(sent.value, t.BIGINT))),
    ChecksumForm.UNSIGNED: _unsigned,
    ChecksumForm.REAL: lambda sent: Hashed(real(sent.values.real(sent.value, sent.natural))),
    ChecksumForm.TEXT: _text,
    ChecksumForm.BYTES: lambda sent: Hashed(text_bytes(sent.values.octets(sent.value))),
    ChecksumForm.INSTANT: _instant,
    ChecksumForm.MEMBER: lambda sent: Hashed(small(sent.values.whole(sent.value, t.BIGINT))),
    ChecksumForm.MASK: lambda sent: Hashed(whole(sent.values.mask(sent.value))),
    ChecksumForm.VECTOR: lambda sent: Hashed(vector(sent.text)),
}
"""What a value adds to its row's checksum, by the form that its type has there."""
