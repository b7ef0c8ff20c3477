"""A source table's pair in the warehouse, and how its own properties and snapshots say what it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.model.messages import EVER
from pipeline.model.names import CHANGES_SUFFIX, TableName, WarehouseName
from pipeline.warehouse.layout import Layout
from pipeline.warehouse.state import (
    APPLIED,
    BACKFILLED,
    CREATED,
    CREATED_AS,
    CUT,
    DELIVERIES,
    DROPPED,
    ENDS,
    HELD_REASON,
    KEYSPACE,
    LATE_SHOWN,
    LAYOUT,
    NAME_BINDINGS,
    REMOVED,
    RENAMED,
    ROLE,
    SOURCE_SCHEMA,
    SOURCE_TABLE,
    STATE,
    STREAMS,
    TRUNCATED,
    WANTED_NAME,
)
from pipeline.warehouse.stored import Place, State, StoredBinding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pipeline.model.places import PartitionId
    from pipeline.warehouse.clone.live_files import LiveFiles
    from pipeline.warehouse.iceberg import Catalog, Table
    from pipeline.warehouse.layout import Column

__all__ = [
    "STAGE",
    "PairByCommitTs",
    "PairByOffset",
    "Place",
    "State",
    "StoredBinding",
    "TablePair",
    "backfills_of",
    "current_of",
    "loaded",
    "name_at",
    "pair_of",
    "read_published",
    "written_bindings",
    "written_state",
]

STAGE = "stage_"
"""How the branches begin on which a table is made ready; the operation follows."""


@dataclass(slots=True)
class PairByOffset:
    """What is known of a pair in the ordering by offset alone. By commit ts earlier versions noted a TRUNCATE so, too.

    `truncated_at`: the newest TRUNCATE TABLE; `truncated_done`: the one that the current table shows.
    """

    truncated_at: int = 0
    truncated_done: int = 0


@dataclass(slots=True)
class PairByCommitTs:
    """What is known of a pair in the ordering by commit ts alone."""

    cut: int = 0
    """The commit ts up to which the current table shows the changes."""
    late_shown: frozenset[int] = frozenset()
    """Appends after `TablePair.applied` that came late, and are shown already."""
    removed_done: int = 0
    """The newest removal of partitions that the current table shows."""
    bindings: tuple[StoredBinding, ...] = ()
    """The names that the source has had, and when."""
    deliveries: frozenset[Place] = frozenset()
    """Without a key: where redeliveries begin, as watermarks show (`ingest`)."""


@dataclass(slots=True)
class TablePair:
    """One source table's pair in the warehouse, as this process knows it."""

    source: TableName
    name: WarehouseName
    changes: Table
    current: Table | None
    layout: Layout = field(default_factory=Layout)
    state: State = State.LIVE
    held_reason: str = ""
    created_at: int = 0
    created_as: tuple[str, str] | None = None
    """The name (`TableName.key`) that the CREATE TABLE gave, as far as it is known."""
    keyspace: str = ""
    """Where the rows that made the pair come from (`Origin.keyspace`); empty if any will do."""
    renamed_at: int = 0
    wanted_name: TableName | None = None
    """The source's name that the pair is to get. It was taken, so the pair is held under its old name.

    As long as another pair has that name, as far as is known, `source` is a name that no table has (`hold_rename`)."""
    dropped_at: int = 0
    by_offset: PairByOffset = field(default_factory=PairByOffset)
    by_commit_ts: PairByCommitTs = field(default_factory=PairByCommitTs)
    ends: dict[PartitionId, int] = field(default_factory=dict)
    streams: frozenset[str] = frozenset()
    """Ids of streams with rows under the name that the newest RENAME gave, or that a person has accepted."""
    applied: int | None = None
    backfilled: frozenset[str] = frozenset()
    unshown: bool = True
    """Whether the current table may have no snapshot with its columns of now."""
    altered: str = ""
    """Why neither table may be written: columns that only a DDL event may change differ from the layout."""
    not_ours: tuple[str, ...] = ()
    """Columns of users in the changes table: new rows are NULL there."""
    not_ours_in_current: tuple[str, ...] = ()
    live_files: LiveFiles | None = None
    """The current table's data files, once `clone` has looked at them."""
    looked_at: tuple[object, ...] = ()
    """Schemas and layout that were compared last (`warehouse.altered`)."""

    @property
    def uuid(self) -> str:
        """The identity that outlives renames: that of the changes table."""
        return self.changes.uuid

    def streams_at(self, commit_ts: int = EVER) -> frozenset[str]:
        """Ids of the streams that bring the table under its name at a commit ts; none until a row shows one.

        A changefeed sends rows by the name of their table, so after a RENAME they may come in another stream.
        """
        if 0 < self.renamed_at < commit_ts:
            return self.streams
        streams = frozenset(stream for stream, _ in self.ends)
        return streams if self.renamed_at else streams | self.streams

    @property
    def is_displaced(self) -> bool:
        """Whether another pair has the source's name, as far as is known."""
        return self.wanted_name is not None and self.wanted_name.key != self.source.key


def loaded(name: WarehouseName, tables: Mapping[WarehouseName, Table]) -> TablePair | None:
    """The pair whose changes table has this name, of tables that were loaded; None if the table is no changes table."""
    changes = tables.get(name)
    properties = {} if changes is None else changes.properties
    if changes is None or ROLE.read(properties) != "changes":
        return None
    base = pair_of(name)
    source = TableName(SOURCE_SCHEMA.required(properties), SOURCE_TABLE.required(properties))
    table = TablePair(source, base, changes, _if_current(tables.get(base)), LAYOUT.required(properties))
    table.state = STATE.read(properties) or State.LIVE
    table.held_reason = HELD_REASON.read(properties) or ""
    table.created_at = CREATED.read(properties) or 0
    table.created_as = CREATED_AS.read(properties)
    table.keyspace = KEYSPACE.read(properties) or ""
    table.renamed_at = RENAMED.read(properties) or 0
    table.wanted_name = WANTED_NAME.read(properties)
    table.by_offset.truncated_at = TRUNCATED.read(properties) or 0
    table.dropped_at = DROPPED.read(properties) or 0
    if table.state is State.DROPPED and not table.dropped_at:  # by a version that noted it as a TRUNCATE
        table.dropped_at = table.by_offset.truncated_at
    table.by_commit_ts.bindings = NAME_BINDINGS.read(properties) or ()
    table.by_commit_ts.deliveries = DELIVERIES.read(properties) or frozenset()
    table.ends = changes.inherited(ENDS) or {}
    table.streams = STREAMS.read(properties) or frozenset()
    read_published(table)
    return table


def pair_of(changes: WarehouseName) -> WarehouseName:
    """The name of the pair whose changes table has this name."""
    return WarehouseName(changes.namespace, changes.name.removesuffix(CHANGES_SUFFIX))


def current_of(catalog: Catalog, name: WarehouseName) -> Table | None:
    """The current table of this name, if there is one: a person may have a table where a pair has none."""
    return _if_current(catalog.table(name))


def _if_current(table: Table | None) -> Table | None:
    return table if table is not None and ROLE.read(table.properties) == "current" else None


def read_published(table: TablePair) -> None:
    """What the current table says of itself."""
    if table.current is not None:
        texts = table.current.inherited_all(APPLIED, CUT, REMOVED, LATE_SHOWN, TRUNCATED, BACKFILLED)
        table.applied = APPLIED.read(texts)
        table.by_commit_ts.cut = CUT.read(texts) or 0
        table.by_commit_ts.removed_done = REMOVED.read(texts) or 0
        table.by_commit_ts.late_shown = LATE_SHOWN.read(texts) or frozenset()
        table.by_offset.truncated_done = TRUNCATED.read(texts) or 0
        table.backfilled = BACKFILLED.read(texts) or frozenset()


def backfills_of(layout: Layout) -> dict[str, tuple[Column, int]]:
    """What rows of the current table must show because of the layout: `<column id>:<conversions>` → which."""
    by_id: dict[str, tuple[Column, int]] = {}
    for column in layout.current:
        if column.default.kind == "literal":
            by_id[f"{column.id}:0"] = (column, 0)
        for number in range(1, len(column.conversions) + 1):
            by_id[f"{column.id}:{number}"] = (column, number)
    return by_id


def name_at(bindings: Iterable[StoredBinding], commit_ts: int) -> TableName | None:
    """The name that a pair has after the statements of a commit ts; None if it has none, or it is unknown."""
    names = (
        TableName(binding.schema, binding.table) for binding in bindings if binding.since <= commit_ts < binding.until
    )
    return next(names, None)


def written_state(state: State, reason: str = "") -> dict[str, str]:
    """The properties that say whether a pair lives."""
    return STATE.entry(state) | HELD_REASON.entry(reason)


def written_bindings(bindings: tuple[StoredBinding, ...]) -> dict[str, str]:
    """The property; none where there is nothing to say."""
    return NAME_BINDINGS.entry(bindings) if bindings else {}
