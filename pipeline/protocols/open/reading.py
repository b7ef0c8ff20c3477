"""An event of the Open protocol as a struct, read on the JVM in one pass by a function of ours (`OpenReading.java`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.protocols.reading_json import JSON, joined, struct
from pipeline.runtime.shipped import called

if TYPE_CHECKING:
    from pyspark.sql import Column

_FIELDS = {
    "ts": "bigint",
    "scm": "string",
    "tbl": "string",
    "t": "bigint",
    "ohk": "boolean",
    "ccl": "string",
    "is_empty": "boolean",
    "is_statement": "boolean",
    "layout": "bigint",
    "is_delete": "boolean",
    "after": "array<string>",
    "before": "array<string>",
}
_SOURCE = Path(__file__).with_name("OpenReading.java")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of a row: the values of these columns, and the type codes of the `coded` ones."""

    names: tuple[str, ...]
    coded: tuple[str, ...] = ()

    def text(self, row: Column, name: str) -> Column:
        """The text of a column's value: a number as it is written. NULL where it was not sent, or is NULL."""
        return F.get(row, F.lit(self.names.index(name)))

    def code(self, row: Column, name: str) -> Column:
        """The type code beside a value, of a column that is `coded`."""
        return F.get(row, F.lit(len(self.names) + self.coded.index(name))).try_cast("int")


def event(key: Column, value: Column, wanted: Wanted | None = None) -> Column:
    """What a framed event says, NULL where its key is not one JSON object.

    The key's fields have their names. A number or a flag is NULL where something else stands there; a text is what
    stands there. `is_empty` says whether there is no value, and `is_statement` whether that has a statement and its
    type. If two rows have the same `layout`, they have the same columns with the same types and flags; it is NULL where
    the value is no row. `is_delete`: whether the row is deleted.

    `after` and `before` are rows as `Wanted` reads them. A delete has its row as both. What an update leaves out of the
    row as it was is as in the row as it is. Both are NULL where a wanted column of either is no object, or has a type
    code that is no number.
    """
    names, coded = (None, None) if wanted is None else (wanted.names, wanted.coded)
    return called(_SOURCE, struct(_FIELDS), key, value, joined(names), joined(coded), uses=[JSON])
