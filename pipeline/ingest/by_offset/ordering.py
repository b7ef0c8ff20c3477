"""The ordering by offset: each table shows its changes as soon as it has them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.ddl.rename_steps import executable
from pipeline.ddl.table_ref import CreatedTable
from pipeline.ingest import accounting, reading
from pipeline.ingest.batch import Writers
from pipeline.ingest.by_offset.names import NamesByOffset, PastDdl
from pipeline.ingest.by_offset.origins import Origins, identified
from pipeline.ingest.by_offset.stages import split_at_ddl
from pipeline.ingest.by_offset.statements import attributed, names_before, understood
from pipeline.ingest.by_offset.table_ordering import TableByOffset
from pipeline.ingest.ddl.applier import DdlApplier
from pipeline.ingest.phases import LandedBatch, PlannedBatch
from pipeline.ingest.reading import EventReader, describe_job
from pipeline.ingest.run_state import ChangefeedProgress
from pipeline.ingest.table_work import TableWork
from pipeline.model.frontier import watermarks_of
from pipeline.model.places import PARTITION, POSITION, STREAM
from pipeline.warehouse.consistent_points import resolved
from pipeline.warehouse.raw_records import places_since, without
from pipeline.warehouse.records import SET_ASIDE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack

    from pipeline.ingest.by_offset.stages import Stage, StagedRows
    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.phases import CommittedBatch
    from pipeline.ingest.routed import RawBatch, RoutedBatch
    from pipeline.model.columns import CommitTs
    from pipeline.model.places import Partition


@dataclass(frozen=True, slots=True)
class PlanByOffset(PlannedBatch):
    """The batch in stages: statements about names, and the messages after each."""

    stages: tuple[Stage, ...]
    names: NamesByOffset


@dataclass(slots=True)
class ByOffset:
    """`BatchOrdering` of one batch."""

    context: PipelineContext
    _origins: Origins | None = None

    def read(self, raw: RawBatch, resources: ExitStack) -> RoutedBatch:
        """See `BatchOrdering.read`: nothing waits by itself."""
        return reading.read_new(self.context, raw, resources, self.reader())

    def reader(self) -> EventReader:
        """See `BatchOrdering.reader`."""
        noun = self.context.source.stream_noun
        return EventReader(
            prepared=lambda raw: self.context.protocol.prepare(raw.select(*self.context.source.columns)),
            sifted=lambda messages, ids: identified(messages, lambda: self._known_origins(ids), noun),
            keeps=lambda tables: tables > reading.FEW_TABLES,
            set_aside=self._places_set_aside,
            left=lambda messages, left: replace(messages, tables=left.tables, refused=left.refused),
        )

    def _known_origins(self, stream_ids: Mapping[str, str]) -> Origins:
        """Which table has which name, as the tables and this batch say."""
        if self._origins is None:
            streams = self.context.run.ledger.streams | {stream: name for name, stream in stream_ids.items()}
            self._origins = Origins.of(self.context.tables, streams, stream_ids)
        return self._origins

    def _places_set_aside(self) -> DataFrame:
        """Where the records stand that an unfinished batch has set aside."""
        places = [
            self.context.records.read(name)
            .where(F.col("batch_id") >= self.context.run.ledger.unfinished)
            .select(STREAM, F.col("kafka_partition").alias(PARTITION), POSITION)
            for name in SET_ASIDE
        ]
        return reduce(DataFrame.union, places).distinct()

    def not_stored(self, frame: DataFrame) -> DataFrame:
        """See `BatchOrdering.not_stored`."""
        ledger = self.context.run.ledger
        for table in self.context.tables if self.context.run.recovering else ():
            if any(end > ledger.ends.get(at, 0) for at, end in table.ends.items()):
                frame = without(frame, places_since(self.context.spark, table, ledger.unfinished))
        return frame

    def plan(self, routed: RoutedBatch) -> PlanByOffset:
        """See `BatchOrdering.plan`."""
        context, batch_id, messages = self.context, routed.batch_id, routed.messages
        describe_job(context, "statements")
        statements = understood(context, messages, self._known_origins(routed.stream_ids))
        past = PastDdl.of(context, statements)
        # The name of one that was applied may mean another table by now, which must not be dropped or renamed for it.
        statements = tuple(s for s in statements if not (s.naming and past.has(s.ddl)))
        before, noted_names = names_before(context, batch_id, statements)
        statements, noted_calls = attributed(context, batch_id, statements, past, before)
        statements = tuple(executable(statements, {*before, *(table.table.key for table in messages.tables)}))
        names = NamesByOffset(context, batch_id, dict(before), before, past, has_statements=bool(statements))
        stages = split_at_ddl(statements, messages.tables, before)
        return PlanByOffset(routed, DdlApplier(names), (*noted_names, *noted_calls), stages, names)

    def land(self, planned: PlanByOffset, refused: Mapping[str, int]) -> LandedBatch:
        """See `BatchOrdering.land`: stage by stage, each by what the statements before it have made of names."""
        writers = Writers(self.context, planned.routed)
        for stage in planned.stages:
            for statement in stage.statements:
                describe_job(self.context, "statements")
                planned.ddl.apply(statement)
                self.context.step("ddl-applied")
            writers.land([self._work(planned, stage, rows) for rows in stage.rows])
        return LandedBatch(planned.routed, *writers.outcome(refused))

    def _work(self, planned: PlanByOffset, stage: Stage, staged: StagedRows) -> TableWork:
        """The part of the batch that belongs to the table which a name means now."""
        names, table = planned.names, staged.messages.table
        pair, table_ref, key = names.of(table), names.bindings.get(table.key), table.key
        created = table_ref if isinstance(table_ref, CreatedTable) else None
        applied_until = names.past.newest.get(key, 0) if pair is None else 0
        statements = tuple(s for s in stage.statements if s.ddl.table.key == key and not s.naming)
        ordering = TableByOffset(self.context, names, staged.bounds, names.entered, created, applied_until)
        return TableWork(planned.routed, staged.messages, statements, pair, ordering)

    def commit(self, planned: PlanByOffset, landed: LandedBatch) -> CommittedBatch:
        """See `BatchOrdering.commit`."""
        context, source = self.context, self.context.source
        books = accounting.Books(context, landed, planned.ddl.history)
        books.check_held()
        books.write_versions()
        books.write()
        routed = landed.routed
        watermarks = {**context.run.ledger.watermarks, **watermarks_of(source.progress(routed.messages))}
        snapshots = {result.table: result.snapshot for result in landed.tables if result.snapshot is not None}
        level = context.cuts.bounded(
            routed.batch_id, self._cut_ts(routed, watermarks), snapshots, recovering=context.run.recovering
        )
        context.step("cuts-appended")
        return books.close(accounting.Closing(level, watermarks, ChangefeedProgress()), self._places_set_aside)

    def _cut_ts(self, routed: RoutedBatch, watermarks: Mapping[Partition, CommitTs]) -> int | None:
        """Up to which commit ts every change has been read; None while that is not known."""
        if not watermarks:
            return None
        names = {stream_id: name for name, stream_id in routed.stream_ids.items()}
        reached = self.context.run.ledger.committed.of_names(names) | dict(routed.messages.ends)
        return resolved(watermarks, self.context.source.unread(reached))
