"""The micro-batch's `Port` by commit ts: all tables show one consistent point (decision 004)."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F

from pipeline.model.conditions import any_of
from pipeline.model.messages import EVER, Ordering, Part, Undecodable
from pipeline.model.names import TableName
from pipeline.model.places import POSITION, Partition, stands_in
from pipeline.observe.logs import bound
from pipeline.streaming import cuts, frontier, namesakes, redeliveries, routing
from pipeline.streaming.altered import may_be_written
from pipeline.streaming.batch import Epoch, TableResult
from pipeline.streaming.commit_ts_writer import CommitTsTableWriter
from pipeline.streaming.ddl_applier import DdlApplier, remove_dropped
from pipeline.streaming.frontier import NEVER, EarlierTry, Frontier, Recorded
from pipeline.streaming.name_bindings import GONE
from pipeline.streaming.set_aside import pending
from pipeline.streaming.set_aside.dead_letters import set_aside_refused
from pipeline.streaming.set_aside.pending import WAS_PENDING
from pipeline.streaming.spark_batch import SparkBatch
from pipeline.streaming.tables_view import write_tables_view
from pipeline.warehouse import advance
from pipeline.warehouse.exchange import Exchange, exchange, exchanges
from pipeline.warehouse.iceberg import MAIN
from pipeline.warehouse.pairs import State, StoredBinding
from pipeline.warehouse.records import SUPERSEDED
from pipeline.warehouse.state import OPERATION, TRIED
from pipeline.warehouse.stored import Tried

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.model.columns import CommitTs
    from pipeline.model.messages import Ddl, DdlIdentity, Messages, SeenVersion, TableMessages, Unknown
    from pipeline.model.places import PartitionId
    from pipeline.sources.source import Planned, Stream
    from pipeline.streaming.batch import Outcome
    from pipeline.streaming.context import Ledger, PipelineContext
    from pipeline.streaming.epochs import Statement
    from pipeline.streaming.routing import Placed
    from pipeline.streaming.spark_batch import Row
    from pipeline.warehouse.descriptions import Descriptions
    from pipeline.warehouse.pairs import Place, TablePair

TABLE_REMOVED = "TABLE_REMOVED"
SCHEMA_UNKNOWN = "SCHEMA_UNKNOWN"
Shown = tuple["TablePair", "int | None"]


@dataclass
class CommitTsBatch(SparkBatch):
    """One micro-batch. `raw` is prepared: the new records, and the pending ones."""

    applier: DdlApplier = field(init=False)
    frontiers: dict[Partition, Frontier] = field(default_factory=dict)
    resolved: Frontier = NEVER
    """How far the tables are to be brought: no further than to a barrier."""
    read_frontier: Frontier = NEVER
    """How far all partitions have been read: what the ledger says."""
    late_frontier: Frontier = NEVER
    """How far the late streams have been read."""
    ahead: Frontier = NEVER
    """How far a try that died may have applied DDL events, if it had read more than this one."""
    late: frozenset[str] = frozenset()
    """Streams that have not been read as far as the others: they came later, with a history of their own."""
    joined: frozenset[str] = frozenset()
    """Streams that are new, and not late."""
    gives_up: tuple[str, str] | None = None
    """A table (`TableName.key`) that a person has released from waiting for a schema."""
    given_up: Column | None = None
    """Rows that nothing has described, and that are dead letters: of that table, and of those that were dropped."""
    undone: list[Exchange] = field(default_factory=list)
    """Exchanges whose time has not come for both tables."""
    placed: dict[int, Placed] = field(default_factory=dict)
    """By the identity of its messages."""
    deliveries: dict[int, list[Place]] = field(default_factory=dict)
    """Where rows without a key begin to be sent again, by the identity of their table's messages."""
    pending_deliveries: dict[tuple[str, str], set[Place]] = field(default_factory=dict)
    """The same of rows that wait, by the name that they have (`TableName.key`)."""
    last_watermarks: dict[Partition, CommitTs] = field(default_factory=dict)
    """The last watermark of each partition, as far as it is known."""
    pending_parts: dict[Part, str] = field(default_factory=dict)
    """Rows that are pending after this batch, with the reason."""
    pending_frame: DataFrame | None = None
    """The records that were pending before this batch, prepared."""
    already_stored: DataFrame | None = None
    """Those of them that an unfinished try has appended: they are let in, whatever this try finds."""
    pending_streams: namesakes.Streams = field(default_factory=dict)
    """In which streams the pending rows are."""
    pending_names: frozenset[tuple[str, str]] = frozenset()
    ddl_from_held: frozenset[DdlIdentity] = frozenset()
    newly_pending: int = 0
    """Records that are pending since this batch."""
    pending_taken: int = 0
    """Pending events that this batch has taken."""
    forced: frozenset[tuple[str, str]] = frozenset()
    """Tables whose rows a person wants in, whatever the verdict on them is."""
    shown: list[Shown] = field(default_factory=list)
    """Tables whose snapshot changed, with the new one."""
    of_removed: int = 0
    """Dead letters of tables that are not in the warehouse any more."""

    @property
    def described(self) -> Descriptions:
        """What is known of versions."""
        if self.context.descriptions is None:
            raise AssertionError("the ordering by commit ts needs what is known of versions")
        return self.context.descriptions

    @property
    def leaves_some(self) -> bool:
        """See `SparkBatch.leaves_some`: statements whose time has come."""
        return self.applier.barrier is not None or bool(self.applier.left_over)

    def _prepared(self, raw: DataFrame) -> DataFrame:
        return super()._prepared(raw).withColumn(WAS_PENDING, F.lit(False))

    def _may_have_pending(self) -> bool:
        """As long as anything may wait."""
        return self.context.has_pending

    def _is_kept(self, tables: int) -> bool:
        """Always: to see what each event is costs as much as to read its row."""
        del tables
        return True

    def read(self) -> Messages:
        """See `Port.read`: what is new, and what has waited."""
        return frontier.without_impossible_progress(self._read())

    def _read(self) -> Messages:
        messages = super().read()
        self.stream_ids = self.stream_ids or self.context.source.stream_ids()
        self.described.learn(messages.described)
        self._describe_job("rows that were pending")
        raw = pending.raw_records(self.context.records) if self.context.has_pending else None
        if raw is None:
            return messages
        frame = self.context.protocol.prepare(raw).withColumn(WAS_PENDING, F.lit(True))
        # as it is now: what begins to wait is no part of it
        self.pending_frame = frame.persist(StorageLevel.MEMORY_AND_DISK_DESER)
        self.pending_frame.count()
        self.forced = pending.released(self.context.records)
        if self.context.recovering:
            frame = pending.not_yet_stored(self.context, self.pending_frame)
            self.already_stored = pending.without(self.pending_frame, frame)
        else:
            frame = self.pending_frame
        from_pending = self.context.protocol.read(frame)
        self.pending_streams = namesakes.streams_of(from_pending)
        self.described.learn(from_pending.described)
        if messages.unknown and from_pending.described:
            messages = replace(self._routed(self.raw), starts=messages.starts, ends=messages.ends, rows=messages.rows)
        self.raw = self.raw.unionByName(frame)
        self.pending_names = frozenset(table.table.key for table in from_pending.tables)
        self.ddl_from_held = frozenset(ddl.identity for ddl in from_pending.ddl)
        return _joined(messages, self._without_hope(from_pending))

    def _without_hope(self, from_pending: Messages) -> Messages:
        """Rows that a person has released from waiting for their schema are dead letters: the others go on."""
        given_up = [one for one in from_pending.unknown if one.table.key == self.gives_up]
        if not given_up:
            return from_pending
        refused = [self._undescribed(one, "released", one.where) for one in given_up]
        self.given_up = any_of(one.where for one in given_up)
        unknown = tuple(one for one in from_pending.unknown if one not in given_up)
        return replace(from_pending, refused=(*from_pending.refused, *refused), unknown=unknown)

    def _undescribed(self, rows: Unknown, when: str, where: Column) -> Undecodable:
        why = f"version {rows.version} of {rows.table} had not been described when the table was {when}"
        header = self.context.protocol.header()
        return Undecodable(SCHEMA_UNKNOWN, why, where, rows.rows, header, {rows.table: rows.rows})

    def epochs(self, messages: Messages) -> Iterator[Epoch]:
        """See `Port.epochs`: first the statements whose time has come, then the rows, by what names mean now."""
        streams = self.context.source.streams()
        committed = self.context.ledger.committed.of(streams)
        ends = {**committed, **self._planned_ends(), **messages.ends}
        self._see_progress(messages, streams, ends)
        # a try that died may have read further, and shown that: all of it stands in the changes tables
        self.resolved = max(self.read_frontier, self._shown())
        self._describe_job("statements")
        alike = namesakes.Namesakes(
            {stream.name: stream.id for stream in streams.values()}, self.forced, self.context.source.stream_noun
        )
        self.applier = DdlApplier.begin(self.context, messages, self._applied_up_to, self.ddl_from_held, alike)
        self.applier.late = bool(self.late)
        if len(streams) > 1:
            self.applier.unseen = frontier.commit_ts_of(self.resolved)
        self._end_before(self.applier.barrier)
        self._note_try(ends, streams)
        yield Epoch(tuple(statement.ddl for statement in self.applier.applied), ())
        self._hold_namesakes(alike)
        self.applier.left_over = self._left_over() if self.context.recovering else {}
        self.pending_parts = routing.pending_parts(self.applier)
        self._set_aside_undescribed(routing.undescribed(self.applier))
        placed = routing.placed(self.applier)
        gone = [one for one in placed if one.table_ref == GONE]
        self._set_aside_gone(gone)
        self.placed = {id(one.messages): one for one in placed if one.table_ref != GONE}
        self._see_deliveries()
        yield Epoch((), tuple(one.messages for one in self.placed.values()))

    def _shown(self) -> Frontier:
        """Up to where the table that has come furthest shows its changes."""
        return max((frontier.closed_by_watermark(table.cut) for table in self.context.tables), default=NEVER)

    def _see_progress(self, messages: Messages, streams: Mapping[str, Stream], ends: Mapping[Partition, int]) -> None:
        """Find how far all streams have been read with this batch, and which of them are late."""
        ledger, source = self.context.ledger, self.context.source
        partitions = {name: [Partition(name, n) for n in stream.partitions] for name, stream in streams.items()}
        reached = {at: ends.get(at, 0) for members in partitions.values() for at in members}
        unread = source.unread(reached)
        if self.planned is not None:  # each that had records then is in the plan with one at least: others are newer
            unread = frozenset(at for at in unread if self.planned.end.get(at, 0) > 0)
        begun = [at for at, end in ledger.committed.of(streams).items() if end > 0]
        watermarks = source.progress(messages)
        progress = frontier.reached(
            Recorded(ledger.frontiers, ledger.resolved, begun),
            frontier.progress(ledger.frontiers, watermarks, messages.ddl),
            frontier.oldest_of(messages, watermarks),
            partitions,
            unread,
            self._tried({(streams[at.stream].id, at.number): at for at in reached}, reached),
        )
        self.frontiers, self.read_frontier, self.joined = progress.frontiers, progress.resolved, progress.joined
        self.late, self.late_frontier = progress.late, progress.late_frontier

    def _tried(self, partitions: Mapping[PartitionId, Partition], reached: Mapping[Partition, int]) -> EarlierTry:
        """How far a try that died was resolved, and the partitions that are complete up to there where it ended.

        `partitions`: by identity those of streams that are there. `reached`: where this try ends in each.

        This try may find less of itself: a partition that had been read to its end has got more since then. Nothing is
        known where this one has read less than the other (the checkpoint is lost, and batches are shorter now): DDL
        events that the other one applied are ahead of it then.
        """
        if not self.context.recovering:
            return EarlierTry()
        tried = self.context.records.tables["batches"].property_of(TRIED)
        if not tried or tried.batch < self.context.ledger.unfinished:
            return EarlierTry(shown=self._shown())
        if any(at not in partitions or reached[partitions[at]] < end for at, end in tried.ends.items() if end):
            self.ahead = Frontier(tried.resolved)
            return EarlierTry(shown=self._shown())
        complete = frozenset(partitions[at] for at in tried.ends if at in partitions)
        return EarlierTry(Frontier(tried.resolved), complete, self._shown())

    def _note_try(self, ends: Mapping[Partition, int], streams: Mapping[str, Stream]) -> None:
        """Let a second try know how far this one has read, where tables alone do not tell it.

        The tables do not tell it once DDL events are applied, and never tell that a stream was new and in time.
        What an earlier try noted stays as long as this one has not read as far.
        """
        if (self.applier.applied or self.joined) and self.ahead <= self.read_frontier:
            in_time = [at for at in self.frontiers if at.stream in streams and at.stream not in self.late]
            places = {(streams[at.stream].id, at.number): ends.get(at, 0) for at in in_time}
            tried = Tried(self.batch_id, self.read_frontier, places)
            self.context.records.tables["batches"].set_properties(TRIED.entry(tried))

    def _hold_namesakes(self, alike: namesakes.Namesakes) -> None:
        """Hold the tables of which another stream brings one of the same name."""
        streams_by_name = namesakes.joined(namesakes.streams_of(self.applier.messages), self.pending_streams)
        for name, streams in streams_by_name.items():
            until = max(streams.values())
            why = alike.rows(name, self.applier.pair(name, until), streams)
            if why:
                self.applier.hold_rows(name, why, until)

    def _left_over(self) -> dict[Part, str]:
        """Rows that a try of this batch held back and then died: its appends say how far they went, by position.

        So what they left is found neither there nor beyond. It waits for the next batch, as it would have then.
        """
        raw, parts = self.raw.where(~F.col(WAS_PENDING)), {}
        for table in self.context.tables:
            begun = {at: (self.context.ledger.ends.get(at, 0), end) for at, end in table.ends.items()}
            if all(low >= end for low, end in begun.values()):
                continue
            high = advance.appended_up_to(table, self.context.ledger.unfinished)
            if high is None:
                continue
            within = any_of(
                stands_in(Partition(name, number)) & (F.col(POSITION) < end)
                for (stream, number), (_, end) in begun.items()
                for name, identity in self.stream_ids.items() if identity == stream
            )  # fmt: skip
            for binding in table.bindings:
                if binding.until > high:
                    part = Part(TableName(binding.schema, binding.table), max(binding.since, high), binding.until)
                    if not raw.where(pending.rows_of(self.context.protocol, [part]) & within).isEmpty():
                        parts[part] = f"{pending.DDL_PENDING}: an earlier try of the batch has left them"
        return parts

    def _see_deliveries(self) -> None:
        """Find where rows without a key begin to be sent again, pending ones too: it shows only when they arrive."""
        keyless = [one.messages for one in self.placed.values() if redeliveries.has_keyless_rows(one.messages)]
        tables = [table for table in self.context.tables if redeliveries.is_keyless(table.layout)]
        pending_by_name: dict[tuple[str, str], list[Part]] = {}
        for part in self.pending_parts:
            pending_by_name.setdefault(part.table.key, []).append(part)
        if self.context.has_pending or pending_by_name:
            self.pending_deliveries = redeliveries.remembered(self.context.records)
        ledger, messages = self.context.ledger, self.applier.messages
        if not (keyless or tables or pending_by_name):
            self.last_watermarks = {
                partition: ts
                for partition, ts in ledger.last_watermarks.items()
                if partition not in messages.watermarks
            }
            return
        self._describe_job("rows that are sent again")
        watermarks = redeliveries.watermarks(self.raw, self.context.protocol, ledger.last_watermarks)
        self.last_watermarks = {**ledger.last_watermarks, **watermarks.newest}
        for table in tables if watermarks.restarts else ():
            self.context.tables.note_deliveries(table, watermarks.restarts)
        names = list(pending_by_name)
        parts = [*(messages.parts for messages in keyless), *pending_by_name.values()]
        begun = (
            redeliveries.redelivery_starts(self.raw, self.context.protocol, parts, ledger.frontiers) if parts else {}
        )
        self.deliveries = {
            id(table): [*begun.get(number, ()), *watermarks.restarts] for number, table in enumerate(keyless)
        }
        news = {name: {*begun.get(number, ()), *watermarks.restarts} for number, name in enumerate(names, len(keyless))}
        before = self.pending_deliveries
        self.pending_deliveries = before | {
            name: before.get(name, set()) | places for name, places in news.items() if places
        }
        if self.pending_deliveries != before:
            redeliveries.remember(self.context.records, self.pending_deliveries)

    def _end_before(self, barrier: Statement | None) -> None:
        """Bring the tables no further than to a statement that waits for the next batch."""
        if barrier is None:
            return
        closed = frontier.closed_by_watermark(barrier.ddl.commit_ts)
        self.late_frontier = min(self.late_frontier, closed)
        if not any(at.stream in self.late for at in barrier.ddl.at):
            self.resolved = min(self.resolved, closed)

    def _applied_up_to(self, ddl: Ddl) -> Frontier:
        """Up to which frontier a statement is applied."""
        return self.late_frontier if any(at.stream in self.late for at in ddl.at) else self.resolved

    def _set_aside_gone(self, gone: Sequence[Placed]) -> None:
        """Make dead letters of rows of tables that are not there any more: they are redeliveries."""
        header = self.context.protocol.header()
        refused = [
            Undecodable(
                TABLE_REMOVED,
                "the table that had this name then is gone: removed here (warehouse.drop_table: drop), or never known",
                pending.rows_of(self.context.protocol, rows.messages.parts),
                rows.messages.rows,
                header,
            )
            for rows in gone
        ]
        if refused:
            self._describe_job("dead letters")
            dead_letters = set_aside_refused(self.context, self.raw, refused, self.batch_id, SUPERSEDED)
            self.of_removed = sum(dead_letters.values())

    def _set_aside_undescribed(self, rows: Sequence[tuple[Unknown, Part]]) -> None:
        """Make dead letters of undescribed rows of dropped tables: no message will describe them any more."""
        protocol = self.context.protocol
        refused = [
            self._undescribed(unknown_rows, "dropped", unknown_rows.where & pending.rows_of(protocol, [part]))
            for unknown_rows, part in rows
        ]
        if not refused:
            return
        dead_letters = set_aside_refused(self.context, self.raw, refused, self.batch_id, SUPERSEDED)
        self.dead_letters = Counter(self.dead_letters) + Counter(dead_letters)
        wheres = [F.coalesce(undecodable.where, F.lit(False)) for undecodable in refused]
        self.given_up = any_of([self.given_up, *wheres])
        self.raw = self.raw.where(~any_of(wheres))

    def _less(self, messages: Messages, left: Messages) -> Messages:
        """As by offset; but statements that wait come with all else that waits."""
        return replace(super()._less(messages, left), ddl=left.ddl, unknown=left.unknown)

    def _places_set_aside(self) -> DataFrame:
        return pending.places_set_aside(self.context)

    def _not_stored(self, raw: DataFrame) -> DataFrame:
        return pending.not_yet_stored(self.context, raw) if self.context.recovering else raw

    def apply(self, ddl: Ddl) -> None:
        """See `Port.apply`."""
        self._describe_job("statements")
        self.applier.apply(next(s for s in self.applier.applied if s.ddl is ddl))

    def _writer(self, messages: TableMessages) -> CommitTsTableWriter:
        table_ref = self.placed[id(messages)].table_ref
        pair = self.applier.pair_of(table_ref)
        statements = self.applier.statements_of(table_ref)
        writer = CommitTsTableWriter(self.context, self.raw, self.batch_id, messages, self.stream_ids, statements, pair)
        writer.bindings = tuple(
            StoredBinding(part.table.schema, part.table.table, part.since, EVER) for part in messages.parts[-1:]
        )
        writer.partners = self.applier.partners
        writer.ended = pair is None and self._has_ended(messages)
        earlier = (place for part in messages.parts for place in self.pending_deliveries.get(part.table.key, ()))
        writer.deliveries = (
            [*self.deliveries.get(id(messages), ()), *earlier] if redeliveries.has_keyless_rows(messages) else ()
        )
        writer.ambiguous = self.applier.ambiguous.get(table_ref, ("", 0))[0]
        writer.has_pending_rows = any(part.table.key in self.pending_names for part in messages.parts)
        writer.forced = messages.table.key in self.forced
        return writer

    def _has_ended(self, messages: TableMessages) -> bool:
        return any(part.until in self.applier.drops(part.table.key) for part in messages.parts)

    def keep_pending(self) -> int:
        """See `Port.keep_pending`."""
        statements = self.applier.statements_to_keep()
        if self.pending_parts or statements:
            self._describe_job("pending rows")
            raw = self._not_stored(self.raw)
            self.newly_pending = pending.keep(self.context, raw, self.batch_id, self.pending_parts, statements)
        return self.newly_pending

    def finish_tables(self, results: Sequence[TableResult]) -> Sequence[TableResult]:
        """See `Port.finish_tables`: every table shows its changes up to the resolved ts, but where rows of it wait."""
        results = super().finish_tables(results)
        self._describe_job("dead letters")
        self.applier.dead_letters_follow()
        exchanged = self._exchanged()
        to_publish = [
            (table, until)
            for table in self.context.tables
            if table.state not in (State.HELD, State.RELEASING)
            and advance.is_due(table, until := self._until(table))
            and self._may_be_shown(table)
        ]
        with ThreadPoolExecutor(self.context.settings.warehouse.table_threads, thread_name_prefix="publish") as pool:
            shown: dict[str, Shown] = {
                table.uuid: (table, snapshot) for table, snapshot in pool.map(self._advanced, to_publish) if snapshot
            }
        for table in exchanged:
            if table.current is not None:
                shown.setdefault(table.uuid, (table, table.current.head()))
        self.shown = [*shown.values(), *self._marked()]
        tables_with_rows = {one.table for one in results}
        snapshots = {str(table.source): snapshot for table, snapshot in shown.values()}
        others = [
            TableResult(name, snapshot=snapshot) for name, snapshot in snapshots.items() if name not in tables_with_rows
        ]
        others += [TableResult(TABLE_REMOVED, dead_letters=self.of_removed)] if self.of_removed else []
        return [*(replace(one, snapshot=snapshots.get(one.table)) for one in results), *others]

    def _may_be_shown(self, table: TablePair) -> bool:
        """Whether its columns let it be written; those that this batch has rows of were looked at before."""
        has_rows = any(writer.table is table for writer in self.writers)
        return not table.altered if has_rows else may_be_written(self.context, table)

    def _marked(self) -> list[Shown]:
        """Give an empty snapshot to tables that are new, or whose columns changed, without rows. Returns those."""
        cut_ts = frontier.commit_ts_of(self.resolved)
        marked: list[Shown] = []
        for table in self.context.tables if cut_ts else ():
            if not table.unshown or table.current is None or table.state is not State.LIVE:
                continue
            table.unshown = not table.current.shows_its_columns()
            if table.unshown and (table.current.head() is not None or 0 < table.created_at <= cut_ts):
                table.current.mark(OPERATION.entry(f"batch{self.batch_id}"), MAIN)
                table.unshown = False
                marked.append((table, table.current.head()))
        return marked

    def _exchanged(self) -> list[TablePair]:
        """Exchange the rows of partitions and tables that both show the commit ts of that. Returns these tables."""
        concerned: list[TablePair] = []
        self.undone = [
            pending_exchange for pending_exchange in exchanges(self.context.tables) if not pending_exchange.done
        ]
        for pending_exchange in tuple(self.undone):
            both = (pending_exchange.table, pending_exchange.other)
            if any(t.state is State.HELD or self._until(t) < pending_exchange.removal.at for t in both):
                continue
            if not all(self._may_be_shown(t) for t in both):
                continue
            for table in both:
                if table.removed_done < pending_exchange.removal.at:
                    self._advanced((table, pending_exchange.removal.at))
            operation = f"batch{self.batch_id}"
            self._describe_job(f"{pending_exchange.table.source}: exchange rows with {pending_exchange.other.source}")
            with bound(table=str(pending_exchange.table.source)):
                exchange(self.context.spark, pending_exchange, self.context.timezone, operation, self.context.step)
            self.undone.remove(pending_exchange)
            concerned += both
        return concerned

    def _until(self, table: TablePair) -> int:
        """Up to which commit ts a table may show its changes: never beyond an exchange that waits for the other one."""
        until = frontier.commit_ts_of(self.late_frontier if self._is_late(table) else self.resolved)
        until = min([until, *(one.removal.at for one in self.undone if table in (one.table, one.other))])
        for part in self.pending_parts:
            if self.applier.pair(part.table.key, part.since + 1) is table:
                until = min(until, part.since)
        return until

    def _is_late(self, table: TablePair) -> bool:
        """Whether rows may be missing up to where the others are: its stream came later, or nobody knows it yet.

        A table made from pending rows has no stream recorded, and after a RENAME its rows may come in another stream.
        """
        if not self.late:
            return False
        streams = table.streams_at()
        return not streams or not streams.isdisjoint(self.stream_ids.get(stream, "") for stream in self.late)

    def _advanced(self, to_publish: tuple[TablePair, int]) -> Shown:
        table, until = to_publish
        context, operation = self.context, f"batch{self.batch_id}"
        with bound(batch=self.batch_id, table=str(table.source)):
            self._describe_job(f"{table.source}: publish current")
            done = advance.advance(context.spark, table, context.timezone, operation, context.step, until)
        return table, done.snapshot

    def _statements(self) -> Sequence[Row]:
        return self.applier.history_rows()

    def _described(self) -> list[Row]:
        return []

    def _came_in(self) -> int:
        return self.pending_taken

    def _check_held(self, held: int, outcome: Outcome) -> None:
        super()._check_held(held + self.newly_pending, outcome)

    def _blocked_tables(self) -> set[str]:
        return super()._blocked_tables() | {str(part.table) for part in self.pending_parts}

    def commit(self, outcome: Outcome) -> None:
        """See `Port.commit`. What was dropped goes when nobody will take this batch again."""
        number = self.batch_id
        super().commit(outcome)
        if remove_dropped(self.context):
            write_tables_view(self.context, number)

    def _has_leftovers_beyond(self, fresh: Ledger) -> bool:
        """See `SparkBatch._has_leftovers_beyond`: also DDL events that a try which died has applied."""
        return self.ahead > self.resolved or super()._has_leftovers_beyond(fresh)

    def _cut(self, _outcome: Outcome, _watermarks: Mapping[Partition, CommitTs]) -> str:
        cut_ts = frontier.commit_ts_of(self.resolved)
        living = (table for table in self.context.tables if table.state is not State.DROPPED)
        late = {table.uuid for table in living if self._is_late(table)}
        also = ["DDL events of an unfinished batch are applied"] if self.ahead > self.resolved else []
        return cuts.exact(self.context, self.batch_id, cut_ts, self.shown, self.pending_parts, late, also)

    def _complete(self, fresh: Ledger) -> None:
        """Write schemas and let pending rows in, before the commit of the ledger."""
        rows = self.described.unwritten()
        if rows:
            self.context.records.write("schemas", self.batch_id, rows)
            self.described.written()
            self.context.step("schemas-appended")
        self._take_pending()
        fresh.frontiers, fresh.resolved, fresh.last_watermarks = (
            self.frontiers,
            self.read_frontier,
            self.last_watermarks,
        )

    def _take_pending(self) -> None:
        still = self._still()
        if self.pending_frame is not None:
            stays = F.lit(False) if still is None else F.coalesce(still, F.lit(False))
            taken = self.pending_frame.where(~stays)
            self.pending_taken = taken.count()
            pending.let_in(self.context, self.pending_frame, still)
            if self.already_stored is not None and still is not None:
                pending.let_in(self.context, self.already_stored, F.lit(False))
            self.context.step("waiting-released")
        self.context.has_pending = self.newly_pending > 0 or still is not None
        if self.pending_deliveries and not self.context.has_pending:
            redeliveries.remember(self.context.records, {})

    def _still(self) -> Column | None:
        """Which pending records stay pending; None: none does."""
        by_commit_ts = (writer for writer in self.writers if isinstance(writer, CommitTsTableWriter))
        pending_writers = [writer for writer in by_commit_ts if writer.stays_pending]
        parts = [*self.pending_parts, *(part for writer in pending_writers for part in writer.messages.parts)]
        statements = [statement for statement, _, _ in self.applier.statements_to_keep()]
        statements += [statement for writer in pending_writers for statement in writer.statements]
        wanted = []
        if parts:
            wanted.append(pending.rows_of(self.context.protocol, parts))
        if statements:
            wanted.append(pending.is_copy_of(statements))
        if not wanted:
            return None
        still = any_of(wanted)
        return still if self.given_up is None else still & ~F.coalesce(self.given_up, F.lit(False))

    def close(self) -> None:
        """See `SparkBatch.close`."""
        super().close()
        if self.pending_frame is not None:
            self.pending_frame.unpersist()


def batch_of(context: PipelineContext, raw: DataFrame, query_id: str, planned: Planned | None = None) -> SparkBatch:
    """The micro-batch of a raw frame, in the ordering of the pipeline's protocol."""
    kind = CommitTsBatch if context.protocol.ordering is Ordering.BY_COMMIT_TS else SparkBatch
    return kind(context, raw, query_id, planned)


def _joined(messages: Messages, from_pending: Messages) -> Messages:
    """What is new and what has waited, as one; where the latter stands in its partitions is nobody's concern."""
    tables = {table.table.key: table for table in messages.tables}
    for table in from_pending.tables:
        placeless = tuple(replace(seen, first={}, last={}) for seen in table.versions)
        earlier = tables.get(table.table.key)
        merged = placeless if earlier is None else _merged(earlier.versions, placeless)
        tables[table.table.key] = replace(table, versions=merged)
    unknown = {(rows.table.key, rows.version): rows for rows in (*messages.unknown, *from_pending.unknown)}
    for rows in messages.unknown:
        other = unknown[rows.table.key, rows.version]
        since, until = min(rows.since, other.since), max(rows.until, other.until)
        unknown[rows.table.key, rows.version] = replace(rows, since=since, until=until)
    ddl = {d.identity: d for d in from_pending.ddl}
    for d in messages.ddl:
        copy = ddl.get(d.identity)
        ddl[d.identity] = replace(d, at={**d.at, **copy.at} if copy else d.at)
    return replace(
        messages,
        tables=tuple(tables.values()),
        refused=(*messages.refused, *from_pending.refused),
        ddl=tuple(ddl.values()),
        unknown=tuple(unknown.values()),
        pending_rows=from_pending.rows,
    )


def _merged(new: Sequence[SeenVersion], from_pending: Sequence[SeenVersion]) -> tuple[SeenVersion, ...]:
    versions = {seen.version.version: seen for seen in new}
    for seen in from_pending:
        number = seen.version.version
        versions[number] = versions[number].joined(seen) if number in versions else seen
    return tuple(versions.values())
