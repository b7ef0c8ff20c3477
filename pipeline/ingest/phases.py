"""What each phase of a micro-batch gives to the next one, as frozen values (`batch.micro_batch`).

`RawBatch` → `RoutedBatch` → `PlannedBatch` → `LandedBatch` → `CommittedBatch`. An ordering adds to a plan, and to what
has landed, what only it knows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pipeline.warehouse.iceberg import MAIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from pipeline.ingest.ddl.applier import DdlApplier
    from pipeline.ingest.fast_path.speculation import SpeculativeAppend
    from pipeline.ingest.table_writer import TableWriter
    from pipeline.model.messages import Messages
    from pipeline.model.names import Name
    from pipeline.sources.source import Planned
    from pipeline.warehouse.iceberg import Table


@dataclass(frozen=True, slots=True)
class RawBatch:
    """Records as a source gave them. `planned`: the ranges that it has planned for the batch, where it says so."""

    frame: DataFrame
    query_id: str
    planned: Planned | None = None
    given_up: Name | None = None
    """A table whose rows wait for a schema, and that a person has released: without a schema they are dead letters."""
    started: float = field(default_factory=time.monotonic)


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

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be done."""
        return not (self.messages.events or self.messages.pending_events)


class PropertyNote(NamedTuple):
    """Properties of a table that must be durable before the first statement is applied: a second try goes by them.

    `inherited`: they belong to the table's newest snapshot and all later ones.
    """

    table: Table
    properties: Mapping[str, str]
    inherited: bool

    def write(self) -> None:
        """Make them durable."""
        if self.inherited:
            self.table.mark(self.properties, MAIN)
        else:
            self.table.set_properties(self.properties)


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """What is to be done."""

    routed: RoutedBatch
    ddl: DdlApplier
    notes: tuple[PropertyNote, ...]


@dataclass(frozen=True, slots=True)
class TableResult:
    """What became of one table's messages in this batch."""

    table: str
    counts: Mapping[str, int] = field(default_factory=dict)
    dead_letters: int = 0
    held: int = 0
    order_unknown: int = 0
    seconds: float = 0.0
    snapshot: int | None = None
    quarantined: int = 0
    broken: Mapping[str, int] = field(default_factory=dict)
    """Rule → rows that break it, of the rules whose verdict is no."""
    newest: int = 0
    """The greatest commit ts of what was appended; 0 where none is known."""
    unnamed: int = 0
    """Changes of a batch whose rows have ENUM or SET columns with numbers of members that nobody has named."""


@dataclass(frozen=True, slots=True)
class LandedBatch:
    """A batch whose records are in the tables, or set aside; its tables show what they are to show.

    `unattributed`: dead letters of no table. `writers`: those of the tables that have been worked on.
    """

    routed: RoutedBatch
    writers: tuple[TableWriter, ...]
    tables: tuple[TableResult, ...]
    unattributed: int

    @property
    def dead_letters(self) -> int:
        """All of them."""
        return self.unattributed + sum(table.dead_letters for table in self.tables)


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """What one micro-batch did. `leaves_some`: the next batch can do more of it, and needs nothing new for that."""

    batch_id: int
    messages: Messages
    tables: tuple[TableResult, ...] = ()
    dead_letters: int = 0
    leaves_some: bool = False
