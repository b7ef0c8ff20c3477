"""Iceberg in dictionaries: what `pipeline.warehouse.iceberg` does, with a crash possible before every commit.

Metadata is immutable and replaced by each commit; a loaded table keeps what it loaded until it is refreshed.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.errors import BatchFailed
from pipeline.model import change
from pipeline.model.names import WarehouseName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from unit.batch_model.upstream import Record

    from pipeline.model.columns import SchemaId
    from pipeline.warehouse.iceberg import SchemaChange
    from pipeline.warehouse.state import StateKey

T = TypeVar("T")

MAIN = "main"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`added` are the rows of an append, `content` all rows there are."""

    id: int
    parent: int | None
    sequence: int
    operation: str
    summary: Mapping[str, str]
    added: tuple[Any, ...]
    content: tuple[Any, ...]
    schema_id: int = 0


@dataclass(frozen=True, slots=True)
class Metadata:
    """One version of a table's metadata. `schema`: column name → field id; `schema_id`: how often it has changed."""

    uuid: str
    location: str
    properties: Mapping[str, str]
    schema: Mapping[str, int]
    refs: Mapping[str, int] = field(default_factory=dict)
    snapshots: Mapping[int, Snapshot] = field(default_factory=dict)
    last_field: int = 0
    schema_id: int = 0

    def content(self, branch: str = MAIN) -> tuple[Any, ...]:
        """All rows of a branch."""
        number = self.refs.get(branch)
        return () if number is None else self.snapshots[number].content


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A row of a changes table; values by field id."""

    record: Record
    schema: SchemaId
    batch_id: int
    op: str
    values: Mapping[int, Any]

    @property
    def key(self) -> int:
        return self.record.message.key

    @property
    def deletes(self) -> bool:
        return self.op == "delete"

    @staticmethod
    def of(row: Mapping[str, Any], values: Mapping[int, Any]) -> ChangeRow:
        """A row of the change frame; the model's records know their commit time, so the column carries the record."""
        return ChangeRow(row[change.COMMIT_TIME], row[change.SCHEMA_ID], row[change.BATCH_ID], row[change.OP], values)


class Refusal(Exception):
    """What Iceberg throws where a commit makes no sense."""


class ModelCatalog:
    """The durable part: name → newest metadata. `before_commit` may end the process."""

    def __init__(self) -> None:
        self.pointers: dict[WarehouseName, Metadata] = {}
        self.numbers = itertools.count(1)
        self.before_commit: Callable[[str], None] = lambda _what: None

    def commit(self, name: WarehouseName, metadata: Metadata) -> None:
        """Swing a table's pointer."""
        self.before_commit(f"commit to {name}")
        self.pointers[name] = metadata

    def table(self, name: WarehouseName) -> ModelTable | None:
        """See `Catalog.table`."""
        return ModelTable(name, self.pointers[name], self) if name in self.pointers else None

    def tables(self, names: Sequence[WarehouseName]) -> dict[WarehouseName, ModelTable]:
        """See `Catalog.tables`."""
        return {name: table for name in names for table in (self.table(name),) if table is not None}

    def by_sql(self, text: str) -> ModelTable:
        """The table of a quoted name."""
        _, namespace, name, *_ = text.strip("`").split("`.`")
        table = self.table(WarehouseName(namespace, name))
        assert table is not None, f"there is no table {text}"
        return table

    def names(self) -> Iterator[WarehouseName]:
        """See `Catalog.names`."""
        return iter(list(self.pointers))

    def create(
        self,
        name: WarehouseName,
        columns: Sequence[tuple[str, str]],
        location: str,
        properties: Mapping[str, str],
    ) -> ModelTable:
        """See `Catalog.create`."""
        names = [column for column, _ in columns]
        if len(set(names)) != len(names):
            raise Refusal(f"{name} has a column twice")
        return self.create_like(name, columns, names, location, properties)

    def create_like(
        self,
        name: WarehouseName,
        columns: Sequence[tuple[str, str]],
        kept: Sequence[str],
        location: str,
        properties: Mapping[str, str],
    ) -> ModelTable:
        """See `Catalog.create_like`."""
        if name in self.pointers:
            raise Refusal(f"{name} already exists")
        numbers = {column: number for number, (column, _) in enumerate(columns, start=1)}
        schema = {column: numbers[column] for column in kept}
        uuid = f"uuid{next(self.numbers)}"
        self.commit(name, Metadata(uuid, location, dict(properties), schema, last_field=len(columns)))
        return ModelTable(name, self.pointers[name], self)

    def rename(self, name: WarehouseName, to: WarehouseName) -> None:
        """See `Catalog.rename`."""
        if to in self.pointers or name not in self.pointers:
            raise Refusal(f"{name} cannot become {to}: {sorted(map(str, self.pointers))}")
        self.before_commit(f"rename of {name}")
        self.pointers[to] = self.pointers.pop(name)

    def drop(self, name: WarehouseName) -> None:
        """See `Catalog.drop`."""
        self.before_commit(f"drop of {name}")
        del self.pointers[name]


class ModelTable:
    """One table, loaded."""

    def __init__(self, name: WarehouseName, metadata: Metadata, catalog: ModelCatalog) -> None:
        self.name = name
        self._meta = metadata
        self._catalog = catalog

    def may_change(self) -> None:
        """It is always asked."""

    @property
    def location(self) -> str:
        return self._meta.location

    @property
    def uuid(self) -> str:
        return self._meta.uuid

    @property
    def properties(self) -> dict[str, str]:
        return dict(self._meta.properties)

    def property_of(self, key: StateKey[T]) -> T | None:
        return key.read(self._meta.properties)

    def columns(self) -> list[str]:
        return list(self._meta.schema)

    def refresh(self) -> None:
        self._meta = self._catalog.pointers[self.name]

    def head(self, branch: str = MAIN) -> int | None:
        return self._meta.refs.get(branch)

    def head_sequence(self) -> int:
        snapshot = self._snapshot(MAIN)
        return snapshot.sequence if snapshot else 0

    def summary(self, snapshot_id: int) -> dict[str, str]:
        snapshot = self._meta.snapshots[snapshot_id]
        return {
            **snapshot.summary,
            "added-records": str(len(snapshot.added)),
            "added-files-size": str(len(snapshot.added)),
        }

    def is_first(self, snapshot_id: int) -> bool:
        """Whether nothing was there before a snapshot."""
        return self._meta.snapshots[snapshot_id].parent is None

    def is_append(self, parent: int | None, snapshot_id: int) -> bool:
        """See `Table.is_append`."""
        return parent is not None or self.is_first(snapshot_id)

    def totals(self) -> dict[str, int]:
        """See `Table.totals`."""
        return {"records": len(self.content()), "files-size": len(self.content())}

    def shows_its_columns(self) -> bool:
        """See `Table.shows_its_columns`."""
        snapshot = self._snapshot(MAIN)
        return snapshot is not None and snapshot.schema_id == self._meta.schema_id

    def inherited(self, key: StateKey[T], branch: str = MAIN) -> T | None:
        snapshot = self._snapshot(branch)
        while snapshot is not None:
            if key.is_in(snapshot.summary):
                return key.read(snapshot.summary)
            snapshot = self._meta.snapshots[snapshot.parent] if snapshot.parent else None
        return None

    def inherited_all(self, *keys: StateKey[Any], branch: str = MAIN) -> Mapping[str, str]:
        texts: dict[str, str] = {}
        snapshot = self._snapshot(branch)
        while snapshot is not None:
            texts = {key.name: snapshot.summary[key.name] for key in keys if key.is_in(snapshot.summary)} | texts
            snapshot = self._meta.snapshots[snapshot.parent] if snapshot.parent else None
        return texts

    def appends_since(self, snapshot_id: int | None) -> list[tuple[int | None, int]]:
        found: list[tuple[int | None, int]] = []
        snapshot = self._snapshot(MAIN)
        while snapshot is not None and snapshot.id != snapshot_id:
            if snapshot.operation == "append":
                found.append((snapshot.parent, snapshot.id))
            snapshot = self._meta.snapshots[snapshot.parent] if snapshot.parent else None
        return list(reversed(found))

    def schema(self) -> Mapping[str, Any]:
        """See `Table.schema`, as far as it is asked for."""
        return {"fields": [{"name": name, "id": number} for name, number in self._meta.schema.items()]}

    @property
    def last_column_id(self) -> int:
        """See `Table.last_column_id`."""
        return self._meta.last_field

    def evolve(self, change: SchemaChange, properties: Mapping[str, str]) -> None:
        """See `Table.evolve`."""
        last = self._meta.last_field
        self._evolve(change, {name: last + place for place, (name, _) in enumerate(change.add, start=1)}, properties)

    def evolve_as(
        self, change: SchemaChange, ids: Mapping[str, int], last_column_id: int, properties: Mapping[str, str]
    ) -> None:
        """See `Table.evolve_as`. A struct column has no fields of its own here."""
        del last_column_id
        self._evolve(change, ids, properties)

    def _evolve(self, change: SchemaChange, ids: Mapping[str, int], properties: Mapping[str, str]) -> None:
        """Renames and drops against the old schema, then additions, as Iceberg checks them."""
        schema = dict(self._meta.schema)
        moved = {old: schema[old] for old, _ in change.rename}
        for gone in (*moved, *change.drop):
            del schema[gone]
        additions = [(new, moved[old]) for old, new in change.rename]
        additions += [(name, ids[name]) for name, _ in change.add]
        for name, number in additions:
            if name in schema:
                raise Refusal(f"{self.name} already has the column {name}")
            if number in schema.values():
                raise Refusal(f"{self.name} has two columns of the id {number}")
            schema[name] = number
        for name, _ in change.widen:
            if name not in schema:
                raise Refusal(f"{self.name} has no column {name} to widen")
        changed = {**self._meta.properties, **properties}
        number = self._meta.schema_id + any((change.add, change.drop, change.rename, change.widen))
        last = max([self._meta.last_field, *(ids[name] for name, _ in change.add)])
        self._commit(replace(self._meta, schema=schema, properties=changed, last_field=last, schema_id=number))

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self.refresh()
        self._commit(replace(self._meta, properties={**self._meta.properties, **properties}))

    def stage(self, branch: str) -> None:
        self.refresh()
        if MAIN not in self._meta.refs:
            self.mark({}, MAIN)
        self._commit(replace(self._meta, refs={**self._meta.refs, branch: self._meta.refs[MAIN]}))

    def publish(self, branch: str) -> None:
        self.refresh()
        ancestor = self._snapshot(branch)
        while ancestor is not None and ancestor.id != self._meta.refs[MAIN]:
            ancestor = self._meta.snapshots[ancestor.parent] if ancestor.parent else None
        if ancestor is None:
            raise BatchFailed("MAIN_MOVED", f"{self.name}", "another writer is at work")
        refs = {**self._meta.refs, MAIN: self._meta.refs[branch]}
        del refs[branch]
        self._commit(replace(self._meta, refs=refs))

    def drop_branch(self, branch: str) -> None:
        """Iceberg refuses to remove a branch that is not there."""
        self.refresh()
        if branch not in self._meta.refs:
            raise LookupError(branch)
        self._commit(replace(self._meta, refs={name: at for name, at in self._meta.refs.items() if name != branch}))

    def branches(self) -> list[str]:
        return list(self._meta.refs)

    def mark(self, summary: Mapping[str, str], branch: str = MAIN) -> None:
        self.append((), summary, branch)

    def append(self, rows: Sequence[Any], summary: Mapping[str, str], branch: str = MAIN) -> None:
        """Spark's append: rows and summary in one commit."""
        self.refresh()
        self.write("append", tuple(rows), (*self.content(branch), *rows), summary, branch)

    def write(
        self,
        operation: str,
        added: tuple[Any, ...],
        content: tuple[Any, ...],
        summary: Mapping[str, str],
        branch: str = MAIN,
    ) -> None:
        """A snapshot of any operation on top of a branch."""
        self.refresh()
        parent, number = self._meta.refs.get(branch), next(self._catalog.numbers)
        sequence, schema_id = len(self._meta.snapshots) + 1, self._meta.schema_id
        snapshot = Snapshot(number, parent, sequence, operation, dict(summary), added, content, schema_id)
        refs = {**self._meta.refs, branch: number}
        self._commit(replace(self._meta, refs=refs, snapshots={**self._meta.snapshots, number: snapshot}))

    def content(self, branch: str = MAIN) -> tuple[Any, ...]:
        """All rows of a branch."""
        return self._meta.content(branch)

    def content_at(self, snapshot_id: int) -> tuple[Any, ...]:
        """All rows as of a snapshot."""
        return self._meta.snapshots[snapshot_id].content

    def added_rows(self, snapshot_id: int) -> int:
        return len(self.added(snapshot_id))

    def added_by(self, key: StateKey[str], text: str, branch: str = MAIN) -> int:
        snapshot = self._snapshot(branch)
        while snapshot is not None and key.read(snapshot.summary) != text:
            snapshot = self._meta.snapshots[snapshot.parent] if snapshot.parent else None
        assert snapshot is not None, f"no commit of {self.name} says {key.name} = {text}"
        return len(snapshot.added)

    def added_between(self, snapshot_id: int, _column: str) -> tuple[int, int] | None:
        """See `Table.added_between`: of commit ts."""
        times = [row.record.message.commit_ts for row in self.added(snapshot_id)]
        return (min(times), max(times)) if times else None

    def added(self, snapshot_id: int) -> tuple[Any, ...]:
        """The rows of one append."""
        return self._meta.snapshots[snapshot_id].added

    def stored(self, rows: Sequence[dict[str, Any]]) -> Sequence[Any]:
        """Rows of a frame as this table keeps them."""
        if self._meta.properties.get("ticdc.role") != "changes":
            return rows
        fields = [(name, number) for name, number in self._meta.schema.items() if name not in change.ENVELOPE]
        return [ChangeRow.of(row, self._by_field(row, fields)) for row in rows]

    def _by_field(self, row: Mapping[str, Any], fields: Sequence[tuple[str, int]]) -> dict[int, Any]:
        """Values by field id; `_before` has the same columns, which are renamed with those of the table."""
        values = {number: row[name] for name, number in fields}
        before = row.get(change.BEFORE)
        if before is not None:
            values[self._meta.schema[change.BEFORE]] = {self._meta.schema[name]: one for name, one in before.items()}
        return values

    def fields(self) -> Mapping[str, int]:
        """Column name → field id."""
        return self._meta.schema

    def _snapshot(self, branch: str) -> Snapshot | None:
        number = self._meta.refs.get(branch)
        return None if number is None else self._meta.snapshots[number]

    def _commit(self, metadata: Metadata) -> None:
        self._catalog.commit(self.name, metadata)
        self._meta = metadata
