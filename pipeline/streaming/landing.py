"""One table's part of a micro-batch, with Spark and Iceberg (`TablePort`)."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.messages import Landing, SeenVersion, Target, TopicPartition
from pipeline.streaming.batch import Landed
from pipeline.streaming.epochs import late, timeline
from pipeline.warehouse import changes, current
from pipeline.warehouse.evolution import Note, meet, meet_key, newest, obey
from pipeline.warehouse.layout import Layout
from pipeline.warehouse.tables import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.model.columns import SchemaId
    from pipeline.model.messages import Range, Refused, TableMessages
    from pipeline.streaming.epochs import Statement
    from pipeline.streaming.speculation import Speculation
    from pipeline.streaming.workbench import Workbench
    from pipeline.warehouse.tables import WarehouseTable

NO_KEY = "NO_HANDLE_KEY"
NOTES = "ticdc.notes"
BORN = "ticdc.born"
NAME_TAKEN = "TABLE_NAME_TAKEN"
NOTHING = (2**62, 2**62)
"""The range of a partition of which a table has everything."""


@dataclass(slots=True)
class TableLanding:
    """Implements `TablePort`. `table` is None until a new table's pair has been made."""

    bench: Workbench
    raw: DataFrame
    batch_id: int
    messages: TableMessages
    topic_ids: Mapping[str, str]
    statements: list[Statement]
    table: WarehouseTable | None
    notes: list[Note] = field(default_factory=list)
    met: set[SchemaId] = field(default_factory=set)
    """Versions that this batch brought for the first time."""
    started: float = field(default_factory=time.monotonic)
    reason: str = ""
    created_at: int = 0
    """Commit ts of the CREATE TABLE that the pair will come from, where there was one."""
    obeyed_until: int = 0
    """Commit ts of the newest statement about a table that had no rows: older ones are re-sent, and change nothing."""
    entered: int = 0
    """Commit ts of the statement with which the messages' epoch begins."""
    unclear: str = ""
    """A statement that is not understood and came before the table's first row."""
    truncated_at: int = 0
    """Commit ts of a TRUNCATE that came before the pair was made."""
    speculation: Speculation | None = None
    """The append, if it was made while the batch was read."""
    operation: str = ""
    """Names the staging branch and marks every commit."""

    def __post_init__(self) -> None:
        self.operation = self.operation or f"batch{self.batch_id}"

    @property
    def held(self) -> bool:
        """Whether the table's records must wait."""
        if self.table is None:
            obstacle = self.bench.tables.obstacle(self.messages.table)
            self.reason = f"{NAME_TAKEN}: {obstacle}" if obstacle else ""
            return obstacle is not None
        self.reason = self.table.held_reason
        return self.table.state in (State.HELD, State.RELEASING)

    def ends(self) -> Mapping[TopicPartition, int]:
        """See `TablePort.ends`."""
        if self.table is None:
            return {}
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        return {
            TopicPartition(names[topic], partition): end
            for (topic, partition), end in self.table.ends.items()
            if topic in names
        }

    def evolve(self) -> None:
        """See `TablePort.evolve`."""
        layout = self.table.layout if self.table else Layout(ddl_at=max(0, self.obeyed_until - 1))
        if self.table is not None and self.bench.recovering:
            self._recall(self.table)
        for entry in timeline(self.messages, self.statements):
            layout = self._met(layout, entry) if isinstance(entry, SeenVersion) else self._obeyed(layout, entry)
        if self.table is None:
            if not self.messages.versions:
                return  # a statement about a table of which no row has come
            self.table = self.bench.tables.create(self.messages.table, layout, self.created_at, self._born())
            if self.truncated_at:
                self.bench.tables.truncate(self.table, self.truncated_at)
        else:
            self.bench.tables.evolve(self.table, layout, self._noted())
        why = self.unclear or ("" if layout.handle else f"{NO_KEY}: no handle columns are known")
        if why and self.table.state == State.LIVE:
            self.bench.tables.set_state(self.table, State.HELD, why)

    def _noted(self) -> dict[str, str]:
        """What this batch has to say of the layout, for the commit that changes it: a second try finds it changed."""
        notes = [[note.action, note.column, note.detail] for note in self.notes]
        return {NOTES: json.dumps({"batch": self.batch_id, "notes": notes, "met": sorted(self.met)})}

    def _born(self) -> dict[str, str]:
        """Where in which batch the pair was made: a second try finds it under whatever name it has by then."""
        return {**self._noted(), BORN: json.dumps([self.batch_id, self.entered, *self.messages.table.key])}

    def _recall(self, table: WarehouseTable) -> None:
        saved = json.loads(table.changes.properties.get(NOTES, "{}"))
        if saved.get("batch", -1) >= self.bench.ledger.unfinished:
            self.notes += [Note(*note) for note in saved["notes"]]
            self.met |= set(saved["met"])

    def _met(self, layout: Layout, seen: SeenVersion) -> Layout:
        if layout.version(seen.version.version) is None:
            self.met.add(seen.version.version)
        if seen.key_only:
            return meet_key(layout, seen.version)
        head = newest(layout)
        stale = head is not None and seen.version.version < head and layout.version(seen.version.version) is None
        stale = (stale and not self.bench.protocol.is_newest(seen)) or late(layout, seen, self.statements)
        layout, notes = meet(layout, seen.version, self.bench.policy, stale=stale)
        self.notes.extend(notes)
        return layout

    def _obeyed(self, layout: Layout, statement: Statement) -> Layout:
        layout, notes = obey(layout, statement.actions, statement.ddl.commit_ts, self.bench.policy)
        self.notes.extend(notes)
        if layout.altered_at == statement.ddl.commit_ts:
            at = {(topic, partition) for topic, partition in statement.ddl.at}
            layout = replace(layout, altered_in=tuple(sorted(at.union(layout.altered_in))))
        return layout

    def append(self, ranges: Mapping[TopicPartition, Range]) -> Mapping[str, int]:
        """See `TablePort.append`."""
        table = self._made()
        ahead, landing = self.speculation, landing_of(table.layout)
        if ahead is not None and ahead.fits(table, landing, ranges):
            return ahead.show()
        ends = {(self.topic_ids[at.topic], at.partition): high for at, (_, high) in ranges.items()}
        frame = self.bench.protocol.changes(self._only(ranges), self.messages, landing)
        self._named(f"{table.source}: append changes")
        return changes.append(table, frame, self.batch_id, ends, self.operation).counts

    def set_aside_unreadable(self, ranges: Mapping[TopicPartition, Range]) -> int:
        """See `TablePort.set_aside_unreadable`."""
        layout = self.table.layout if self.table else Layout()
        met = tuple(v for v in self.messages.versions if layout.version(v.version.version))
        if not met:
            return 0
        frame = self.bench.protocol.changes(
            self._only(ranges), replace(self.messages, versions=met), landing_of(layout)
        )
        sentences = self.bench.protocol.sentences()
        text = F.coalesce(*(F.when(F.col(change.ERROR) == code, F.lit(said)) for code, said in sentences.items()))
        letters = frame.where(F.col(change.ERROR).isNotNull()).select(
            F.col(change.TOPIC).alias("topic"),
            F.col(change.PARTITION).alias("kafka_partition"),
            F.col(change.OFFSET).alias("offset"),
            F.col(change.INDEX).alias("index"),
            F.col(change.KEY_BYTES).alias("key"),
            F.col(change.VALUE_BYTES).alias("value"),
            F.col(change.ERROR).alias("code"),
            text.alias("message"),
        )
        return set_aside(self.bench, letters, self.batch_id, self.messages.table.schema, self.messages.table.table)

    def hold(self) -> int:
        """See `TablePort.hold`."""
        wanted = self._own_statements()
        if self.messages.versions:
            wanted = wanted | self.bench.protocol.where(self.messages)
        beyond = {at: (end, 2**62) for at, end in self.ends().items()}
        records = (
            self._within(beyond)
            .where(wanted)
            .select(
                "topic",
                F.col("partition").alias("kafka_partition"),
                "offset",
                "timestamp",
                "key",
                "value",
                F.lit(self.messages.table.schema).alias("schema_name"),
                F.lit(self.messages.table.table).alias("table_name"),
                F.lit(self.reason).alias("reason"),
                F.lit("open").alias("status"),
            )
        )
        return written(self.bench, "held", records, self.batch_id)

    def _own_statements(self) -> Column:
        """Where the DDL messages about this table stand: they wait with its rows."""
        found = F.lit(False)
        for statement in self.statements:
            for at, offset in statement.ddl.at.items():
                found = found | (
                    (F.col("topic") == at.topic) & (F.col("partition") == at.partition) & (F.col("offset") == offset)
                )
        return found

    def publish(self) -> Landed:
        """See `TablePort.publish`."""
        table = self.table
        if table is None or table.state in (State.HELD, State.DROPPED):
            return Landed(str(self.messages.table), seconds=time.monotonic() - self.started)
        self._named(f"{table.source}: publish current")
        done = current.publish(
            self.bench.spark, table, self.bench.timezone, self.operation, self.bench.step, self._arrivals
        )
        seconds = time.monotonic() - self.started
        return Landed(str(table.source), order_unknown=done.order_unknown, seconds=seconds, snapshot=done.snapshot)

    def _arrivals(self) -> DataFrame:
        return self.raw.select(
            F.col("topic").alias(change.TOPIC),
            F.col("partition").alias(change.PARTITION),
            F.col("offset").alias(change.OFFSET),
            F.col("timestamp").alias(change.ARRIVED_AT),
        )

    def _made(self) -> WarehouseTable:
        if self.table is None:
            raise AssertionError(f"{self.messages.table} is landed before it is made")
        return self.table

    def _only(self, ranges: Mapping[TopicPartition, Range]) -> DataFrame:
        """The raw frame within these ranges, without the partitions that they do not name; no ranges: all of it."""
        others = dict.fromkeys(self.messages.partitions, NOTHING) if ranges else {}
        return self._within({**others, **ranges})

    def _within(self, ranges: Mapping[TopicPartition, Range]) -> DataFrame:
        """The raw frame within the messages' bounds and these ranges; a whole partition needs no predicate."""
        bounds = dict(self.messages.bounds or {})
        for at, (low, high) in ranges.items():
            if self.messages.bounds is not None and at not in bounds:
                continue
            known = bounds.get(at, (0, 2**62))
            bounds[at] = (max(low, known[0]), min(high, known[1]))
        starts: dict[TopicPartition, int] = {}
        for seen in self.messages.versions:
            for at, first in seen.first.items():
                starts[at] = min(first, starts.get(at, first))
        needed = {at: b for at, b in bounds.items() if self.messages.bounds or b[0] > starts.get(at, 0)}
        if not needed:
            return self.raw
        return self.raw.where(_inside(needed, exhaustive=self.messages.bounds is not None))

    def _named(self, what: str) -> None:
        self.bench.spark.sparkContext.setJobDescription(f"batch {self.batch_id}: {what}")


def landing_of(layout: Layout) -> Landing:
    """Where the fields of each version that a layout knows land in its changes table."""
    names = {column.id: column.name for column in layout.columns}
    fields: dict[SchemaId, dict[str, str]] = {
        version.version: {field: names[column] for field, column in version.fields} for version in layout.versions
    }
    return Landing(tuple(Target(c.name, c.type) for c in layout.columns), fields)


def _inside(bounds: Mapping[TopicPartition, Range], *, exhaustive: bool) -> Column:
    """Whether a raw message lies within the ranges. Not `exhaustive`: other partitions are not restricted."""
    inside, listed = F.lit(False), F.lit(False)
    for at, (low, high) in bounds.items():
        here = (F.col("topic") == at.topic) & (F.col("partition") == at.partition)
        inside = inside | (here & (F.col("offset") >= low) & (F.col("offset") < high))
        listed = listed | here
    return inside if exhaustive else inside | ~listed


def places_since(bench: Workbench, table: WarehouseTable, batch_id: int) -> DataFrame:
    """Where the records stand (topic, partition, offset) that this batch and later ones put into a changes table."""
    rows = bench.spark.table(table.name.changes.sql).where(F.col(change.BATCH_ID) >= batch_id)
    return rows.select(
        F.col(change.TOPIC).alias("topic"),
        F.col(change.PARTITION).alias("partition"),
        F.col(change.OFFSET).alias("offset"),
    )


def without(raw: DataFrame, places: DataFrame) -> DataFrame:
    """The raw records that do not stand at these places (topic, partition, offset)."""
    return raw.join(places, ["topic", "partition", "offset"], "left_anti").select(*raw.columns)


def set_aside_refused(bench: Workbench, raw: DataFrame, refused: Sequence[Refused], batch_id: int) -> int:
    """Make dead letters of messages that belong to no table; how many there were."""
    code, message = F.lit(None).cast("string"), F.lit(None).cast("string")
    for refusal in refused:
        code = F.when(refusal.where, F.lit(refusal.code)).otherwise(code)
        message = F.when(refusal.where, F.lit(refusal.message)).otherwise(message)
    letters = raw.select(
        "topic",
        F.col("partition").alias("kafka_partition"),
        "offset",
        F.lit(0).alias("index"),
        "key",
        "value",
        code.alias("code"),
        message.alias("message"),
    )
    return set_aside(bench, letters.where(F.col("code").isNotNull()), batch_id, None, None)


def set_aside(bench: Workbench, letters: DataFrame, batch_id: int, schema: str | None, table: str | None) -> int:
    """Append dead letters; how many there were. The frame lacks what is the same for all."""
    full = letters.select(
        "*",
        F.lit(schema).cast("string").alias("schema_name"),
        F.lit(table).cast("string").alias("table_name"),
        F.lit(None).cast("array<string>").alias("rules"),
        F.lit(None).cast("string").alias("fingerprint"),
        F.lit(None).cast("bigint").alias("commit_ts"),
        F.lit(None).cast("string").alias("key_values"),
        F.lit("open").alias("status"),
    )
    return written(bench, "dead_letters", full, batch_id)


def written(bench: Workbench, name: str, frame: DataFrame, batch_id: int) -> int:
    """Append a frame to one of the pipeline's tables and count it in the same pass."""
    observed = Observation()
    bench.records.append(name, batch_id, frame.observe(observed, F.count(F.lit(1)).alias("rows")))
    return int(observed.get["rows"])
