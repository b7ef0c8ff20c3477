"""How far a partition has come (ordering by commit ts).

A frontier is a commit ts, and whether the DDL events of it are included: a watermark W closes rows up to W, a DDL event
at D the same rows and itself. So it makes no difference on which side of a DDL event a watermark of its ts stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NewType

from pipeline.model.columns import CommitTs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.model.places import Partition

Frontier = NewType("Frontier", int)
"""Commit ts * 2, and one more after the DDL events of that ts."""

NEVER = Frontier(0)


def closed_by_watermark(commit_ts: int) -> Frontier:
    """What a watermark says."""
    return Frontier(commit_ts << 1)


def after_ddl(commit_ts: int) -> Frontier:
    """What a DDL event says."""
    return Frontier(commit_ts << 1 | 1)


def commit_ts_of(frontier: Frontier) -> int:
    """Rows up to this commit ts belong to it."""
    return frontier >> 1


def watermarks_of(frontiers: Mapping[Partition, Frontier]) -> dict[Partition, CommitTs]:
    """The commit ts up to which each partition has its rows."""
    return {at: CommitTs(commit_ts_of(frontier)) for at, frontier in frontiers.items()}
