"""TiCDC's row checksums (`protocols.row_checksum`) against the rows of Simple's messages.

A message has one of `data` and one of `old`, 0 where there is none. The order of the columns in `tableSchema` is that
of the column ids where checksums are on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import types as t
from pipeline.model.change import Op
from pipeline.model.conditions import any_of
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
from pipeline.protocols.simple.head import field_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column

    from pipeline.model.columns import SourceColumn, TableVersion
    from pipeline.protocols.simple.encoding import Values

SENT = "checksum"
"""The head's field with what was sent."""


def verdict(version: TableVersion, after: Column, before: Column, values: Values, timezone: str) -> Column:
    """Whether the sent checksums are those of the rows; NULL where that cannot be told (see `change.CHECKSUM`).

    `after` and `before` are the row as it is and as it was; of a delete `after` is the row as it was too.
    """
    deleted, inserted = field_of("op") == Op.DELETE, field_of("op") == Op.INSERT
    new = F.when(~deleted, _is_right(version, after, "current", values, timezone))
    old = F.when(~inserted, _is_right(version, before, "previous", values, timezone))
    known = field_of(SENT).getField("version").isin(*VERSIONS)
    found = F.when((new == F.lit(False)) | (old == F.lit(False)), F.lit(False))
    return F.when(known, found.when(new | old, F.lit(True)))


def _is_right(version: TableVersion, row: Column, side: str, values: Values, timezone: str) -> Column:
    sent, corrupted = field_of(SENT).getField(side), field_of(SENT).getField("corrupted")
    cells = [(row.getItem(column.name), column) for column in version.columns]
    hashed = [_hashed(cell, column, values, timezone) for cell, column in cells]
    json = [cell.isNotNull() for cell, column in cells if column.tidb_type == "JSON"]
    excused = any_of(json)  # a date within makes TiCDC itself go wrong (docs/avro.md)
    right = unless([*doubts(hashed), *([corrupted & excused] if json else [])], sum_of(hashed).eqNullSafe(sent))
    return F.when(corrupted & ~excused, F.lit(False)).when(row.isNotNull() & (sent != 0), right)


def _hashed(cell: Column, column: SourceColumn, values: Values, timezone: str) -> Hashed:
    kind = column.tidb_type.partition("(")[0]
    if kind == "TIMESTAMP":
        moment = values.moment(cell)
        one = timestamp(moment.getField("value"), timezone)
        elsewhere = moment.getField("location") != timezone
        return Hashed(one.bytes, elsewhere if one.doubtful is None else elsewhere | one.doubtful).where_sent(cell)
    if kind in _BY_TYPE:
        return Hashed(_BY_TYPE[kind](values, cell)).where_sent(cell)
    return Hashed(text_bytes(values.text(cell)), values.replaced(cell)).where_sent(cell)


_BY_TYPE: Mapping[str, Callable[[Values, Column], Column]] = {
    "INT": lambda values, cell: whole(values.whole(cell, t.BIGINT)),
    "INT UNSIGNED": lambda values, cell: small(values.whole(cell, t.BIGINT)),
    "BIGINT": lambda values, cell: whole(values.whole(cell, t.BIGINT)),
    "BIGINT UNSIGNED": lambda values, cell: unsigned_text(values.unsigned(cell).cast("string")),
    "YEAR": lambda values, cell: small(values.whole(cell, t.BIGINT)),
    "BIT": lambda values, cell: unsigned_text(values.unsigned(cell).cast("string")),
    "ENUM": lambda values, cell: small(values.whole(cell, t.BIGINT)),
    "SET": lambda values, cell: whole(values.mask(cell)),
    "FLOAT": lambda values, cell: real(values.real(cell, t.FLOAT)),
    "DOUBLE": lambda values, cell: real(values.real(cell, t.DOUBLE)),
    "BLOB": lambda values, cell: text_bytes(values.octets(cell)),
    "VECTOR": lambda values, cell: vector(values.text(cell)),
}
"""All others are hashed as the text that was sent."""
