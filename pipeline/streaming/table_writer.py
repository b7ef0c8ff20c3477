"""One table's part of a micro-batch, with Spark and Iceberg (`TablePort`)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.holding import NAMELESS
from pipeline.model.messages import Ordering, SeenVersion
from pipeline.model.names import quoted
from pipeline.model.places import PARTITION, POSITION, STREAM, Partition, stands_in
from pipeline.model.projection import walled
from pipeline.quality.samples import sampled
from pipeline.quality.suites import SETTING_ASIDE
from pipeline.streaming.altered import makes_room
from pipeline.streaming.batch import TableResult
from pipeline.streaming.epochs import is_stale, timeline
from pipeline.streaming.fast_path.staged import stage
from pipeline.streaming.set_aside import dead_letters, pending
from pipeline.streaming.set_aside.fence import fence
from pipeline.streaming.set_aside.held import taken
from pipeline.warehouse import changes, current
from pipeline.warehouse.evolution import Note, apply_actions, keyed_as, meet, meet_key, newest, surely_keyed
from pipeline.warehouse.layout import Layout
from pipeline.warehouse.pairs import State
from pipeline.warehouse.state import BORN, CREATED_AS, KEYSPACE, NOTES
from pipeline.warehouse.stored import BoundAt, LayoutNotes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from pipeline.model.columns import SchemaId
    from pipeline.model.messages import TableMessages
    from pipeline.model.places import Range
    from pipeline.quality.rules import RuleResult, RuleSet
    from pipeline.quality.samples import Sample
    from pipeline.streaming.context import PipelineContext
    from pipeline.streaming.epochs import Birth, Statement
    from pipeline.streaming.fast_path.speculation import SpeculativeAppend
    from pipeline.streaming.fast_path.staged import Staged
    from pipeline.warehouse.changes import Appended
    from pipeline.warehouse.pairs import TablePair

NOTHING = (2**62, 2**62)
"""The range of a partition of which a table has everything."""


@dataclass(slots=True)
class TableWriter:
    """Implements `TablePort`. `table` is None until a new table's pair has been made."""

    context: PipelineContext
    raw: DataFrame
    batch_id: int
    messages: TableMessages
    stream_ids: Mapping[str, str]
    statements: list[Statement]
    table: TablePair | None
    notes: list[Note] = field(default_factory=list)
    met: set[SchemaId] = field(default_factory=set)
    """Versions that this batch brought for the first time."""
    started: float = field(default_factory=time.monotonic)
    reason: str = ""
    birth: Birth | None = None
    """The CREATE TABLE that the pair will come from, where there was one."""
    applied_until: int = 0
    """Commit ts of the newest statement about a table that had no rows: older ones are re-sent, and change nothing."""
    entered: int = 0
    """Commit ts of the statement with which the messages' epoch begins."""
    ambiguous: str = ""
    """A statement that is not understood and came before the table's first row."""
    truncated_at: int = 0
    """Commit ts of a TRUNCATE that came before the pair was made."""
    speculation: SpeculativeAppend | None = None
    """The append, if it was made while the batch was read."""
    rows_appended: int = 0
    judged: tuple[RuleResult, ...] = ()
    """What the rules say of what was appended."""
    fingerprint: str = ""
    """Of those rules."""
    forbidden: str = ""
    """Why the verdict has made the rows wait, with their table if the source still has that."""
    settles: bool = True
    """Whether a version that the table knows may be the one that the newest statement has made."""
    forced: bool = False
    """Whether a person wants the rows in, whatever the verdict on all of them is."""
    operation: str = ""
    """Names the staging branch and marks every commit."""
    during: str = ""
    """How the descriptions of its jobs begin, where it is of no batch."""

    def __post_init__(self) -> None:
        self.operation = self.operation or f"batch{self.batch_id}"

    @property
    def held(self) -> bool:
        """Whether the table's records must wait."""
        if self.table is None:
            self.reason = self._why_not_created()
            return bool(self.reason)
        self.reason = self.forbidden or self.table.held_reason or self.table.altered
        return bool(self.forbidden or self.table.altered) or self.table.state in (State.HELD, State.RELEASING)

    @property
    def _set_aside_status(self) -> str:
        """What rows that are set aside begin as: by offset they come before a DROP, which closes them."""
        return dead_letters.OPEN

    def _why_not_created(self) -> str:
        """Why no pair can be made of them; nothing, if it can."""
        return taken(self.context.tables.obstacle(self.messages.table))

    @property
    def takes_pending(self) -> bool:
        """See `TablePort.takes_pending`: by offset a release lets in what waited."""
        return False

    @property
    def times(self) -> tuple[int, int] | None:
        """Between which commit ts the changes lie, where that is known."""
        return None

    def ends(self) -> Mapping[Partition, int]:
        """See `TablePort.ends`."""
        if self.table is None:
            return {}
        names = {stream_id: name for name, stream_id in self.stream_ids.items()}
        return {
            Partition(names[stream], partition): end
            for (stream, partition), end in self.table.ends.items()
            if stream in names
        }

    def evolve(self) -> None:
        """See `TablePort.evolve`."""
        layout = self.table.layout if self.table else Layout(ddl_at=max(0, self.applied_until - 1))
        if self.table is not None and self.context.recovering:
            self._recall(self.table)
        for entry in timeline(self.messages, self.statements):
            layout = self._met(layout, entry) if isinstance(entry, SeenVersion) else self._applied(layout, entry)
        if self.table is None:
            if not self.messages.versions:
                return  # a statement about a table of which no row has come
            created_at = self.birth.commit_ts if self.birth else 0
            self.table = self.context.tables.create(self.messages.table, layout, created_at, self._born())
            if self.truncated_at:
                self.context.tables.truncate(self.table, self.truncated_at)
        elif not self._has_room(layout):
            return
        else:
            self.context.tables.evolve(self.table, layout, self._noted())
            self._note_streams(self.table)
        why = self.ambiguous or (NAMELESS if self.nameless else "")
        if why and self.table.state == State.LIVE:
            self.context.tables.set_state(self.table, State.HELD, why)

    @property
    def nameless(self) -> bool:
        """Whether rows of the table name no row: of all, as far as is known, or of what this batch brings."""
        unkeyed = any(seen.version.handle == () for seen in self.messages.versions)
        return unkeyed or self.table is None or not self.table.layout.handle

    def _note_streams(self, table: TablePair) -> None:
        """Of a renamed pair: in which streams the rows of its new name come."""
        if table.renamed_at and table.source.key == self.messages.table.key:
            streams = {at.stream for at in self.messages.partitions if at.stream in self.stream_ids}
            self.context.tables.note_streams(table, {self.stream_ids[stream] for stream in streams})

    def _has_room(self, layout: Layout) -> bool:
        """Whether the table can have these columns; else it is held, and nothing has come of what the batch brought."""
        if self.table is None or makes_room(self.context, self.table, layout):
            return True
        self.notes.clear()
        self.met.clear()
        return False

    def _noted(self) -> dict[str, str]:
        """What this batch has to say of the layout, for the commit that changes it: a second try finds it changed."""
        notes = [(note.action, note.column, note.detail) for note in self.notes]
        return NOTES.entry(LayoutNotes(self.batch_id, notes, self.met))

    def _born(self) -> dict[str, str]:
        """Where in which batch the pair was made: a second try finds it under whatever name it has by then."""
        born = BORN.entry(BoundAt(self.batch_id, self.entered, *self.messages.table.key))
        created = CREATED_AS.entry(self.birth.name) if self.birth else {}
        keyspace = KEYSPACE.entry(self.messages.origin.keyspace) if self.messages.origin else {}
        return {**self._noted(), **born, **created, **keyspace}

    def _recall(self, table: TablePair) -> None:
        saved = NOTES.read(table.changes.properties)
        if saved is not None and saved.batch >= self.context.ledger.unfinished:
            self.notes += [Note(*note) for note in saved.notes]
            self.met |= set(saved.met)

    def _met(self, layout: Layout, seen: SeenVersion) -> Layout:
        if layout.version(seen.version.version) is None:
            self.met.add(seen.version.version)
        if seen.key_only:
            return meet_key(layout, seen.version)
        head, met_before = newest(layout), layout.version(seen.version.version) is not None
        older = head is not None and seen.version.version < head and not self.context.protocol.is_newest(seen)
        stale = not self.settles if met_before else older
        stale = stale or is_stale(layout, seen, self.statements)
        layout, notes = meet(layout, seen.version, self.context.policy, stale=stale)
        self.notes.extend(notes)
        if seen.version.tells_before:
            layout = replace(layout, before=True)
        if seen.version.stands_in:
            layout = surely_keyed(layout)
        return layout if layout.handle else self._keyed(layout, seen)

    def _keyed(self, layout: Layout, seen: SeenVersion) -> Layout:
        """The layout of a table without a key when a row comes with one; by commit ts a key comes with a version."""
        return keyed_as(layout, seen.version) if self.context.protocol.ordering is Ordering.BY_OFFSET else layout

    def _applied(self, layout: Layout, statement: Statement) -> Layout:
        layout, notes = apply_actions(layout, statement.actions, statement.ddl.commit_ts, self.context.policy)
        self.notes.extend(notes)
        if layout.altered_at == statement.ddl.commit_ts:
            partitions = {(stream, partition) for stream, partition in statement.ddl.at}
            layout = replace(layout, altered_in=tuple(sorted(partitions.union(layout.altered_in))))
        return layout

    def append(self, ranges: Mapping[Partition, Range]) -> Mapping[str, int]:
        """See `TablePort.append`."""
        table, rules, mapping = self._made(), self._rules(), self._made().layout.mapping
        ahead = self.speculation
        if ahead is not None and not self._fences and ahead.fits(table, mapping, rules, ranges):
            return self._show_staged(ahead.staged, rules)
        if ahead is not None:
            ahead.drop()
        ends = {(self.stream_ids[at.stream], at.number): high for at, (_, high) in ranges.items()}
        self._describe_job(f"{table.source}: append changes")
        entry = changes.Entry(self.batch_id, ends, self.operation, rules, fenced=self._fences, times=self.times)
        frame = self._appended(ranges)
        if rules.gates:
            return self._show_staged(stage(table, frame, entry), rules)
        appended = changes.append(table, frame, entry)
        return self._counted(appended, self._beyond(rules, table.name.changes.sql), rules)

    def _appended(self, ranges: Mapping[Partition, Range]) -> DataFrame:
        """What `append` takes."""
        return self.judged_frame(ranges) if self._fences else self._frame(ranges)

    def _rules(self) -> RuleSet:
        return self.context.rules_of(self._known(), self._made().layout)

    def _show_staged(self, staged: Staged, rules: RuleSet) -> Mapping[str, int]:
        """Let main have what was appended on a branch, unless the verdict forbids it."""
        beyond = self._beyond(rules, staged.name)
        results = (*staged.appended.results, *beyond)
        forbidden = None if self.forced else self.context.gate.verdict(results, staged.appended.quarantined)
        counts = self._counted(staged.appended, beyond, rules)
        if forbidden is None:
            staged.show()
            return counts
        staged.drop()
        if forbidden.severity.policy.ends_stream:
            raise forbidden.error(self.messages.table)
        self.forbidden = forbidden.reason
        if self._made().state is not State.DROPPED:
            self.context.tables.set_state(self._made(), State.HELD, forbidden.reason)
        return {}

    def _beyond(self, rules: RuleSet, appended: str) -> tuple[RuleResult, ...]:
        """What Great Expectations says of the rows that the batch has appended, where it has to be asked and is due."""
        if not rules.beyond or not self.context.is_due(f"checks of {self.messages.table}", self.context.gx_seconds):
            return ()
        rows = self.context.spark.table(appended).where(F.col(change.BATCH_ID) == self.batch_id)
        rows = rows.where(F.col(change.OP) != change.Op.DELETE.value)
        live = [F.col(quoted(column.name)) for column in self._made().layout.columns if column.live]
        self._describe_job(f"{self.messages.table}: Great Expectations")
        return self.context.rulebook.judge(rows.select(*live), rules.beyond, self.messages.table)

    def _counted(self, appended: Appended, beyond: tuple[RuleResult, ...], rules: RuleSet) -> Mapping[str, int]:
        self.rows_appended = appended.rows
        self.judged, self.fingerprint = (*appended.results, *beyond), rules.fingerprint
        return {
            **appended.counts,
            "errors": appended.errors,
            "quarantined": appended.quarantined,
            "newest": appended.newest,
        }

    def set_aside_unreadable(self, ranges: Mapping[Partition, Range]) -> int:
        """See `TablePort.set_aside_unreadable`."""
        if not self._known().versions:
            return 0
        self._describe_job(f"{self.messages.table}: dead letters")
        unreadable = dead_letters.unreadable(self._frame(ranges), self.context.protocol.sentences())
        return dead_letters.set_aside(
            self.context, unreadable, self.batch_id, self.messages.table, self._set_aside_status
        )

    def quarantine(self, ranges: Mapping[Partition, Range], *, again: bool) -> int:
        """See `TablePort.quarantine`."""
        if not self._known().versions:
            return 0
        table, rules = self._made(), self._rules()
        if again or self._fences:
            judged = self.judged_frame(ranges)
        else:  # what the append has counted, it has counted of these rows
            rules = rules.only({result.rule for result in self.judged if result.unexpected})
            judged = rules.judged(self._frame(ranges))
        readable = walled(judged).where(F.col(change.ERROR).isNull())
        if again:
            since = min(self.batch_id, self.context.ledger.unfinished)  # a release writes with the last batch's number
            out = dead_letters.not_in_changes(self.context, readable, table, since)
        else:
            broken = rules.breaks(*SETTING_ASIDE)
            out = readable.where((broken | F.col(change.FENCED)) if self._fences else broken)
        self._describe_job(f"{table.source}: quarantine")
        source, fenced, status = self.messages.table, self._fences, self._set_aside_status
        rows = dead_letters.quarantined(out, rules, table.layout, source, fenced=fenced, status=status)
        return dead_letters.written(self.context, "quarantine", rows, self.batch_id)

    def samples(self) -> Mapping[str, list[Sample]]:
        """A few rows for each rule whose verdict on this batch is no."""
        table = self._made()
        self._describe_job(f"{table.source}: sample")
        failed = {result.rule for result in self.judged if result.unexpected and not result.success}
        return sampled(self._frame({}), self._rules(), failed, [column.name for column in table.layout.key])

    def judged_frame(self, ranges: Mapping[Partition, Range]) -> DataFrame:
        """The change frame of the messages in these ranges (none: of all), with the bits of every rule, and fenced."""
        rules, layout = self._rules(), self._made().layout
        judged = rules.judged(self._frame(ranges))
        return fence(self.context, judged, rules, layout, self.messages.table) if self._fences else judged

    def _frame(self, ranges: Mapping[Partition, Range]) -> DataFrame:
        return self.context.protocol.changes(self._only(ranges), self._known(), self._made().layout.mapping)

    def _known(self) -> TableMessages:
        """The messages of versions that the table has met: all, unless it is held."""
        layout = self.table.layout if self.table else Layout()
        met = tuple(seen for seen in self.messages.versions if layout.version(seen.version.version))
        return self.messages if met == self.messages.versions else replace(self.messages, versions=met)

    @property
    def _fences(self) -> bool:
        """Whether changes wait that come after quarantined ones of their key; a redrive sees to that itself."""
        return self.context.settings.quality.fenced == "hold" and self._rules().gates and not self.forced

    def hold(self) -> int:
        """See `TablePort.hold`."""
        self._describe_job(f"{self.messages.table}: hold")
        wanted = pending.is_copy_of(self.statements)
        if self.messages.versions:
            wanted = wanted | self.context.protocol.where(self.messages)
        beyond = {at: (end, 2**62) for at, end in self.ends().items()}
        records = (
            self._within(beyond)
            .where(wanted)
            .select(
                *pending.as_held(),
                F.lit(self.messages.table.schema).alias("schema_name"),
                F.lit(self.messages.table.table).alias("table_name"),
                F.lit(self.reason).alias("reason"),
                F.lit("open").alias("status"),
            )
        )
        return dead_letters.written(self.context, "held", records, self.batch_id)

    def publish(self) -> TableResult:
        """See `TablePort.publish`."""
        table = self.table
        if table is None or table.state in (State.HELD, State.DROPPED):
            return TableResult(str(self.messages.table), seconds=self.seconds)
        self._describe_job(f"{table.source}: publish current")
        done = current.publish(
            self.context.spark, table, self.context.timezone, self.operation, self.context.step, self._arrivals
        )
        return TableResult(
            str(table.source), order_unknown=done.order_unknown, seconds=self.seconds, snapshot=done.snapshot
        )

    @property
    def seconds(self) -> float:
        """How long the table has been landed by now."""
        return time.monotonic() - self.started

    def broken(self) -> Mapping[str, int]:
        """See `TablePort.broken`."""
        return {result.rule: result.unexpected for result in self.judged if not result.success}

    def _arrivals(self) -> DataFrame:
        return self.raw.select(
            F.col(STREAM).alias(change.TOPIC),
            F.col(PARTITION).alias(change.PARTITION),
            F.col(POSITION).alias(change.OFFSET),
            F.col("timestamp").alias(change.ARRIVED_AT),
        )

    def _made(self) -> TablePair:
        if self.table is None:
            raise AssertionError(f"{self.messages.table} is landed before it is made")
        return self.table

    def _only(self, ranges: Mapping[Partition, Range]) -> DataFrame:
        """The raw frame within these ranges, without the partitions that they do not name; no ranges: all of it."""
        others = dict.fromkeys(self.messages.partitions, NOTHING) if ranges else {}
        return self._within({**others, **ranges})

    def _within(self, ranges: Mapping[Partition, Range]) -> DataFrame:
        """The raw frame within the messages' bounds and these ranges; a whole partition needs no predicate."""
        bounds = dict(self.messages.bounds or {})
        for partition, (low, high) in ranges.items():
            if self.messages.bounds is not None and partition not in bounds:
                continue
            begin, end = bounds.get(partition, (0, 2**62))
            bounds[partition] = (max(low, begin), min(high, end))
        starts: dict[Partition, int] = {}
        lasts: dict[Partition, int] = {}
        for seen in self.messages.versions:
            for partition, first in seen.first.items():
                starts[partition] = min(first, starts.get(partition, first))
                lasts[partition] = max(seen.last[partition], lasts.get(partition, 0))
        whole = {at for at, (low, high) in bounds.items() if low <= starts.get(at, 0) and high > lasts.get(at, 0)}
        needed = {at: within for at, within in bounds.items() if self.messages.bounds or at not in whole}
        if not needed:
            return self.raw
        return self.raw.where(_inside(needed, exhaustive=self.messages.bounds is not None))

    def _describe_job(self, what: str) -> None:
        self.context.spark.sparkContext.setJobDescription(f"{self.during or f'batch {self.batch_id}'}: {what}")


def _inside(bounds: Mapping[Partition, Range], *, exhaustive: bool) -> Column:
    """Whether a raw message lies within the ranges. Not `exhaustive`: other partitions are not restricted."""
    inside, listed = F.lit(False), F.lit(False)
    for partition, (low, high) in bounds.items():
        here = stands_in(partition)
        inside = inside | (here & (F.col(POSITION) >= low) & (F.col(POSITION) < high))
        listed = listed | here
    return inside if exhaustive else inside | ~listed
