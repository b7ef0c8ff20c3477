"""What the commands that look show of a table: facts taken from metadata, nothing computed from rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchTableError

from pipeline.errors import Refused
from pipeline.model.columns import DefaultKind
from pipeline.model.holding import way_on
from pipeline.model.names import CHANGES_SUFFIX, PIPELINE_NAMESPACE, TableName, WarehouseName, folded
from pipeline.settings.faults import did_you_mean
from pipeline.warehouse.alterations import (
    IN_CHANGES,
    IN_CURRENT,
    NOTHING_NOTED,
    Alterations,
    compared,
    fields,
    former_ids,
    of_changes,
    of_current,
    reason,
)
from pipeline.warehouse.clone.aligned import FieldIds
from pipeline.warehouse.layout import DDL_VERSION, Layout
from pipeline.warehouse.leftovers import leftovers
from pipeline.warehouse.pairs import State
from pipeline.warehouse.state import COLUMNS as COLUMNS_NOTED
from pipeline.warehouse.state import (
    HELD_REASON,
    LAYOUT,
    NAME_BINDINGS,
    OPERATION,
    ROLE,
    SOURCE_SCHEMA,
    SOURCE_TABLE,
    STATE,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from pipeline.lake.catalog import Reader
    from pipeline.warehouse.alterations import Place
    from pipeline.warehouse.layout import Column, Version
    from pipeline.warehouse.leftovers import Leftover
    from pipeline.warehouse.pairs import StoredBinding
    from pipeline.warehouse.retention import Retention

TABLE_UNKNOWN = "TABLE_UNKNOWN"
_READERS = 4
_UNITS = ("B", "kB", "MB", "GB", "TB")


NOT_OURS = "not ours"


@dataclass(frozen=True, slots=True)
class Extent:
    """How much lies on main, from the newest snapshot's summary."""

    rows: int = 0
    files: int = 0
    delete_files: int = 0
    size: int = 0
    snapshot: int | None = None
    committed: datetime | None = None

    @staticmethod
    def of(table: TableMetadata | None) -> Extent:
        """Read it off a table's metadata; rows are those that position deletes have left."""
        snapshot = None if table is None else table.current_snapshot()
        if snapshot is None:
            return Extent()
        return Extent(
            _total(snapshot, "records") - _total(snapshot, "position-deletes"),
            _total(snapshot, "data-files"),
            _total(snapshot, "delete-files"),
            _total(snapshot, "files-size"),
            snapshot.snapshot_id,
            moment(snapshot.timestamp_ms),
        )


@dataclass(frozen=True, slots=True)
class Pair:
    """One source table's tables in the warehouse, as their metadata describe them."""

    source: TableName
    name: WarehouseName
    changes: TableMetadata
    current: TableMetadata | None

    @property
    def main(self) -> WarehouseName:
        """The table to query: the current one, or the changes where there is no current."""
        return self.name.changes if self.current is None else self.name

    @property
    def state(self) -> State:
        """Live, held, releasing or dropped."""
        return STATE.read(self.changes.properties) or State.LIVE

    @property
    def held_reason(self) -> str:
        """Why the table is held."""
        return (HELD_REASON.read(self.changes.properties) or "") if self.state is State.HELD else ""

    @property
    def bindings(self) -> tuple[StoredBinding, ...]:
        """The names that the source has had; none without watermarks."""
        return NAME_BINDINGS.read(self.changes.properties) or ()

    @property
    def layout(self) -> Layout:
        """Its columns over time."""
        return LAYOUT.required(self.changes.properties)

    @property
    def is_aligned(self) -> bool:
        """Whether files of the changes table can be the current table's, too."""
        return self.current is None or _field_ids(self.current).fit(_field_ids(self.changes))


def _field_ids(table: TableMetadata) -> FieldIds:
    return FieldIds({field.name: field.field_id for field in table.schema().fields}, table.last_column_id)


def alterations(pair: Pair) -> dict[WarehouseName, Alterations]:
    """Give what users have changed about the columns of each of a pair's tables."""
    claimed = (COLUMNS_NOTED.read(pair.changes.properties) or NOTHING_NOTED).claimed
    changes = _altered(pair.name.changes, pair.changes, of_changes(pair.layout), claimed.get(IN_CHANGES, ()))
    if pair.current is None:
        return {pair.name.changes: changes}
    wanted = of_current(LAYOUT.required(pair.current.properties))
    return {
        pair.name: _altered(pair.name, pair.current, wanted, claimed.get(IN_CURRENT, ())),
        pair.name.changes: changes,
    }


def _altered(
    name: WarehouseName, table: TableMetadata, wanted: Mapping[Place, str], claimed: Sequence[str]
) -> Alterations:
    schemas = [_spec(schema) for schema in sorted(table.schemas, key=lambda schema: schema.schema_id)]
    return compared(name, wanted, fields(_spec(table.schema())), former_ids(schemas), claimed)


def _spec(schema: Schema) -> dict[str, Any]:
    return schema.model_dump(by_alias=True, mode="json")


def pairs(reader: Reader) -> list[Pair]:
    """Give every source table's pair, by name."""
    names = set(reader.names())
    changes_tables = [n for n in names if n.namespace != PIPELINE_NAMESPACE and n.name.endswith(CHANGES_SUFFIX)]
    with ThreadPoolExecutor(_READERS) as pool:
        loaded = pool.map(lambda changes: _pair(reader, changes, names), changes_tables)
        return sorted((pair for pair in loaded if pair), key=lambda pair: pair.source.key)


def _pair(reader: Reader, changes: WarehouseName, names: set[WarehouseName]) -> Pair | None:
    metadata = _metadata(reader, changes)
    properties = metadata.properties if metadata else {}
    if metadata is None or ROLE.read(properties) != "changes":
        return None
    source = TableName(SOURCE_SCHEMA.required(properties), SOURCE_TABLE.required(properties))
    name = WarehouseName(changes.namespace, changes.name.removesuffix(CHANGES_SUFFIX))
    current = _metadata(reader, name) if name in names else None
    ours = current is not None and ROLE.is_in(current.properties)
    return Pair(source, name, metadata, current if ours else None)


def _metadata(reader: Reader, name: WarehouseName) -> TableMetadata | None:
    """None where a writer has dropped or renamed the table since the catalog was read."""
    try:
        return reader.metadata(name)
    except (KeyError, NoSuchTableError):
        return None


def pair_named(reader: Reader, wanted: str) -> Pair:
    """Find a pair by its source's name or by its own; raises `Refused` (`TABLE_UNKNOWN`).

    A living table goes before a dropped one of the same name.
    """
    living_first = sorted(pairs(reader), key=lambda pair: pair.state is State.DROPPED)
    asked = folded(wanted)
    for pair in living_first:
        if asked in {folded(str(pair.source)), folded(str(pair.name))}:
            return pair
    near = did_you_mean(wanted, (str(pair.source) for pair in living_first))
    hint = "ticdc-warehouse tables list shows what there is"
    raise Refused(TABLE_UNKNOWN, f"the warehouse has no table {wanted}{near}", hint)


def source_named(reader: Reader, wanted: str) -> TableName:
    """Give the source table of this name, also where it has no tables in the warehouse yet."""
    try:
        return pair_named(reader, wanted).source
    except Refused:
        schema, _, table = wanted.partition(".")
        return TableName(schema, table)


def names_of(reader: Reader, wanted: str | None) -> list[WarehouseName]:
    """Give the tables of one pair, or all that this product has made: a catalog may have others, which are not ours."""
    if wanted is None:
        names = reader.names()
        with ThreadPoolExecutor(_READERS) as pool:
            tables = pool.map(partial(_metadata, reader), names)
            ours = (name for name, table in zip(names, tables, strict=True) if table and ROLE.is_in(table.properties))
            return sorted(ours, key=str)
    pair = pair_named(reader, wanted)
    return [pair.name.changes] if pair.current is None else [pair.name, pair.name.changes]


def forsaken(reader: Reader, data: Path | None, before: float) -> list[Leftover]:
    """Give the folders of the warehouse that no table has, of ours or of others (`leftovers`); none in a store."""
    if data is None:
        return []
    with ThreadPoolExecutor(_READERS) as pool:
        tables = list(pool.map(lambda name: _metadata(reader, name), reader.names()))
    if None in tables:  # a writer is renaming or dropping: no folder can be matched with its table
        return []
    return leftovers(data, [table.location for table in tables if table is not None], before)


def locations(chosen: Sequence[Pair]) -> dict[str, str]:
    """Where the tables of these pairs lie, by name."""
    tables = {str(pair.name.changes): pair.changes.location for pair in chosen}
    return tables | {str(pair.name): pair.current.location for pair in chosen if pair.current is not None}


def listed(pair: Pair) -> dict[str, Any]:
    """Give a table's line in the list; files and size are of both its tables together."""
    changes, current = Extent.of(pair.changes), Extent.of(pair.current)
    newest = changes if pair.current is None else current
    return {
        "source": str(pair.source),
        "table": str(pair.main),
        "rows": None if pair.current is None else current.rows,
        "changes": changes.rows,
        "state": pair.state.value,
        "snapshot": newest.snapshot,
        "files": changes.files + changes.delete_files + current.files + current.delete_files,
        "size": changes.size + current.size,
        "committed": newest.committed,
    }


def described(pair: Pair) -> dict[str, Any]:
    """Give what is true of the table as a whole."""
    layout, changes, current = pair.layout, Extent.of(pair.changes), Extent.of(pair.current)
    facts: dict[str, Any] = {
        "source": str(pair.source),
        "table": str(pair.main),
        "changes table": str(pair.name.changes),
        "state": pair.state.value,
        "held because": pair.held_reason or None,
        "handle": [column.name for column in layout.key],
        "rows": None if pair.current is None else current.rows,
        "changes": changes.rows,
        "data files": current.files + changes.files,
        "delete files": current.delete_files + changes.delete_files,
        "size": current.size + changes.size,
        "committed": current.committed or changes.committed,
        "uuid": str(pair.changes.table_uuid),
        "location": None if pair.current is None else pair.current.location,
        "changes location": pair.changes.location,
    }
    altered = alterations(pair)
    facts["not ours"] = [f"{table}.{column}" for table, one in altered.items() for column in one.not_ours] or None
    facts["columns changed"] = reason([fault for one in altered.values() for fault in one.faults]) or None
    return {key: value for key, value in facts.items() if value is not None}


def metadata_files(reader: Reader, pair: Pair) -> dict[str, str]:
    """Give the newest metadata file of both tables: DuckDB's `iceberg_scan`, ClickHouse and Snowflake are given one."""
    files = {} if pair.current is None else {"metadata file": reader.metadata_file(pair.name)}
    return {**files, "changes metadata file": reader.metadata_file(pair.name.changes)}


COLUMNS = ("column", "type", "source column", "source type", "key", "older rows show", "since", "state")


def columns(layout: Layout) -> list[tuple[Any, ...]]:
    """Give the columns of both tables, in order, as rows under `COLUMNS`."""
    return [_column(layout, column) for column in layout.columns]


def others(pair: Pair) -> list[tuple[Any, ...]]:
    """Give the columns of users in either table, as rows under `COLUMNS`."""
    type_of = {}
    for name, altered in alterations(pair).items():
        table = pair.current if name == pair.name else pair.changes
        kinds = {} if table is None else {field.name: str(field.field_type) for field in table.schema().fields}
        type_of.update({column: kinds.get(column) for column in altered.not_ours})
    return [(column, kind, None, None, None, None, None, NOT_OURS) for column, kind in type_of.items()]


def _column(layout: Layout, column: Column) -> tuple[Any, ...]:
    key = (layout.handle or ()).index(column.id) + 1 if column.id in (layout.handle or ()) else None
    return (
        column.name,
        column.type,
        column.source,
        column.tidb_type,
        key,
        _older(column),
        None if column.added < 0 else column.added,
        _column_state(column),
    )


def _older(column: Column) -> str | None:
    """Say what rows show that are older than the column: a converted value, its default, or NULL."""
    if column.conversions:
        return f"converted to {column.conversions[-1].tidb_type}"
    if column.added <= 1:
        return None
    match column.default.kind:
        case DefaultKind.LITERAL:
            return repr(column.default.text)
        case DefaultKind.UNKNOWN:
            return "NULL (default unknown)"
    return "NULL"


def _column_state(column: Column) -> str:
    if column.live:
        return "live"
    return "kept" if column.in_current else "changes only"


VERSIONS = ("version", "number", "columns")


def versions(layout: Layout) -> list[tuple[Any, ...]]:
    """Give the source versions that were seen, oldest first, as rows under `VERSIONS`."""
    ordered = sorted(layout.versions, key=lambda version: version.number)
    return [(_version_name(version), version.number, [name for name, _ in version.fields]) for version in ordered]


def _version_name(version: Version) -> str:
    return "from DDL" if version.version == DDL_VERSION else str(version.version)


SNAPSHOTS = ("snapshot", "committed", "rows", "files", "by")


def snapshots(table: TableMetadata, most: int) -> list[tuple[Any, ...]]:
    """Give the newest states that readers of main have seen, newest first, as rows under `SNAPSHOTS`.

    Snapshots that were staged on a branch on the way to such a state are left out.
    """
    seen = [table.snapshot_by_id(entry.snapshot_id) for entry in reversed(table.snapshot_log)]
    return [_snapshot(snapshot) for snapshot in seen if snapshot is not None][:most]


def _snapshot(snapshot: Snapshot) -> tuple[Any, ...]:
    done = "" if snapshot.summary is None else snapshot.summary.operation.value
    return (
        snapshot.snapshot_id,
        moment(snapshot.timestamp_ms),
        _total(snapshot, "records") - _total(snapshot, "position-deletes"),
        _total(snapshot, "data-files") + _total(snapshot, "delete-files"),
        OPERATION.read(_summary(snapshot)) or done,
    )


BURDEN = ("data files", "delete files", "snapshots", "expirable", "size")


def burden(table: TableMetadata, retention: Retention, now_ms: int) -> tuple[int, ...]:
    """Give what maintenance is about, under `BURDEN`."""
    extent, expirable = Extent.of(table), retention.expirable(table, now_ms)
    return extent.files, extent.delete_files, len(table.snapshots), expirable, extent.size


def properties(table: TableMetadata) -> dict[str, str]:
    """Give the table properties that decide how it is written and read; the layout is shown by itself."""
    return {key: value for key, value in sorted(table.properties.items()) if not key.startswith("ticdc.")}


def moment(milliseconds: int) -> datetime:
    """Read milliseconds since the epoch, to the second."""
    return datetime.fromtimestamp(milliseconds // 1000, UTC)


def human(size: int) -> str:
    """Write a size in bytes for people: `1.2 MB`."""
    power = 0
    while size >= 1000 ** (power + 1) and power < len(_UNITS) - 1:
        power += 1
    return f"{size / 1000**power:.{min(power, 1)}f} {_UNITS[power]}"


def held(all_pairs: Iterable[Pair]) -> list[TableName]:
    """The source tables whose records wait for a person, or are being let in."""
    return [pair.source for pair in all_pairs if pair.state in (State.HELD, State.RELEASING)]


def sentences(all_pairs: Iterable[Pair]) -> list[str]:
    """Say of each held table why, and how to go on."""
    return [
        f"{pair.source} is held ({pair.held_reason}); to go on: {way_on(pair.source, pair.held_reason)}"
        for pair in all_pairs
        if pair.state is State.HELD
    ]


def _total(snapshot: Snapshot, name: str) -> int:
    return int(_summary(snapshot).get(f"total-{name}", 0))


def _summary(snapshot: Snapshot) -> dict[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties
