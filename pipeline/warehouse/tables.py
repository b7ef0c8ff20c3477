"""The tables of the warehouse: which source table has which pair, in which state.

A table's own properties and snapshots say what it is (its source, state, layout, how far it has come), and nothing else
does; `_pipeline.tables` is a readable copy. One process writes a warehouse, so what was loaded at the start stays true
until this process changes it.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from pipeline.model import change
from pipeline.model.names import (
    CHANGES_SUFFIX,
    PIPELINE_NAMESPACE,
    TableName,
    WarehouseName,
    confusable,
    quoted,
    slug,
    stored_table,
)
from pipeline.warehouse.clone.aligned import SHARED, evolve_current
from pipeline.warehouse.iceberg import SchemaChange
from pipeline.warehouse.pairs import (
    STAGE,
    State,
    StoredBinding,
    TablePair,
    backfills_of,
    current_of,
    loaded,
    pair_of,
    read_published,
    written_bindings,
    written_state,
)
from pipeline.warehouse.state import (
    CREATED,
    CREATED_AS,
    DELIVERIES,
    DROPPED,
    HELD_REASON,
    KEYSPACE,
    LAYOUT,
    NAME,
    NAME_BINDINGS,
    NEXT_NAME,
    RENAMED,
    ROLE,
    SOURCE_SCHEMA,
    SOURCE_TABLE,
    STREAMS,
    TRUNCATED,
    WANTED_NAME,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pipeline.model.columns import CommitTs
    from pipeline.model.names import Name
    from pipeline.warehouse.iceberg import Catalog, Table
    from pipeline.warehouse.layout import Column, Layout
    from pipeline.warehouse.pairs import Place


PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.dict-size-bytes": "65536",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
    "write.distribution-mode": "none",
    "write.delete.mode": "merge-on-read",
    "write.delete.distribution-mode": "none",
    "write.merge.mode": "merge-on-read",
    "write.merge.distribution-mode": "none",
    "write.update.mode": "merge-on-read",
    "write.update.distribution-mode": "none",
}
"""How every table is written: small metadata, no shuffle before a small append, deletes by position.

A dictionary of 64 kB has the columns of few values; those of many gain little by one, and filling it takes a quarter
of an append's time."""

_LOST_BEFORE = (change.UNREPRESENTABLE, change.ENVELOPE[change.UNREPRESENTABLE])


class Tables:
    """All source tables that the warehouse knows, by name."""

    def __init__(self, catalog: Catalog, data: str, *, namespace: str, with_current: bool) -> None:
        self.catalog = catalog
        self._data = data
        self._namespace = namespace
        self._with_current = with_current
        self._tables: dict[str, TablePair] = {}
        self._by_name: dict[Name, TablePair] = {}
        """What `find` has found; names may have changed since."""
        self.view_is_old = False
        """Whether a table was held for its columns, which `_pipeline.tables` does not say yet."""

    def load(self) -> None:
        """Read every pair's state from the catalog."""
        names = [name for name in self.catalog.names() if name.namespace != PIPELINE_NAMESPACE]
        changes = [name for name in names if name.name.endswith(CHANGES_SUFFIX)]
        currents = {pair_of(name) for name in changes} & {*names}  # a catalog may have many tables of others
        tables = self.catalog.tables([*changes, *currents])
        for name in changes:
            pair = loaded(name, tables)
            if pair is not None:
                self._tables[pair.uuid] = pair

    def may_change(self) -> None:
        """Ask tables from now on, where they have said what they said when they were loaded (`load`)."""
        for table in self.loaded():
            table.may_change()

    def __len__(self) -> int:
        """Tables that are not forgotten."""
        return len(self._tables)

    def __iter__(self) -> Iterator[TablePair]:
        return iter(list(self._tables.values()))

    def loaded(self) -> Iterator[Table]:
        """The tables of all pairs."""
        for table in self:
            yield from filter(None, (table.changes, table.current))

    def upgrade(self) -> None:
        """Give the changes tables that an earlier version has made what they lack."""
        for table in self:
            if table.layout.before:
                table.changes.ensure(change.BEFORE, *_LOST_BEFORE)

    def sweep(self) -> None:
        """Drop the branches of a process that has died: the next try makes them again."""
        for pair in self:
            for table in filter(None, (pair.changes, pair.current)):
                for branch in table.branches():
                    if branch.startswith(STAGE):
                        table.drop_branch(branch)

    def find(self, source: TableName) -> TablePair | None:
        """The pair that this source name means today; dropped tables no longer have a name."""
        table = self._by_name.get(source.key)
        if table is None or not _is_meant(table, source) or table.uuid not in self._tables:
            table = next((one for one in self._tables.values() if _is_meant(one, source)), None)
            if table is not None:
                self._by_name[source.key] = table
        return table

    def heir_of(self, source: TableName) -> TablePair | None:
        """The pair that gets this name as soon as the pair that has it gives it up."""
        heirs = [
            t
            for t in self
            if t.state != State.DROPPED and t.is_displaced and t.wanted_name and t.wanted_name.key == source.key
        ]
        return min(heirs, key=lambda table: table.renamed_at, default=None)

    def by_uuid(self, uuid: str) -> TablePair | None:
        """The pair of this identity."""
        return self._tables.get(uuid)

    def born(self, created_at: int, name: tuple[str, str]) -> TablePair | None:
        """The pair that a CREATE TABLE of this commit ts and name (`TableName.key`) has led to."""
        of_then = (table for table in self._tables.values() if table.created_at == created_at)
        return next((table for table in of_then if (table.created_as or table.source.key) == name), None)

    def obstacle(self, source: TableName, renamed: TablePair | None = None) -> str | None:
        """Why a source table that is new, or was `renamed`, cannot get its warehouse name; None where it can."""
        name = stored_table(source, self._namespace)
        if name.namespace == PIPELINE_NAMESPACE:
            return f"the namespace {PIPELINE_NAMESPACE} is the pipeline's own"
        if renamed and _spelled(name) == _spelled(renamed.name.changes):
            return f"{name} is the name of its own changes table"
        pairs = self._in_the_way(name)
        owner = _living(pairs, renamed)
        if owner is not None:
            return f"{name} already belongs to the source table {owner.source}"
        if renamed is not None and self.find(source) not in (None, renamed):
            return f"as far as the run knows, {source} is another table"
        return self._stranger(name, pairs, renamed)

    def owner(self, source: TableName, renamed: TablePair | None = None) -> TablePair | None:
        """The pair that has the warehouse name of a source table which is new, or was `renamed`; not a dropped one."""
        return _living(self._in_the_way(stored_table(source, self._namespace)), renamed)

    def _in_the_way(self, name: WarehouseName) -> list[TablePair]:
        """The pairs that have one of the two names of a pair."""
        wanted = {_spelled(name), _spelled(name.changes)}
        return [table for table in self if wanted & {_spelled(table.name), _spelled(table.name.changes)}]

    def _stranger(self, to: WarehouseName, pairs: Iterable[TablePair], renamed: TablePair | None) -> str | None:
        """Why a table of no pair has the name, if one has. What a crash has left or moved there does not count.

        `pairs`: those that have the name now, and make way.
        """
        ours = {_spelled(p.name.changes) for p in pairs} | {_spelled(p.name) for p in pairs if p.current is not None}
        for name in (to, to.changes):
            table = None if _spelled(name) in ours else self.catalog.table(name)
            if table is None or _is_left_over(table) or (renamed is not None and _has_moved(table, renamed.source, to)):
                continue
            return f"a table {name} exists already, and belongs to no source table"
        return None

    def create(
        self, source: TableName, layout: Layout, created_at: int = 0, noted: Mapping[str, str] = MappingProxyType({})
    ) -> TablePair:
        """A new pair; both tables exist when this returns, or a later call finishes what a crash left.

        `noted`: further properties of the changes table.
        """
        name = stored_table(source, self._namespace)
        self._clear_dropped(name)
        own = {**_named(source), **LAYOUT.entry(layout), **CREATED.entry(created_at)}
        of_source = [(c.name, c.type) for c in layout.columns]
        columns = [*change.ENVELOPE.items(), *of_source]
        if layout.before:
            fields = ", ".join(f"{quoted(name)}: {kind}" for name, kind in (*of_source, _LOST_BEFORE))
            columns.append((change.BEFORE, f"struct<{fields}>"))
        current = self._new_current(name, layout, columns, own) if self._with_current else None
        properties = {**own, **written_state(State.LIVE), **noted, **ROLE.entry("changes")}
        changes = self._made(name.changes, columns, properties)
        table = TablePair(source, name, changes, current, layout)
        table.created_at = created_at
        table.created_as = CREATED_AS.read(noted)
        table.keyspace = KEYSPACE.read(noted) or ""
        table.by_commit_ts.bindings = NAME_BINDINGS.read(noted) or ()
        table.backfilled = frozenset(backfills_of(layout))
        self._tables[table.uuid] = table
        return table

    def _new_current(
        self, name: WarehouseName, layout: Layout, columns: Sequence[tuple[str, str]], own: Mapping[str, str]
    ) -> Table:
        """`columns`: those of the changes table."""
        kept = [*(column.name for column in layout.current), *SHARED]
        location, properties = self._own(name, {**own, **ROLE.entry("current")})
        return self.catalog.create_like(name, columns, kept, location, properties)

    def _made(self, name: WarehouseName, columns: Sequence[tuple[str, str]], own: Mapping[str, str]) -> Table:
        location, properties = self._own(name, own)
        return self.catalog.create(name, columns, location, properties)

    def _own(self, name: WarehouseName, own: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Where a new table lies, and its properties."""
        self._clear_left_over(name)
        return f"{self._data}/{slug(name.name)}-{uuid.uuid4()}", {**PROPERTIES, **own, **NAME.entry(name)}

    def _clear_left_over(self, name: WarehouseName) -> None:
        """Drop a table that a crash left alone: it came between the two of a pair, before any row."""
        left_over = self.catalog.table(name)
        if left_over is None:
            return
        owned = (_spelled(one) for table in self for one in (table.name, table.name.changes))
        if left_over.head() is not None or _spelled(name) in owned:
            raise AssertionError(f"{name} has rows, or is another's, and is in the way")
        self.catalog.drop(name)

    def make_way(self, source: TableName) -> None:
        """Let dropped pairs leave the warehouse name that a source table is to have."""
        self._clear_dropped(stored_table(source, self._namespace))

    def _clear_dropped(self, name: WarehouseName) -> None:
        """A kept pair whose source was dropped makes way under `<name>__dropped_<commitTs>`."""
        for table in self._in_the_way(name):
            if table.state is State.DROPPED:
                kept = f"{table.name.name}__dropped_{table.dropped_at}"
                self.move(table, WarehouseName(table.name.namespace, kept))

    def move(self, table: TablePair, to: WarehouseName) -> None:
        """Rename a pair in the warehouse. The changes table goes last: it carries the pair's name."""
        if current_of(self.catalog, table.name) is not None:
            self._clear_left_over(to)
            self._go(table.name, to)
        self._go(table.name.changes, to.changes)
        table.name = to
        self._say_names(to)
        table.current = current_of(self.catalog, to)
        read_published(table)
        moved = self.catalog.table(to.changes)
        if moved is not None:
            table.changes = moved

    def _go(self, name: WarehouseName, to: WarehouseName) -> None:
        """Rename one table. It says its next name first, so that after a crash in between it does not look lost."""
        table = self.catalog.table(name)
        if table is not None:
            table.set_properties(NEXT_NAME.entry(to))
        self.catalog.rename(name, to)

    def _say_names(self, pair: WarehouseName) -> None:
        """Let both tables of a pair say what they are called."""
        for table, name in ((current_of(self.catalog, pair), pair), (self.catalog.table(pair.changes), pair.changes)):
            if table is not None and NAME.read(table.properties) != name:
                table.set_properties(NAME.entry(name) | NEXT_NAME.entry(None))

    def rename(
        self,
        table: TablePair,
        source: TableName,
        commit_ts: int,
        bindings: tuple[StoredBinding, ...] = (),
        reason: str = "",
    ) -> None:
        """Rename the pair of a source table that was renamed at a commit ts. The properties that say so go last.

        `reason`: why the pair is held from now on, if it is.
        """
        target = stored_table(source, self._namespace)
        self._clear_dropped(target)
        if target != table.name:
            self.move(table, target)
        else:  # a first try may have moved it, and got no further
            self._say_names(target)
        held = HELD_REASON.entry(reason) if reason else {}
        # a rename that was put off and is released gives no new name
        streams = {} if table.renamed_at == commit_ts else STREAMS.entry(None)
        self._name(
            table,
            source,
            {**RENAMED.entry(commit_ts), **streams, **WANTED_NAME.entry(None), **held, **written_bindings(bindings)},
        )
        table.streams = frozenset() if streams else table.streams
        table.renamed_at, table.wanted_name, table.held_reason = commit_ts, None, reason or table.held_reason
        table.by_commit_ts.bindings = bindings or table.by_commit_ts.bindings

    def hold_rename(
        self,
        table: TablePair,
        source: TableName,
        commit_ts: int,
        reason: str,
        bindings: tuple[StoredBinding, ...] = (),
    ) -> None:
        """As `rename`, but the name is taken: the pair keeps its place, held, until a release renames it."""
        held = (
            written_state(State.HELD, reason)
            | WANTED_NAME.entry(source)
            | RENAMED.entry(commit_ts)
            | STREAMS.entry(None)
        )
        self._name(table, self.stand_in_name(table, source, commit_ts), {**held, **written_bindings(bindings)})
        table.state, table.held_reason, table.renamed_at, table.wanted_name = State.HELD, reason, commit_ts, source
        table.streams = frozenset()
        table.by_commit_ts.bindings = bindings or table.by_commit_ts.bindings

    def stand_in_name(self, table: TablePair, source: TableName, commit_ts: int) -> TableName:
        """The name of a source table whose rename is put off: its name in the source, if no other pair has it.

        Else it is `<old name>@<commit ts>` until the other pair gives the name up (`take_name`): a new table may have
        the old name.
        """
        taken = self.find(source) not in (None, table)
        return TableName(source.schema, f"{table.source.table}@{commit_ts}") if taken else source

    def take_name(self, table: TablePair, noted: Mapping[str, str]) -> None:
        """Give a pair the name that it waits for, as the source has it. `noted`: further properties."""
        if table.wanted_name is None:
            raise AssertionError(f"{table.source} waits for no name")
        self._name(table, table.wanted_name, noted)

    def _name(self, table: TablePair, source: TableName, noted: Mapping[str, str]) -> None:
        """Let both tables of a pair say what its source table is called; its changes table last, with `noted`."""
        own = _named(source)
        if table.current is not None:
            table.current.set_properties(own)
        table.changes.set_properties({**own, **noted})
        table.source = source

    def set_state(
        self,
        table: TablePair,
        state: State,
        reason: str = "",
        dropped_at: CommitTs | int = 0,
        bindings: tuple[StoredBinding, ...] = (),
    ) -> None:
        """Hold, release or mark a table as dropped, durably."""
        properties = {**written_state(state, reason), **written_bindings(bindings)}
        if dropped_at:
            properties |= DROPPED.entry(dropped_at)
            table.dropped_at = int(dropped_at)
        table.changes.set_properties(properties)
        table.state, table.held_reason = state, reason
        table.by_commit_ts.bindings = bindings or table.by_commit_ts.bindings

    def set_bindings(self, table: TablePair, bindings: tuple[StoredBinding, ...]) -> None:
        """Remember which names the source has had."""
        table.changes.set_properties(written_bindings(bindings))
        table.by_commit_ts.bindings = bindings

    def note_deliveries(self, table: TablePair, places: Iterable[Place]) -> None:
        """Remember where redeliveries begin."""
        all_places = table.by_commit_ts.deliveries.union(places)
        if all_places != table.by_commit_ts.deliveries:
            table.changes.set_properties(DELIVERIES.entry(all_places))
            table.by_commit_ts.deliveries = all_places

    def note_streams(self, table: TablePair, streams: Iterable[str]) -> None:
        """Remember streams (ids) that bring the table under its newest name (`TablePair.streams_at`)."""
        all_streams = table.streams.union(streams)
        if all_streams != table.streams:
            table.changes.set_properties(STREAMS.entry(all_streams))
            table.streams = all_streams

    def note_successors(self, table: TablePair, successors: Mapping[str, str]) -> None:
        """The same streams (`note_streams`) under the identities that they have by now."""
        streams = frozenset(successors.get(stream, stream) for stream in table.streams)
        if streams != table.streams:
            table.changes.set_properties(STREAMS.entry(streams))
            table.streams = streams

    def truncate(self, table: TablePair, commit_ts: int) -> None:
        """Remember that no row up to `commit_ts` may show any more."""
        table.changes.set_properties(TRUNCATED.entry(commit_ts))
        table.by_offset.truncated_at = commit_ts

    def forget(self, table: TablePair) -> None:
        """Drop a pair and its files."""
        if table.current is not None:
            self.catalog.drop(table.name)
        self.catalog.drop(table.name.changes)
        del self._tables[table.uuid]

    def evolve(self, table: TablePair, layout: Layout, noted: Mapping[str, str] = MappingProxyType({})) -> None:
        """Bring the schemas of a pair to a new layout; the layout itself and `noted` go into the same commit."""
        if layout == table.layout:
            return
        own = LAYOUT.entry(layout)
        if layout.before and not table.layout.before:
            kept = ", ".join(f"{quoted(c.name)}: {c.type}" for c in table.layout.columns)
            lost, kind = _LOST_BEFORE
            table.changes.ensure("", change.BEFORE, f"struct<{', '.join(filter(None, (kept, f'{lost}: {kind}')))}>")
        also_in = change.BEFORE if layout.before else ""
        evolved = replace(schema_change(table.layout.columns, layout.columns, layout), also_in=also_in)
        if table.current is not None:
            held = LAYOUT.required(table.current.properties)
            of_current = schema_change(held.current, layout.current, layout)
            evolve_current(table.current, table.changes, of_current, evolved, own)
        table.changes.evolve(evolved, {**own, **noted})
        table.layout, table.unshown = layout, True


def _is_meant(pair: TablePair, source: TableName) -> bool:
    """Whether this source name means a pair today."""
    return pair.source.key == source.key and pair.state != State.DROPPED


def _living(pairs: Iterable[TablePair], renamed: TablePair | None) -> TablePair | None:
    """The first that neither was dropped nor is the one that comes."""
    return next((pair for pair in pairs if pair is not renamed and pair.state is not State.DROPPED), None)


def _spelled(name: WarehouseName) -> tuple[str, str]:
    """What names have in common that an engine may take for one."""
    return confusable(name.namespace), confusable(name.name)


def _named(source: TableName) -> dict[str, str]:
    """The properties that say which source table a pair is of."""
    return SOURCE_SCHEMA.entry(source.schema) | SOURCE_TABLE.entry(source.table)


def _has_moved(table: Table, source: TableName, to: WarehouseName) -> bool:
    """Whether a rename that was interrupted has moved the current table of this source table here."""
    properties = table.properties
    of = TableName(SOURCE_SCHEMA.read(properties) or "", SOURCE_TABLE.read(properties) or "")
    names = (NAME.read(properties), NEXT_NAME.read(properties))
    return ROLE.read(properties) == "current" and of == source and to in names


def _is_left_over(table: Table) -> bool:
    """Whether a table may be what a crash left of a pair that was being made."""
    return ROLE.is_in(table.properties) and table.head() is None


def schema_change(old: tuple[Column, ...], new: tuple[Column, ...], layout: Layout) -> SchemaChange:
    """What turns the columns of one layout into those of the next."""
    before = {column.id: column for column in old}
    today = {column.id for column in layout.columns}
    kept = [(before[c.id], c) for c in new if c.id in before]
    return SchemaChange(
        add=tuple((c.name, c.type) for c in new if c.id not in before),
        widen=tuple((c.name, c.type) for o, c in kept if o.type != c.type),
        rename=tuple((o.name, c.name) for o, c in kept if o.name != c.name),
        drop=tuple(c.name for c in old if c.id not in {n.id for n in new} and c.id in today),
    )
