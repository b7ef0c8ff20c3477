"""Where records come from and where they stand, whatever the source is: streams, partitions, positions.

A *stream* has a name: a topic, a directory of files. Its *partitions* are numbered, and the records of each have an
order, which their *positions* say. Only a source knows what a position counts; everybody else compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from pipeline.model.conditions import any_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyspark.sql import Column, Row

STREAM, PARTITION, POSITION = "topic", "partition", "offset"
"""The columns of the raw frame that say where a record stands, by the names that users of Kafka know."""
PLACE = (STREAM, PARTITION, POSITION)
RAW = (*PLACE, "timestamp", "key", "value")
"""Columns of the raw frame; a source fills them as Spark's Kafka source does (text, int, long, timestamp, bytes)."""
FILE = "file"
"""One more column of the raw frame, if the source has files: a struct of `FILE_FIELDS`, about the record's file.

All files are one partition then. What users see of a record's place is the path of its file, and which record of the
file it is (`shown`).
"""
FILE_FIELDS = {
    "path": "string",
    "ordinal": "bigint",
    "kind": "string",
    "schema_name": "string",
    "table_name": "string",
    "version": "bigint",
    "header": "string",
}
"""`ordinal` is the number of the file among all that were taken. `kind` says what its records are. Their table, and
the version of it, are told by the file, not by the record. `header` names its columns, NULL if no header does."""
FILE_TYPE = f"struct<{', '.join(f'{name}: {kind}' for name, kind in FILE_FIELDS.items())}>"
FILES = "files"
"""The name of the stream that all files are."""
RECORD_BITS = 32
"""A position in the stream of files is the ordinal of the file, and in so many lower bits the number of the record."""

Position = int
"""The place of a record in its partition: greater is later."""
Range = tuple[Position, Position]
"""Positions [from, to) of one partition."""
PartitionId = tuple[str, int]
"""A partition by its stream's identity: a stream that was made anew under the same name has another one."""


class Partition(NamedTuple):
    """A partition by its stream's name."""

    stream: str
    number: int


Ranges = Mapping[Partition, Range]
"""In several partitions."""


def place_of(row: Row) -> tuple[Partition, Position]:
    """Where a record of the raw frame stands."""
    return Partition(row[STREAM], row[PARTITION]), row[POSITION]


def position_in_files(ordinal: int, record: int = 0) -> Position:
    """The position of a record of a file."""
    return ordinal << RECORD_BITS | record


def shown(columns: Collection[str]) -> dict[str, Column]:
    """By the names of `PLACE`, where a record stands as users see it. `columns`: those of the frame.

    Of a frame that was read from where records are set aside this is the place that stands there.
    """
    if FILE not in columns:
        return {name: F.col(name) for name in PLACE}
    record = F.col(POSITION).bitwiseAND(F.lit((1 << RECORD_BITS) - 1))
    return {STREAM: F.col(FILE).getField("path"), PARTITION: F.col(PARTITION), POSITION: record}


def shown_key(columns: Collection[str]) -> Column:
    """The bytes of a record's key as they are kept with it. Of a record of a file, what is to know of the file."""
    return F.to_json(F.col(FILE)).cast("binary") if FILE in columns else F.col("key")


def file_of(key: Column) -> Column:
    """The file that a key describes which was kept (`shown_key`)."""
    return F.from_json(key.cast("string"), FILE_TYPE)


def stands_in(partition: Partition) -> Column:
    """Whether a record is of this partition."""
    return (F.col(STREAM) == partition.stream) & (F.col(PARTITION) == partition.number)


def stands_at(places: Iterable[tuple[Partition, Position]]) -> Column:
    """Whether a record stands at one of these positions."""
    return any_of(stands_in(at) & (F.col(POSITION) == position) for at, position in places)
