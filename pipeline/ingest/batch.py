"""The micro-batch: the one function to read first.

It takes the records of one batch from a source's raw frame to tables that show them, in steps that are durable one by
one and harmless when repeated. What differs between the two orderings of changes is in a `BatchOrdering`: in
`by_offset.ordering` and in `by_commit_ts.ordering`.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from pipeline.ingest.accounting import write_results
from pipeline.ingest.ddl.drop import remove_dropped
from pipeline.ingest.fast_path.speculation import append_while_reading
from pipeline.ingest.reading import describe_job
from pipeline.ingest.set_aside.dead_letters import set_aside_refused
from pipeline.ingest.table_work import TableResult
from pipeline.ingest.table_writer import TableWriter
from pipeline.model.frontier import NEVER
from pipeline.observe.logs import bound
from pipeline.quality.gate import QualityStop
from pipeline.runtime.workers import side_by_side
from pipeline.warehouse.tables_view import write_tables_view

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.phases import CommittedBatch, LandedBatch, PlannedBatch
    from pipeline.ingest.reading import EventReader
    from pipeline.ingest.routed import RawBatch, RoutedBatch
    from pipeline.ingest.table_work import TableWork
    from pipeline.model.messages import Messages, TableMessages
    from pipeline.model.places import Partition, Range, Ranges

P = TypeVar("P", bound="PlannedBatch")
L = TypeVar("L", bound="LandedBatch")


class BatchOrdering(Protocol[P, L]):
    """How changes are put in order: the part of one micro-batch that depends on it."""

    @property
    def context(self) -> PipelineContext:
        """The open pipeline."""
        ...

    def reader(self) -> EventReader:
        """How records become messages of tables."""
        ...

    def read(self, raw: RawBatch, resources: ExitStack) -> RoutedBatch:
        """What no committed batch has, and what was pending. `resources` releases what is kept for it."""
        ...

    def not_stored(self, frame: DataFrame) -> DataFrame:
        """The events that no unfinished batch has put into a table."""
        ...

    def plan(self, routed: RoutedBatch) -> P:
        """The statements in the order in which they are applied, and what names mean; nothing is written."""
        ...

    def land(self, planned: P, refused: Mapping[str, int]) -> L:
        """Apply the statements, give each table its rows, and publish. `refused`: dead letters by table, so far."""
        ...

    def commit(self, planned: P, landed: L) -> CommittedBatch:
        """Write what was done, the consistent point, and last the ledger: then the batch is committed."""
        ...


def micro_batch(ordering: BatchOrdering[P, L], raw: RawBatch) -> CommittedBatch | None:
    """Take one micro-batch from the raw frame to the ledger.

    `context.step` is called between durable steps with the name of the last one: a test ends the process there. After
    a crash at any of them, or with a batch that overlaps what was committed, the same records give the same tables:

    - what the ledger has committed is not read again;
    - each changes table knows, in its own commits, how far it has come, and takes only what lies beyond;
    - each current table knows which changes it was built from;
    - a statement finds what it has done; what a second try has to know of names is noted before the first (`notes`);
    - dead letters and held records of an unfinished batch are found by their coordinates;
    - pending records that an unfinished batch has appended stop being pending, and are not appended again.

    None: the batch had nothing new.
    """
    context = ordering.context
    with ExitStack() as resources:
        routed = append_while_reading(context, ordering.reader(), raw, resources) or ordering.read(raw, resources)
        if routed.is_empty and not _comes_further(context, routed):
            return None
        context.step("read")
        refused = _set_aside(ordering, routed)  # first: a second try, which may be able to read them, leaves them there
        context.step("dead-letters-appended")
        planned = ordering.plan(routed)
        for note in planned.notes:
            note.write()
        landed = ordering.land(planned, refused)
        committed = ordering.commit(planned, landed)
        context.step("ledger-appended")
        if remove_dropped(context):  # no try of this batch will need them; a later one sees to it if this one dies here
            write_tables_view(context.tables, context.records, routed.batch_id)
        return committed


def _comes_further(context: PipelineContext, routed: RoutedBatch) -> bool:
    """Whether the source says more of its progress than the ledger has, with records or without."""
    before = context.run.ledger.progress.frontiers
    return any(to > before.get(at, NEVER) for at, to in context.source.progress(routed.messages).items())


def _set_aside(ordering: BatchOrdering[P, L], routed: RoutedBatch) -> Mapping[str, int]:
    """Make dead letters of the messages that no table takes; how many by table ("": of none)."""
    if not routed.messages.refused:
        return {}
    describe_job(ordering.context, "dead letters")
    frame = ordering.not_stored(routed.frame)
    return set_aside_refused(ordering.context, frame, routed.messages.refused, routed.batch_id)


@dataclass(slots=True)
class Writers:
    """Gives tables their parts of a batch, and keeps what became of each."""

    context: PipelineContext
    routed: RoutedBatch
    writers: list[TableWriter] = field(default_factory=list)
    results: list[TableResult] = field(default_factory=list)

    def land(self, parts: Sequence[TableWork]) -> None:
        """Land the parts of several tables, side by side. The first error is raised when all have ended."""
        threads = self.context.settings.warehouse.threads(small=self.routed.small is not None)
        try:
            results = side_by_side(self._land_one, parts, threads, lambda work: work.messages.rows)
        except QualityStop:
            write_results(self.context, self.routed.batch_id, self.writers)
            raise
        self.results += results

    def outcome(self, refused: Mapping[str, int]) -> tuple[tuple[TableWriter, ...], tuple[TableResult, ...], int]:
        """The writers, the results, and how many dead letters are of no table; `refused` are counted, too."""
        of_tables = [TableResult(table, dead_letters=count) for table, count in refused.items() if table and count]
        return tuple(self.writers), (*of_tables, *self.results), refused.get("", 0)

    def _land_one(self, work: TableWork) -> TableResult:
        with bound(batch=self.routed.batch_id, table=str(work.messages.table)):
            writer = TableWriter.of(self.context, work)
            self.writers.append(writer)
            return land_table(writer, self.routed.messages)


def land_table(writer: TableWriter, batch: Messages) -> TableResult:
    """One table's messages: held, or appended to its changes, and shown (by commit ts later, with all others)."""
    step, messages, ordering = writer.context.step, writer.messages, writer.work.ordering
    before = begun(writer.ends(), messages, batch)
    if not writer.held:
        writer.evolve()
        step("evolved")
    given: Ranges = {} if writer.held else ordering.ranges(writer.work, batch)
    ranges = beyond(writer.ends(), given, batch)
    has_rows = ranges or (ordering.takes_pending and not writer.held)
    counts = dict(writer.append(ranges)) if has_rows else {}
    if writer.held:  # from here on, where a statement is not understood or a verdict forbids the batch
        unreadable = writer.set_aside_unreadable(before) if before else 0
        quarantined = writer.quarantine(before, again=True) if before else 0
        held = writer.hold()
        step("held-appended")
        return TableResult(
            str(messages.table), dead_letters=unreadable, held=held, quarantined=quarantined, broken=writer.broken()
        )
    step("changes-appended")
    unreadable = writer.set_aside_unreadable(None) if counts.pop("errors", 0) or before else 0
    step("unreadable-set-aside")
    quarantined = writer.quarantine(None, again=bool(before)) if counts.pop("quarantined", 0) or before else 0
    step("quarantined")
    newest = counts.pop("newest", 0)
    result = replace(writer.publish(), dead_letters=unreadable, quarantined=quarantined, broken=writer.broken())
    return replace(result, counts=counts, newest=newest)


def begun(reached: Mapping[Partition, int], messages: TableMessages, batch: Messages) -> dict[Partition, Range]:
    """What an unfinished try of these messages has appended already: it may have gone no further than that."""
    return {
        partition: (batch.starts[partition], min(reached[partition], batch.ends[partition]))
        for partition in messages.partitions
        if reached.get(partition, 0) > batch.starts[partition]
    }


def beyond(reached: Mapping[Partition, int], given: Ranges, batch: Messages) -> dict[Partition, Range]:
    """Those of the given ranges that a table does not have yet: from its own end, not from the batch's start.

    Never by batch id. With a restored checkpoint another try of the same id reads other ranges: the id says who has
    written a row (`Ledger.unfinished`), and not which records it has read.
    """
    ranges: dict[Partition, Range] = {}
    for partition, (begin, end) in given.items():
        low, high = max(begin, batch.starts[partition], reached.get(partition, 0)), min(end, batch.ends[partition])
        if low < high:
            ranges[partition] = (low, high)
    return ranges
