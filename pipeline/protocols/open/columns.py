"""The layout of a row event as a version of its table.

The protocol tells a column's MySQL type and flags (TiCDC Open Protocol, "Column type codes", "Column flags"). It does
not tell members, precision and defaults: these come from the DDL that was sent (`definitions`), where that agrees.

TiCDC looks flags up by column id. Where its table is older than the column, as in a partition of which it has not yet
taken in the ALTER, it finds none and sends 0. That is what a NOT NULL text has too, so that 0 alone says nothing: what
the type code leaves open, bytes or text, signed or not, is then what the DDL has said.
"""

from __future__ import annotations

import hashlib
import json
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

_BINARY, _NULLABLE, UNSIGNED = 1, 64, 128
_FLAGS = {row: UNSIGNED for row in tidb_types.TYPES.values() if row.unsigned} | {tidb_types.BLOB: _BINARY}
"""What tells a type from another one of the same code: UNSIGNED, and bytes from text."""

BASE64 = (249, 252)
"""First and last type of those that are sent in base64."""

LAYOUT_BITS = 30
"""Of a layout's hash (`OpenLayout.bits`)."""
_LAYOUT_SHIFT = 32
_KEY_ONLY = 1 << 31
_FIRST_VERSION = 1 << 62
"""Above every commit ts, which is the number of what a statement defines (`definitions`)."""


@dataclass(frozen=True, slots=True)
class SentColumn:
    """One column as a row event shows it."""

    name: str
    code: int
    flags: int
    handle: bool

    @property
    def family(self) -> str:
        """TiCDC's word for the type, without parameters; an unknown one is taken as text."""
        rows = tidb_types.BY_CODE.get(self.code, (tidb_types.TEXT,))
        return next((row for row in rows if self.flags & _FLAGS.get(row, 0)), rows[0]).name

    def allows(self, family: str) -> bool:
        """Whether it may be of this family: its own, or without flags any that the type code leaves open."""
        if self.flags:
            return family == self.family
        unsigned = replace(self, flags=UNSIGNED).family
        return family in (self.family, unsigned, replace(self, flags=_BINARY).family)


@dataclass(frozen=True, slots=True)
class OpenLayout:
    """What a row event shows of its table: the columns in the order in which they were sent."""

    columns: tuple[SentColumn, ...]
    bits: int
    """A hash of them (`LAYOUT_BITS`)."""


def read_layout(text: str) -> OpenLayout:
    """The layout that a number of events stands for (`events.shown`)."""
    digest = hashlib.blake2b(text.encode(), digest_size=4).digest()
    columns = tuple(SentColumn(c["n"], c["t"], c.get("f") or 0, bool(c.get("h"))) for c in json.loads(text))
    return OpenLayout(columns, int.from_bytes(digest) >> 32 - LAYOUT_BITS)


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

    Where a definition is of another type than what was sent, the protocol wins (design.md, rule 5). Flags that are 0 do
    not say what was sent (`SentColumn.allows`).
    """
    return tuple(_column(one, defined.get(folded(one.name)), settings) for one in sent)


def _column(sent: SentColumn, defined: SourceColumn | None, settings: ColumnSettings) -> SourceColumn:
    column = SourceColumn(
        sent.name,
        t.STRING,
        sent.family,
        nullable=bool(sent.flags & _NULLABLE),
        default=UNKNOWN_DEFAULT,
        unsigned=bool(sent.flags & UNSIGNED),
    )
    if defined is not None and sent.allows(family_of(defined.tidb_type)):
        column = replace(
            column, tidb_type=defined.tidb_type, default=defined.default,
            members=defined.members, written=defined.written,
        )  # fmt: skip
        if not sent.flags:
            unsigned = family_of(defined.tidb_type).endswith(" UNSIGNED")
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
    """The layout's part of a version's number (`OpenLayout.bits`)."""
    return (version - _FIRST_VERSION) >> _LAYOUT_SHIFT


def is_defined(version: SchemaId) -> bool:
    """Whether this is no version of rows, but what a statement defines: the number is its commit ts."""
    return version < _FIRST_VERSION
