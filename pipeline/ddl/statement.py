"""A DDL event with what its text asks for, and what it does to what is known of tables by their names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2s
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pipeline import ddl as text
from pipeline.model.names import folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pipeline.ddl import Action
    from pipeline.model.messages import Ddl
    from pipeline.model.names import Name, TableName

T = TypeVar("T")
_WITHOUT_ROWS = (text.CreateTable, text.CreateDatabase, text.NoEffect, text.NotUnderstood)
"""What statements do that no row has to come before."""
_NAMING = (text.CreateTable, text.DropTable, text.RenameTable, text.DropDatabase)


@dataclass(frozen=True, slots=True)
class Statement:
    """A DDL message and what its text asks for.

    `tables`: those that it names. `sources`: what the source calls the tables that it is about, by their names here
    (`TableName.key`), where a protocol spells names otherwise.
    """

    ddl: Ddl
    actions: tuple[Action, ...]
    tables: tuple[TableName, ...] = ()
    sources: tuple[tuple[Name, TableName], ...] = ()

    @property
    def naming(self) -> bool:
        """Whether it changes which table a name means."""
        return any(isinstance(action, _NAMING) for action in self.actions)

    @property
    def needs_place(self) -> bool:
        """Whether it matters which rows come after it, though it stands in one partition alone (`Ddl.alone`)."""
        return bool(self.ddl.alone) and not all(isinstance(action, _WITHOUT_ROWS) for action in self.actions)

    def not_understood(self, reason: str, warehouse: Iterable[TableName]) -> Statement:
        """The same, as one that holds its tables for this reason: those that it names, or drops of these."""
        dropped = {folded(action.name) for action in self.actions if isinstance(action, text.DropDatabase)}
        gone = (table for table in warehouse if folded(table.schema) in dropped)
        return replace(self, actions=(text.NotUnderstood(reason),), tables=(*self.tables, *gone))

    @property
    def commit_ts(self) -> int:
        """When TiDB executed it."""
        return self.ddl.commit_ts

    @property
    def clauses(self) -> Iterator[tuple[Action, Clause]]:
        """Its actions, each as the clause that it is."""
        return ((action, Clause(self, number)) for number, action in enumerate(self.actions))

    @property
    def cause(self) -> str:
        """The statement as a mark that a table keeps: the copies of one have the same."""
        identity = f"{self.ddl.table.schema}\x00{self.ddl.table.table}\x00{self.ddl.sql}"
        return f"{self.commit_ts}:{blake2s(identity.encode(errors='surrogatepass'), digest_size=8).hexdigest()}"


class Clause(NamedTuple):
    """One action of a statement, by its number."""

    statement: Statement
    number: int

    @property
    def commit_ts(self) -> int:
        """When TiDB executed it."""
        return self.statement.commit_ts

    @property
    def mark(self) -> str:
        """The clause as a mark that the name which it gives keeps."""
        return f"{self.statement.cause}/{self.number}"


def followed(names: Mapping[Name, T], action: Action, created: T | None = None) -> dict[Name, T]:
    """What is known of tables by their names, after one clause of a statement; a table that is there is not created.

    `created`: what is known of a new table; None: nothing.
    """
    after = dict(names)
    match action:
        case text.CreateTable(table) if created is not None:
            after.setdefault(table.key, created)
        case text.DropTable(table):
            after.pop(table.key, None)
        case text.RenameTable(old, new) if old.key in after:
            after[new.key] = after.pop(old.key)
        case text.DropDatabase(schema):
            after = {name: known for name, known in after.items() if name[0] != folded(schema)}
    return after


def named(ddl: Ddl) -> tuple[TableName, ...]:
    """The tables that a text names after the word TABLE, and the one that its message is sent for."""
    return text.named_tables(ddl.sql, ddl.table, ddl.old)


def concerned(statement: Statement) -> tuple[TableName, ...]:
    """Every table that a statement names, whatever it does to it."""
    names = {name.key: name for name in named(statement.ddl)}
    for action in statement.actions:
        if isinstance(action, text.RenameTable):
            names |= {name.key: name for name in (action.old, action.new)}
    return tuple(names.values())


def dropped_databases(statement: Statement) -> set[str]:
    """The databases that a statement drops, in the form of `TableName.key`."""
    return {folded(action.name) for action in statement.actions if isinstance(action, text.DropDatabase)}
