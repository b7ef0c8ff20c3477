"""Which columns of a version are virtual: a `tableSchema` lists them like any other, and no row has them.

Three things say which these are: the statements that made them, what earlier batches have described, and rows, since a
row carries every other column.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pipeline.ddl.virtual import created_like, renamed_columns, virtual_columns
from pipeline.model.names import folded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from pipeline.model.columns import CommitTs, SchemaId, TableVersion
    from pipeline.model.names import TableName

VersionKey = tuple[tuple[str, str], "SchemaId"]
"""A table's name without case, and the version."""

Names = frozenset[str]
"""Names of columns without case."""

_NONE: Names = frozenset()
_OF_AN_EXPRESSION = "_v$_"
"""How TiDB begins the names of the hidden columns that indexes on expressions have."""


@dataclass(frozen=True, slots=True)
class ColumnDdl:
    """A statement: its text, the version before it and the one after it."""

    commit_ts: CommitTs
    sql: str
    then: TableVersion | None
    now: TableVersion | None


@dataclass(frozen=True, slots=True)
class VirtualColumns:
    """The virtual columns of a version, and whether that is settled: rows need not be asked."""

    names: Names = _NONE
    settled: bool = False


_NOTHING = VirtualColumns()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What there is besides a batch's statements.

    What earlier batches have `settled`, the `versions` that they have described, the columns that sample rows have
    `carried`. `of_tables` gives all versions of some tables.
    """

    settled: Mapping[VersionKey, Names]
    versions: Mapping[VersionKey, TableVersion]
    carried: Mapping[VersionKey, Names]
    of_tables: Callable[[Collection[TableName]], Collection[TableVersion]]


def key_of(version: TableVersion) -> VersionKey:
    """What tells a version from all others."""
    return version.table.key, version.version


def settle(
    statements: Iterable[ColumnDdl], versions: Iterable[TableVersion], evidence: Evidence
) -> dict[VersionKey, VirtualColumns]:
    """The virtual columns of what statements describe, in the order of their commit ts, and of other versions."""
    settling = _Settling(evidence)
    for statement in statements:
        settling.take(statement)
    for version in versions:
        settling.of(version)
    return settling.virtual


def without(version: TableVersion, names: Names) -> TableVersion:
    """The version with these columns virtual. A key with one of them is none: no row could be found by it."""
    gone = {column.name for column in version.columns if folded(column.name) in names}
    if not gone:
        return version
    columns = tuple(column for column in version.columns if column.name not in gone)
    handle = () if gone & set(version.handle or ()) else version.handle
    return replace(version, columns=columns, handle=handle, virtual=tuple(sorted({*version.virtual, *gone})))


@dataclass(slots=True)
class _Settling:
    evidence: Evidence
    virtual: dict[VersionKey, VirtualColumns] = field(default_factory=dict)
    versions: dict[VersionKey, TableVersion] = field(default_factory=dict)

    def of(self, version: TableVersion) -> VirtualColumns:
        """What this batch's statements have said of a version, else what there is besides."""
        key = key_of(version)
        self.versions[key] = version
        if key not in self.virtual:
            self.virtual[key] = self._besides(version)
        return self.virtual[key]

    def take(self, statement: ColumnDdl) -> None:
        """Follow a statement."""
        before = self.of(statement.then) if statement.then is not None else None
        now = statement.now
        if now is None:
            return
        key, listed = key_of(now), _listed(now)
        columns, other = self._by_text(statement, now, before), self._besides(now)
        if not columns.settled:
            columns = other if other.settled else VirtualColumns(columns.names | other.names)
        remembered = _virtual(self.evidence.versions.get(key))
        self.versions[key] = now
        if columns.settled or not self.virtual.get(key, _NOTHING).settled:
            self.virtual[key] = VirtualColumns((columns.names | remembered) & listed, columns.settled)

    def _by_text(self, statement: ColumnDdl, now: TableVersion, before: VirtualColumns | None) -> VirtualColumns:
        """What the text says; not settled where a column is neither from before nor defined."""
        listed = _listed(now)
        defined = {folded(name): virtual for name, virtual in virtual_columns(statement.sql)}
        if statement.then is None or before is None:
            like = created_like(statement.sql, now.table.schema)
            if like is not None:
                return self._like(like, statement, listed)
            then, before = _NONE, VirtualColumns(settled=True)
        else:
            sql = statement.sql
            then, before = _renamed(sql, _listed(statement.then)), _followed(sql, before)
        hidden = _hidden(listed - then - defined.keys())
        new = {name for name, virtual in defined.items() if virtual and (name not in then or not before.settled)}
        explained = listed <= then | defined.keys() | hidden
        return VirtualColumns((before.names | new | hidden) & listed, before.settled and explained)

    def _like(self, like: TableName, statement: ColumnDdl, listed: Names) -> VirtualColumns:
        """The newest version of the other table that has the same columns."""
        of_batch = (version for version in self.versions.values() if version.table.key == like.key)
        candidates = {key_of(version): version for version in (*self.evidence.of_tables([like]), *of_batch)}
        for version in sorted(candidates.values(), key=lambda one: one.version, reverse=True):
            if version.version < statement.commit_ts and _listed(version) == listed:
                return self.of(version)
        return _NOTHING

    def _besides(self, version: TableVersion) -> VirtualColumns:
        key, listed = key_of(version), _listed(version)
        settled, carried = self.evidence.settled.get(key), self.evidence.carried.get(key)
        names = _virtual(version) | _virtual(self.evidence.versions.get(key)) | _hidden(listed)
        if settled is not None:
            return VirtualColumns(settled, settled=True)
        if carried is not None and carried <= listed:
            return VirtualColumns(names | (listed - carried), settled=True)
        return VirtualColumns(names)


def _listed(version: TableVersion) -> Names:
    return frozenset(folded(column.name) for column in version.columns) | _virtual(version)


def _virtual(version: TableVersion | None) -> Names:
    return _NONE if version is None else frozenset(folded(name) for name in version.virtual)


def _hidden(names: Names) -> Names:
    return frozenset(name for name in names if name.startswith(_OF_AN_EXPRESSION))


def _renamed(sql: str, names: Names) -> Names:
    new = {folded(old): folded(name) for old, name in renamed_columns(sql)}
    return frozenset(new.get(name, name) for name in names)


def _followed(sql: str, columns: VirtualColumns) -> VirtualColumns:
    return VirtualColumns(_renamed(sql, columns.names), columns.settled)
