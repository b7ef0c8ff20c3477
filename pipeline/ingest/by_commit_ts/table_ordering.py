"""One pair's rows by commit ts: all of a batch in one append, shown with those of all other tables."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.ingest.ddl import columns, key, partitions
from pipeline.ingest.set_aside import pending
from pipeline.ingest.set_aside.pending import WAS_PENDING
from pipeline.ingest.table_work import EvolvedLayout, TableResult
from pipeline.model.conditions import any_of
from pipeline.model.holding import NOT_UNDERSTOOD
from pipeline.model.messages import EVER, SeenVersion
from pipeline.model.names import folded
from pipeline.model.places import POSITION, Ranges, stands_in
from pipeline.model.set_aside import OPEN
from pipeline.warehouse import held_names
from pipeline.warehouse.evolution import Note, keyed_as, let_leave, meet, meet_key, newest
from pipeline.warehouse.held import why_not_created
from pipeline.warehouse.layout import Layout
from pipeline.warehouse.pairs import State, StoredBinding, written_state
from pipeline.warehouse.records import DROPPED, SUPERSEDED
from pipeline.warehouse.removals import forgotten
from pipeline.warehouse.state import NAME_BINDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.ddl.statement import Statement
    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.table_work import TableWork
    from pipeline.model.messages import Messages, Part
    from pipeline.model.places import Partition
    from pipeline.warehouse.pairs import Place, TablePair

MEMBERS_UNKNOWN = "MEMBERS_UNKNOWN"
Entry = tuple[int, int, "SeenVersion | Statement"]


@dataclass(frozen=True, slots=True)
class TableByCommitTs:
    """`TableOrdering`."""

    context: PipelineContext
    parts: tuple[Part, ...] = ()
    """Under which names at which times the rows stand; none: under the table's own (a redrive)."""
    bindings: tuple[StoredBinding, ...] = ()
    """The names that a pair which is yet to be made has had."""
    partners: Mapping[int, str] = field(default_factory=dict)
    """By commit ts of an EXCHANGE PARTITION: the other pair (`NamedTables.partners`)."""
    deliveries: Sequence[Place] = ()
    """Where its rows, which have no key, begin to be sent again."""
    ambiguous: str = ""
    """A statement that is not understood and came before the pair was made, or noted an exchange."""
    takes_pending: bool = False
    ended: bool = False
    """Whether the source has dropped it, though no pair was made."""

    def times(self, work: TableWork) -> tuple[int, int] | None:
        """See `TableOrdering.times`."""
        placeable, versions = max((part.until for part in self.parts), default=EVER), work.messages.versions
        low = min((seen.since for seen in versions), default=0)
        return low, max((min(seen.until, placeable) for seen in versions), default=EVER)

    def why_not_created(self, work: TableWork) -> str:
        """See `TableOrdering.why_not_created`."""
        return why_not_created(self.context.tables, self.context.records, work.messages.table)

    def evolved(self, work: TableWork, pair: TablePair | None) -> EvolvedLayout:
        """See `TableOrdering.evolved`."""
        layout = pair.layout if pair else Layout(before=self.context.protocol.sends_before)
        evolved = EvolvedLayout(layout, unclear=self.ambiguous)
        for commit_ts, _, entry in _timeline(work):
            since = commit_ts
            if isinstance(entry, SeenVersion):
                if not evolved.layout.columns:
                    evolved = replace(evolved, layout=replace(evolved.layout, ddl_at=max(0, commit_ts)))
                since = key.holds_after(evolved.layout, commit_ts)
                has_rows = entry.unlike and pair is not None and pair.ends
                unfit = entry.unfit or ("" if has_rows else entry.unlike)
                evolved = self._met(evolved, entry)
                evolved = replace(evolved, unclear=evolved.unclear or ("" if work.forced else unfit))
            else:
                evolved = self._applied(evolved, entry, forced=work.forced)
            evolved = replace(evolved, layout=key.noted(evolved.layout, since))
        shown = _shown(pair)
        stored = pair.layout if pair else Layout()
        return replace(evolved, layout=let_leave(forgotten(evolved.layout, shown), stored, shown))

    def _met(self, evolved: EvolvedLayout, seen: SeenVersion) -> EvolvedLayout:
        layout, notes, met = evolved.layout, evolved.notes, evolved.met
        met_version, head = layout.version(seen.version.version), newest(layout)
        if met_version is None:
            met |= {seen.version.version}
            notes = (*notes, *_unnamed(layout, seen))
        by_time = self.context.protocol.is_newest(seen)
        if seen.key_only:
            layout = meet_key(layout, seen.version)
        else:
            late = seen.since <= layout.ddl_at if by_time else seen.version.version < (head or 0)
            stale = (met_version is None and head is not None and late) or seen.since <= layout.altered_at
            layout, more = meet(layout, seen.version, self.context.policy, stale=stale)
            notes = (*notes, *more)
        if by_time and key.is_of_now(layout, seen):
            layout = keyed_as(layout, seen.version)
        layout = layout if met_version else layout.over_time(replace(layout.by_commit_ts, met_at=layout.ddl_at))
        return replace(evolved, layout=layout, notes=notes, met=met)

    def _applied(self, evolved: EvolvedLayout, statement: Statement, *, forced: bool) -> EvolvedLayout:
        ddl = statement.ddl
        if ddl.commit_ts <= evolved.layout.ddl_at:
            return evolved
        layout, notes = columns.on_layout(evolved.layout, statement, self.context.policy)
        other = self.partners.get(ddl.commit_ts, "")
        layout, why = partitions.on_layout(layout, statement, other)
        if why and not forced:
            reason = f"{NOT_UNDERSTOOD}: {why}: {ddl.sql}"
            partner = self.context.tables.by_uuid(other)
            partners = (*evolved.partners, *([(partner, reason)] if partner else []))
            evolved = replace(evolved, unclear=evolved.unclear or reason, partners=partners)
        if ddl.version is not None:
            layout, more = meet(layout, ddl.version, self.context.policy)
            notes = (*notes, *more)
        return replace(evolved, layout=layout, notes=(*evolved.notes, *notes))

    def create(self, work: TableWork, evolved: EvolvedLayout, noted: Mapping[str, str]) -> TablePair:
        """See `TableOrdering.create`."""
        own = {**noted, **self.noted(evolved, State.LIVE), **NAME_BINDINGS.entry(self.bindings)}
        return self.context.tables.create(work.messages.table, evolved.layout, 0, own)

    def noted(self, evolved: EvolvedLayout, state: State) -> Mapping[str, str]:
        """See `TableOrdering.noted`: that it is to be held, since a second try finds nothing unclear in the layout."""
        return written_state(State.HELD, evolved.unclear) if evolved.unclear and state is State.LIVE else {}

    def settle(self, work: TableWork, pair: TablePair, evolved: EvolvedLayout) -> None:
        """See `TableOrdering.settle`."""
        self._note_places(work, pair)
        if evolved.unclear:
            if pair.state is State.LIVE:
                self.context.tables.set_state(pair, State.HELD, evolved.unclear)
            held_names.forget(self.context.records, pair.source)

    def _note_places(self, work: TableWork, pair: TablePair) -> None:
        """Note where redeliveries begin, and of a renamed pair the streams of rows that come after the RENAME.

        What is redriven stood somewhere once.
        """
        if self.deliveries:
            self.context.tables.note_deliveries(pair, self.deliveries)
        if pair.renamed_at:
            new = (seen for seen in work.messages.versions if seen.since > pair.renamed_at)
            streams = {at.stream for seen in new for at in seen.last if at.stream in work.routed.stream_ids}
            self.context.tables.note_streams(pair, {work.routed.stream_ids[stream] for stream in streams})

    def within(self, work: TableWork, events: DataFrame, ranges: Ranges | None, *, pending: bool) -> DataFrame:
        """See `TableOrdering.within`."""
        protocol = self.context.protocol
        mine = protocol.where_named(self.parts) if self.parts else protocol.where(work.messages)
        events = _inside(events, ranges or {}).where(mine)
        return events if pending else events.where(~F.col(WAS_PENDING))

    def records(self, work: TableWork) -> Column:
        """See `TableOrdering.records`."""
        return pending.is_copy_of(work.statements) | pending.rows_of(self.context.protocol, self.parts)

    def ranges(self, work: TableWork, batch: Messages) -> Ranges:
        """See `TableOrdering.ranges`: anywhere."""
        return {at: (batch.starts[at], batch.ends[at]) for at in work.messages.partitions}

    def status(self, pair: TablePair | None) -> str:
        """See `TableOrdering.status`: those of a table that was dropped are superseded by that."""
        return SUPERSEDED if pair is not None and pair.state is State.DROPPED else OPEN

    def hold(self, work: TableWork, pair: TablePair | None, ends: Mapping[Partition, int], reason: str) -> int:
        """See `TableOrdering.hold`: what has waited stays where it is."""
        if pair is not None:
            self._note_places(work, pair)
        beyond = {partition: (end, 2**62) for partition, end in ends.items()}
        rows = _inside(work.routed.frame, beyond).where(self.records(work) & ~F.col(WAS_PENDING))
        gone = self.ended if pair is None else pair.state is State.DROPPED
        return pending.write_held(self.context, rows, work, reason, DROPPED if gone else "open")

    def publish(self, work: TableWork, pair: TablePair | None) -> TableResult:
        """See `TableOrdering.publish`: all tables show their changes together (`publishing`)."""
        return TableResult(str(work.messages.table if pair is None else pair.source))


def _inside(frame: DataFrame, ranges: Ranges) -> DataFrame:
    """The events of these ranges, those of partitions that are not named, and all that has waited."""
    position = F.col(POSITION)
    outside = any_of(stands_in(at) & ~position.between(low, high - 1) for at, (low, high) in ranges.items())
    return frame.where(F.col(WAS_PENDING) | ~outside) if ranges else frame


def _timeline(work: TableWork) -> list[Entry]:
    """Versions and statements in the order in which they hold; a version holds just before its first row."""
    seen: list[Entry] = [(version.since - 1, 1, version) for version in work.messages.versions]
    applied: list[Entry] = [(statement.commit_ts, 0, statement) for statement in work.statements]
    return sorted([*seen, *applied], key=_moment)


def _moment(entry: Entry) -> tuple[int, int, int]:
    commit_ts, kind, what = entry
    return commit_ts, kind, what.version.version if isinstance(what, SeenVersion) else 0


def _shown(pair: TablePair | None) -> int:
    """The commit ts up to which the current table needs to know nothing any more."""
    if pair is None:
        return 0
    return EVER if pair.current is None else pair.by_commit_ts.cut


def _unnamed(layout: Layout, seen: SeenVersion) -> Iterator[Note]:
    """A note for each column whose values stay numbers, the first time that the table has it so."""
    has = {(folded(column.source), column.source_type) for column in layout.columns}
    for column in seen.unnamed:
        if (folded(column.name), column.source_type) not in has:
            why = f"the members of this {column.tidb_type} are not known: its values are kept as numbers"
            yield Note(MEMBERS_UNKNOWN, column.name, why)
