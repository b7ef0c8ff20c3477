"""A message of Simple in JSON as a struct, read on the JVM in one pass by a function of ours (`SimpleReading.java`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.protocols.reading_json import JSON, joined, struct
from pipeline.runtime.shipped import called

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pipeline.model.columns import SourceColumn, TableVersion

_FIELDS = {
    "version": "bigint",
    "type": "string",
    "database": "string",
    "table": "string",
    "schemaVersion": "bigint",
    "commitTs": "bigint",
    "has_sql": "boolean",
    "handleKeyOnly": "boolean",
    "claimCheckLocation": "string",
    "checksum": "struct<version: bigint, corrupted: boolean, current: bigint, previous: bigint>",
    "described_schema": "string",
    "described_table": "string",
    "described_version": "bigint",
    "is_sound": "boolean",
    "after": "array<string>",
    "before": "array<string>",
}
_SOURCE = Path(__file__).with_name("SimpleReading.java")


def message(value: Column, version: TableVersion | None = None) -> Column:
    """What a message says, NULL where its bytes are not one JSON object.

    A number or a flag is NULL where something else stands there; a text is what stands there. `has_sql` says whether
    there is `sql`. The `described_` fields are those of `tableSchema`.

    With a version, `after` and `before` are the values of its columns in `data` and `old`, NULL where there is no such
    row; behind them are the locations of its TIMESTAMPs (`item`). Of a DELETE both are the row of `old`. `is_sound`
    says whether each row is an object or null, and each TIMESTAMP in it an object of two texts or null.
    """
    names = moments = None
    if version is not None:
        names = [column.name for column in version.columns]
        moments = [column.name for column in version.columns if _is_moment(column)]
    return called(_SOURCE, struct(_FIELDS), value, joined(names), joined(moments), uses=[JSON])


def item(row: Column, version: TableVersion, place: int) -> Column:
    """The column at this place of the version in a row; of TIMESTAMP a struct of `location` and `value`."""
    value, column = F.get(row, F.lit(place)), version.columns[place]
    if not _is_moment(column):
        return value
    number = sum(map(_is_moment, version.columns[:place]))
    location = F.get(row, F.lit(len(version.columns) + number))
    return F.when(value.isNotNull(), F.struct(location.alias("location"), value.alias("value")))


def _is_moment(column: SourceColumn) -> bool:
    return column.tidb_type.startswith("TIMESTAMP")
