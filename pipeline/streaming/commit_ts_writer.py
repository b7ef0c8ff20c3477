"""One pair's part of a micro-batch by commit ts: all its rows of the batch in one append, shown with the rest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.messages import EVER, SeenVersion
from pipeline.model.names import folded
from pipeline.model.places import POSITION, stands_in
from pipeline.streaming.batch import TableResult
from pipeline.streaming.ddl_applier import NOT_UNDERSTOOD, with_handles
from pipeline.streaming.set_aside import dead_letters, held_names, pending
from pipeline.streaming.set_aside.held import why_not_created
from pipeline.streaming.set_aside.pending import WAS_PENDING
from pipeline.streaming.table_writer import NOTHING, TableWriter
from pipeline.warehouse.evolution import Note, apply_actions, exactly, keyed_as, let_leave, meet, meet_key, newest
from pipeline.warehouse.layout import Layout
from pipeline.warehouse.pairs import State, StoredBinding, written_state
from pipeline.warehouse.records import DROPPED, SUPERSEDED
from pipeline.warehouse.removals import apply_to_rows, forgotten
from pipeline.warehouse.state import NAME_BINDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from pipeline.model.places import Partition, Range
    from pipeline.streaming.epochs import Statement
    from pipeline.warehouse.pairs import Place, TablePair

MEMBERS_UNKNOWN = "MEMBERS_UNKNOWN"


@dataclass(slots=True)
class CommitTsTableWriter(TableWriter):
    """Implements `TablePort`. `has_pending_rows`: whether rows are among it that have waited."""

    bindings: tuple[StoredBinding, ...] = ()
    """The names that a pair which is yet to be made has had."""
    partners: Mapping[int, str] = field(default_factory=dict)
    """By commit ts of an EXCHANGE PARTITION: the other pair."""
    deliveries: Sequence[Place] = ()
    """Where its rows, which have no key, begin to be sent again."""
    has_pending_rows: bool = False
    ended: bool = False
    """Whether the source has dropped it, though no pair was made."""
    stays_pending: bool = field(default=False, init=False)
    """Whether its rows were held after all: what has waited waits on."""

    @property
    def takes_pending(self) -> bool:
        """See `TablePort.takes_pending`."""
        return self.has_pending_rows

    @property
    def times(self) -> tuple[int, int] | None:
        """Between which commit ts the changes lie."""
        low = min((seen.since for seen in self.messages.versions), default=0)
        high = max((min(seen.until, self._placeable_until) for seen in self.messages.versions), default=EVER)
        return low, high

    @property
    def _shown(self) -> int:
        """The commit ts up to which the current table needs to know nothing any more."""
        if self.table is None:
            return 0
        return EVER if self.table.current is None else self.table.cut

    @property
    def _placeable_until(self) -> int:
        return max((part.until for part in self.messages.parts), default=EVER)

    @property
    def _set_aside_status(self) -> str:
        """What rows that are set aside begin as: those of a table that was dropped are superseded by that."""
        gone = self.table is not None and self.table.state is State.DROPPED
        return SUPERSEDED if gone else dead_letters.OPEN

    def _why_not_created(self) -> str:
        return why_not_created(self.context, self.messages.table)

    def evolve(self) -> None:
        """See `TablePort.evolve`."""
        if self.table is not None and self.context.recovering:
            self._recall(self.table)
        layout = self.table.layout if self.table else Layout(before=self.context.protocol.sends_before)
        for commit_ts, _, entry in self._timeline():
            if isinstance(entry, SeenVersion):
                if not layout.columns:
                    layout = replace(layout, ddl_at=max(0, commit_ts))
                layout = with_handles(self._met(layout, entry), _after(layout, commit_ts))
            else:
                layout = with_handles(self._applied(layout, entry), commit_ts)
        stored = self.table.layout if self.table else Layout()
        layout = let_leave(forgotten(layout, self._shown), stored, self._shown)
        if self.table is None:
            if not self.messages.versions:
                return
            noted = {**self._noted(), **self._held_by(State.LIVE), **NAME_BINDINGS.entry(tuple(self.bindings))}
            self.table = self.context.tables.create(self.messages.table, layout, 0, noted)
        elif not self._has_room(layout):
            return
        else:
            self.context.tables.evolve(self.table, layout, {**self._noted(), **self._held_by(self.table.state)})
        self._note_deliveries()
        self._note_streams(self.table)
        if self.ambiguous:
            if self.table.state is State.LIVE:
                self.context.tables.set_state(self.table, State.HELD, self.ambiguous)
            held_names.forget(self.context.records, self.table.source)

    def _held_by(self, state: State) -> dict[str, str]:
        """That a pair is to be held, for the commit of its layout, in which a second try finds nothing unclear."""
        return written_state(State.HELD, self.ambiguous) if self.ambiguous and state is State.LIVE else {}

    def _note_deliveries(self) -> None:
        if self.deliveries and self.table is not None:
            self.context.tables.note_deliveries(self.table, self.deliveries)

    def _note_streams(self, table: TablePair) -> None:
        """Of a renamed pair: where rows stand after the RENAME (a redrive's stood somewhere once)."""
        if table.renamed_at:
            new = (seen for seen in self.messages.versions if seen.since > table.renamed_at)
            places = (at.stream for seen in new for at in seen.last if at.stream in self.stream_ids)
            self.context.tables.note_streams(table, {self.stream_ids[stream] for stream in places})

    def _timeline(self) -> list[tuple[int, int, SeenVersion | Statement]]:
        """Versions and statements in the order in which they hold; a version holds just before its first row."""
        seen: list[tuple[int, int, SeenVersion | Statement]] = [(v.since - 1, 1, v) for v in self.messages.versions]
        applied: list[tuple[int, int, SeenVersion | Statement]] = [(s.ddl.commit_ts, 0, s) for s in self.statements]
        return sorted([*seen, *applied], key=_moment)

    def _met(self, layout: Layout, seen: SeenVersion) -> Layout:
        met_version, head = layout.version(seen.version.version), newest(layout)
        if met_version is None:
            self.met.add(seen.version.version)
            self.notes.extend(_unnamed(layout, seen))
        by_time = self.context.protocol.is_newest(seen)
        if seen.key_only:
            layout = meet_key(layout, seen.version)
        else:
            late = seen.since <= layout.ddl_at if by_time else seen.version.version < (head or 0)
            stale = (met_version is None and head is not None and late) or seen.since <= layout.altered_at
            layout, notes = meet(layout, seen.version, self.context.policy, stale=stale)
            self.notes.extend(notes)
        if by_time and _is_present(layout, seen):
            layout = keyed_as(layout, seen.version)
        return layout if met_version else replace(layout, met_at=layout.ddl_at)

    def _applied(self, layout: Layout, statement: Statement) -> Layout:
        ddl = statement.ddl
        if ddl.commit_ts <= layout.ddl_at:
            return layout
        actions = statement.actions if ddl.version is None else exactly(statement.actions, ddl.version)
        layout, notes = apply_actions(layout, actions, ddl.commit_ts, self.context.policy)
        self.notes.extend(notes)
        for action in statement.actions:
            other = self.partners.get(ddl.commit_ts, "")
            layout, why = apply_to_rows(layout, action, ddl.commit_ts, other)
            if why and not self.forced:
                self._unclear(f"{NOT_UNDERSTOOD}: {why}: {ddl.sql}", other)
        if ddl.version is not None:
            layout, notes = meet(layout, ddl.version, self.context.policy)
            self.notes.extend(notes)
        return layout

    def _unclear(self, reason: str, other: str) -> None:
        """Hold the pair after its evolution, and the one that it would have exchanged rows with."""
        self.ambiguous = self.ambiguous or reason
        partner = self.context.tables.by_uuid(other)
        if partner is not None and partner.state is State.LIVE:
            self.context.tables.set_state(partner, State.HELD, reason)

    def _appended(self, ranges: Mapping[Partition, Range]) -> DataFrame:
        bounds = {**dict.fromkeys(self.messages.partitions, NOTHING), **ranges}
        return self.judged_frame(bounds) if self._fences else self._frame(bounds)

    def _within(self, ranges: Mapping[Partition, Range]) -> DataFrame:
        """The raw frame within these ranges, and all that has waited."""
        outside = F.lit(False)
        for partition, (low, high) in ranges.items():
            outside = outside | (stands_in(partition) & ~F.col(POSITION).between(low, high - 1))
        return self.raw.where(F.col(WAS_PENDING) | ~outside) if ranges else self.raw

    def hold(self) -> int:
        """See `TablePort.hold`: what has waited stays where it is."""
        self._describe_job(f"{self.messages.table}: hold")
        self.stays_pending = True
        self._note_deliveries()
        if self.table is not None:
            self._note_streams(self.table)
        wanted = pending.is_copy_of(self.statements) | pending.rows_of(self.context.protocol, self.messages.parts)
        beyond = {partition: (end, 2**62) for partition, end in self.ends().items()}
        rows = self._within(beyond).where(wanted & ~F.col(WAS_PENDING))
        source = self.messages.table
        gone = self.ended if self.table is None else self.table.state is State.DROPPED
        status = DROPPED if gone else "open"
        columns = {"schema_name": source.schema, "table_name": source.table, "reason": self.reason, "status": status}
        records = rows.select(*pending.as_held(), *(F.lit(value).alias(name) for name, value in columns.items()))
        return dead_letters.written(self.context, "held", records, self.batch_id)

    def publish(self) -> TableResult:
        """See `TablePort.publish`: all tables show their changes together (`CommitTsBatch.finish_tables`)."""
        source = self.messages.table if self.table is None else self.table.source
        unnamed = any(seen.version.unnamed for seen in self.messages.versions)
        return TableResult(str(source), seconds=self.seconds, unnamed=self.rows_appended if unnamed else 0)


def _unnamed(layout: Layout, seen: SeenVersion) -> Iterator[Note]:
    """A note for each column whose values stay numbers, the first time that the table has it so."""
    columns = {(folded(column.source), column.source_type) for column in layout.columns}
    for column in seen.version.unnamed:
        if (folded(column.name), column.source_type) not in columns:
            why = f"nobody has named the members of this {column.tidb_type}: its values are kept as numbers"
            yield Note(MEMBERS_UNKNOWN, column.name, why)


def _is_present(layout: Layout, seen: SeenVersion) -> bool:
    """Whether all rows of a version are of the time since the newest statement, and since the handle is what it is."""
    return seen.since > max(layout.ddl_at, layout.handles[-1][0] if layout.handles else 0)


def _after(layout: Layout, commit_ts: int) -> int:
    """After which commit ts the handle of a version holds, given that the version's rows come after `commit_ts`.

    If these are the first rows since the newest statement, it holds from the statement on: rows of another partition
    that lie between the two may come in a later batch.
    """
    return layout.ddl_at if layout.met_at < layout.ddl_at < commit_ts else commit_ts


def _moment(entry: tuple[int, int, SeenVersion | Statement]) -> tuple[int, int, int]:
    commit_ts, kind, what = entry
    return commit_ts, kind, what.version.version if isinstance(what, SeenVersion) else 0
