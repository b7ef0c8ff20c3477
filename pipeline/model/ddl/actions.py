"""What one clause of a DDL statement asks the warehouse to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.model.columns import Default, SourceColumn
    from pipeline.model.names import TableName


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column; its default is what the rows show that were there before."""

    column: SourceColumn


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A column goes."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """A column gets another name and keeps its values."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class ModifyColumn:
    """A column gets another definition; its default is the definition's, not that of existing rows."""

    name: str
    column: SourceColumn


@dataclass(frozen=True, slots=True)
class SetDefault:
    """A column gets another default, as the statement writes it; existing rows stay."""

    name: str
    default: Default


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A new table."""

    table: TableName


@dataclass(frozen=True, slots=True)
class DropTable:
    """A table goes."""

    table: TableName


@dataclass(frozen=True, slots=True)
class RenameTable:
    """A table gets another name, maybe in another database, and keeps its rows."""

    old: TableName
    new: TableName


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """All rows of a table go; no deletes are sent."""

    table: TableName


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """A new database."""

    name: str


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """A database goes, with all its tables; no message names them."""

    name: str


@dataclass(frozen=True, slots=True)
class NoEffect:
    """Nothing that the warehouse holds changes."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """The statement holds its table (DESIGN rule 5): it is not guessed what it did."""

    reason: str


Action = (
    AddColumn
    | DropColumn
    | RenameColumn
    | ModifyColumn
    | SetDefault
    | CreateTable
    | DropTable
    | RenameTable
    | TruncateTable
    | CreateDatabase
    | DropDatabase
    | NoEffect
    | NotUnderstood
)
