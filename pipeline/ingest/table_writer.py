"""Lands one table's part of a batch: evolve, judge, append, set aside, hold, publish."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.ingest.set_aside import dead_letters
from pipeline.ingest.table_rows import TableRows
from pipeline.model import change
from pipeline.model.names import quoted
from pipeline.model.places import Partition
from pipeline.model.projection import walled
from pipeline.quality.samples import sampled
from pipeline.quality.suites import SETTING_ASIDE
from pipeline.warehouse import changes
from pipeline.warehouse.altered import makes_room, may_be_written
from pipeline.warehouse.evolution import Note
from pipeline.warehouse.pairs import State
from pipeline.warehouse.staged import stage
from pipeline.warehouse.state import NOTES
from pipeline.warehouse.stored import LayoutNotes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.table_work import TableResult, TableWork
    from pipeline.model.columns import SchemaId
    from pipeline.model.messages import TableMessages
    from pipeline.model.places import Ranges
    from pipeline.quality.rules import RuleResult
    from pipeline.quality.samples import Sample
    from pipeline.warehouse.changes import Appended
    from pipeline.warehouse.pairs import TablePair
    from pipeline.warehouse.staged import Staged


@dataclass(slots=True)
class TableWriter:
    """One table while its messages of a batch are landed. `table` is None until a new table's pair has been made."""

    context: PipelineContext
    work: TableWork
    table: TablePair | None
    notes: list[Note] = field(default_factory=list)
    met: set[SchemaId] = field(default_factory=set)
    """Versions that this batch brought for the first time."""
    reason: str = ""
    """Why the table's records must wait, as `held` has found it."""
    forbidden: str = ""
    """Why the verdict has made the rows wait, with their table if the source still has that."""
    has_held: bool = False
    """Whether its records were kept for a release: pending ones stay pending then."""
    judged: tuple[RuleResult, ...] = ()
    """What the rules say of what was appended."""
    fingerprint: str = ""
    """Of those rules."""
    rows_appended: int = 0
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, context: PipelineContext, work: TableWork) -> TableWriter:
        """The writer of a table's part; a table whose columns users have changed is held from now on."""
        if work.pair is not None:
            may_be_written(context.tables, work.pair)
        return cls(context, work, work.pair)

    @property
    def messages(self) -> TableMessages:
        """The table's messages."""
        return self.work.messages

    @property
    def held(self) -> bool:
        """Whether the table's records must wait."""
        if self.table is None:
            self.reason = self.work.ordering.why_not_created(self.work)
            return bool(self.reason)
        self.reason = self.forbidden or self.table.held_reason or self.table.altered
        return bool(self.forbidden or self.table.altered) or self.table.state in (State.HELD, State.RELEASING)

    def ends(self) -> Mapping[Partition, int]:
        """How far the changes table has come, by its own commits."""
        if self.table is None:
            return {}
        names = {stream_id: name for name, stream_id in self.work.routed.stream_ids.items()}
        ends = self.table.ends.items()
        return {Partition(names[stream], number): end for (stream, number), end in ends if stream in names}

    def evolve(self) -> None:
        """Meet the versions and statements of this batch, in their order."""
        ordering, tables, run = self.work.ordering, self.context.tables, self.context.run
        earlier = NOTES.read(self.table.changes.properties) if self.table is not None and run.recovering else None
        if earlier is not None and earlier.batch >= run.ledger.unfinished:
            self.notes += [Note(*note) for note in earlier.notes]
            self.met |= set(earlier.met)
        evolved = ordering.evolved(self.work, self.table)
        self.notes += evolved.notes
        self.met |= evolved.met
        for partner, why in evolved.partners:
            if partner.state is State.LIVE:
                tables.set_state(partner, State.HELD, why)
        if self.table is None:
            if not self.messages.versions:
                return  # a statement about a table of which no row has come
            self.table = ordering.create(self.work, evolved, self._noted())
        elif makes_room(self.context.tables, self.table, evolved.layout):
            tables.evolve(self.table, evolved.layout, {**self._noted(), **ordering.noted(evolved, self.table.state)})
        else:  # nothing has come of what the batch brought
            self.notes.clear()
            self.met.clear()
            return
        ordering.settle(self.work, self.table, evolved)

    def _noted(self) -> dict[str, str]:
        """What this batch has to say of the layout, for the commit that changes it: a second try finds it changed."""
        notes = [(note.action, note.column, note.detail) for note in self.notes]
        return NOTES.entry(LayoutNotes(self.work.routed.batch_id, notes, self.met))

    def append(self, ranges: Ranges | None) -> Mapping[str, int]:
        """Judge the changes in these ranges (None: all) and append them, in one commit.

        Gives counts by op, of `errors` (cannot be decoded) and of `quarantined` (break a rule), which are not in it,
        and `newest`, the greatest commit ts (0: none is known).
        Where the verdict forbids the batch nothing is appended, and the table is `held`, or `QualityStop` raised.
        """
        table, work, rows, ahead = self.made, self.work, self.rows, self.work.routed.speculation
        rules, fences = rows.rules, rows.fences
        if ahead is not None and not fences and ahead.fits(table, table.layout.mapping, rules, ranges or {}):
            return _show_staged(self, ahead.staged)
        if ahead is not None:
            ahead.drop()
        ends = {(work.routed.stream_ids[at.stream], at.number): high for at, (_, high) in (ranges or {}).items()}
        self.describe_job(f"{table.source}: append changes")
        times = work.ordering.times(work)
        entry = changes.Entry(work.routed.batch_id, ends, work.operation, rules, fenced=fences, times=times)
        if rules.gates:
            return _show_staged(self, stage(table, entry, partial(rows.append, ranges, entry)))
        return _counted(self, rows.append(ranges, entry), _beyond(self, table.name.changes.sql))

    def set_aside_unreadable(self, ranges: Ranges | None) -> int:
        """Make dead letters of the messages in these ranges (None: all) that cannot be decoded; how many."""
        if self.table is None or not self.rows.known.versions:
            return 0
        table, status = self.messages.table, self.work.ordering.status(self.table)
        self.describe_job(f"{table}: dead letters")
        frame = self.rows.frame(ranges, pending=ranges is None)
        unreadable = dead_letters.unreadable(frame, self.context.protocol.sentences())
        return dead_letters.set_aside(self.context, unreadable, self.work.routed.batch_id, table, status)

    def quarantine(self, ranges: Ranges | None, *, again: bool) -> int:
        """Set aside the changes in these ranges (None: all, and what has waited) that break a rule; how many.

        `again`: an earlier try has appended some of them; what it left out goes aside, whatever the rules say now.
        """
        if self.table is None or not self.rows.known.versions:
            return 0
        table, rules, fences = self.table, self.rows.rules, self.rows.fences
        if again or fences:
            judged = self.rows.judged(ranges, pending=ranges is None)
        else:  # what the append has counted, it has counted of these rows
            rules = rules.only({result.rule for result in self.judged if result.unexpected})
            judged = rules.judged(self.rows.frame(ranges, pending=ranges is None))
        readable = walled(judged).where(F.col(change.ERROR).isNull())
        if again:  # a release writes with the last batch's number
            since = min(self.work.routed.batch_id, self.context.run.ledger.unfinished)
            out = dead_letters.not_in_changes(self.context, readable, table, since)
        else:
            broken = rules.breaks(*SETTING_ASIDE)
            out = readable.where((broken | F.col(change.FENCED)) if fences else broken)
        self.describe_job(f"{table.source}: quarantine")
        source, status = self.messages.table, self.work.ordering.status(table)
        rows = dead_letters.quarantined(out, rules, table.layout, source, fenced=fences, status=status)
        return self.context.records.append("quarantine", self.work.routed.batch_id, rows)

    def hold(self) -> int:
        """Keep the raw records until the table is released; how many there were."""
        self.describe_job(f"{self.messages.table}: hold")
        self.has_held = True
        return self.work.ordering.hold(self.work, self.table, self.ends(), self.reason)

    def publish(self) -> TableResult:
        """Bring the current table up to the changes table."""
        if self.table is not None:
            self.describe_job(f"{self.table.source}: publish current")
        result = self.work.ordering.publish(self.work, self.table)
        unnamed = any(seen.unnamed for seen in self.messages.versions)
        seconds = time.monotonic() - self.started
        return replace(result, seconds=seconds, unnamed=self.rows_appended if unnamed else 0)

    def broken(self) -> Mapping[str, int]:
        """The rules that the verdict on `append` was no for, with the number of rows that break each."""
        return {result.rule: result.unexpected for result in self.judged if not result.success}

    def samples(self) -> Mapping[str, list[Sample]]:
        """A few rows for each rule whose verdict on this batch is no."""
        self.describe_job(f"{self.made.source}: sample")
        failed = {result.rule for result in self.judged if result.unexpected and not result.success}
        return sampled(self.rows.frame(None), self.rows.rules, failed, [column.name for column in self.made.layout.key])

    @property
    def rows(self) -> TableRows:
        """Its rows, once it is made."""
        return TableRows(self.context, self.work, self.made)

    @property
    def made(self) -> TablePair:
        """The pair, once it is made."""
        if self.table is None:
            raise AssertionError(f"{self.messages.table} is written before it is made")
        return self.table

    def describe_job(self, what: str) -> None:
        """Describe what Spark does from here on, in this thread."""
        self.context.spark.sparkContext.setJobDescription(f"{self.work.during}: {what}")


def _show_staged(writer: TableWriter, staged: Staged) -> Mapping[str, int]:
    """Let main have what was appended on a branch, unless the verdict forbids it (decision 003)."""
    table = writer.made
    beyond = _beyond(writer, staged.name)
    results, quarantined = (*staged.appended.results, *beyond), staged.appended.quarantined
    forbidden = None if writer.work.forced else writer.context.gate.verdict(results, quarantined)
    counts = _counted(writer, staged.appended, beyond)
    if forbidden is None:
        staged.show()
        return counts
    staged.drop()
    if forbidden.severity.policy.ends_stream:
        raise forbidden.error(writer.messages.table)
    writer.forbidden = forbidden.reason
    if table.state is not State.DROPPED:
        writer.context.tables.set_state(table, State.HELD, forbidden.reason)
    return {}


def _beyond(writer: TableWriter, appended: str) -> tuple[RuleResult, ...]:
    """What Great Expectations says of the rows that the batch has appended, where it has to be asked and is due."""
    context, source, rules = writer.context, writer.messages.table, writer.rows.rules
    seconds = context.settings.quality.gx_interval_seconds
    if not rules.beyond or not context.run.is_due(f"checks of {source}", seconds):
        return ()
    rows = context.spark.table(appended).where(F.col(change.BATCH_ID) == writer.work.routed.batch_id)
    rows = rows.where(F.col(change.OP) != change.Op.DELETE.value)
    live = [F.col(quoted(column.name)) for column in writer.made.layout.columns if column.live]
    writer.describe_job(f"{source}: Great Expectations")
    return context.rulebook.judge(rows.select(*live), rules.beyond, source)


def _counted(writer: TableWriter, appended: Appended, beyond: tuple[RuleResult, ...]) -> Mapping[str, int]:
    writer.rows_appended = appended.rows
    writer.judged, writer.fingerprint = (*appended.results, *beyond), writer.rows.rules.fingerprint
    return {
        **appended.counts,
        "errors": appended.errors,
        "quarantined": appended.quarantined,
        "newest": appended.newest,
    }
