"""Which files a batch takes, and how far the tables are complete with it: a pure function of what there is.

No name orders the files of a changefeed: numbers begin again in each date and version, and a date is the clock of
some server. What is sure is said by `metadata`: with C there, every row up to C is in some file. So with everything
that was listed after C was read, all rows up to C are there. If some of it is left for later, they are complete up to
before the first row of what is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from pipeline.model.frontier import NEVER, Frontier, after_ddl, closed_by_watermark
from pipeline.sources.storage.paths import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pipeline.sources.storage.lanes import Lane
    from pipeline.sources.storage.paths import DataFile
    from pipeline.sources.storage.store import StoredFile


class Checkpoint(NamedTuple):
    """What `metadata` says. `settled`: whether no DDL event of just this commit ts can still come."""

    commit_ts: int
    settled: bool


@dataclass(frozen=True, slots=True)
class RowsFile:
    """A file of rows that no batch has taken.

    `described`: whether a schema file describes its version. `whole`: whether it ends with a record, or is not the
    newest of its lane.
    """

    entry: StoredFile
    file: DataFile
    described: bool = True
    whole: bool = True


@dataclass(frozen=True, slots=True)
class New:
    """What no batch has taken. `checkpoint`: None without a `metadata` that can be read.

    `lanes`: the files of rows of each lane, by their numbers. `taken_up_to`: the greatest number of a lane that a batch
    has taken, 0 if there is none. `deferred`: the first version whose schema file is left to a later batch, or 0.
    """

    checkpoint: Checkpoint | None
    lanes: Mapping[Lane, Sequence[RowsFile]]
    taken_up_to: Mapping[Lane, int]
    deferred: int = 0


class Hole(NamedTuple):
    """Numbers of a lane, `first` to `last`, that are not there, although there is the file `behind` them."""

    lane: Lane
    first: int
    last: int
    behind: RowsFile

    @property
    def before(self) -> str:
        """The path of the file before them, if there ever was one."""
        return path_of(self.behind.entry.path, self.first - 1)


class Plan(NamedTuple):
    """The files of rows that a batch takes, and how far the tables are complete with them."""

    rows: Sequence[RowsFile]
    progress: Frontier
    holes: Sequence[Hole] = ()


def plan(
    new: New,
    most_bytes: int,
    first_commit_ts: Callable[[StoredFile], int],
    before: Frontier = NEVER,
    given_up: Callable[[Hole], bool] = lambda _: False,
) -> Plan:
    """Plan a batch.

    `most_bytes`: it takes no more, but one file at least; with 0 none. `first_commit_ts`: asks a file for that of its
    first row, 0 where it has none. `before`: how far the tables are complete without this batch, which never goes back.
    `given_up`: whether nobody waits for the files of a hole any more.

    A file waits, and what is behind it in its lane, that no schema file describes, or that ends within a record. What
    is behind a hole waits, too, and nobody knows what the hole had: so nothing more is complete.
    """
    ready: list[tuple[float, RowsFile]] = []
    left: list[RowsFile] = []
    holes: list[Hole] = []
    for lane, files in new.lanes.items():
        split, hole = _ready(lane, files, new.taken_up_to.get(lane, 0), given_up)
        ages = accumulate((rows.entry.modified for rows in files[:split]), max)
        ready += zip(ages, files[:split], strict=True)
        left += files[split:]
        holes += [hole] if hole else []
    ready.sort(key=_age)
    count = _how_many(ready, most_bytes)
    taken, rest = [rows for _, rows in ready[:count]], [rows for _, rows in ready[count:]]
    if new.checkpoint is None or holes:
        return Plan(taken, before, holes)
    firsts = [*_firsts(rest, first_commit_ts), *_firsts(left, first_commit_ts)]
    firsts += [new.deferred] if new.deferred else []
    commit_ts, settled = new.checkpoint
    complete = after_ddl(commit_ts) if settled else closed_by_watermark(commit_ts - 1)
    return Plan(taken, max(before, min([complete, *(after_ddl(first - 1) for first in firsts)])))


def _ready(
    lane: Lane, files: Sequence[RowsFile], taken_up_to: int, given_up: Callable[[Hole], bool]
) -> tuple[int, Hole | None]:
    """How many files of a lane may be taken, and the hole before the next one."""
    for place, rows in enumerate(files):
        number = rows.file.number
        if number > taken_up_to + 1:
            hole = Hole(lane, taken_up_to + 1, number - 1, rows)
            if not given_up(hole):
                return place, hole
        if not (rows.described and rows.whole):
            return place, None
        taken_up_to = max(taken_up_to, number)
    return len(files), None


def _age(ready: tuple[float, RowsFile]) -> tuple[float, str, str, int]:
    age, rows = ready
    return age, rows.file.folder, rows.file.dispatcher, rows.file.number


def _how_many(ready: Sequence[tuple[float, RowsFile]], most_bytes: int) -> int:
    total = 0
    if not most_bytes:
        return 0
    for count, (_, rows) in enumerate(ready):
        total += rows.entry.size
        if count and total > most_bytes:
            return count
    return len(ready)


def _firsts(files: Sequence[RowsFile], first_commit_ts: Callable[[StoredFile], int]) -> Iterator[int]:
    """The first commit ts of each lane: what is behind it is newer, or redelivered. A file may have none."""
    seen: set[tuple[str, str]] = set()
    for rows in files:
        lane = rows.file.folder, rows.file.dispatcher
        if lane not in seen and (commit_ts := first_commit_ts(rows.entry)):
            seen.add(lane)
            yield commit_ts
