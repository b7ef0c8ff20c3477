"""How far the changefeed has come with a batch, and what a second try of the batch has to know of that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.ingest.accounting import planned_ends
from pipeline.ingest.by_commit_ts import frontier
from pipeline.ingest.by_commit_ts.frontier import EarlierTry, Recorded
from pipeline.ingest.phases import PropertyNote
from pipeline.model.frontier import NEVER, Frontier, closed_by_watermark, commit_ts_of
from pipeline.model.places import Partition
from pipeline.warehouse.state import TRIED
from pipeline.warehouse.stored import Tried

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.ddl.statement import Statement
    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.routed import RoutedBatch
    from pipeline.model.messages import Ddl
    from pipeline.model.places import PartitionId
    from pipeline.sources.source import Stream
    from pipeline.warehouse.pairs import TablePair


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The frontiers of a batch. `ends`: up to where each partition has been read with it."""

    frontiers: Mapping[Partition, Frontier]
    read: Frontier
    """How far all partitions have been read: what the ledger says."""
    resolved: Frontier
    """How far the tables are to be brought: no further than to a barrier."""
    late: frozenset[str]
    """Streams that have not been read as far as the others: they came later, with a history of their own."""
    late_frontier: Frontier
    """How far these have been read."""
    joined: frozenset[str]
    """Streams that are new, and not late."""
    ahead: Frontier
    """How far a try that died may have applied DDL events, if it had read more than this one."""
    streams: Mapping[str, Stream]
    ends: Mapping[Partition, int]

    @property
    def cut_ts(self) -> int:
        """Up to which commit ts the tables are to be brought."""
        return commit_ts_of(self.resolved)

    @property
    def is_ahead(self) -> bool:
        """Whether DDL events of a try that died are applied which this batch has not read."""
        return self.ahead > self.resolved

    def applied_up_to(self, ddl: Ddl) -> Frontier:
        """Up to which frontier a statement is applied."""
        return self.late_frontier if any(at.stream in self.late for at in ddl.at) else self.resolved

    def ended_before(self, barrier: Statement | None) -> BatchProgress:
        """The same, but the tables are brought no further than to a statement that waits for the next batch."""
        if barrier is None:
            return self
        closed = closed_by_watermark(barrier.commit_ts)
        of_late = any(at.stream in self.late for at in barrier.ddl.at)
        resolved = self.resolved if of_late else min(self.resolved, closed)
        return replace(self, late_frontier=min(self.late_frontier, closed), resolved=resolved)

    def until(self, pair: TablePair, stream_ids: Mapping[str, str]) -> int:
        """Up to which commit ts a pair's changes have been read."""
        return commit_ts_of(self.late_frontier if self.is_late(pair, stream_ids) else self.resolved)

    def is_late(self, pair: TablePair, stream_ids: Mapping[str, str]) -> bool:
        """Whether rows may be missing up to where the others are: its stream came later, or nobody knows it yet.

        A table made from pending rows has no stream recorded, and after a RENAME its rows may come in another stream.
        """
        if not self.late:
            return False
        streams = pair.streams_at()
        return not streams or not streams.isdisjoint(stream_ids.get(stream, "") for stream in self.late)

    def note(self, context: PipelineContext, batch_id: int, *, applies: bool) -> tuple[PropertyNote, ...]:
        """What lets a second try know how far this one has read, where tables alone do not tell it.

        The tables do not tell it once DDL events are applied (`applies`), and never tell that a stream was new and in
        time. What an earlier try noted stays as long as this one has not read as far.
        """
        if not (applies or self.joined) or self.ahead > self.read:
            return ()
        in_time = [at for at in self.frontiers if at.stream in self.streams and at.stream not in self.late]
        places = {(self.streams[at.stream].id, at.number): self.ends.get(at, 0) for at in in_time}
        batches = context.records.tables["batches"]
        return (PropertyNote(batches, TRIED.entry(Tried(batch_id, self.read, places)), inherited=False),)


def progress_of(context: PipelineContext, routed: RoutedBatch) -> BatchProgress:
    """Find how far all streams have been read with a batch, and which of them are late."""
    ledger, source, messages, planned = context.run.ledger, context.source, routed.messages, routed.raw.planned
    streams = source.streams()
    ends = {**ledger.committed.of(streams), **planned_ends(routed), **messages.ends}
    partitions = {name: [Partition(name, n) for n in stream.partitions] for name, stream in streams.items()}
    reached = {at: ends.get(at, 0) for members in partitions.values() for at in members}
    unread = source.unread(reached)
    if planned is not None:  # each that had records then is in the plan with one at least: others are newer
        unread = frozenset(at for at in unread if planned.end.get(at, 0) > 0)
    begun = [at for at, end in ledger.committed.of(streams).items() if end > 0]
    announced = source.progress(messages)
    tried, ahead = _tried(context, {(streams[at.stream].id, at.number): at for at in reached}, reached)
    read = frontier.reached(
        Recorded(ledger.progress.frontiers, ledger.progress.resolved, begun),
        frontier.progress(ledger.progress.frontiers, announced, messages.ddl, reached),
        frontier.oldest_of(messages, announced),
        partitions,
        unread,
        tried,
    )
    # a try that died may have read further, and shown that: all of it stands in the changes tables
    resolved = max(read.resolved, _shown(context))
    return BatchProgress(
        read.frontiers, read.resolved, resolved, read.late, read.late_frontier, read.joined, ahead, streams, ends
    )


def _shown(context: PipelineContext) -> Frontier:
    """Up to where the table that has come furthest shows its changes."""
    return max((closed_by_watermark(table.by_commit_ts.cut) for table in context.tables), default=NEVER)


def _tried(
    context: PipelineContext, partitions: Mapping[PartitionId, Partition], reached: Mapping[Partition, int]
) -> tuple[EarlierTry, Frontier]:
    """How far a try that died was resolved, and the partitions that are complete up to there where it ended.

    `partitions`: by identity those of streams that are there. `reached`: where this try ends in each.

    This try may find less of itself: a partition that had been read to its end has got more since then. Nothing is
    known where this one has read less than the other (the checkpoint is lost, and batches are shorter now): DDL
    events that the other one applied are ahead of it then (the second value).
    """
    if not context.run.recovering:
        return EarlierTry(), NEVER
    tried = context.records.tables["batches"].property_of(TRIED)
    if not tried or tried.batch < context.run.ledger.unfinished:
        return EarlierTry(shown=_shown(context)), NEVER
    in_time = frozenset(partitions[at] for at in tried.ends if at in partitions)
    if any(at not in partitions or reached[partitions[at]] < end for at, end in tried.ends.items() if end):
        return EarlierTry(shown=_shown(context), in_time=in_time), Frontier(tried.resolved)
    return EarlierTry(Frontier(tried.resolved), in_time, _shown(context), in_time), NEVER
