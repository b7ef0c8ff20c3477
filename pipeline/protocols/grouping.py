"""Messages of a batch that are alike, as one small aggregate counts them: how every protocol's `read` begins.

A protocol groups by place (`by_place`) and by what its own heads say, adds `counts` and what else it wants to know, and
makes a `PlacedGroup` of each row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import functions as F

from pipeline.model.places import PARTITION, POSITION, STREAM, Partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import Column

    from pipeline.model.places import Position


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """Messages of one partition that are alike: how many, and the positions of the first and the last."""

    stream: str
    partition: int
    rows: int
    first: Position
    last: Position

    @property
    def at(self) -> Partition:
        """Where they stand."""
        return Partition(self.stream, self.partition)


Group = TypeVar("Group", bound=PlacedGroup)


def by_place() -> list[Column]:
    """What to group a raw frame by, besides what a protocol tells apart."""
    return [F.col(STREAM).alias("stream"), F.col(PARTITION).alias("partition")]


def counts() -> list[Column]:
    """What to count of each group."""
    return [F.count(F.lit(1)).alias("rows"), F.min(POSITION).alias("first"), F.max(POSITION).alias("last")]


def least(groups: Iterable[Group], measure: Callable[[Group], int]) -> dict[Partition, int]:
    """By partition, the least of a measure."""
    return _picked(groups, measure, min)


def greatest(groups: Iterable[Group], measure: Callable[[Group], int]) -> dict[Partition, int]:
    """By partition, the greatest of a measure."""
    return _picked(groups, measure, max)


def firsts(groups: Iterable[PlacedGroup]) -> dict[Partition, Position]:
    """By partition, where the first message stands: the start of a batch's range."""
    return least(groups, lambda group: group.first)


def lasts(groups: Iterable[PlacedGroup]) -> dict[Partition, Position]:
    """By partition, where the last message stands."""
    return greatest(groups, lambda group: group.last)


def ends(groups: Iterable[PlacedGroup]) -> dict[Partition, Position]:
    """By partition, the end (exclusive) of a batch's range."""
    return greatest(groups, lambda group: group.last + 1)


def _picked(
    groups: Iterable[Group], measure: Callable[[Group], int], pick: Callable[[int, int], int]
) -> dict[Partition, int]:
    picked: dict[Partition, int] = {}
    for group in groups:
        value = measure(group)
        picked[group.at] = pick(value, picked.get(group.at, value))
    return picked
