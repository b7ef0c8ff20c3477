"""A warehouse table's columns over time, as data: which field is in which column, and what older rows show.

A `Layout` lists every warehouse column that a table ever had and, for every version of the source table that was
seen, which field lands in which column. It is kept as JSON in a property of the Iceberg table and changes in the
same commit as the table's schema, so the two cannot disagree. Columns are known by an id of ours that outlives
renames. Everything here is pure; `evolution` decides how a layout changes, `tables` carries it out.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pipeline.model.columns import NULL_DEFAULT, Default, DefaultKind, SchemaId
from pipeline.model.messages import ColumnMapping, Target
from pipeline.model.names import confusable, folded
from pipeline.model.tidb_types import natural
from pipeline.model.types import CALENDAR, STRING, WarehouseType, absorbs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DDL_VERSION = SchemaId(-1)
"""The version id of a layout that DDL text described and no message has carried yet."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """Values written before version number `before` are converted on their way into the column.

    `source` is the column id that holds them (the column itself for a rewrite in place), `tidb_type` the type
    they are converted to as TiDB converts them, and `was` the type that they had, both in full (`source_types`).
    """

    before: int
    source: int
    tidb_type: str
    was: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """One warehouse column.

    `added` numbers the version that brought it: rows of older versions show `conversion` of another column, else
    `default`. Rows of later versions that do not carry it show NULL. `live` is whether the newest version has it,
    `in_current` whether the current table does (a dropped column may leave it, never the changes table).
    """

    id: int
    name: str
    source: str
    type: WarehouseType
    tidb_type: str
    added: int
    default: Default = NULL_DEFAULT
    live: bool = True
    in_current: bool = True
    conversions: tuple[Conversion, ...] = ()
    shown_in: int | None = None
    """Of a column that only a stale version fills: the column of the current table that shows its values, converted."""
    leaves: bool = False
    """Whether it leaves the current table as soon as publishing no longer needs it (`evolution.let_leave`)."""
    written: str = ""
    """The type in full (`source_types`), where that says more than `tidb_type`."""

    @property
    def source_type(self) -> str:
        """The type in full, as far as it is known."""
        return self.written or self.tidb_type

    @property
    def loses(self) -> bool:
        """Whether its type may not hold a value that is sent, so that its text is kept, too (design.md, rule 7).

        Any bytes may be sent as a text.
        """
        return self.type == STRING or self.narrows

    @property
    def narrows(self) -> bool:
        """Whether its type does not hold every value of TiDB's type."""
        return self.type in CALENDAR or not absorbs(self.type, natural(self.tidb_type))

    def defined(self, tidb_type: str, source_type: str) -> Column:
        """This column under the type that it has now."""
        return replace(self, tidb_type=tidb_type, written="" if source_type == tidb_type else source_type)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the source table: its place in the order of versions, and field → column id."""

    version: SchemaId
    number: int
    fields: tuple[tuple[str, int], ...]
    key_only: bool = False

    def column_of(self, field: str) -> int | None:
        """The column id where a source field lands."""
        return dict(self.fields).get(field)

    @property
    def columns(self) -> frozenset[int]:
        """Ids of the columns that rows of this version carry."""
        return frozenset(column for _, column in self.fields)


@dataclass(frozen=True, slots=True)
class Removal:
    """At the commit ts `at` the rows of these partitions (None: of all) went, and no deletes were sent.

    `scheme`: how the table was partitioned, as far as that decides which rows went. `columns`: name, id and TiDB's type
    of the columns that decide it. An earlier version noted all partitions and all columns.
    """

    at: int
    names: tuple[str, ...] | None
    scheme: Mapping[str, Any] | None
    columns: tuple[tuple[str, int, str], ...]
    other: str = ""
    """The uuid of the pair whose rows came in their place, by EXCHANGE PARTITION."""

    @property
    def empties(self) -> bool:
        """Whether no row stays."""
        return self.names is None

    @staticmethod
    def of(raw: Mapping[str, Any]) -> Removal:
        """A removal that a layout's JSON has."""
        names = None if raw["names"] is None else tuple(raw["names"])
        return Removal(raw["at"], names, raw["scheme"], _pairs(raw["columns"]), raw["other"])


@dataclass(frozen=True, slots=True)
class LayoutByOffset:
    """What a layout knows in the ordering by offset alone.

    `altered_in`: the partitions (stream, number) in which the statement of `Layout.altered_at` was seen. A row of
    another one may be older than it.
    """

    altered_in: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LayoutByCommitTs:
    """What a layout knows in the ordering by commit ts alone."""

    handles: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """After which commit ts the handle was which, oldest first."""
    met_at: int = 0
    """`Layout.ddl_at` when the newest version was met. From then on the handle is known to be what it is."""
    removals: tuple[Removal, ...] = field(default=(), hash=False)
    """Rows that went with their partition, or all of them by TRUNCATE TABLE, oldest first."""


@dataclass(frozen=True, slots=True)
class Layout:
    """All columns and versions of one table. `head` is the number of the newest version."""

    columns: tuple[Column, ...] = ()
    versions: tuple[Version, ...] = ()
    head: int = 0
    handle: tuple[int, ...] | None = None
    ddl_at: int = 0
    """Commit ts of the newest DDL statement that this layout has applied: an older one is a redelivery."""
    settled: bool = True
    """False from a DDL until a message with its schema has come: that message may correct what the text said."""
    altered_at: int = 0
    """Commit ts of the newest of them that changed columns."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Source names of columns before and after each RENAME, for versions that come later than it."""
    before: bool = False
    """Whether the changes table has `_before`, a struct of all columns."""
    partitions: Mapping[str, Any] | None = field(default=None, hash=False)
    """How the source is partitioned, as `ddl.partitions` writes it; None where it is not, or that is unknown."""
    by_offset: LayoutByOffset = LayoutByOffset()
    by_commit_ts: LayoutByCommitTs = LayoutByCommitTs()

    def column(self, column_id: int) -> Column:
        """The column of this id."""
        return next(column for column in self.columns if column.id == column_id)

    def live(self, source: str) -> Column | None:
        """The column that a source name means today; names match without case."""
        wanted = folded(source)
        return next((c for c in self.columns if c.live and folded(c.source) == wanted), None)

    def named(self, name: str) -> Column | None:
        """The column that has this warehouse name today, live or not."""
        wanted = confusable(name)
        return next((c for c in self.columns if confusable(c.name) == wanted), None)

    def version(self, version: SchemaId) -> Version | None:
        """The mapping of a version that was seen before."""
        return next((v for v in self.versions if v.version == version), None)

    @property
    def current(self) -> tuple[Column, ...]:
        """The columns of the current table, in order."""
        return tuple(column for column in self.columns if column.in_current)

    @property
    def key(self) -> tuple[Column, ...]:
        """The handle columns; empty for a table without a key."""
        return tuple(self.column(column_id) for column_id in self.handle or ())

    @property
    def mapping(self) -> ColumnMapping:
        """Where the fields of each version land in the changes table."""
        names = {column.id: column.name for column in self.columns}
        fields: dict[SchemaId, dict[str, str]] = {
            version.version: {field: names[column] for field, column in version.fields} for version in self.versions
        }
        return ColumnMapping(tuple(Target(c.name, c.type) for c in self.columns), fields, self.before)

    def keyed(self, handle: tuple[int, ...]) -> Layout:
        """This layout with another handle: that of rows from before a change of the key."""
        return self if handle == self.handle else replace(self, handle=handle)

    def over_time(self, by_commit_ts: LayoutByCommitTs) -> Layout:
        """This layout with something else known by commit ts."""
        return replace(self, by_commit_ts=by_commit_ts)

    def with_column(self, column: Column) -> Layout:
        """This layout with the column of the same id replaced, or the column added at the end."""
        has_column = any(c.id == column.id for c in self.columns)
        columns = tuple(column if c.id == column.id else c for c in self.columns)
        return replace(self, columns=columns if has_column else (*columns, column))

    def next_id(self) -> int:
        """A column id that was never used."""
        return max((column.id for column in self.columns), default=0) + 1

    def free_name(self, name: str) -> str:
        """`<name>__v<N>` with the smallest N from 1 that is not taken."""
        number = 1
        while self.named(f"{name}__v{number}"):
            number += 1
        return f"{name}__v{number}"

    def to_json(self) -> str:
        """The layout as a compact JSON text, stable for equal layouts: one object, with what the orderings know."""
        fields = asdict(self)
        flat = fields.pop("by_offset") | fields.pop("by_commit_ts") | fields
        return json.dumps(flat, separators=(",", ":"), sort_keys=True, ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> Layout:
        """The layout that `to_json` wrote."""
        raw = json.loads(text)
        return Layout(
            columns=tuple(_column(c) for c in raw["columns"]),
            versions=tuple(
                Version(SchemaId(v["version"]), v["number"], _pairs(v["fields"]), v.get("key_only", False))
                for v in raw["versions"]
            ),
            head=raw["head"],
            handle=None if raw["handle"] is None else tuple(raw["handle"]),
            ddl_at=raw["ddl_at"],
            settled=raw["settled"],
            altered_at=raw.get("altered_at", 0),
            renamed=_pairs(raw.get("renamed", ())),
            before=raw.get("before", False),
            partitions=raw.get("partitions"),
            by_offset=LayoutByOffset(_pairs(raw.get("altered_in", ()))),
            by_commit_ts=LayoutByCommitTs(
                handles=tuple((since, tuple(handle)) for since, handle in raw.get("handles", ())),
                met_at=raw.get("met_at", 0),
                removals=tuple(Removal.of(one) for one in raw.get("removals", ())),
            ),
        )


def _pairs(raw: Iterable[Iterable[Any]]) -> tuple[Any, ...]:
    return tuple(tuple(pair) for pair in raw)


def _column(raw: dict[str, Any]) -> Column:
    return Column(
        **{
            **raw,
            "type": WarehouseType(raw["type"]),
            "default": Default(DefaultKind(raw["default"]["kind"]), raw["default"]["text"]),
            "conversions": tuple(Conversion(**c) for c in raw["conversions"]),
        }
    )
