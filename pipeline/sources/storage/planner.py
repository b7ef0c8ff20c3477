"""Which files a batch takes, and how far the tables are complete with it: a pure function of what there is.

No name orders the files of a changefeed: numbers begin again in each date and version, and a date is the clock of
some server. What is sure is said by `metadata`: with C there, every row up to C is in some file. So with everything
that was listed after C was read, all rows up to C are there. If some of it is left for later, they are complete up to
before the first row of what is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pipeline.model.frontier import NEVER, Frontier, after_ddl, closed_by_watermark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pipeline.sources.storage.inventory import Found
    from pipeline.sources.storage.paths import DataFile
    from pipeline.sources.storage.store import StoredFile


class Checkpoint(NamedTuple):
    """What `metadata` says. `settled`: whether no DDL event of just this commit ts can still come."""

    commit_ts: int
    settled: bool


@dataclass(frozen=True, slots=True)
class RowsFile:
    """A file of rows that no batch has taken. `described`: whether the version that it is of is described."""

    entry: StoredFile
    file: DataFile
    described: bool


class Plan(NamedTuple):
    """The files of rows that a batch takes, and how far the tables are complete with them."""

    rows: Sequence[RowsFile]
    progress: Frontier


def plan(new: Found, most_bytes: int, first_commit_ts: Callable[[StoredFile], int], before: Frontier = NEVER) -> Plan:
    """Plan a batch.

    `most_bytes`: it takes no more, but one file at least. `first_commit_ts`: asks a file for that of its first row, 0
    where it has none. `before`: how far the tables are complete without this batch, which never goes back.

    A file waits that is of a version without a schema file, and so does the newest one of a folder if it ends within
    a record. What was done by a schema file that is damaged is not known, so nothing is complete beyond it.
    """
    ready = sorted((rows for rows in new.rows if rows.described), key=_age)
    taken = _oldest(ready, most_bytes)
    if new.checkpoint is None:
        return Plan(taken, before)
    left = [*ready[len(taken) :], *(rows for rows in new.rows if not rows.described), *new.unfinished]
    firsts = [first_commit_ts(rows.entry) for rows in _first_of_each_folder(left)]
    limits = [first for first in (*firsts, *(version.version for version in new.damaged)) if first]
    commit_ts, settled = new.checkpoint
    complete = after_ddl(commit_ts) if settled else closed_by_watermark(commit_ts - 1)
    return Plan(taken, max(before, min([complete, *(after_ddl(limit - 1) for limit in limits)])))


def _age(rows: RowsFile) -> tuple[float, str, int]:
    return rows.entry.modified, rows.file.folder, rows.file.number


def _oldest(ready: Sequence[RowsFile], most_bytes: int) -> Sequence[RowsFile]:
    total = 0
    for count, rows in enumerate(ready):
        total += rows.entry.size
        if count and total > most_bytes:
            return ready[:count]
    return ready


def _first_of_each_folder(files: Iterable[RowsFile]) -> list[RowsFile]:
    """The one with the least number of each folder and dispatcher: others there are newer, or redelivered."""
    firsts: dict[tuple[str, str], RowsFile] = {}
    for rows in files:
        lane = rows.file.folder, rows.file.dispatcher
        if lane not in firsts or rows.file.number < firsts[lane].file.number:
            firsts[lane] = rows
    return list(firsts.values())
