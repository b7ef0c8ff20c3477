"""What the DDL of the stream says of columns: members of ENUM and SET, precision, defaults.

The definitions of a table hold after the commit ts of a statement, until the next one. They are remembered as
`TableVersion`s that no row has, under that commit ts. So rows that come late are read with what held for them, and a
statement is not applied twice if it comes again, or in a later batch from another partition.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pipeline import ddl
from pipeline.ddl import ActionType
from pipeline.ddl.create import created_columns
from pipeline.ddl.virtual import created_like
from pipeline.model.columns import SchemaId, SourceColumn, TableVersion
from pipeline.model.names import folded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pipeline.model.messages import Ddl
    from pipeline.model.names import TableName

    Key = tuple[str, str]
    Columns = Mapping[str, SourceColumn]
    """By the name in lower case."""


_KEYS = (
    ActionType.ADD_INDEX,
    ActionType.DROP_INDEX,
    ActionType.DROP_INDEXES,
    ActionType.ADD_PRIMARY_KEY,
    ActionType.DROP_PRIMARY_KEY,
    ActionType.MULTI_SCHEMA_CHANGE,
)
"""Statements that may give the table another handle, and so part the rows before them from those after them."""


@dataclass(slots=True)
class Definitions:
    """The definitions of tables over commit ts; `described` are those that are new."""

    _since: dict[Key, list[int]] = field(default_factory=lambda: defaultdict(list))
    _columns: dict[tuple[Key, int], Columns] = field(default_factory=dict)
    described: dict[tuple[Key, SchemaId], TableVersion] = field(default_factory=dict)

    def since(self, table: TableName, commit_ts: int) -> int:
        """The statement before a row of this commit ts that defined its columns; 0 where none has."""
        statements = self._since[table.key]
        place = bisect_left(statements, commit_ts)
        return statements[place - 1] if place else 0

    def at(self, table: TableName, commit_ts: int) -> Columns:
        """The definitions of a row of this commit ts."""
        return self._columns.get((table.key, self.since(table, commit_ts)), {})

    def between(self, table: TableName, since: int, until: int) -> list[int]:
        """The statements that part rows of the commit ts `since` from those of `until`."""
        return [ts for ts in self._since[table.key] if since <= ts < until]

    def by(self, statement: Ddl) -> Columns | None:
        """What a statement has made of its table; None where it says nothing of columns or keys."""
        return self._columns.get((statement.table.key, statement.commit_ts))

    def hold(self, table: TableName, since: int, columns: Columns) -> None:
        """Add what is valid after a commit ts."""
        insort(self._since[table.key], since)
        self._columns[table.key, since] = columns

    def learn(self, table: TableName, since: int, columns: Columns) -> None:
        """As `hold`, and it is to be remembered."""
        self.hold(table, since, columns)
        version = TableVersion(table, SchemaId(since), tuple(columns.values()))
        self.described[table.key, version.version] = version


def read_definitions(
    statements: Sequence[Ddl],
    tables: Iterable[TableName],
    remembered: Callable[[Collection[TableName]], Iterable[TableVersion]],
) -> Definitions:
    """The definitions of tables, and of those that the statements of a batch are about.

    `statements` are in their order. `remembered` gives what earlier batches have defined of some tables: versions whose
    number is the commit ts after which they hold.
    """
    read = {index: _parse(statement) for index, statement in enumerate(statements)}
    names = [*tables, *(one.table for one in statements), *_others(statements, read.values())]
    definitions = Definitions()
    for version in remembered(names):
        definitions.hold(version.table, version.version, _by_name(version.columns))
    for index, statement in enumerate(statements):
        if definitions.by(statement) is None:
            columns = _applied(statement, read[index], definitions)
            if columns is not None:
                definitions.learn(statement.table, statement.commit_ts, columns)
    return definitions


def _parse(statement: Ddl) -> tuple[ddl.Action, ...]:
    if not statement.table.table:
        return ()
    return ddl.parse(statement.kind, statement.sql, statement.table, partitions=True, keys=True)


def _others(statements: Iterable[Ddl], read: Iterable[Iterable[ddl.Action]]) -> list[TableName]:
    """The tables whose definitions a statement takes over."""
    old = [action.old for actions in read for action in actions if isinstance(action, ddl.RenameTable)]
    return [*old, *(model for model in map(_model, statements) if model is not None)]


def _applied(statement: Ddl, actions: Iterable[ddl.Action], definitions: Definitions) -> Columns | None:
    """The table's definitions after a statement; None where it says nothing of columns or keys."""
    commit_ts = statement.commit_ts
    columns = dict(definitions.at(statement.table, commit_ts))
    changed = statement.kind in _KEYS and bool(statement.table.table)
    for action in actions:
        match action:
            case ddl.CreateTable():
                columns = _created(statement, definitions)
            case ddl.RenameTable(old, new) if new.key == statement.table.key:
                columns = dict(definitions.at(old, commit_ts))
            case ddl.AddColumn(column):
                columns[folded(column.name)] = column
            case ddl.DropColumn(name):
                columns.pop(folded(name), None)
            case ddl.RenameColumn(old_name, name):
                _rename(columns, old_name, name)
            case ddl.ModifyColumn(_, column):
                _modify(columns, column)
            case _:
                continue
        changed = True
    return columns if changed else None


def _rename(columns: dict[str, SourceColumn], old: str, new: str) -> None:
    column = columns.pop(folded(old), None)
    if column is not None:
        columns[folded(new)] = replace(column, name=new)


def _modify(columns: dict[str, SourceColumn], column: SourceColumn) -> None:
    """A new definition; what the rows from before the column show stays."""
    before = columns.get(folded(column.name))
    columns[folded(column.name)] = column if before is None else replace(column, default=before.default)


def _created(statement: Ddl, definitions: Definitions) -> dict[str, SourceColumn]:
    model = _model(statement)
    if model is not None:
        return dict(definitions.at(model, statement.commit_ts))
    return _by_name(one.column(decimals_as_text=False) for one in created_columns(statement.sql) if not one.virtual)


def _model(statement: Ddl) -> TableName | None:
    """The table that a CREATE TABLE … LIKE names, if its database is said."""
    return created_like(statement.sql, statement.table.schema)


def _by_name(columns: Iterable[SourceColumn]) -> dict[str, SourceColumn]:
    return {folded(column.name): column for column in columns}
