"""Where records come from and where they stand, whatever the source is: streams, partitions, positions.

A *stream* has a name: a topic, a directory of files. Its *partitions* are numbered, and the records of each have an
order, which their *positions* say. Only a source knows what a position counts; everybody else compares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from pipeline.model.conditions import any_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, Row

STREAM, PARTITION, POSITION = "topic", "partition", "offset"
"""The columns of the raw frame that say where a record stands, by the names that users of Kafka know."""
PLACE = (STREAM, PARTITION, POSITION)
RAW = (*PLACE, "timestamp", "key", "value")
"""Columns of the raw frame; a source fills them as Spark's Kafka source does (text, int, long, timestamp, bytes)."""

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


def place_of(row: Row) -> tuple[Partition, Position]:
    """Where a record of the raw frame stands."""
    return Partition(row[STREAM], row[PARTITION]), row[POSITION]


def stands_in(partition: Partition) -> Column:
    """Whether a record is of this partition."""
    return (F.col(STREAM) == partition.stream) & (F.col(PARTITION) == partition.number)


def stands_at(places: Iterable[tuple[Partition, Position]]) -> Column:
    """Whether a record stands at one of these positions."""
    return any_of(stands_in(at) & (F.col(POSITION) == position) for at, position in places)
