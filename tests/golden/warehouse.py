"""The warehouse as a reader sees it: PyIceberg on the embedded catalog, no JVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from golden.values import Row
from pyiceberg.catalog.sql import SqlCatalog

from pipeline.warehouse.state import NAME_BINDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from pipeline.warehouse.pairs import StoredBinding

CHANGES = "__changes"
PIPELINE = "_pipeline"
OWN_COLUMNS = ("_commit_ts", "_unrepresentable")
_SPARK_NAMES = {
    "long": "bigint",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "list<float>": "array<float>",
    "map<string, string>": "map<string,string>",
}


@dataclass(frozen=True, slots=True)
class CurrentTable:
    """A current table: source columns with their warehouse types, rows, and the commit ts beside each row."""

    types: dict[str, str]
    own_types: dict[str, str]
    rows: list[Row]
    commit_ts: list[int | None]


@dataclass(frozen=True, slots=True)
class Warehouse:
    """Opens a warehouse folder for reading."""

    catalog: SqlCatalog

    @staticmethod
    def at(folder: Path) -> Warehouse:
        """The warehouse in this folder."""
        uri = f"sqlite:///{folder / 'catalog.db'}"
        return Warehouse(SqlCatalog("warehouse", uri=uri, warehouse=str(folder), init_catalog_tables="false"))

    def names(self) -> list[str]:
        """Every table of the sources, as `namespace.table`; the pipeline's own are left out."""
        return sorted(
            ".".join(identifier)
            for namespace in self._namespaces()
            if namespace != (PIPELINE,)
            for identifier in self.catalog.list_tables(namespace)
        )

    def _namespaces(self, inside: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """All namespaces. PyIceberg takes one with a dot in its name for several levels."""
        for namespace in self.catalog.list_namespaces(inside):
            yield namespace
            yield from self._namespaces(namespace)

    def branches(self) -> dict[str, set[str]]:
        """The branches of every table."""
        return {name: set(self.table(name).refs()) for name in self.names()}

    def current_names(self) -> list[str]:
        """The current tables."""
        return [name for name in self.names() if not name.endswith(CHANGES)]

    def current(self, name: str, snapshot: int | None = None) -> CurrentTable:
        """One current table, complete: as it is, or as a snapshot has it, columns included."""
        scan = self.table(name).scan(snapshot_id=snapshot)
        types = _types(scan.projection())
        raw = scan.to_arrow().to_pylist()
        source = [column for column in types if column not in OWN_COLUMNS]
        return CurrentTable(
            types={column: types[column] for column in source},
            own_types={column: types[column] for column in OWN_COLUMNS if column in types},
            rows=[_row(row, source) for row in raw],
            commit_ts=[row["_commit_ts"] for row in raw],
        )

    def changes(self) -> dict[str, list[dict[str, Any]]]:
        """Every changes table, as dictionaries."""
        return {
            name.removesuffix(CHANGES): self.table(name).scan().to_arrow().to_pylist()
            for name in self.names()
            if name.endswith(CHANGES)
        }

    def types_of_changes(self, name: str) -> dict[str, str]:
        """Column → type of the changes table of a current table's name."""
        return _types(self.table(name + CHANGES).schema())

    def by_uuid(self) -> dict[str, str]:
        """Current table by the uuid that outlives renames: that of its changes table."""
        changes = [name for name in self.names() if name.endswith(CHANGES)]
        return {str(self.table(name).metadata.table_uuid): name.removesuffix(CHANGES) for name in changes}

    def bindings(self) -> dict[str, tuple[StoredBinding, ...]]:
        """The names that each table has had, by the same."""
        changes = (self.table(name) for name in self.names() if name.endswith(CHANGES))
        return {str(one.metadata.table_uuid): NAME_BINDINGS.read(one.properties) or () for one in changes}

    def own(self, name: str) -> list[dict[str, Any]]:
        """One of the pipeline's own tables."""
        return self.table(f"{PIPELINE}.{name}").scan().to_arrow().to_pylist()

    def table(self, name: str) -> Table:
        """One table of the catalog."""
        namespace, _, table = name.partition(".")
        if "." not in table:
            return self.catalog.load_table((namespace, table))
        listed = (one for space in self._namespaces() for one in self.catalog.list_tables(space))
        return self.catalog.load_table(next(one for one in listed if ".".join(one) == name))


def _types(schema: Schema) -> dict[str, str]:
    found = {field.name: str(field.field_type) for field in schema.fields}
    return {name: _SPARK_NAMES.get(kind, kind).replace(", ", ",") for name, kind in found.items()}


def _row(raw: dict[str, Any], columns: list[str]) -> Row:
    return Row({column: raw[column] for column in columns}, dict(raw["_unrepresentable"] or ()))
