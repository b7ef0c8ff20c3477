"""From a raw frame to the events of a batch that are new, and what they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F

from pipeline.ingest.routed import RoutedBatch
from pipeline.model.conditions import any_of
from pipeline.model.places import POSITION, stands_in
from pipeline.protocols.large.completion import with_kinds_of
from pipeline.protocols.sifted import selected
from pipeline.warehouse.raw_records import without
from pipeline.warehouse.small_batch import SmallBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack

    from pyspark.sql import Column, DataFrame

    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.routed import RawBatch
    from pipeline.model.messages import Messages
    from pipeline.model.places import Partition

FEW_TABLES = 2
"""With so many tables the source is read once per use; with more the raw frame is kept."""
_ROWS_PER_TASK = 20_000
"""A kept raw frame has a partition for each of the source's, of hundreds of streams: as many tasks for every table."""


@dataclass(frozen=True, slots=True)
class EventReader:
    """How an ordering reads.

    `prepared`: the events of raw records. `sifted`: the messages as tables here may have them. `keeps`: whether the
    frame is kept that so many tables read. `set_aside`: the places of what an unfinished batch has set aside, and
    `left` the messages of a batch (the first) without these (the second).
    """

    prepared: Callable[[DataFrame], DataFrame]
    sifted: Callable[[Messages, Mapping[str, str]], Messages]
    keeps: Callable[[int], bool]
    set_aside: Callable[[], DataFrame]
    left: Callable[[Messages, Messages], Messages]
    may_have_pending: bool = False
    """Whether records may come in that have waited."""


def read_new(context: PipelineContext, raw: RawBatch, resources: ExitStack, reader: EventReader) -> RoutedBatch:
    """The events of a batch that no committed batch has.

    `resources` releases frames that are kept. After a crash, what an unfinished batch has set aside counts as read.
    """
    frames = _Frames(context, reader, reader.prepared(raw.frame), dict(context.source.stream_ids()), resources)
    frames.keep_for(len(context.tables))
    messages = frames.routed()
    while messages.prepare_again:
        frames.frame.unpersist()
        frames.frame, frames.is_kept = reader.prepared(raw.frame), False
        frames.keep_for(len(context.tables))
        messages = frames.routed()
    if context.source.completion.is_due(messages):
        frames.frame = context.source.completion.completed(context.protocol, frames.frame, resources)
        messages = with_kinds_of(frames.routed(), messages)
    frames.keep_for(len(messages.tables))
    frames.coalesce(messages.events)
    committed = context.run.ledger.committed.ends
    ends = {at: committed.get((frames.stream_ids[at.stream], at.number), 0) for at in messages.starts}
    if any(start < ends[at] for at, start in messages.starts.items()):
        frames.frame = frames.frame.where(past(ends))
        messages = replace(frames.routed(), warnings=messages.warnings)
    if context.run.recovering:
        messages = frames.without_set_aside(messages)
    small = frames.small(messages.events)
    return RoutedBatch(raw, context.run.batch_id, frames.frame, messages, frames.stream_ids, small=small)


@dataclass(slots=True)
class _Frames:
    """A prepared frame, and what is done to it."""

    context: PipelineContext
    reader: EventReader
    frame: DataFrame
    stream_ids: dict[str, str]
    resources: ExitStack
    is_kept: bool = False
    is_read: bool = False
    """Whether it was read since it is kept."""

    def routed(self) -> Messages:
        """What the frame has."""
        self.is_read = self.is_kept
        return routed(self.context, self.frame, self.stream_ids, self.reader)

    def without_set_aside(self, messages: Messages) -> Messages:
        """The messages without those that an unfinished batch has set aside."""
        describe_job(self.context, "what an unfinished batch has set aside")
        places = self.reader.set_aside()
        if places.isEmpty():
            return messages
        self.frame = without(self.frame, F.broadcast(places))
        return self.reader.left(messages, self.routed())

    def keep_for(self, tables: int) -> None:
        """Keep the frame, where it is worth it for so many tables."""
        if not self.is_kept and self.reader.keeps(tables):
            self.frame = self.frame.persist(StorageLevel.MEMORY_AND_DISK_DESER)
            self.resources.callback(self.frame.unpersist)
            self.is_kept = True

    def coalesce(self, rows: int) -> None:
        """Give a frame that is kept no more partitions than its rows need."""
        if self.is_kept:
            self.frame = self.frame.coalesce(max(1, rows // _ROWS_PER_TASK))

    def small(self, events: int) -> SmallBatch | None:
        """The events once more, where they are few and the frame is kept."""
        spark, number = self.context.spark, self.context.run.batch_id
        return SmallBatch.of(spark, self.frame, events, number, is_read=self.is_read) if self.is_kept else None


def routed(context: PipelineContext, frame: DataFrame, stream_ids: dict[str, str], reader: EventReader) -> Messages:
    """What a prepared frame has. Streams that are new since the batch was taken are asked for."""
    describe_job(context, "route")
    messages = selected(context.protocol.read(frame), context.settings.source.table_filter)
    if any(at.stream not in stream_ids for at in messages.starts):
        stream_ids.update(context.source.stream_ids())
    return reader.sifted(messages, stream_ids)


def past(ends: Mapping[Partition, int]) -> Column:
    """Whether a record lies past these ends; in a partition without one it does."""
    return ~any_of(stands_in(partition) & (F.col(POSITION) < end) for partition, end in ends.items())


def describe_job(context: PipelineContext, what: str) -> None:
    """Describe what Spark does from here on, in this thread; writers do so for their tables."""
    context.spark.sparkContext.setJobDescription(f"batch {context.run.batch_id}: {what}")
