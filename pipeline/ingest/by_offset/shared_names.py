"""Tables of the source whose rows come under one name and in one stream (ordering by offset).

`a b` and `a_b` are both sent as `a_b`, and to one stream. Nothing tells their rows apart, but DDL events have the names
of the source: a statement about the one must not be applied to the other. What the source calls a table is remembered
from its DDL events; where one names another table, the table is held.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline import ddl as text
from pipeline.model.names import TableName, folded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pipeline.ddl.statement import Statement
    from pipeline.model.names import Name

Called = dict["Name", TableName]
"""What the source calls a table, by its name here, as far as DDL events have said."""


def checked(
    statements: Iterable[Statement], called: Mapping[Name, TableName], tables: Collection[Name]
) -> tuple[tuple[Statement, ...], Called]:
    """The statements (by commit ts), and what the source calls the tables after them.

    A statement that may be about another table comes back as not understood. `called`: what the source called the
    tables before the first statement. `tables`: the names here of the tables that there are.
    """
    names, safe_statements = dict(called), []
    for statement in statements:
        safe = _of_database(statement, names, tables) or _of_tables(statement, names)
        safe_statements.append(safe)
        if safe is statement:
            names = _after(statement, names)
    return tuple(safe_statements), names


def _of_tables(statement: Statement, called: Called) -> Statement:
    for name, source in statement.sources:
        other = called.get(name, source)
        if other.key != source.key:
            here = next((table for table in statement.tables if table.key == name), TableName(*name))
            why = f"TiCDC sends both {other} and {source} as {here}, to one place, so a run cannot tell them apart"
            return replace(statement, actions=(text.NotUnderstood(why),), tables=(here,))
    return statement


def _of_database(statement: Statement, called: Called, tables: Collection[Name]) -> Statement | None:
    """A DROP DATABASE where others are sent under its name: it drops the tables that are known to be its own.

    The others are held, but for those that are known to be of another database. None: it is no such statement.
    """
    database = next((action.name for action in statement.actions if isinstance(action, text.DropDatabase)), None)
    if database is None or statement.ddl.in_source is None:
        return None
    mine = {name for name in {*tables, *called} if name[0] == folded(database)}
    source = folded(statement.ddl.in_source.schema)
    others = {name for name in mine if name in called and folded(called[name].schema) != source}
    apart = {name for name in mine if "@" in name[1]}
    if not others and not apart:
        return None
    own = {name for name in mine - others if name in called and not apart}
    unknown = sorted(mine - others - own)
    why = (
        f"TiCDC sends several databases as {database}: it is unclear which tables {statement.ddl.in_source.schema} had"
    )
    holds = (text.NotUnderstood(why),) if unknown else ()
    drops = tuple(text.DropTable(TableName(*name)) for name in sorted(own))
    return replace(statement, actions=(*drops, *holds), tables=tuple(TableName(*name) for name in unknown))


def _after(statement: Statement, called: Called) -> Called:
    """What the source calls the tables after a statement."""
    names = {**dict(statement.sources), **called}
    for action in statement.actions:
        match action:
            case text.CreateTable(table) if statement.ddl.in_source is not None:
                names[table.key] = statement.ddl.in_source
            case text.DropTable(table):
                names.pop(table.key, None)
            case text.RenameTable(old, new) if statement.ddl.in_source is not None:
                names.pop(old.key, None)
                names[new.key] = statement.ddl.in_source
            case text.DropDatabase(database):
                names = {name: source for name, source in names.items() if name[0] != folded(database)}
    return names
