"""Versions of source tables as `_pipeline.schemas` has them: written once, read when they are met again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pipeline.model.columns import Default, DefaultKind, SchemaId, SourceColumn, TableVersion
from pipeline.model.names import TableName
from pipeline.model.types import WarehouseType

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from pyspark.sql import Column

    from pipeline.warehouse.records import Records

Known = tuple[tuple[str, str], SchemaId]
"""A table's name without case, and the version."""


def known_as(version: TableVersion) -> Known:
    """What identifies a version."""
    return version.table.key, version.version


def as_row(version: TableVersion) -> dict[str, object]:
    """A row of `_pipeline.schemas`."""
    table = version.table
    columns = [_column(column, version.handle) for column in version.columns]
    columns += [{"name": name, "virtual": True} for name in version.virtual]
    text = json.dumps(columns, ensure_ascii=False)
    return {"schema_name": table.schema, "table_name": table.table, "version": version.version, "columns": text}


def _column(column: SourceColumn, handle: tuple[str, ...] | None) -> dict[str, object]:
    described: dict[str, object] = {
        "name": column.name, "type": column.type, "tidb_type": column.tidb_type, "nullable": column.nullable,
    }  # fmt: skip
    if column.default.kind is not DefaultKind.NULL:
        described["default"] = {"kind": column.default.kind.value, "text": column.default.text}
    if column.unsigned:
        described["unsigned"] = True
    if column.members:
        described["members"] = list(column.members)
    if column.length:
        described["length"] = column.length
    if column.written:
        described["written"] = column.written
    if column.name in (handle or ()):
        described["key"] = True
    return described


def from_row(schema: str, table: str, version: int, columns: str) -> TableVersion:
    """The inverse of `as_row`, for protocols whose messages all say what they do, and when."""
    described: list[dict[str, Any]] = json.loads(columns)
    sent = [column for column in described if not column.get("virtual")]
    handle = tuple(column["name"] for column in sent if column.get("key"))
    return TableVersion(
        TableName(schema, table), SchemaId(version), tuple(map(_source_column, sent)), handle,
        tells_op=True, tells_commit_ts=True,
        virtual=tuple(column["name"] for column in described if column.get("virtual")),
    )  # fmt: skip


def _source_column(described: Mapping[str, Any]) -> SourceColumn:
    default = described.get("default", {"kind": "null", "text": ""})
    return SourceColumn(
        described["name"], WarehouseType(described["type"]), described["tidb_type"], described["nullable"],
        Default(DefaultKind(default["kind"]), default["text"]), described.get("unsigned", False),
        tuple(described.get("members", ())), described.get("length", 0), described.get("written", ""),
    )  # fmt: skip


class Descriptions:
    """What messages have said of versions (`model.messages.KnownVersions`): a restart needs no replay."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._known: dict[Known, TableVersion] = {}
        self._missing: set[Known] = set()
        self._whole: set[tuple[str, str]] = set()
        """Tables of which all that is durable has been read."""
        self._unwritten: dict[Known, TableVersion] = {}

    def learn(self, versions: Iterable[TableVersion]) -> None:
        """Take note of what a batch describes. It is durable when `unwritten` has been written.

        A column that was found virtual stays so: a message that repeats the version lists such columns again.
        """
        for version in versions:
            name = known_as(version)
            earlier = self._known.get(name)
            if earlier is None or (earlier != version and set(earlier.virtual) <= set(version.virtual)):
                self._known[name] = self._unwritten[name] = version
                self._missing.discard(name)

    def unwritten(self) -> list[dict[str, object]]:
        """Rows that `_pipeline.schemas` does not have yet."""
        return [as_row(version) for version in self._unwritten.values()]

    def written(self) -> None:
        """They are durable now."""
        self._unwritten.clear()

    def versions(self, wanted: Collection[tuple[TableName, SchemaId]]) -> Mapping[Known, TableVersion]:
        """See `Described.versions`."""
        names = {(table.key, version) for table, version in wanted}
        unread = names - self._known.keys() - self._missing
        if unread:
            self._load(unread)
            self._missing |= unread - self._known.keys()
        return {name: self._known[name] for name in names if name in self._known}

    def of_tables(self, tables: Collection[TableName]) -> Collection[TableVersion]:
        """See `Described.of_tables`."""
        names = {table.key: table for table in tables}
        unread = [table for key, table in names.items() if key not in self._whole]
        if unread:
            for name, version in self._read(lambda: _named(unread)).items():
                self._known.setdefault(name, version)
                self._missing.discard(name)
            self._whole.update(table.key for table in unread)
        return [version for version in self._known.values() if version.table.key in names]

    def _load(self, wanted: Collection[Known]) -> None:
        versions = sorted({version for _, version in wanted})
        stored = self._read(lambda: F.col("version").isin(*versions))
        self._known.update({name: version for name, version in stored.items() if name in wanted})

    def _read(self, where: Callable[[], Column]) -> dict[Known, TableVersion]:
        """The versions that are durable. The newest row of a version counts."""
        if self._records.tables["schemas"].head() is None:
            return {}
        rows = self._records.read("schemas").where(where()).orderBy("batch_id")
        stored = [from_row(*row) for row in rows.select("schema_name", "table_name", "version", "columns").collect()]
        return {known_as(version): version for version in stored}


def _named(tables: Iterable[TableName]) -> Column:
    names = ["\0".join(table.key) for table in tables]
    return F.concat_ws("\0", F.lower("schema_name"), F.lower("table_name")).isin(names)
