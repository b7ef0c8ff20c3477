"""How far a changefeed has come (ordering by commit ts, decision 004).

A moment is a commit ts and whether the DDL of that ts is included: a watermark W closes rows up to W, a DDL at D what
a watermark D closes and itself. So it makes no difference on which side of a DDL a watermark of its ts stands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NewType

from pipeline.model.columns import FAR_FUTURE
from pipeline.model.messages import Undecodable
from pipeline.model.places import stands_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pipeline.model.messages import Ddl, Messages
    from pipeline.model.places import Partition

Frontier = NewType("Frontier", int)
"""Commit ts * 2, and one more after the DDL of that ts."""

NEVER = Frontier(0)
AHEAD = "COMMIT_TS_AHEAD"


def closed_by_watermark(commit_ts: int) -> Frontier:
    """What a watermark says."""
    return Frontier(commit_ts << 1)


def after_ddl(commit_ts: int) -> Frontier:
    """What a DDL says."""
    return Frontier(commit_ts << 1 | 1)


def commit_ts_of(moment: Frontier) -> int:
    """Rows up to this commit ts belong to it."""
    return moment >> 1


def progress(
    before: Mapping[Partition, Frontier], watermarks: Mapping[Partition, int], ddl: Iterable[Ddl]
) -> dict[Partition, Frontier]:
    """How far each partition has come, after the messages of a batch. It never goes back."""
    found = dict(before)
    for at, ts in watermarks.items():
        found[at] = max(closed_by_watermark(ts), found.get(at, NEVER))
    for statement in ddl:
        for at in statement.at:
            found[at] = max(after_ddl(statement.commit_ts), found.get(at, NEVER))
    return found


def believed(messages: Messages) -> Messages:
    """Messages without progress that TiDB cannot have made: after it everything would count as sent again, for good.

    A watermark from the year 2200 on is passed over with a warning, a statement is a dead letter.
    """
    marks = {at: ts for at, ts in messages.watermarks.items() if ts > FAR_FUTURE}
    ddl = [one for one in messages.ddl if one.commit_ts > FAR_FUTURE]
    if not (marks or ddl):
        return messages
    said = [f"{at.stream}/{at.number}: watermark {ts}, of the far future, is passed over" for at, ts in marks.items()]
    why = "commit ts {} is of the far future: {}"
    refused = [Undecodable(AHEAD, why.format(d.commit_ts, d.sql), stands_at(d.at.items()), len(d.at)) for d in ddl]
    return replace(
        messages,
        watermarks={at: ts for at, ts in messages.watermarks.items() if at not in marks},
        ddl=tuple(one for one in messages.ddl if one not in ddl),
        refused=(*messages.refused, *refused),
        warnings=(*messages.warnings, *said),
    )


def resolved(frontiers: Mapping[Partition, Frontier], unread: Collection[Partition]) -> Frontier:
    """The least frontier of the partitions that are live: of those that have more to read, begun or not.

    `unread`: as `Source.unread` said after the frontiers were read, which is why the others may be left out.
    """
    if not frontiers:
        return NEVER
    return min([max(frontiers.values()), *(frontiers.get(at, NEVER) for at in unread)])
