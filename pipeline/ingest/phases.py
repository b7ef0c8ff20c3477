"""What each phase of a micro-batch gives to the next one (`batch.micro_batch`). No field is replaced.

`RawBatch` → `RoutedBatch` (both in `routed`) → `PlannedBatch` → `LandedBatch` → `CommittedBatch`. An ordering adds to a
plan, and to what has landed, what only it knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pipeline.warehouse.iceberg import MAIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.ingest.ddl.applier import DdlApplier
    from pipeline.ingest.routed import RoutedBatch
    from pipeline.ingest.table_work import TableResult
    from pipeline.ingest.table_writer import TableWriter
    from pipeline.model.messages import Messages
    from pipeline.warehouse.iceberg import Table


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
    """What is to be done. `ddl` follows the statements while the batch is landed, and so do the names that it has."""

    routed: RoutedBatch
    ddl: DdlApplier
    notes: tuple[PropertyNote, ...]


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
    """What one micro-batch did.

    `leaves_some`: the next batch can do more of it, and needs nothing new for that. It comes with the next records, or
    at the end of a run with `--available-now`.
    """

    batch_id: int
    messages: Messages
    tables: tuple[TableResult, ...] = ()
    dead_letters: int = 0
    leaves_some: bool = False
