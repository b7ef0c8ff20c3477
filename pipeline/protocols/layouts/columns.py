"""The layout of a row as a version of its table."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pipeline.model import tidb_types
from pipeline.model import types as t
from pipeline.model.columns import MEMBERS, UNKNOWN_DEFAULT, SchemaId, SourceColumn
from pipeline.model.names import folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pipeline.model.types import WarehouseType

LAYOUT_BITS = 30
"""Of a layout's hash (`RowLayout.bits`)."""
_LAYOUT_SHIFT = 32
_KEY_ONLY = 1 << 31
_FIRST_VERSION = 1 << 62
"""Above every commit ts, which is the number of what a statement defines (`definitions`)."""


@dataclass(frozen=True, slots=True)
class SentColumn:
    """One column as a row shows it. `tidb_type`: TiCDC's word for its type, with parameters if the row shows them.

    `families`: all types that it may be, without parameters. `vague`: whether a definition knows better than the row
    what is nullable, and what unsigned.
    """

    name: str
    tidb_type: str
    handle: bool
    families: tuple[str, ...]
    nullable: bool = True
    unsigned: bool = False
    vague: bool = False
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RowLayout:
    """What a row shows of its table: the columns in the order in which they were sent."""

    columns: tuple[SentColumn, ...]
    bits: int
    """A hash of them (`LAYOUT_BITS`)."""

    @property
    def handle(self) -> tuple[str, ...]:
        """The names of the columns that tell rows from each other."""
        return tuple(column.name for column in self.columns if column.handle)


def bits_of(layout: str) -> int:
    """The hash of a layout's text."""
    digest = hashlib.blake2b(layout.encode(), digest_size=4).digest()
    return int.from_bytes(digest) >> 32 - LAYOUT_BITS


def family_of(tidb_type: str) -> str:
    """A `tidb_type` without its parameters."""
    return tidb_type.partition("(")[0]


def natural_type(column: SourceColumn) -> WarehouseType:
    """The warehouse type of a column without an override (design.md, 4.4)."""
    return tidb_types.natural(column.tidb_type)


@dataclass(frozen=True, slots=True)
class ColumnSettings:
    """What the settings say of a table's columns (`warehouse.columns`), by the name in lower case."""

    types: Mapping[str, WarehouseType] = field(default_factory=dict)
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of ENUM and SET, as long as no definition has been sent."""


def source_columns(
    sent: Iterable[SentColumn], defined: Mapping[str, SourceColumn], settings: ColumnSettings
) -> tuple[SourceColumn, ...]:
    """The columns of a version. `defined` goes by the name in lower case.

    Where a definition is of another type than what was sent, the row wins (design.md, rule 5).
    """
    return tuple(_column(one, defined.get(folded(one.name)), settings) for one in sent)


def _column(sent: SentColumn, defined: SourceColumn | None, settings: ColumnSettings) -> SourceColumn:
    column = SourceColumn(
        sent.name,
        t.STRING,
        sent.tidb_type,
        nullable=sent.nullable,
        default=UNKNOWN_DEFAULT,
        unsigned=sent.unsigned,
        members=sent.members,
    )
    if defined is not None and family_of(defined.tidb_type) in sent.families:
        column = replace(
            column, tidb_type=sent.tidb_type if "(" in sent.tidb_type else defined.tidb_type,
            default=defined.default, members=sent.members or defined.members, written=defined.written,
        )  # fmt: skip
        if sent.vague:
            unsigned = sent.unsigned or family_of(defined.tidb_type).endswith(" UNSIGNED")
            column = replace(column, nullable=defined.nullable, unsigned=unsigned)
    return _settled(column, settings)


def defined_columns(defined: Iterable[SourceColumn], settings: ColumnSettings) -> tuple[SourceColumn, ...]:
    """The columns of a table that has no row yet, as those of its rows will be."""
    return tuple(_settled(column, settings) for column in defined)


def _settled(column: SourceColumn, settings: ColumnSettings) -> SourceColumn:
    name = folded(column.name)
    if name in settings.members and family_of(column.tidb_type) in MEMBERS and not column.members:
        column = replace(column, members=settings.members[name])
    return replace(column, type=settings.types.get(name) or natural_type(column))


def version_of(layout: int, columns: Iterable[SourceColumn], defined_at: int = 0, *, key_only: bool) -> SchemaId:
    """The number of a version: of its layout, of its definitions and where they begin, whether it has the handle alone.

    `defined_at` is the commit ts of the statement that made its columns what they are, 0 where there is none. A layout
    that comes again after such a statement is another version: its columns may be others of the same names.
    """
    defined = [(c.name, c.tidb_type, *c.members) for c in columns if c.members or "(" in c.tidb_type]
    bits = zlib.crc32(repr((defined_at, defined)).encode()) >> 1 if defined or defined_at else 0
    return SchemaId(_FIRST_VERSION | layout << _LAYOUT_SHIFT | (_KEY_ONLY if key_only else 0) | bits)


def layout_of(version: SchemaId) -> int:
    """The layout's part of a version's number (`RowLayout.bits`)."""
    return (version - _FIRST_VERSION) >> _LAYOUT_SHIFT


def is_defined(version: SchemaId) -> bool:
    """Whether this is no version of rows, but what a statement defines: the number is its commit ts."""
    return version < _FIRST_VERSION
