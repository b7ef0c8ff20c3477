"""What a run learns from one batch to the next: how far the warehouse has come, and what the next batch can go by."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.ingest.fast_path.batch_profile import BatchProfile
from pipeline.model.columns import CommitTs
from pipeline.model.frontier import NEVER, Frontier
from pipeline.model.messages import Ordering
from pipeline.model.places import Partition
from pipeline.sources.source import Committed
from pipeline.warehouse.state import (
    BATCH,
    ENDS,
    FRONTIERS,
    LAST_WATERMARKS,
    ORDERING,
    RESOLVED,
    STREAM_NAMES,
    UNFINISHED,
    WATERMARKS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pipeline.model.places import PartitionId
    from pipeline.warehouse.records import Records
    from pipeline.warehouse.stored import PartitionTs


@dataclass(frozen=True, slots=True)
class ChangefeedProgress:
    """By commit ts: how far the changefeed has come."""

    frontiers: Mapping[Partition, Frontier] = field(default_factory=dict)
    """How far each partition has come."""
    resolved: Frontier = NEVER
    """How far all streams but the late ones have been read. A barrier keeps the newest cut before it."""
    last_watermarks: Mapping[Partition, CommitTs] = field(default_factory=dict)
    """The last watermark of each partition, be it the greatest or not, as far as that is known."""


@dataclass(slots=True)
class Ledger:
    """How far the warehouse has come: the newest commit of `_pipeline.batches`, and nothing else."""

    batch_id: int = -1
    ends: dict[PartitionId, int] = field(default_factory=dict)
    streams: dict[str, str] = field(default_factory=dict)
    """Identity of a stream → the name that it had."""
    watermarks: dict[Partition, CommitTs] = field(default_factory=dict)
    progress: ChangefeedProgress = field(default_factory=ChangefeedProgress)
    ordering: Ordering | None = None
    """In which order changes are applied; None where no message has told it, and where an older version wrote it."""
    unfinished: int = 0
    """The first batch of which a try that was never committed may lie in the tables, beyond `ends`."""

    @staticmethod
    def load(records: Records) -> Ledger:
        """The ledger as the tables have it."""
        table = records.tables["batches"]
        ends = table.inherited(ENDS)
        if ends is None:
            return Ledger()
        ordering = table.inherited(ORDERING)
        batch, unfinished = table.inherited(BATCH), table.inherited(UNFINISHED)
        batch_id = -1 if batch is None else batch
        return Ledger(
            batch_id,
            ends,
            table.inherited(STREAM_NAMES) or {},
            _by_partition(table.inherited(WATERMARKS)),
            ChangefeedProgress(
                {partition: Frontier(ts) for partition, ts in _by_partition(table.inherited(FRONTIERS)).items()},
                Frontier(table.inherited(RESOLVED) or 0),
                _by_partition(table.inherited(LAST_WATERMARKS)),
            ),
            Ordering(ordering) if ordering else None,
            batch_id + 1 if unfinished is None else unfinished,
        )

    def summary(self) -> dict[str, str]:
        """What the ledger's commit carries."""
        return {
            **BATCH.entry(self.batch_id),
            **ENDS.entry(self.ends),
            **STREAM_NAMES.entry(self.streams),
            **WATERMARKS.entry(_rows(self.watermarks)),
            **FRONTIERS.entry(_rows(self.progress.frontiers)),
            **RESOLVED.entry(self.progress.resolved),
            **(ORDERING.entry(str(self.ordering)) if self.ordering else {}),
            **UNFINISHED.entry(self.unfinished),
            **LAST_WATERMARKS.entry(_rows(self.progress.last_watermarks)),
        }

    @property
    def committed(self) -> Committed:
        """In the words of a source."""
        return Committed(self.ends, self.streams)


def _rows(numbers: Mapping[Partition, int]) -> tuple[PartitionTs, ...]:
    return tuple((partition.stream, partition.number, ts) for partition, ts in numbers.items())


def _by_partition(rows: Iterable[PartitionTs] | None) -> dict[Partition, CommitTs]:
    """The inverse of `_rows`."""
    return {Partition(stream, number): CommitTs(ts) for stream, number, ts in rows or ()}


@dataclass(slots=True)
class RunState:
    """What a run has learnt. A batch changes it when it is committed."""

    ledger: Ledger
    recovering: bool = True
    """Until the ledger has passed what an unfinished batch of another process may have left in the tables."""
    profile: BatchProfile = field(default_factory=BatchProfile)
    """What the batches until now have taught of the next one."""
    has_pending: bool = True
    """Whether records may wait in `_pipeline.held` that are let in by themselves."""
    order_unknown: set[tuple[str, str]] | None = None
    """Tables (`TableName.key`) of which it was said that keys stand in several partitions; None: not read yet."""
    foreseen: dict[Partition, int] = field(default_factory=dict)
    """Up to where partitions have been searched for statements behind a batch (`by_commit_ts.foreseen`)."""
    _done: dict[str, float] = field(default_factory=dict)

    @property
    def batch_id(self) -> int:
        """Number of the next batch: one more than the ledger's.

        It is not Spark's number of the micro-batch, which begins again when a checkpoint is lost.
        """
        return self.ledger.batch_id + 1

    def is_due(self, what: str, seconds: float) -> bool:
        """Whether something that costs a pass of its own was last done longer ago than this; then it counts as done."""
        now = time.monotonic()
        if now - self._done.get(what, -seconds) < seconds:
            return False
        self._done[what] = now
        return True
