"""The first two phases of a micro-batch: records as a source gave them, and what they are."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from pipeline.model.messages import ColumnMapping, Messages
    from pipeline.model.names import Name
    from pipeline.model.places import Ranges
    from pipeline.quality.rules import RuleSet
    from pipeline.sources.source import Planned
    from pipeline.warehouse.pairs import TablePair
    from pipeline.warehouse.small_batch import SmallBatch
    from pipeline.warehouse.staged import Staged


@dataclass(frozen=True, slots=True)
class RawBatch:
    """Records as a source gave them. `planned`: the ranges that it has planned for the batch, where it says so."""

    frame: DataFrame
    query_id: str
    planned: Planned | None = None
    given_up: Name | None = None
    """A table whose rows wait for a schema, and that a person has released: without a schema they are dead letters."""
    started: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class SpeculativeAppend:
    """An append that waits on a branch. `messages`: what it was found to have."""

    staged: Staged
    mapping: ColumnMapping
    rules: RuleSet
    messages: Messages

    def fits(self, table: TablePair, mapping: ColumnMapping, rules: RuleSet, ranges: Ranges) -> bool:
        """Whether it is the append that is wanted: this table as it is by now, and all of the batch."""
        whole = {at: (start, self.messages.ends[at]) for at, start in self.messages.starts.items()}
        same = table is self.staged.table and mapping == self.mapping and rules is self.rules
        return self.staged.waits and same and ranges == whole

    def drop(self) -> None:
        """Let it go, if it still waits."""
        self.staged.drop()


@dataclass(frozen=True, slots=True)
class RoutedBatch:
    """The events that no committed batch has, and what they are.

    `frame`: prepared events (`SourceProtocol.prepare`). `stream_ids`: the identity of each stream, by its name.
    `speculation`: the append, if it was made while the batch was read.
    """

    raw: RawBatch
    batch_id: int
    frame: DataFrame
    messages: Messages
    stream_ids: Mapping[str, str]
    speculation: SpeculativeAppend | None = None
    small: SmallBatch | None = None
    """The events once more, where they are few."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be done."""
        return not (self.messages.events or self.messages.pending_events)
