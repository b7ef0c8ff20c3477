"""What one clause of a DDL statement asks the warehouse to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.ddl.partitions.scheme import NamedPartition, PartitionScheme
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
class PartitionBy:
    """A table is partitioned anew; its rows stay."""

    table: TableName
    scheme: PartitionScheme


@dataclass(frozen=True, slots=True)
class RemovePartitioning:
    """A table has no partitions any more; its rows stay."""

    table: TableName


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """New partitions after the others: these, or where they are not named so many of HASH."""

    table: TableName
    partitions: tuple[NamedPartition, ...] = ()
    number: int = 0


@dataclass(frozen=True, slots=True)
class CoalescePartitions:
    """So many partitions of HASH less; all rows stay."""

    table: TableName
    number: int


@dataclass(frozen=True, slots=True)
class ReorganizePartitions:
    """Some partitions become others; all rows stay."""

    table: TableName
    names: tuple[str, ...]
    partitions: tuple[NamedPartition, ...]


@dataclass(frozen=True, slots=True)
class UnclearPartitions:
    """Definitions change in a way that is not understood; all rows stay."""

    table: TableName
    reason: str


@dataclass(frozen=True, slots=True)
class DropPartitions:
    """Partitions go with their rows; no deletes are sent."""

    table: TableName
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TruncatePartitions:
    """The rows of partitions go, of all without `names`; no deletes are sent."""

    table: TableName
    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class ExchangePartition:
    """The rows of a partition and all rows of another table change places; nothing of it is sent."""

    table: TableName
    name: str
    with_table: TableName
    validation: bool = True


@dataclass(frozen=True, slots=True)
class NoEffect:
    """Nothing that the warehouse holds changes."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """The statement holds its table (design.md, rule 5): it is not guessed what it did."""

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
    | PartitionBy
    | RemovePartitioning
    | AddPartitions
    | CoalescePartitions
    | ReorganizePartitions
    | UnclearPartitions
    | DropPartitions
    | TruncatePartitions
    | ExchangePartition
    | NoEffect
    | NotUnderstood
)
