"""One table's rows by offset: versions and statements in the order in which they stand in the partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.ingest.by_offset.stages import is_stale, timeline
from pipeline.ingest.ddl import columns
from pipeline.ingest.set_aside import pending
from pipeline.ingest.table_work import EvolvedLayout, TableResult
from pipeline.model import change
from pipeline.model.conditions import any_of
from pipeline.model.holding import NAMELESS
from pipeline.model.messages import SeenVersion
from pipeline.model.places import PARTITION, POSITION, STREAM, Ranges, stands_in
from pipeline.model.set_aside import OPEN
from pipeline.warehouse import current
from pipeline.warehouse.evolution import keyed_as, meet, meet_key, newest, surely_keyed
from pipeline.warehouse.held import taken
from pipeline.warehouse.layout import Layout, LayoutByOffset
from pipeline.warehouse.pairs import State
from pipeline.warehouse.state import BORN, CREATED_AS, KEYSPACE
from pipeline.warehouse.stored import BoundAt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.ddl.statement import Statement
    from pipeline.ddl.table_ref import CreatedTable
    from pipeline.ingest.by_offset.names import NamesByOffset
    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.table_work import TableWork
    from pipeline.model.columns import SchemaId
    from pipeline.model.messages import Messages
    from pipeline.model.places import Partition
    from pipeline.warehouse.evolution import Note
    from pipeline.warehouse.pairs import TablePair


@dataclass(frozen=True, slots=True)
class TableByOffset:
    """`TableOrdering`. What statements of the batch have made of the table's name is known at the stage of its rows."""

    context: PipelineContext
    names: NamesByOffset | None = None
    """None outside of a batch."""
    bounds: Ranges | None = None
    """The positions [from, to) at which the messages' stage stands; None: the whole batch."""
    entered: int = 0
    """Commit ts of the statement with which the messages' stage begins."""
    created: CreatedTable | None = None
    """The CREATE TABLE that the pair will come from, where there was one."""
    applied_until: int = 0
    """Commit ts of the newest statement about a table that had no rows: older ones are re-sent, and change nothing."""
    settles: bool = True
    """Whether a version that the table knows may be the one that the newest statement has made."""

    @property
    def takes_pending(self) -> bool:
        """See `TableOrdering.takes_pending`: a release lets in what has waited."""
        return False

    def times(self, _work: TableWork) -> tuple[int, int] | None:
        """See `TableOrdering.times`."""
        return None

    def why_not_created(self, work: TableWork) -> str:
        """See `TableOrdering.why_not_created`."""
        return taken(self.context.tables.obstacle(work.messages.table))

    def evolved(self, work: TableWork, pair: TablePair | None) -> EvolvedLayout:
        """See `TableOrdering.evolved`."""
        layout = pair.layout if pair is not None else Layout(ddl_at=max(0, self.applied_until - 1))
        met: set[SchemaId] = set()
        notes: list[Note] = []
        for entry in timeline(work.messages, work.statements):
            if isinstance(entry, SeenVersion):
                met |= {entry.version.version} if layout.version(entry.version.version) is None else set()
                layout, more = self._met(layout, entry, work.statements)
            else:
                layout, more = columns.on_layout(layout, entry, self.context.policy)
                layout = _altered_in(layout, entry)
            notes += more
        table = work.messages.table
        unclear = self.names.ambiguous.get(table.key, "") if self.names else ""
        nameless = any(seen.version.handle == () for seen in work.messages.versions) or not layout.handle
        return EvolvedLayout(layout, tuple(notes), frozenset(met), unclear or (NAMELESS if nameless else ""))

    def _met(self, layout: Layout, seen: SeenVersion, statements: Sequence[Statement]) -> tuple[Layout, Sequence[Note]]:
        """The layout with a version, and what there is to say of that."""
        if seen.key_only:
            return meet_key(layout, seen.version), ()
        head, met_before = newest(layout), layout.version(seen.version.version) is not None
        older = head is not None and seen.version.version < head and not self.context.protocol.is_newest(seen)
        stale = not self.settles if met_before else older
        stale = stale or is_stale(layout, seen, statements)
        layout, notes = meet(layout, seen.version, self.context.policy, stale=stale)
        if seen.version.tells_before:
            layout = replace(layout, before=True)
        if seen.version.stands_in:
            layout = surely_keyed(layout)
        return layout if layout.handle else keyed_as(layout, seen.version), notes

    def create(self, work: TableWork, evolved: EvolvedLayout, noted: Mapping[str, str]) -> TablePair:
        """See `TableOrdering.create`. A second try finds the pair under whatever name it has by then."""
        table, tables, created = work.messages.table, self.context.tables, self.created
        born = BORN.entry(BoundAt(work.routed.batch_id, self.entered, *table.key))
        created_as = CREATED_AS.entry(created.name) if created else {}
        keyspace = KEYSPACE.entry(work.messages.origin.keyspace) if work.messages.origin else {}
        own = {**noted, **born, **created_as, **keyspace}
        pair = tables.create(table, evolved.layout, created.commit_ts if created else 0, own)
        truncated_at = self.names.truncated.get(table.key, 0) if self.names else 0
        if truncated_at:
            tables.truncate(pair, truncated_at)
        if self.names is not None:
            self.names.made(table.key, pair)
        return pair

    def noted(self, _evolved: EvolvedLayout, _state: State) -> Mapping[str, str]:
        """See `TableOrdering.noted`."""
        return {}

    def settle(self, work: TableWork, pair: TablePair, evolved: EvolvedLayout) -> None:
        """See `TableOrdering.settle`. Of a renamed pair it is noted in which streams the rows of its new name come."""
        if pair.renamed_at and pair.source.key == work.messages.table.key:
            streams = {at.stream for at in work.messages.partitions if at.stream in work.routed.stream_ids}
            self.context.tables.note_streams(pair, {work.routed.stream_ids[stream] for stream in streams})
        if evolved.unclear and pair.state is State.LIVE:
            self.context.tables.set_state(pair, State.HELD, evolved.unclear)

    def within(self, work: TableWork, events: DataFrame, ranges: Ranges | None, *, pending: bool) -> DataFrame:
        """See `TableOrdering.within`: within the bounds of the stage, too. A whole partition needs no predicate."""
        del pending  # nothing is
        bounds = dict(self.bounds or {})
        for partition, (low, high) in (ranges or {}).items():
            if self.bounds is not None and partition not in bounds:
                continue
            begin, end = bounds.get(partition, (0, 2**62))
            bounds[partition] = (max(low, begin), min(high, end))
        starts: dict[Partition, int] = {}
        lasts: dict[Partition, int] = {}
        for seen in work.messages.versions:
            for partition, first in seen.first.items():
                starts[partition] = min(first, starts.get(partition, first))
                lasts[partition] = max(seen.last[partition], lasts.get(partition, 0))
        whole = {at for at, (low, high) in bounds.items() if low <= starts.get(at, 0) and high > lasts.get(at, 0)}
        needed = {at: within for at, within in bounds.items() if self.bounds or at not in whole}
        return events.where(_inside(needed, exhaustive=self.bounds is not None)) if needed else events

    def records(self, work: TableWork) -> Column:
        """See `TableOrdering.records`."""
        copies = pending.is_copy_of(work.statements)
        return copies | self.context.protocol.where(work.messages) if work.messages.versions else copies

    def ranges(self, work: TableWork, batch: Messages) -> Ranges:
        """See `TableOrdering.ranges`: within the bounds of the stage."""
        bounds = self.bounds or {}
        return {at: bounds.get(at, (batch.starts[at], batch.ends[at])) for at in work.messages.partitions}

    def status(self, _pair: TablePair | None) -> str:
        """See `TableOrdering.status`: a DROP comes after them, and closes them."""
        return OPEN

    def hold(self, work: TableWork, _pair: TablePair | None, ends: Mapping[Partition, int], reason: str) -> int:
        """See `TableOrdering.hold`."""
        beyond = {at: (end, 2**62) for at, end in ends.items()}
        rows = self.within(work, work.routed.frame, beyond, pending=False).where(self.records(work))
        return pending.write_held(self.context, rows, work, reason, "open")

    def publish(self, work: TableWork, pair: TablePair | None) -> TableResult:
        """See `TableOrdering.publish`: at once."""
        if pair is None or pair.state in (State.HELD, State.DROPPED):
            return TableResult(str(work.messages.table))
        context = self.context
        done = current.publish(
            context.spark, pair, context.timezone, work.operation, context.step, lambda: _arrivals(work.routed.frame)
        )
        return TableResult(str(pair.source), order_unknown=done.order_unknown, snapshot=done.snapshot)


def _altered_in(layout: Layout, statement: Statement) -> Layout:
    """The layout with the partitions in which the newest statement stands that has changed columns."""
    if layout.altered_at != statement.commit_ts:
        return layout
    partitions = {(stream, partition) for stream, partition in statement.ddl.at}
    return replace(layout, by_offset=LayoutByOffset(tuple(sorted(partitions.union(layout.by_offset.altered_in)))))


def _arrivals(frame: DataFrame) -> DataFrame:
    """When each record came."""
    return frame.select(
        F.col(STREAM).alias(change.TOPIC),
        F.col(PARTITION).alias(change.PARTITION),
        F.col(POSITION).alias(change.OFFSET),
        F.col("timestamp").alias(change.ARRIVED_AT),
    )


def _inside(bounds: Ranges, *, exhaustive: bool) -> Column:
    """Whether a raw message lies within the ranges. Not `exhaustive`: other partitions are not restricted."""
    position = F.col(POSITION)
    inside = any_of(stands_in(at) & (position >= low) & (position < high) for at, (low, high) in bounds.items())
    return inside if exhaustive else inside | ~any_of(map(stands_in, bounds))
