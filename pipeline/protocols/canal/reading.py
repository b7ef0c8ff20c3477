"""A message of Canal-JSON as a struct, read on the JVM in one pass by a function of ours (`CanalReading.java`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.protocols.reading_json import JSON, joined, struct
from pipeline.runtime.shipped import called

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pipeline.model.columns import TableVersion

_FIELDS = {
    "id": "bigint",
    "database": "string",
    "table": "string",
    "type": "string",
    "isDdl": "boolean",
    "es": "bigint",
    "has_sql": "boolean",
    "is_described": "boolean",
    "has_extension": "boolean",
    "commitTs": "bigint",
    "watermarkTs": "bigint",
    "onlyHandleKey": "boolean",
    "claimCheckLocation": "string",
    "rows": "int",
    "layout": "bigint",
    "fits": "boolean",
    "is_sound": "boolean",
    "after": "array<string>",
    "before": "array<string>",
}
_SOURCE = Path(__file__).with_name("CanalReading.java")


def message(value: Column, version: TableVersion | None = None) -> Column:
    """What a message says, NULL where its bytes are not one JSON object.

    A number or a flag is NULL where something else stands there; a text is what stands there. `rows` is how many items
    `data` has, NULL without `data`, and 0 where it is no list. `is_described` says whether the message has names and
    types of columns; if two messages have the same `layout`, these are the same. `has_sql`, `has_extension`: whether
    there is `sql`, `_tidb`.

    With a version, `after` and `before` are the values of its columns in the first row of `data` and of `old`. What
    `old` does not have is as in `data`. Of a DELETE both are the row of `data`. `fits` says whether layout and row have
    just the version's columns, and `is_sound` whether `old` is null or a list of rows, and `data` has no other columns
    than its layout.
    """
    names = joined(None if version is None else [column.name for column in version.columns])
    return called(_SOURCE, struct(_FIELDS), value, names, uses=[JSON])
