"""What stays open from one micro-batch to the next: session, catalog, tables, ledger."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.model.columns import CommitTs
from pipeline.model.places import Partition
from pipeline.quality.gate import Gate
from pipeline.quality.rulebook import JudgedShape
from pipeline.settings.column_types import own_types
from pipeline.sources.source import Committed
from pipeline.streaming.fast_path.batch_profile import BatchProfile
from pipeline.streaming.frontier import NEVER, Frontier
from pipeline.warehouse.evolution import Policy
from pipeline.warehouse.state import (
    BATCH,
    ENDS,
    FRONTIERS,
    LAST_WATERMARKS,
    RESOLVED,
    STREAM_NAMES,
    UNFINISHED,
    WATERMARKS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import SparkSession

    from pipeline.model.messages import SourceProtocol, TableMessages
    from pipeline.model.places import PartitionId
    from pipeline.model.types import WarehouseType
    from pipeline.quality.rulebook import Rulebook
    from pipeline.quality.rules import RuleSet
    from pipeline.settings import Settings
    from pipeline.sources.source import Source
    from pipeline.warehouse.descriptions import Descriptions
    from pipeline.warehouse.layout import Layout
    from pipeline.warehouse.records import Records
    from pipeline.warehouse.stored import PartitionTs
    from pipeline.warehouse.tables import Tables

SAMPLE_SECONDS = 60.0
"""Rows that break a rule are looked for at most so often for a table."""


@dataclass(slots=True)
class Ledger:
    """How far the warehouse has come: the newest commit of `_pipeline.batches`, and nothing else."""

    batch_id: int = -1
    ends: dict[PartitionId, int] = field(default_factory=dict)
    streams: dict[str, str] = field(default_factory=dict)
    """Identity of a stream → the name that it had."""
    watermarks: dict[Partition, CommitTs] = field(default_factory=dict)
    frontiers: dict[Partition, Frontier] = field(default_factory=dict)
    """By commit ts: how far each partition has come."""
    resolved: Frontier = NEVER
    """By commit ts: how far all streams but the late ones have been read. A barrier keeps the newest cut before it."""
    unfinished: int = 0
    """The first batch of which a try that was never committed may lie in the tables, beyond `ends`."""
    last_watermarks: dict[Partition, CommitTs] = field(default_factory=dict)
    """By commit ts: the last watermark of each partition, be it the greatest or not, as far as that is known."""

    @staticmethod
    def load(records: Records) -> Ledger:
        """The ledger as the tables have it."""
        table = records.tables["batches"]
        ends = table.inherited(ENDS)
        if ends is None:
            return Ledger()
        batch, unfinished = table.inherited(BATCH), table.inherited(UNFINISHED)
        batch_id = -1 if batch is None else batch
        return Ledger(
            batch_id,
            ends,
            table.inherited(STREAM_NAMES) or {},
            _by_partition(table.inherited(WATERMARKS)),
            {partition: Frontier(ts) for partition, ts in _by_partition(table.inherited(FRONTIERS)).items()},
            Frontier(table.inherited(RESOLVED) or 0),
            batch_id + 1 if unfinished is None else unfinished,
            _by_partition(table.inherited(LAST_WATERMARKS)),
        )

    def summary(self) -> dict[str, str]:
        """What the ledger's commit carries."""
        return {
            **BATCH.entry(self.batch_id),
            **ENDS.entry(self.ends),
            **STREAM_NAMES.entry(self.streams),
            **WATERMARKS.entry(_rows(self.watermarks)),
            **FRONTIERS.entry(_rows(self.frontiers)),
            **RESOLVED.entry(self.resolved),
            **UNFINISHED.entry(self.unfinished),
            **LAST_WATERMARKS.entry(_rows(self.last_watermarks)),
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
class PipelineContext:
    """One open pipeline. `step` is told each durable step, for fail-points and logs."""

    spark: SparkSession
    settings: Settings
    source: Source
    protocol: SourceProtocol
    tables: Tables
    records: Records
    ledger: Ledger
    step: Callable[[str], None]
    rulebook: Rulebook
    descriptions: Descriptions | None = None
    """By commit ts: what is known of versions."""
    gate: Gate = field(default_factory=Gate)
    order_unknown: set[tuple[str, str]] | None = None
    """Tables (`TableName.key`) of which it was said that keys stand in several partitions; None: not read yet."""
    profile: BatchProfile = field(default_factory=BatchProfile)
    """What the batches until now have taught of the next one."""
    _done: dict[str, float] = field(default_factory=dict)
    unrecorded: set[str] = field(default_factory=set)
    """Tables (uuid) of which something other than a batch has shown a new snapshot, which no cut has yet."""
    partial: set[str] = field(default_factory=set)
    """Tables (uuid) of which the newest row of `cuts` says that changes may be missing."""
    cut_ts: int = 0
    """The newest cut that this process has written; 0: none."""
    late: frozenset[str] = frozenset()
    """By commit ts: tables (uuid) that the newest cut does not show as far as the others."""
    has_pending: bool = True
    """By commit ts: whether records may wait in `_pipeline.held` that are let in by themselves."""
    altered: bool = False
    """Whether a table was held for its columns, which `_pipeline.tables` does not say yet."""
    recovering: bool = True
    """Until the ledger has passed what an unfinished batch of another process may have left in the tables."""

    def is_due(self, what: str, seconds: float) -> bool:
        """Whether something that costs a pass of its own was last done longer ago than this; then it counts as done."""
        now = time.monotonic()
        if now - self._done.get(what, -seconds) < seconds:
            return False
        self._done[what] = now
        return True

    def rules_of(self, messages: TableMessages, layout: Layout) -> RuleSet:
        """What judges the messages of a table that has this layout."""
        versions = tuple(seen.version for seen in messages.versions if not seen.key_only)
        live = tuple(column.name for column in layout.columns if column.live)
        return self.rulebook.of(JudgedShape(messages.table, versions, layout.mapping, live))

    @property
    def overrides(self) -> Mapping[str, WarehouseType]:
        """See `own_types`."""
        return own_types(self.settings.warehouse.columns)

    @property
    def gx_seconds(self) -> float:
        """How often Great Expectations may judge the batches of a table."""
        return self.settings.quality.gx_interval_seconds

    @property
    def timezone(self) -> str:
        """The changefeed's time zone."""
        return self.settings.changefeed.timezone

    @property
    def policy(self) -> Policy:
        """What happens to dropped columns."""
        return Policy(keep_dropped_columns=self.settings.warehouse.drop_column == "keep")
