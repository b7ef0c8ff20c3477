"""Cuts: up to which commit ts the tables are complete (design.md, rule 4).

By offset a cut is `bounded`: every change up to its ts is in the tables, later ones may be too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.model.columns import time_of
from pipeline.warehouse.held import counted, held_tables
from pipeline.warehouse.pairs import State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pipeline.model.messages import Part
    from pipeline.model.places import Partition
    from pipeline.warehouse.pairs import TablePair
    from pipeline.warehouse.records import Records
    from pipeline.warehouse.tables import Tables

EXACT, BOUNDED, PARTIAL, NONE = "exact", "bounded", "partial", "none"
Shown = tuple["TablePair", "int | None"]
"""A table with the snapshot that it shows."""


@dataclass(slots=True)
class ConsistentPoints:
    """Writes `_pipeline.cuts`: a row for each table whose snapshot a batch has changed."""

    tables: Tables
    records: Records
    unrecorded: set[str] = field(default_factory=set)
    """Tables (uuid) of which something other than a batch has shown a new snapshot, which no cut has yet."""
    partial: set[str] = field(default_factory=set)
    """Tables (uuid) of which the newest row of `cuts` says that changes may be missing."""
    newest: int = 0
    """The commit ts of the newest cut that this process has written; 0: none."""
    late: frozenset[str] = frozenset()
    """By commit ts: tables (uuid) that the newest cut does not show as far as the others."""

    def exact(self, batch_id: int, cut_ts: int, shown: Sequence[Shown], lag: Lag, *, recovering: bool = False) -> str:
        """Write the cut of a batch by commit ts; gives its level.

        A cut is exact if nothing up to its commit ts is missing from the tables. Tables that were dropped by then are
        not in it. `shown`: tables whose snapshot changed.
        """
        if not cut_ts:
            return NONE
        reasons = [*lag.also, *self._missing(cut_ts, lag.pending)]
        up_to_date = (PARTIAL, "; ".join(reasons)) if reasons else (EXACT, "")
        came_later = f"{_tables(len(lag.late))} of {lag.noun}s that were added later and have not been read that far"
        lagging = (PARTIAL, "; ".join([*reasons, came_later]))
        if self.late != lag.late:
            shown = [(table, _head(table)) for table in self.tables]
        else:
            to_record = self._to_record(whole=not reasons, late=lag.late, recovering=recovering)
            heads = ((table, _head(table)) for table in to_record)
            shown = list({table.uuid: (table, snapshot) for table, snapshot in (*shown, *heads)}.values())
        self.late = frozenset(lag.late)
        shown = [(table, snapshot) for table, snapshot in shown if not _is_dropped(table, cut_ts)]
        dropped = (table for table in self.tables if _is_dropped(table, cut_ts))
        if not shown and any(table.dropped_at > self.newest for table in dropped):
            shown = self._any_other()  # a dropped table has no row, and the cut must be known all the same
        self._write(batch_id, cut_ts, shown, lambda table: lagging if table.uuid in lag.late else up_to_date)
        return PARTIAL if lag.late else up_to_date[0]

    def bounded(
        self, batch_id: int, cut_ts: int | None, snapshots: Mapping[str, int], *, recovering: bool = False
    ) -> str:
        """Write the cut of a batch by offset; gives its level. `snapshots`: by source table, where it changed."""
        if not cut_ts:
            return NONE
        held = self._held()
        level, reason = (PARTIAL, held) if held else (BOUNDED, "changes are ordered by offset")
        to_record = {table.uuid for table in self._to_record(whole=not held, recovering=recovering)}
        heads = {name: _head(table) for name, table in _meant(self.tables).items() if table.uuid in to_record}
        self._write(batch_id, cut_ts, by_name(self.tables, {**heads, **snapshots}), lambda _: (level, reason))
        return level

    def _to_record(self, *, whole: bool, recovering: bool, late: Collection[str] = ()) -> list[TablePair]:
        """Tables that get a row in the cut although this batch has not changed them.

        `whole`: nothing is missing up to the cut, except from the tables in `late`. So tables that cuts have called
        partial are so no longer.
        """
        to_record = set(self.unrecorded)
        if recovering:  # another process, or a try that died, may have shown more than the cuts say
            newest = self.records.newest_cuts()
            self.partial |= {uuid for uuid, (_, level) in newest.items() if level == PARTIAL}
            to_record |= {table.uuid for table in self.tables if newest.get(table.uuid, (None, ""))[0] != _head(table)}
        if whole:
            to_record |= self.partial - set(late)
        return [table for table in self.tables if table.uuid in to_record]

    def _any_other(self) -> list[Shown]:
        """A table that lives and has a snapshot, with that; none where there is none."""
        heads = ((table, _head(table)) for table in self.tables if table.state is not State.DROPPED)
        return next(([(table, snapshot)] for table, snapshot in heads if snapshot is not None), [])

    def _held(self) -> str:
        """Which tables are held, as a reason; nothing where none is."""
        held = held_tables(self.tables, self.records)
        return f"held: {counted(held)}" if held else ""

    def _missing(self, cut_ts: int, pending: Collection[Part]) -> Iterator[str]:
        """Why tables may lack changes up to a commit ts."""
        held = self._held()
        if held:
            yield held
        early = sorted({str(part.table) for part in pending if part.since < cut_ts})
        if early:
            yield f"pending: {_tables(len(early))} ({', '.join(early)})"
        for name, what in (("quarantine", "in quarantine"), ("dead_letters", "dead letters")):
            count = self.records.open_up_to(name, cut_ts)
            if count:
                yield f"{count} {what}"

    def _write(
        self,
        batch_id: int,
        cut_ts: int,
        shown: Iterable[Shown],
        level_of: Callable[[TablePair], tuple[str, str]],
    ) -> None:
        self.newest = cut_ts
        rows = []
        for table, snapshot in shown:
            if snapshot is None:
                continue
            level, reason = level_of(table)
            rows.append({
                "cut_ts": cut_ts, "cut_time": time_of(cut_ts), "table_uuid": table.uuid,
                "schema_name": table.source.schema, "table_name": table.source.table, "snapshot_id": snapshot,
                "level": level, "reason": reason,
            })  # fmt: skip
            (self.partial.add if level == PARTIAL else self.partial.discard)(table.uuid)
        self.records.write("cuts", batch_id, rows)
        self.unrecorded.clear()


@dataclass(frozen=True, slots=True)
class Lag:
    """What may be missing from a cut by commit ts.

    `pending`: the rows that cannot be placed yet. `late`: tables (uuid) whose streams have not been read that far.
    `also`: further reasons. `noun`: what users call a stream.
    """

    pending: Collection[Part] = ()
    late: frozenset[str] = frozenset()
    also: Sequence[str] = ()
    noun: str = "stream"


def resolved(watermarks: Mapping[Partition, int], unread: Collection[Partition]) -> int | None:
    """The least watermark of the partitions that are live (`frontier.resolved`); None while there is none."""
    if not watermarks:
        return None
    return min([max(watermarks.values()), *(watermarks.get(at, 0) for at in unread)]) or None


def by_name(tables: Iterable[TablePair], snapshots: Mapping[str, int | None]) -> list[Shown]:
    """The pair that each source name means (the living one, else that which was dropped last) with its snapshot."""
    return [(table, snapshots.get(name)) for name, table in _meant(tables).items()]


def _meant(tables: Iterable[TablePair]) -> dict[str, TablePair]:
    return {str(t.source): t for t in sorted(tables, key=lambda t: (t.state != State.DROPPED, t.dropped_at))}


def _head(table: TablePair) -> int | None:
    return None if table.current is None else table.current.head()


def _is_dropped(table: TablePair, cut_ts: int) -> bool:
    """Whether the source had no such table any more."""
    return table.state is State.DROPPED and table.dropped_at <= cut_ts


def _tables(count: int) -> str:
    return f"{count} table{'' if count == 1 else 's'}"
