"""The micro-batch's `Port` as Spark, Iceberg and the ledger implement it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, TypeVar, cast

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.errors import Refused
from pipeline.model import change
from pipeline.model.names import TableName
from pipeline.model.places import PARTITION, POSITION, RAW, STREAM, Partition, stands_in
from pipeline.observe.logs import bound
from pipeline.quality.samples import as_row, told
from pipeline.streaming import cuts
from pipeline.streaming.altered import may_be_written
from pipeline.streaming.batch import TableResult
from pipeline.streaming.context import SAMPLE_SECONDS
from pipeline.streaming.ddl_plan import DdlPlan
from pipeline.streaming.epochs import APPLIED
from pipeline.streaming.fast_path.speculation import speculate
from pipeline.streaming.origins import Origins, identified
from pipeline.streaming.set_aside.dead_letters import places_since, set_aside_refused, without
from pipeline.streaming.set_aside.pending import RELEASED, as_raw
from pipeline.streaming.tables_view import is_outdated, write_tables_view
from pipeline.warehouse import changes, descriptions
from pipeline.warehouse.evolution import Note
from pipeline.warehouse.pairs import State
from pipeline.warehouse.records import SET_ASIDE
from pipeline.warehouse.state import OPERATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import Column

    from pipeline.model.columns import CommitTs
    from pipeline.model.messages import Ddl, Messages, TableMessages
    from pipeline.sources.source import Planned
    from pipeline.streaming.batch import Epoch, Outcome
    from pipeline.streaming.context import Ledger, PipelineContext
    from pipeline.streaming.fast_path.speculation import SpeculativeAppend
    from pipeline.streaming.table_writer import TableWriter

T = TypeVar("T")
Row = Mapping[str, object]

ORDER_UNKNOWN = "ORDER_UNKNOWN"
_FEW_TABLES = 2
"""With so many tables the source is read once per use; with more the raw frame is kept."""

_ROWS_PER_TASK = 20_000
"""A kept raw frame has a partition for each of the source's, of hundreds of streams: as many tasks for every table."""


@dataclass(slots=True)
class SparkBatch:
    """One micro-batch. The raw frame is persisted here, where many tables use it, and released in `close`."""

    context: PipelineContext
    raw: DataFrame
    query_id: str
    planned: Planned | None = None
    started: float = field(default_factory=time.monotonic)
    stream_ids: Mapping[str, str] = field(default_factory=dict)
    writers: list[TableWriter] = field(default_factory=list)
    ddl_plan: DdlPlan = field(init=False)
    speculation: SpeculativeAppend | None = None
    origins: Origins | None = None
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    """Dead letters that no writer of a table has made, by the table that they are of."""
    _kept: DataFrame | None = None

    @property
    def batch_id(self) -> int:
        """Our own number, from the ledger: Spark's starts again when a checkpoint is lost."""
        return self.context.ledger.batch_id + 1

    @property
    def leaves_some(self) -> bool:
        """Whether something of this batch can be done by the next one, which needs nothing new for that."""
        return False

    def read(self) -> Messages:
        """See `Port.read`."""
        raw, self.raw = self.raw, self._prepared(self.raw)
        if not self.context.recovering:
            self.stream_ids = self.context.source.stream_ids()
            if not self._may_have_pending():
                self.speculation = speculate(self.context, raw, self.planned, self.stream_ids, self.batch_id)
            if self.speculation is not None:
                return identified(self.speculation.messages, self._known_origins, self.context.source.stream_noun)
        self._keep_raw(len(self.context.tables))
        messages = self._routed(self.raw)
        self._keep_raw(len(messages.tables))
        if self._kept is not None:
            self.raw = self.raw.coalesce(max(1, messages.rows // _ROWS_PER_TASK))
        committed = self.context.ledger.committed.ends
        ends = {at: committed.get((self.stream_ids[at.stream], at.number), 0) for at in messages.starts}
        if any(start < ends[at] for at, start in messages.starts.items()):
            self.raw = self.raw.where(_past(ends))
            messages = replace(self._routed(self.raw), warnings=messages.warnings)
        return self._without_set_aside(messages) if self.context.recovering else messages

    def _prepared(self, raw: DataFrame) -> DataFrame:
        return self.context.protocol.prepare(raw.select(*RAW))

    def _may_have_pending(self) -> bool:
        """Whether records may come in that have waited: by offset a release brings them."""
        return False

    def _is_kept(self, tables: int) -> bool:
        """Whether the prepared frame of so many tables is kept."""
        return tables > _FEW_TABLES

    def _keep_raw(self, tables: int) -> None:
        if self._kept is None and self._is_kept(tables):
            self.raw = self._kept = self.raw.persist(StorageLevel.MEMORY_AND_DISK_DESER)

    def _routed(self, raw: DataFrame) -> Messages:
        self._describe_job("route")
        messages = self.context.protocol.read(raw)
        if any(at.stream not in self.stream_ids for at in messages.starts):
            self.stream_ids = self.context.source.stream_ids()
        return identified(messages, self._known_origins)

    def _known_origins(self) -> Origins:
        """Which table has which name, as the tables and this batch say."""
        if self.origins is None:
            streams = self.context.ledger.streams | {stream: name for name, stream in self.stream_ids.items()}
            self.origins = Origins.of(self.context.tables, streams, self.stream_ids)
        return self.origins

    def _without_set_aside(self, messages: Messages) -> Messages:
        """Without records that an unfinished batch has set aside already: they count as read."""
        self._describe_job("what an unfinished batch has set aside")
        places = self._places_set_aside()
        if places.isEmpty():
            return messages
        self.raw = without(self.raw, F.broadcast(places))
        left = self._routed(self.raw)
        return self._less(messages, left)

    def _less(self, messages: Messages, left: Messages) -> Messages:
        """The messages of a batch of which only these are left: statements that wait are applied all the same."""
        return replace(messages, tables=left.tables, refused=left.refused)

    def _places_set_aside(self) -> DataFrame:
        """Where the records stand that an unfinished batch has set aside."""
        places = [
            self.context.records.read(name)
            .where(F.col("batch_id") >= self.context.ledger.unfinished)
            .select(STREAM, F.col("kafka_partition").alias(PARTITION), POSITION)
            for name in SET_ASIDE
        ]
        return reduce(DataFrame.union, places).distinct()

    def _has_leftovers_beyond(self, fresh: Ledger) -> bool:
        """Whether an unfinished batch has left something that lies beyond this ledger: its range was another."""
        if any(end > fresh.ends.get(at, 0) for table in self.context.tables for at, end in table.ends.items()):
            return True
        ends = {Partition(fresh.streams[stream], partition): end for (stream, partition), end in fresh.ends.items()}
        return not self._places_set_aside().where(_past(ends)).isEmpty()

    def epochs(self, messages: Messages) -> Iterable[Epoch]:
        """See `Port.epochs`."""
        self._describe_job("statements")
        self.ddl_plan = DdlPlan.begin(self.context, self.batch_id, messages, self._known_origins())
        return self.ddl_plan.epochs

    def apply(self, ddl: Ddl) -> None:
        """See `Port.apply`."""
        self._describe_job("statements")
        self.ddl_plan.apply(ddl, self.writers)

    def table(self, messages: TableMessages) -> TableWriter:
        """See `Port.table`."""
        writer = self._writer(messages)
        if writer.table is not None:
            may_be_written(self.context, writer.table)
        writer.speculation = self.speculation
        self.writers.append(writer)
        return writer

    def _writer(self, messages: TableMessages) -> TableWriter:
        return self.ddl_plan.writer(self.raw, messages, self.stream_ids)

    def side_by_side(self, work: Callable[[TableMessages], T], tables: Sequence[TableMessages]) -> list[T]:
        """See `Port.side_by_side`."""

        def named(table: TableMessages) -> T:
            with bound(batch=self.batch_id, table=str(table.table)):
                return work(table)

        if len(tables) <= 1:
            return [named(table) for table in tables]
        threads = min(len(tables), self.context.settings.warehouse.table_threads)
        with ThreadPoolExecutor(threads, thread_name_prefix="table") as pool:
            futures = [pool.submit(named, table) for table in sorted(tables, key=lambda t: -t.rows)]
        return [future.result() for future in futures]

    def keep_pending(self) -> int:
        """See `Port.keep_pending`: by offset nothing waits by itself."""
        return 0

    def finish_tables(self, results: Sequence[TableResult]) -> Sequence[TableResult]:
        """See `Port.finish_tables`: by offset each table shows its changes when it has them."""
        return [*(TableResult(table, dead_letters=count) for table, count in self.dead_letters.items()), *results]

    def set_aside_refused(self, messages: Messages) -> int:
        """See `Port.set_aside_refused`."""
        if not messages.refused:
            return 0
        self._describe_job("dead letters")
        raw = self._not_stored(self.raw)
        dead_letters = set_aside_refused(self.context, raw, messages.refused, self.batch_id)
        self.dead_letters = {table: count for table, count in dead_letters.items() if table and count}
        return dead_letters[""]

    def _not_stored(self, raw: DataFrame) -> DataFrame:
        """Without records that an unfinished batch has put into a changes table."""
        if not self.context.recovering:
            return raw
        for table in self.context.tables:
            if any(end > self.context.ledger.ends.get(at, 0) for at, end in table.ends.items()):
                appended = places_since(self.context, table, self.context.ledger.unfinished)
                raw = without(raw, appended)
        return raw

    def commit(self, outcome: Outcome) -> None:
        """See `Port.commit`."""
        self._describe_job("ledger")
        ledger, messages = self.context.ledger, outcome.messages
        number = self.batch_id
        held = sum(result.held for result in outcome.tables)
        self._check_held(held, outcome)
        self._write_history(number, outcome)
        self.write_results(outcome.tables)
        self.context.step("results-appended")
        watermarks = {**ledger.watermarks, **self.context.source.progress(messages)}
        level = self._cut(outcome, watermarks)
        self.context.step("cuts-appended")
        passed = self._planned_ends()
        begun, ends = (
            {(self.stream_ids[at.stream], at.number): end for at, end in some.items()}
            for some in (passed, messages.ends)
        )
        fresh = type(ledger)(
            number,
            {**begun, **ledger.ends, **ends},
            {**ledger.streams, **{self.stream_ids[at.stream]: at.stream for at in (*passed, *messages.ends)}},
            watermarks,
        )
        self._complete(fresh)
        leftovers_beyond = self.context.recovering and self._has_leftovers_beyond(fresh)
        fresh.unfinished = ledger.unfinished if leftovers_beyond else number + 1
        self.context.records.write("batches", number, [self._row(outcome, level)], fresh.summary())
        self.context.ledger, self.context.recovering = fresh, leftovers_beyond
        if self.speculation is None:
            self.context.profile.learn(outcome)

    def _planned_ends(self) -> dict[Partition, int]:
        """Where the stream stands in partitions that it has not begun at their beginning, records of theirs or not."""
        planned = self.planned.end if self.planned else {}
        return {at: end for at, end in planned.items() if end > 0 and at.stream in self.stream_ids}

    def _cut(self, outcome: Outcome, watermarks: Mapping[Partition, CommitTs]) -> str:
        """Write the cut of this batch; its level."""
        return cuts.record(self.context, self.batch_id, outcome, watermarks, self.stream_ids)

    def _complete(self, fresh: Ledger) -> None:
        """Do what must be durable before the ledger is, and tell it what it says besides."""

    def _row(self, outcome: Outcome, level: str) -> dict[str, object]:
        counts: Counter[str] = Counter()
        for result in outcome.tables:
            counts.update(result.counts)
        dead_letters, rows = outcome.dead_letters, outcome.messages.rows + self._came_in()
        quarantined = sum(result.quarantined for result in outcome.tables)
        if self.context.recovering:
            counts, set_aside = self._recounted()
            dead_letters, quarantined = set_aside["dead_letters"], set_aside["quarantine"]
            rows = sum(counts.values()) + sum(set_aside.values()) + outcome.messages.control - self._held_statements()
        return {
            "query_id": self.query_id,
            "start_offsets": self.context.source.as_text(outcome.messages.starts),
            "end_offsets": self.context.source.as_text(outcome.messages.ends),
            "rows_in": rows,
            "inserts": counts["insert"],
            "updates": counts["update"] + counts["upsert"],
            "deletes": counts["delete"],
            "quarantined": quarantined,
            "dead_letters": dead_letters,
            "seconds": time.monotonic() - self.started,
            "level": level,
            "committed": True,
        }

    def _came_in(self) -> int:
        """How many events have come in with this batch that had waited."""
        return 0

    def _held_statements(self) -> int:
        """How many DDL messages the tries of this batch have held with the rows of their tables."""
        held = self.context.records.read("held").where(F.col("batch_id") == self.batch_id).select(*as_raw())
        is_ddl = F.coalesce(self.context.protocol.header().ddl, F.lit(False))
        return 0 if held.isEmpty() else self.context.protocol.prepare(held).where(is_ddl).count()

    def _recounted(self) -> tuple[Counter[str], dict[str, int]]:
        """Changes by op, and what was set aside by table, of this batch: whichever try of it has written them.

        What has waited stands in no range. So a table that a try which died has let it in says that by its last append.
        """
        counts: Counter[str] = Counter()
        written = {writer.table.uuid for writer in self.writers if writer.table is not None}
        operation = f"batch{self.batch_id}"
        for table in self.context.tables:
            beyond = any(end > self.context.ledger.ends.get(partition, 0) for partition, end in table.ends.items())
            if table.uuid in written or beyond or table.changes.inherited(OPERATION) == operation:
                rows = changes.as_written(self.context.spark, table).where(F.col(change.BATCH_ID) == self.batch_id)
                for row in rows.groupBy(change.OP).agg(F.count(F.lit(1)).alias("rows")).collect():
                    counts[row[change.OP]] += row["rows"]
        read = self.context.records.read
        return counts, {name: read(name).where(F.col("batch_id") == self.batch_id).count() for name in SET_ASIDE}

    def write_results(self, results: Sequence[TableResult] = ()) -> None:
        """Record what the rules say of this batch; also of one that they have stopped."""
        snapshots = {table.table: table.snapshot for table in results}
        rows = [row for writer in self.writers for row in self._results(writer, snapshots)]
        self._describe_job("ledger")  # after the tables' samples
        self.context.records.write("quality_results", self.batch_id, rows)

    def _results(self, writer: TableWriter, snapshots: Mapping[str, int | None]) -> Iterator[Row]:
        source = writer.messages.table
        failed = any(result.unexpected and not result.success for result in writer.judged)
        due = failed and self.context.is_due(f"samples of {source}", SAMPLE_SECONDS)
        rows = writer.samples() if due else {}
        for result in writer.judged:
            samples = told(result, rows.get(result.rule, ()))
            yield as_row(result, source, writer.fingerprint, snapshots.get(str(source)), samples)

    def _check_held(self, held: int, outcome: Outcome) -> None:
        if not held and not self.context.recovering:  # a try that was stopped here has written all of them
            return
        limit = self.context.settings.hold.max_records
        counts = self.context.records.held_counts().items()
        held_count = sum(records for (_, code), records in counts if code != RELEASED)  # those come in with this batch
        if held_count > limit:
            names = ", ".join(sorted({*self._blocked_tables(), *(one.table for one in outcome.tables if one.held)}))
            raise Refused(
                "HELD_TOO_MANY",
                f"{held_count} records wait ({names}), more than hold.max_records ({limit})",
                "see what for: ticdc-warehouse tables list; release a held table (tables release NAME), or raise "
                "hold.max_records",
            )

    def _blocked_tables(self) -> set[str]:
        """The tables whose records wait."""
        return {str(table.source) for table in self.context.tables if table.state == State.HELD}

    def _write_history(self, number: int, outcome: Outcome) -> None:
        rows: list[Row] = [*self._statements(), *self._unordered(outcome)]
        for writer in self.writers:
            rows += [_note(writer, note) for note in writer.notes]
        self.context.records.write("ddl_history", number, self._unwritten("ddl_history", rows, _event))
        if (
            rows
            or any(writer.met or writer.forbidden for writer in self.writers)
            or self.context.altered
            or (self.context.recovering and is_outdated(self.context))
        ):
            self._copy_states(number)

    def _statements(self) -> Sequence[Row]:
        """Rows of `ddl_history`: what statements have done."""
        return self.ddl_plan.history

    def _unwritten(self, name: str, rows: list[Row], identity: Callable[[Row], object]) -> list[Row]:
        """The rows without those that an unfinished try of this batch has written."""
        if not rows or not self.context.recovering:
            return rows
        unfinished = self.context.records.read(name).where(F.col("batch_id") >= self.context.ledger.unfinished)
        written = {identity(cast("Row", row)) for row in unfinished.collect()}
        return [row for row in rows if identity(row) not in written]

    def _unordered(self, outcome: Outcome) -> Iterator[dict[str, object]]:
        """Tables with keys in two partitions, the first time that each is seen, by this process or another."""
        writers = {str(writer.messages.table): writer for writer in self.writers}
        for result in outcome.tables:
            writer = writers.get(result.table)
            if writer and result.order_unknown and writer.messages.table.key not in self._known_unordered():
                self._known_unordered().add(writer.messages.table.key)
                keys = f"{result.order_unknown} keys have changes in several partitions"
                detail = f"{keys}: ordered by the timestamps of their records"
                yield _note(writer, Note(ORDER_UNKNOWN, "key", detail))

    def _known_unordered(self) -> set[tuple[str, str]]:
        """The tables of which the history says so already; what an unfinished try has written does not count.

        It is read when it is first asked for.
        """
        if self.context.order_unknown is None:
            earlier = (F.col("ddl_type") == ORDER_UNKNOWN) & (F.col("batch_id") < self.context.ledger.unfinished)
            history = self.context.records.read("ddl_history").where(earlier)
            rows = history.select("schema_name", "table_name").distinct().collect()
            self.context.order_unknown = {TableName(row["schema_name"], row["table_name"]).key for row in rows}
        return self.context.order_unknown

    def _copy_states(self, number: int) -> None:
        """The readable copies of what the tables say of themselves."""
        write_tables_view(self.context, number)
        self.context.altered = False
        self.context.records.write("schemas", number, self._unwritten("schemas", self._described(), _version))

    def _described(self) -> list[Row]:
        """Rows of `schemas`: the versions that this batch was the first to bring."""
        return [
            descriptions.as_row(replace(seen.version, table=writer.table.source))
            for writer in self.writers if writer.table is not None
            for seen in writer.messages.versions if seen.version.version in writer.met
        ]  # fmt: skip

    def _describe_job(self, what: str) -> None:
        """Describe what Spark does from here on, in this thread; writers do so for their tables."""
        self.context.spark.sparkContext.setJobDescription(f"batch {self.batch_id}: {what}")

    def close(self) -> None:
        """Release the persisted frame, and drop the speculative append if it was not used."""
        if self.speculation is not None:
            self.speculation.drop()
        if self._kept is not None:
            self._kept.unpersist()


def _past(ends: Mapping[Partition, int]) -> Column:
    """Whether a record lies past these ends; in a partition without one it does."""
    before = F.lit(False)
    for partition, end in ends.items():
        before = before | (stands_in(partition) & (F.col(POSITION) < end))
    return ~before


def _event(row: Row) -> object:
    """What a row of `ddl_history` is about; a second try may say in other words what it did."""
    about = row["sql"] or row["action"]
    return row["commit_ts"], row["schema_name"], row["table_name"], row["ddl_type"], about


def _version(row: Row) -> object:
    return row["schema_name"], row["table_name"], row["version"]


def _note(writer: TableWriter, note: Note) -> dict[str, object]:
    table = writer.messages.table
    return {
        "commit_ts": None, "schema_name": table.schema, "table_name": table.table, "ddl_type": note.action,
        "sql": None, "action": f"{note.column}: {note.detail}", "status": APPLIED,
    }  # fmt: skip
