"""The ordering by commit ts: all tables show one consistent point (docs/explanation/ordering.md)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.ddl.name_history import NameHistory
from pipeline.ingest import accounting, reading
from pipeline.ingest.batch import Writers
from pipeline.ingest.by_commit_ts import namesakes, pending_records, redeliveries
from pipeline.ingest.by_commit_ts.batch_progress import progress_of
from pipeline.ingest.by_commit_ts.names import NamesByCommitTs, blocked_tables, dead_letters_follow, history_rows
from pipeline.ingest.by_commit_ts.placing import TABLE_REMOVED, PlacedBatch, place
from pipeline.ingest.by_commit_ts.publishing import Publishing
from pipeline.ingest.by_commit_ts.table_ordering import TableByCommitTs
from pipeline.ingest.by_commit_ts.timeline import about, classified
from pipeline.ingest.ddl.applier import DdlApplier
from pipeline.ingest.phases import LandedBatch, PlannedBatch
from pipeline.ingest.reading import EventReader, describe_job
from pipeline.ingest.run_state import ChangefeedProgress
from pipeline.ingest.set_aside import pending
from pipeline.ingest.set_aside.pending import DDL_PENDING, WAS_PENDING
from pipeline.ingest.table_work import TableResult, TableWork
from pipeline.model.conditions import any_of
from pipeline.model.frontier import watermarks_of
from pipeline.model.messages import EVER
from pipeline.model.names import TableName
from pipeline.protocols.sifted import without_impossible_progress
from pipeline.warehouse.consistent_points import Lag
from pipeline.warehouse.name_bindings import recorded_bindings
from pipeline.warehouse.pairs import State, StoredBinding
from pipeline.warehouse.small_batch import SmallBatch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import ExitStack

    from pyspark.sql import Column, DataFrame

    from pipeline.ddl.statement import Statement
    from pipeline.ingest.by_commit_ts.batch_progress import BatchProgress
    from pipeline.ingest.by_commit_ts.pending_records import RecordsBefore
    from pipeline.ingest.by_commit_ts.routing import PlacedRows
    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.phases import CommittedBatch
    from pipeline.ingest.routed import RawBatch, RoutedBatch
    from pipeline.ingest.table_writer import TableWriter
    from pipeline.warehouse.consistent_points import Shown


@dataclass(frozen=True, slots=True)
class PlanByCommitTs(PlannedBatch):
    """The statements that are applied, and how far the tables are brought.

    `unseen`: after this commit ts another stream may yet tell of a RENAME; None where there is no other stream.
    """

    names: NamesByCommitTs
    progress: BatchProgress
    alike: namesakes.Namesakes
    unseen: int | None


@dataclass(frozen=True, slots=True)
class LandedByCommitTs(LandedBatch):
    """With what was placed, and the tables that show something new."""

    placed: PlacedBatch
    shown: tuple[Shown, ...]
    newly_pending: int
    still: Column | None
    """Which of the records stay pending that were pending before; None: none does."""
    leaves_some: bool
    """Whether the next batch can do something of it, and needs nothing new for that."""


@dataclass(slots=True)
class ByCommitTs:
    """`BatchOrdering` of one batch."""

    context: PipelineContext
    _before: RecordsBefore | None = None
    """What was pending before the batch."""
    _given_up: Column | None = None
    """Rows that nothing has described, and that are dead letters: of a table that a person has released."""

    def reader(self) -> EventReader:
        """See `BatchOrdering.reader`. The frame is kept: to see what an event is costs as much as to read its row."""
        prepare = self.context.protocol.prepare
        return EventReader(
            prepared=lambda raw: prepare(raw.select(*self.context.source.columns)).withColumn(
                WAS_PENDING, F.lit(False)
            ),
            sifted=lambda messages, _: without_impossible_progress(messages),
            keeps=lambda _tables: True,
            set_aside=lambda: pending.places_set_aside(self.context),
            left=lambda messages, left: replace(
                messages, tables=left.tables, refused=left.refused, ddl=left.ddl, unknown=left.unknown
            ),
            may_have_pending=self.context.run.has_pending,
        )

    def read(self, raw: RawBatch, resources: ExitStack) -> RoutedBatch:
        """See `BatchOrdering.read`."""
        context, described = self.context, self.context.descriptions
        reader = self.reader()
        routed = reading.read_new(context, raw, resources, reader)
        if context.run.foreseen and any(context.records.held_counts().values()):
            routed = replace(routed, frame=pending.not_kept(context, routed.frame), small=None)
        described.learn(routed.messages.described)
        describe_job(context, "rows that were pending")
        before = self._before = pending_records.read(context, resources) if context.run.has_pending else None
        if before is None:
            return routed
        described.learn(before.messages.described)
        messages = routed.messages
        if messages.unknown and before.messages.described:
            again = reading.routed(context, routed.frame, dict(routed.stream_ids), reader)
            messages = replace(again, starts=messages.starts, ends=messages.ends, events=messages.events)
        from_pending, self._given_up = pending_records.given_up(context.protocol, before.messages, raw.given_up)
        frame, messages = routed.frame.unionByName(before.to_take), pending_records.joined(messages, from_pending)
        events = messages.events + messages.pending_events
        small = SmallBatch.of(context.spark, frame, events, context.run.batch_id)
        return replace(routed, frame=frame, messages=messages, small=small)

    def not_stored(self, frame: DataFrame) -> DataFrame:
        """See `BatchOrdering.not_stored`."""
        return pending.not_yet_stored(self.context, frame) if self.context.run.recovering else frame

    def plan(self, routed: RoutedBatch) -> PlanByCommitTs:
        """See `BatchOrdering.plan`."""
        context, before = self.context, self._before
        context.descriptions.learn(routed.messages.described)
        progress = progress_of(context, routed)
        describe_job(context, "statements")
        ids = {stream.name: stream.id for stream in progress.streams.values()}
        alike = namesakes.Namesakes(ids, before.released if before else frozenset(), context.source.stream_noun)
        from_held = before.ddl if before else frozenset()
        timeline = classified(context, routed.messages, progress.applied_up_to, from_held, alike)
        history = NameHistory.of(recorded_bindings(context.tables, context.records), timeline.recorded)
        names = NamesByCommitTs(context, routed.messages, timeline, history)
        unseen = progress.cut_ts if len(progress.streams) > 1 else None  # a barrier hides nothing that was read
        progress = progress.ended_before(timeline.barrier)
        notes = progress.note(context, routed.batch_id, applies=bool(timeline.now))
        return PlanByCommitTs(routed, DdlApplier(names), notes, names, progress, alike, unseen)

    def land(self, planned: PlanByCommitTs, refused: Mapping[str, int]) -> LandedByCommitTs:
        """See `BatchOrdering.land`: statements first. A row goes to the table that had its name at its commit ts."""
        context, names = self.context, planned.names
        for statement in names.timeline.now:
            describe_job(context, "statements")
            planned.ddl.apply(statement)
            context.step("ddl-applied")
        self._hold_namesakes(planned)
        placed = place(context, planned.routed, names, planned.unseen, late=bool(planned.progress.late))
        tables = Writers(context, placed.routed)
        tables.land([self._work(planned, placed, rows) for rows in placed.rows])
        statements = _statements_to_keep(names)
        newly_pending = self._keep(placed, statements)
        describe_job(context, "dead letters")
        dead_letters_follow(names)
        publishing = Publishing(context, placed.routed, names, planned.progress, tables.writers, placed.pending)
        shown = publishing.publish()
        writers, results, unattributed = tables.outcome(Counter(refused) + Counter(placed.dead_letters))
        results = _with_snapshots(results, shown, placed.of_removed)
        still = self._still(writers, placed, [statement for statement, _, _ in statements])
        return LandedByCommitTs(
            placed.routed, writers, results, unattributed, placed, tuple(shown), newly_pending, still,
            leaves_some=names.timeline.barrier is not None or placed.left_some,
        )  # fmt: skip

    def _hold_namesakes(self, planned: PlanByCommitTs) -> None:
        """Hold the tables of which another stream brings one of the same name."""
        names, of_pending = planned.names, self._before.streams if self._before else {}
        for name, streams in namesakes.joined(namesakes.streams_of(names.messages), of_pending).items():
            until = max(streams.values())
            why = planned.alike.reason(name, names.find(name, until), streams)
            if why:
                names.hold(TableName(*name), why, until)

    def _work(self, planned: PlanByCommitTs, placed: PlacedBatch, mine: PlacedRows) -> TableWork:
        """The part of the batch that belongs to one pair."""
        names, messages, before = planned.names, mine.messages, self._before
        pair, parts = names.pairs.of(mine.table_ref), mine.parts
        drops = [part.until in names.timeline.drops(part.table.key) for part in parts]
        ordering = TableByCommitTs(
            self.context,
            parts,
            tuple(StoredBinding(part.table.schema, part.table.table, part.since, EVER) for part in parts[-1:]),
            names.partners,
            placed.deliveries.of(mine),
            names.pairs.ambiguous.get(mine.table_ref, ("", 0))[0],
            takes_pending=before is not None and any(part.table.key in before.names for part in parts),
            ended=pair is None and any(drops),
        )
        statements = about(names.history, mine.table_ref, names.timeline.now)
        forced = before is not None and messages.table.key in before.released
        return TableWork(placed.routed, messages, statements, pair, ordering, forced)

    def _keep(self, placed: PlacedBatch, statements: Sequence[tuple[Statement, TableName, str]]) -> int:
        """Keep what cannot be placed yet, until a batch can place it; how many records are new among it."""
        if not (placed.pending or statements):
            return 0
        describe_job(self.context, "pending rows")
        raw, batch_id = self.not_stored(placed.routed.frame), placed.routed.batch_id
        newly_pending = pending.keep(self.context, raw, batch_id, placed.pending, statements)
        if newly_pending:
            self.context.step("pending-held")
        return newly_pending

    def _still(
        self, writers: Sequence[TableWriter], placed: PlacedBatch, statements: Sequence[Statement]
    ) -> Column | None:
        """Which pending records stay pending; None: none does."""
        wanted = [writer.work.ordering.records(writer.work) for writer in writers if writer.has_held]
        wanted += [pending.rows_of(self.context.protocol, tuple(placed.pending))] if placed.pending else []
        wanted += [pending.is_copy_of(statements)] if statements else []
        if not wanted:
            return None
        return any_of(wanted) & ~F.coalesce(any_of([self._given_up, placed.undescribed]), F.lit(False))

    def commit(self, planned: PlanByCommitTs, landed: LandedByCommitTs) -> CommittedBatch:
        """See `BatchOrdering.commit`."""
        context, progress, batch_id = self.context, planned.progress, planned.routed.batch_id
        books = accounting.Books(context, landed, history_rows(planned.names, planned.ddl.history))
        books.check_held(landed.newly_pending, [str(part.table) for part in landed.placed.pending])
        books.write()
        announced = watermarks_of(context.source.progress(landed.routed.messages))
        watermarks = {**context.run.ledger.watermarks, **announced}
        living = (table for table in context.tables if table.state is not State.DROPPED)
        late = frozenset(t.uuid for t in living if progress.is_late(t, landed.routed.stream_ids))
        also = ["DDL events of an unfinished batch are applied"] if progress.is_ahead else []
        lag = Lag(tuple(landed.placed.pending), late, also, context.source.stream_noun)
        context.records.supersede_torn(context.source.sent_again(context.records.torn_files))
        recovering = context.run.recovering
        level = context.cuts.exact(batch_id, progress.cut_ts, landed.shown, lag, recovering=recovering)
        context.step("cuts-appended")
        self._write_schemas(batch_id)
        taken = self._take_pending(landed)
        how_far = ChangefeedProgress(progress.frontiers, progress.read, landed.placed.deliveries.last_watermarks)
        closing = accounting.Closing(level, watermarks, how_far, taken, landed.leaves_some, progress.is_ahead)
        return books.close(closing, lambda: pending.places_set_aside(context))

    def _write_schemas(self, batch_id: int) -> None:
        described = self.context.descriptions
        rows = described.unwritten()
        if rows:
            self.context.records.write("schemas", batch_id, rows)
            described.written()
            self.context.step("schemas-appended")

    def _take_pending(self, landed: LandedByCommitTs) -> int:
        """Note that the pending records which have been placed are pending no more; how many."""
        context, before, still, taken = self.context, self._before, landed.still, 0
        if before is not None:
            stays = F.lit(False) if still is None else F.coalesce(still, F.lit(False))
            taken = before.frame.where(~stays).count()
            pending.let_in(context, before.frame, still)
            if before.stored is not None and still is not None:
                pending.let_in(context, before.stored, F.lit(False))
            context.step("pending-released")
        context.run.has_pending = landed.newly_pending > 0 or still is not None
        if landed.placed.deliveries.of_pending and not context.run.has_pending:
            redeliveries.remember(context.records, {})
        return taken


def _statements_to_keep(names: NamesByCommitTs) -> list[tuple[Statement, TableName, str]]:
    """Those that go to `_pipeline.held`: each with the name of its table after this batch, and the reason."""
    later = [(s, s.ddl.table, f"{DDL_PENDING}: {s.ddl.sql}") for s in names.timeline.later]
    blocked = [(s, t.source, why) for s, t, why in blocked_tables(names) if t.state is not State.DROPPED]
    return [*later, *blocked]


def _with_snapshots(results: Sequence[TableResult], shown: Sequence[Shown], of_removed: int) -> tuple[TableResult, ...]:
    """The results with the snapshots that tables show, also of tables without rows; dead letters of removed tables."""
    tables_with_rows = {result.table for result in results}
    snapshots = {str(table.source): snapshot for table, snapshot in shown}
    others = [TableResult(name, snapshot=new) for name, new in snapshots.items() if name not in tables_with_rows]
    others += [TableResult(TABLE_REMOVED, dead_letters=of_removed)] if of_removed else []
    return (*(replace(result, snapshot=snapshots.get(result.table)) for result in results), *others)
