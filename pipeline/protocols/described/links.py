"""The version before a statement, where messages describe the one after it alone: that of the table before then."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline import ddl
from pipeline.ddl.classify import classify

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from pipeline.model.columns import TableVersion
    from pipeline.model.names import Name, TableName
    from pipeline.protocols.described.virtuals import ColumnDdl


def linked(
    statements: Iterable[ColumnDdl],
    described: Iterable[TableVersion],
    of_tables: Callable[[Collection[TableName]], Collection[TableVersion]],
) -> Iterator[ColumnDdl]:
    """The statements, each with the version before it, if there is one; a table that is created has none.

    `described`: the versions of this batch. `of_tables`: see `KnownVersions`.
    """
    statements = tuple(statements)
    names = [name for statement in statements if (name := _name_before(statement)) is not None]
    versions: dict[Name, list[TableVersion]] = {}
    for version in (*of_tables(names), *described) if names else ():
        versions.setdefault(version.table.key, []).append(version)
    for statement in statements:
        name = _name_before(statement)
        earlier = [one for one in versions.get(name.key, ()) if one.version < statement.commit_ts] if name else []
        yield replace(statement, then=max(earlier, key=lambda one: one.version)) if earlier else statement


def _name_before(statement: ColumnDdl) -> TableName | None:
    """What the table of a statement was called before it; None of a table that was not there."""
    if statement.now is None or statement.then is not None:
        return None
    table = statement.now.table
    for action in ddl.parse(classify(statement.sql), statement.sql, table):
        match action:
            case ddl.CreateTable():
                return None
            case ddl.RenameTable(old, new) if new.key == table.key:
                return old
    return table
