"""Redriving: what was set aside is judged anew and enters its table, by the function that lands any record.

Rows that still break a rule stay where they are. A change becomes `superseded` if the changes table has a newer one of
its key, deletes included: applied, it would undo that one. A change stays if EXCHANGE PARTITION has put its row into
another table since, until the row changes there. A property of the table that is redriven has the operation and its
selection until all is done. So the next run that opens the warehouse after a crash finishes it.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import functions as F

from pipeline.ingest.by_commit_ts.names import made_by_rows
from pipeline.ingest.by_commit_ts.table_ordering import TableByCommitTs
from pipeline.ingest.by_offset.table_ordering import TableByOffset
from pipeline.ingest.ordering import chosen
from pipeline.ingest.routed import RawBatch, RoutedBatch
from pipeline.ingest.set_aside import dead_letters
from pipeline.ingest.table_work import TableWork
from pipeline.ingest.table_writer import TableWriter
from pipeline.model import change
from pipeline.model.messages import TableMessages
from pipeline.model.names import TableName
from pipeline.model.places import PLACE
from pipeline.model.projection import walled
from pipeline.model.set_aside import FENCED, OPEN
from pipeline.observe.logs import bound
from pipeline.operations.superseded import LATER, MOVED, READ_IN, WAS_MOVED, SupersededChanges
from pipeline.protocols.reading import prepared_and_read
from pipeline.quality.suites import KEEPING_OUT
from pipeline.warehouse import advance, changes, current
from pipeline.warehouse.altered import may_be_written
from pipeline.warehouse.pairs import State
from pipeline.warehouse.rebuild import replay
from pipeline.warehouse.records import AT, SUPERSEDED
from pipeline.warehouse.state import EXCHANGED, OPERATION, UNDER_WAY
from pipeline.warehouse.stored import UnderWay

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame

    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.table_work import TableOrdering
    from pipeline.model.messages import Messages
    from pipeline.quality.rules import RuleSet
    from pipeline.warehouse.pairs import TablePair

QUARANTINE, DEAD_LETTERS = "quarantine", "dead_letters"
REDRIVEN, QUARANTINED, ELSEWHERE = "redriven", "quarantined", "elsewhere"
_STAYS = (OPEN, ELSEWHERE)
_KEY, _BLOCKED = "_key_values", "_blocked"
_STATUS, _ENTERED = "status", "_entered"
_PLACE = dict(zip(change.POSITION, (*PLACE, "index"), strict=True))
"""Where a change stands: as changes tables say it, and as the raw frame does."""
_RAW = {"kafka_partition": "partition", "recorded_at": "timestamp", "batch_id": READ_IN}
"""Columns of what was set aside, as the raw frame calls them."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What to redrive: of `quarantine` or `dead_letters`, a table's, those of a rule, those since a moment (ISO)."""

    what: str = QUARANTINE
    schema: str = ""
    table: str = ""
    rule: str = ""
    since: str = ""

    def where(self) -> Column:
        """Which of the open records these are."""
        condition = F.col(_STATUS) == OPEN
        if self.table:
            condition = condition & dead_letters.of_table(TableName(self.schema, self.table))
        if self.rule:
            condition = condition & (F.array_contains("rules", self.rule) | (F.col("code") == FENCED))
        if self.since:
            condition = condition & (F.col("recorded_at") >= F.lit(self.since).cast("timestamp"))
        return condition


@dataclass(slots=True)
class Redriven:
    """What became of the records."""

    redriven: int = 0
    superseded: int = 0
    quarantined: int = 0
    """Of dead letters: those that can be read by now, and break a rule."""
    open: int = 0
    exchanged: int = 0
    """Open ones whose rows belong to another table since an EXCHANGE PARTITION (`ROWS_EXCHANGED`)."""


def redrive(context: PipelineContext, selection: Selection) -> Redriven:
    """Let enter what may enter by now; the rest stays. Doing it again changes nothing more."""
    records = context.records.tables[selection.what]
    if records.head() is None:
        return Redriven()
    operation = f"redrive{records.head()}"
    records.set_properties(UNDER_WAY.entry(UnderWay(operation, asdict(selection))))
    context.step("redrive-begun")
    return _carry_out(context, selection, operation)


def unfinished(context: PipelineContext) -> None:
    """End the redrives that a crash has interrupted."""
    for name in (QUARANTINE, DEAD_LETTERS):
        begun = UNDER_WAY.read(context.records.tables[name].properties)
        if begun is not None:
            if any(t.altered and t.changes.inherited(OPERATION) == begun.operation for t in context.tables):
                continue  # it ends when the columns of that table are in order again
            _describe_job(context, name)
            _settle(context, name, begun.operation)
            _carry_out(context, Selection(**begun.selection), begun.operation)


def _settle(context: PipelineContext, what: str, operation: str) -> None:
    """Mark what the first try has done, whatever the rules say by now, and whether it can still be read."""
    done = [
        context.records.read(QUARANTINE).where(F.col("batch_id") == context.run.ledger.batch_id).select(*AT).distinct()
    ]
    done = done if what == DEAD_LETTERS else []
    for table in context.tables:
        if table.changes.inherited(OPERATION) == operation:
            _show(context, table, operation)
            rows = context.spark.table(table.name.changes.sql)
            done.append(rows.select(*(F.col(name).alias(at) for name, at in zip(_PLACE, AT, strict=True))))
    for places in done:
        open_records = context.records.read(what).where(F.col(_STATUS) == OPEN).select(*AT)
        context.records.mark(what, open_records.join(places, list(AT)).select(*AT, F.lit(REDRIVEN).alias(_STATUS)))


def _carry_out(context: PipelineContext, selection: Selection, operation: str) -> Redriven:
    # what belongs to no batch yet comes with the next try of it
    committed = F.col("batch_id") < context.run.ledger.unfinished
    records = context.records.read(selection.what).where(selection.where() & committed)
    done = Redriven()
    _describe_job(context, selection.what)
    with ExitStack() as resources:
        for of_table in _by_table(context, records, resources):
            part = _Part(context, selection.what, of_table, operation)
            with bound(table=str(of_table.source)):
                counts = part.carry_out()
            done.redriven += counts.get(REDRIVEN, 0)
            done.superseded += counts.get(SUPERSEDED, 0)
            done.quarantined += counts.get(QUARANTINED, 0)
            done.exchanged += counts.get(ELSEWHERE, 0)
    _describe_job(context, selection.what)
    done.open = context.records.read(selection.what).where(selection.where()).count()
    context.records.tables[selection.what].set_properties(UNDER_WAY.entry(None))
    return done


def _describe_job(context: PipelineContext, what: str) -> None:
    """Describe what Spark does from here on."""
    context.spark.sparkContext.setJobDescription(f"redrive {what}")


class _OpenRecords(NamedTuple):
    """Records of one table: as they were set aside, prepared, and what the prepared ones have.

    There may be prepared events of other tables, too.
    """

    source: TableName
    raw: DataFrame
    prepared: DataFrame
    messages: Messages


def _by_table(context: PipelineContext, records: DataFrame, resources: ExitStack) -> Iterator[_OpenRecords]:
    """The records of each table. Those without a table are decoded again, and go by that."""
    columns = [
        F.col(name).alias(_RAW.get(name, name))
        for name in (*AT, "recorded_at", "key", "value", "batch_id", "code", "key_values")
    ]
    columns += [column.alias(name) for name, column in context.source.restored().items()]
    for row in records.select("schema_name", "table_name").distinct().collect():
        own = F.col("schema_name").eqNullSafe(row["schema_name"]) & F.col("table_name").eqNullSafe(row["table_name"])
        open_records = records.where(own).select(*columns)
        name = f"{row['schema_name']}.{row['table_name']}" if row["table_name"] else "records that name no table"
        _describe_job(context, name)
        prepared, messages = prepared_and_read(context.protocol, open_records, context.source.completion, resources)
        if row["table_name"] is not None:
            yield _OpenRecords(TableName(row["schema_name"], row["table_name"]), open_records, prepared, messages)
            continue
        for named in messages.tables:
            raw = _rows_of(context, open_records, prepared, named)
            yield _OpenRecords(named.table, raw, prepared, replace(messages, tables=(named,)))


def _rows_of(context: PipelineContext, open_records: DataFrame, prepared: DataFrame, named: TableMessages) -> DataFrame:
    """The records of one table, among those that had no table."""
    places = prepared.where(context.protocol.where(named)).select(*_PLACE.values())
    return open_records.join(places, list(_PLACE.values()), "left_semi").select(*open_records.columns)


@dataclass(slots=True)
class _Part:
    """One table's part of a redrive."""

    context: PipelineContext
    what: str
    records: _OpenRecords
    operation: str

    @property
    def source(self) -> TableName:
        """The table."""
        return self.records.source

    def carry_out(self) -> Mapping[str, int]:
        """Number of records by their new status."""
        pair = self.context.tables.find(self.source)
        if pair is not None and _is_multiset(pair) and EXCHANGED.is_in(pair.changes.properties):
            return {ELSEWHERE: self.records.raw.count()}  # it cannot be built again, see _show
        writer = self._writer()
        if writer is None or writer.table is None:
            return {}
        table, rules = writer.table, self.context.rules_of(writer.messages, writer.table.layout)
        _describe_job(self.context, str(self.source))
        decided = self._decided(writer.rows.judged(None), rules, table).persist(StorageLevel.MEMORY_AND_DISK_DESER)
        try:
            counts = {row[_STATUS]: row["count"] for row in decided.groupBy(_STATUS).count().collect()}
            if counts.get(QUARANTINED):
                self._set_aside(decided.where(F.col(_STATUS) == QUARANTINED), rules, table)
            self.context.step("redrive-quarantined")
            fresh = decided.where((F.col(_STATUS) == REDRIVEN) & ~F.col(_ENTERED))
            if not fresh.isEmpty():
                batch_id, times = self.context.run.ledger.batch_id, writer.work.ordering.times(writer.work)
                entry = changes.Entry(batch_id, {}, self.operation, times=times, late=times is not None)
                changes.append(table, fresh, entry)
            self.context.step("redrive-appended")
            _show(self.context, table, self.operation)
            self._mark(decided.where(~F.col(_STATUS).isin(*_STAYS)))
        finally:
            decided.unpersist()
        self.context.step("redrive-marked")
        return counts

    def _writer(self) -> TableWriter | None:
        """The table, with the versions of these records met; None where it is not one that takes records."""
        versions = tuple(seen for named in self.records.messages.tables for seen in named.versions)
        table = self.context.tables.find(self.source)
        if table is not None:
            may_be_written(self.context.tables, table)
        if not versions or (table is not None and table.state != State.LIVE):
            return None
        if table is None and (self.what == QUARANTINE or self.context.tables.obstacle(self.source)):
            return None
        messages = TableMessages(self.source, versions)
        rows = chosen(self.context, by_offset=_by_offset, by_commit_ts=_by_commit_ts)(self.context, messages, table)
        if rows is None:
            return None
        raw, batch_id = RawBatch(self.records.raw, f"redrive {self.what}"), self.context.run.ledger.batch_id
        routed = RoutedBatch(raw, batch_id, self.records.prepared, self.records.messages, {})
        work = TableWork(routed, messages, (), table, rows, forced=True, named=self.operation)
        writer = TableWriter(self.context, work, table)
        writer.evolve()
        return None if writer.held else writer

    def _decided(self, judged: DataFrame, rules: RuleSet, table: TablePair) -> DataFrame:
        """The readable records as judged changes, each with what becomes of it."""
        read_in = self.records.raw.select(
            *(F.col(raw).alias(name) for name, raw in _PLACE.items()),
            F.col(READ_IN),
            F.col("key_values").alias(_KEY),
            (F.col("code") == FENCED).alias(change.FENCED),
        )
        rows = walled(judged).where(F.col(change.ERROR).isNull()).join(read_in, list(_PLACE))
        rows = SupersededChanges(self.context, table).of(rows).join(self._entered(table), list(_PLACE), "left")
        broken = rules.breaks(*KEEPING_OUT)
        kept = OPEN if self.what == QUARANTINE else QUARANTINED
        status = F.when(F.col(_ENTERED), REDRIVEN).when(F.col(WAS_MOVED), ELSEWHERE).when(F.col(LATER), SUPERSEDED)
        status = status.when(F.col(MOVED).isNotNull(), ELSEWHERE).when(broken, kept)
        decided = rows.withColumns(
            {_STATUS: status.otherwise(REDRIVEN), _ENTERED: F.coalesce(F.col(_ENTERED), F.lit(False))}
        )
        return self._fenced(decided) if self.what == QUARANTINE else decided

    def _fenced(self, decided: DataFrame) -> DataFrame:
        """Let a fenced change wait on where an earlier change of its key stays in quarantine."""
        entering = decided.where(~F.col(_STATUS).isin(*_STAYS) & ~F.col(change.FENCED)).select(
            *(F.col(name).alias(column) for name, column in zip(_PLACE, AT, strict=True))
        )
        own = Selection(QUARANTINE, self.source.schema, self.source.table).where()
        first = self.context.records.read(QUARANTINE).where(own & (F.col("code") != FENCED))
        blocked = first.join(entering, list(AT), "left_anti").select(F.col("key_values").alias(_KEY)).distinct()
        rows = decided.join(blocked.withColumn(_BLOCKED, F.lit(True)), _KEY, "left")
        stays_open = F.col(change.FENCED) & F.col(_BLOCKED) & (F.col(_STATUS) == REDRIVEN)
        return rows.withColumn(_STATUS, F.when(stays_open, OPEN).otherwise(F.col(_STATUS)))

    def _entered(self, table: TablePair) -> DataFrame:
        """The places of the rows that a first try of this operation has appended."""
        begun = table.changes.inherited(OPERATION) == self.operation
        rows = self.context.spark.table(table.name.changes.sql).where(F.lit(begun))
        return rows.select(*_PLACE, F.lit(True).alias(_ENTERED))

    def _set_aside(self, broken: DataFrame, rules: RuleSet, table: TablePair) -> None:
        """A dead letter that can be read by now, and breaks a rule; once, whichever try of this operation it is."""
        done = self.context.records.read(QUARANTINE).where(F.col("batch_id") == self.context.run.ledger.batch_id)
        rows = dead_letters.quarantined(broken, rules, table.layout, self.source).join(
            done.select(*AT), list(AT), "left_anti"
        )
        self.context.records.append(QUARANTINE, self.context.run.ledger.batch_id, rows)

    def _mark(self, rows: DataFrame) -> None:
        status = F.when(F.col(_STATUS) == SUPERSEDED, SUPERSEDED).otherwise(REDRIVEN)
        place = [F.col(name).alias(column) for name, column in zip(_PLACE, AT, strict=True)]
        if not rows.isEmpty():
            self.context.records.mark(self.what, rows.select(*place, status.alias(_STATUS)))


def _by_offset(context: PipelineContext, messages: TableMessages, _table: TablePair | None) -> TableOrdering | None:
    """How they enter; None where no key names these rows."""
    if any(seen.version.handle == () for seen in messages.versions):
        return None
    return TableByOffset(context, settles=False)


def _by_commit_ts(context: PipelineContext, messages: TableMessages, table: TablePair | None) -> TableOrdering | None:
    """How they enter; None where the name of a table without a pair means another one."""
    if table is not None:
        return TableByCommitTs(context)
    made = made_by_rows(context, messages.table, min(seen.since for seen in messages.versions))
    return None if made is None else TableByCommitTs(context, bindings=(made,))


def _show(context: PipelineContext, table: TablePair, operation: str) -> None:
    """Bring the current table up to what its changes table has; by commit ts within the cut that it shows.

    Without a key it is built again: the delete of a row that enters now has passed, and found nothing, or another one.
    """
    context.cuts.unrecorded.add(table.uuid)
    if chosen(context, by_offset=True, by_commit_ts=False):
        current.publish(context.spark, table, context.timezone, operation, context.step)
    elif _is_multiset(table) and table.changes.inherited(OPERATION) == operation:
        replay(context.spark, context.tables, table, context.timezone, operation, context.step)
    else:
        advance.advance(context.spark, table, context.timezone, operation, context.step, table.by_commit_ts.cut)


def _is_multiset(table: TablePair) -> bool:
    return not table.layout.handle
