"""What a batch records of itself: what statements did, what the rules say, and last the ledger."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from pyspark.sql import functions as F

from pipeline.errors import Refused
from pipeline.ingest.ddl.done import APPLIED
from pipeline.ingest.phases import CommittedBatch
from pipeline.ingest.reading import describe_job, past
from pipeline.ingest.run_state import Ledger
from pipeline.ingest.set_aside.pending import RELEASED
from pipeline.model import change
from pipeline.model.names import TableName
from pipeline.model.places import Partition
from pipeline.quality.samples import as_row, told
from pipeline.warehouse import changes, descriptions
from pipeline.warehouse.evolution import Note
from pipeline.warehouse.pairs import State
from pipeline.warehouse.raw_records import as_raw
from pipeline.warehouse.records import SET_ASIDE
from pipeline.warehouse.state import OPERATION
from pipeline.warehouse.tables_view import is_outdated, write_tables_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.phases import LandedBatch
    from pipeline.ingest.routed import RoutedBatch
    from pipeline.ingest.run_state import ChangefeedProgress
    from pipeline.ingest.table_writer import TableWriter
    from pipeline.model.columns import CommitTs
    from pipeline.model.names import Name

Row = Mapping[str, object]
ORDER_UNKNOWN = "ORDER_UNKNOWN"
SAMPLE_SECONDS = 60.0
"""Rows that break a rule are looked for at most so often for a table."""


@dataclass(frozen=True, slots=True)
class Closing:
    """What a batch commits with. `taken`: pending events that have come in.

    `level`: how far its cut can be relied on, `exact` to `none` (`warehouse.consistent_points`).
    `leaves_some`: see `CommittedBatch`. `is_ahead`: whether a try that died has applied DDL events that this batch has
    not read.
    """

    level: str
    watermarks: Mapping[Partition, CommitTs]
    progress: ChangefeedProgress
    taken: int = 0
    leaves_some: bool = False
    is_ahead: bool = False


@dataclass(frozen=True, slots=True)
class Books:
    """The records of one batch that has landed. `history`: what its statements have done."""

    context: PipelineContext
    landed: LandedBatch
    history: Sequence[Row]

    @property
    def _batch_id(self) -> int:
        return self.landed.routed.batch_id

    def write(self) -> None:
        """Write history and results."""
        describe_job(self.context, "ledger")
        self._write_history()
        write_results(self.context, self._batch_id, self.landed.writers, self.landed)
        self.context.step("results-appended")

    def check_held(self, newly_pending: int = 0, pending_tables: Iterable[str] = ()) -> None:
        """Raise `Refused` (HELD_TOO_MANY) where more records wait than the settings allow.

        `newly_pending`: records that are pending since this batch. `pending_tables`: tables with pending rows.
        """
        describe_job(self.context, "ledger")
        held = newly_pending + sum(table.held for table in self.landed.tables)
        if not held and not self.context.run.recovering:  # a try that was stopped here has written all of them
            return
        limit = self.context.settings.hold.max_records
        counts = self.context.records.held_counts().items()
        held_count = sum(records for (_, code), records in counts if code != RELEASED)  # those come in with this batch
        if held_count > limit:
            blocked = {str(table.source) for table in self.context.tables if table.state == State.HELD}
            newly_held = {result.table for result in self.landed.tables if result.held}
            names = ", ".join(sorted({*blocked, *pending_tables, *newly_held}))
            raise Refused(
                "HELD_TOO_MANY",
                f"{held_count} records wait ({names}), more than hold.max_records ({limit})",
                "ticdc-warehouse tables list shows what they wait for; release a held table "
                "(ticdc-warehouse tables release NAME), or raise hold.max_records",
            )

    def _write_history(self) -> None:
        writers, number = self.landed.writers, self._batch_id
        rows: list[Row] = [*self.history, *self._unordered()]
        rows += [_note(writer, note) for writer in writers for note in writer.notes]
        self.context.records.write("ddl_history", number, self._unwritten("ddl_history", rows, _event))
        run = self.context.run
        changed = rows or self.context.tables.view_is_old or any(writer.met or writer.forbidden for writer in writers)
        if changed or (run.recovering and is_outdated(self.context.tables, self.context.records)):
            write_tables_view(self.context.tables, self.context.records, number)

    def write_versions(self) -> None:
        """Write the versions that this batch was the first to bring, as far as no message describes them."""
        rows: list[Row] = [
            descriptions.as_row(replace(seen.version, table=writer.table.source))
            for writer in self.landed.writers if writer.table is not None
            for seen in writer.messages.versions if seen.version.version in writer.met
        ]  # fmt: skip
        self.context.records.write("schemas", self._batch_id, self._unwritten("schemas", rows, _version))

    def _unwritten(
        self,
        name: str,
        rows: list[Row],
        identity: Callable[[Row], object],
    ) -> list[Row]:
        """The rows without those that an unfinished try of this batch has written."""
        if not rows or not self.context.run.recovering:
            return rows
        unfinished = F.col("batch_id") >= self.context.run.ledger.unfinished
        written = {identity(cast("Row", row)) for row in self.context.records.read(name).where(unfinished).collect()}
        return [row for row in rows if identity(row) not in written]

    def _unordered(self) -> Iterator[Row]:
        """Tables with keys in two partitions, the first time that each is seen, by this process or another."""
        writers = {str(writer.messages.table): writer for writer in self.landed.writers}
        for result in self.landed.tables:
            writer = writers.get(result.table)
            if writer and result.order_unknown and writer.messages.table.key not in self._known_unordered():
                self._known_unordered().add(writer.messages.table.key)
                keys = f"{result.order_unknown} keys have changes in several partitions"
                detail = f"{keys}: ordered by the timestamps of their records"
                yield _note(writer, Note(ORDER_UNKNOWN, "key", detail))

    def _known_unordered(self) -> set[Name]:
        """The tables of which the history says so already; what an unfinished try has written does not count.

        It is read when it is first asked for.
        """
        run = self.context.run
        if run.order_unknown is None:
            earlier = (F.col("ddl_type") == ORDER_UNKNOWN) & (F.col("batch_id") < run.ledger.unfinished)
            history = self.context.records.read("ddl_history").where(earlier)
            rows = history.select("schema_name", "table_name").distinct().collect()
            run.order_unknown = {TableName(row["schema_name"], row["table_name"]).key for row in rows}
        return run.order_unknown

    def close(self, closing: Closing, set_aside: Callable[[], DataFrame]) -> CommittedBatch:
        """Write the ledger's row: the batch is committed. `set_aside`: see `EventReader.set_aside`."""
        context, run, routed = self.context, self.context.run, self.landed.routed
        fresh = self._ledger(closing)
        beyond = run.recovering and (closing.is_ahead or self._has_leftovers_beyond(fresh, set_aside))
        fresh.unfinished = run.ledger.unfinished if beyond else routed.batch_id + 1
        context.records.write("batches", routed.batch_id, [self._row(closing)], fresh.summary())
        run.ledger, run.recovering = fresh, beyond
        tables, dead_letters = self.landed.tables, self.landed.dead_letters
        committed = CommittedBatch(routed.batch_id, routed.messages, tables, dead_letters, closing.leaves_some)
        if routed.speculation is None:
            run.profile.learn(routed.messages, dead_letters)
        return committed

    def _ledger(self, closing: Closing) -> Ledger:
        routed, ledger = self.landed.routed, self.context.run.ledger
        ids, begun = routed.stream_ids, planned_ends(routed)
        both = (begun, routed.messages.ends)
        before, after = ({(ids[at.stream], at.number): end for at, end in ends.items()} for ends in both)
        streams = {ids[at.stream]: at.stream for ends in both for at in ends}
        return Ledger(
            routed.batch_id,
            {**before, **ledger.ends, **after},
            {**ledger.streams, **streams},
            dict(closing.watermarks),
            closing.progress,
            (self.context.protocol.told_ordering if routed.messages.has_read else None) or ledger.ordering,
        )

    def _has_leftovers_beyond(self, fresh: Ledger, set_aside: Callable[[], DataFrame]) -> bool:
        """Whether an unfinished batch has left something that lies beyond this ledger: its range was another."""
        if any(end > fresh.ends.get(at, 0) for table in self.context.tables for at, end in table.ends.items()):
            return True
        ends = {Partition(fresh.streams[stream], partition): end for (stream, partition), end in fresh.ends.items()}
        return not set_aside().where(past(ends)).isEmpty()

    def _row(self, closing: Closing) -> dict[str, object]:
        landed, routed = self.landed, self.landed.routed
        counts: Counter[str] = Counter()
        for result in landed.tables:
            counts.update(result.counts)
        dead_letters = landed.dead_letters
        rows = routed.messages.events - routed.messages.passed_over + closing.taken
        quarantined = sum(result.quarantined for result in landed.tables)
        if self.context.run.recovering:
            counts, set_aside = self._recounted()
            dead_letters, quarantined = set_aside["dead_letters"], set_aside["quarantine"]
            rows = sum(counts.values()) + sum(set_aside.values()) + routed.messages.control - self._held_statements()
        return {
            "query_id": routed.raw.query_id,
            "start_offsets": self.context.source.as_text(routed.messages.starts),
            "end_offsets": self.context.source.as_text(routed.messages.ends),
            "rows_in": rows,
            "inserts": counts["insert"],
            "updates": counts["update"] + counts["upsert"],
            "deletes": counts["delete"],
            "quarantined": quarantined,
            "dead_letters": dead_letters,
            "seconds": time.monotonic() - routed.raw.started,
            "level": closing.level,
            "committed": True,
        }

    def _held_statements(self) -> int:
        """How many DDL messages the tries of this batch have held with the rows of their tables."""
        held = self.context.records.read("held").where(F.col("batch_id") == self._batch_id)
        is_ddl = F.coalesce(self.context.protocol.header().ddl, F.lit(False))
        raw = held.select(*as_raw(self.context.source.restored()))
        return 0 if raw.isEmpty() else self.context.protocol.prepare(raw).where(is_ddl).count()

    def _recounted(self) -> tuple[Counter[str], dict[str, int]]:
        """Changes by op, and what was set aside by table, of this batch: whichever try of it has written them.

        What has waited stands in no range. So a table that a try which died has let it in says that by its last append.
        """
        context, number = self.context, self._batch_id
        counts: Counter[str] = Counter()
        written = {writer.table.uuid for writer in self.landed.writers if writer.table is not None}
        for table in context.tables:
            beyond = any(end > context.run.ledger.ends.get(partition, 0) for partition, end in table.ends.items())
            if table.uuid in written or beyond or table.changes.inherited(OPERATION) == f"batch{number}":
                rows = changes.as_written(context.spark, table).where(F.col(change.BATCH_ID) == number)
                for row in rows.groupBy(change.OP).agg(F.count(F.lit(1)).alias("rows")).collect():
                    counts[row[change.OP]] += row["rows"]
        read = context.records.read
        return counts, {name: read(name).where(F.col("batch_id") == number).count() for name in SET_ASIDE}


def planned_ends(routed: RoutedBatch) -> dict[Partition, int]:
    """Where the stream stands in partitions that it has not begun at their beginning, records of theirs or not."""
    planned = routed.raw.planned.end if routed.raw.planned else {}
    return {at: end for at, end in planned.items() if end > 0 and at.stream in routed.stream_ids}


def write_results(
    context: PipelineContext, batch_id: int, writers: Iterable[TableWriter], landed: LandedBatch | None = None
) -> None:
    """Record what the rules say of a batch; also of one that they have stopped, which has not `landed`."""
    snapshots = {table.table: table.snapshot for table in landed.tables} if landed else {}
    rows = [row for writer in writers for row in _results(context, writer, snapshots)]
    describe_job(context, "ledger")  # after the tables' samples
    context.records.write("quality_results", batch_id, rows)


def _results(context: PipelineContext, writer: TableWriter, snapshots: Mapping[str, int | None]) -> Iterator[Row]:
    source = writer.messages.table
    failed = any(result.unexpected and not result.success for result in writer.judged)
    due = failed and context.run.is_due(f"samples of {source}", SAMPLE_SECONDS)
    rows = writer.samples() if due else {}
    for result in writer.judged:
        samples = told(result, rows.get(result.rule, ()))
        yield as_row(result, source, writer.fingerprint, snapshots.get(str(source)), samples)


def _event(row: Row) -> object:
    """What a row of `ddl_history` is about; a second try may say in other words what it did."""
    about = row["sql"] or row["action"]
    return row["commit_ts"], row["schema_name"], row["table_name"], row["ddl_type"], about


def _version(row: Row) -> object:
    return row["schema_name"], row["table_name"], row["version"]


def _note(writer: TableWriter, note: Note) -> Row:
    table = writer.messages.table
    return {
        "commit_ts": None, "schema_name": table.schema, "table_name": table.table, "ddl_type": note.action,
        "sql": None, "action": f"{note.column}: {note.detail}", "status": APPLIED,
    }  # fmt: skip
