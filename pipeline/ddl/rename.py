"""RENAME TABLE a TO b, c TO d, and ALTER TABLE a RENAME AS b.

The database of a name may be missing: then it was the session's, which no message carries. The message names
the table as it is afterwards, and with the Simple protocol as it was before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ddl.actions import RenameTable
from pipeline.ddl.lexemes import NotParsedError
from pipeline.model.names import TableName

if TYPE_CHECKING:
    from pipeline.ddl.lexemes import Cursor

_UNSAID = ""


def read_renames(cursor: Cursor, table: TableName, old_name: TableName | None = None) -> tuple[RenameTable, ...]:
    """Read every rename of the text, in order; several statements may be joined by semicolons.

    A single rename ends in the table that the message names. It begins with `old_name`, which the message may have,
    if the text has no database there.
    """
    pairs = _statement(cursor)
    while cursor.accept_symbol(";") and not cursor.at_end():
        pairs += _statement(cursor)
    cursor.expect_end()
    if len(pairs) == 1:
        old, new = pairs[0]
        return (RenameTable(_old(old, new, table, old_name), table),)
    return tuple(RenameTable(_old(old, new, table), _in_database(new, table)) for old, new in pairs)


def _statement(cursor: Cursor) -> list[tuple[TableName, TableName]]:
    if cursor.accept("ALTER"):
        cursor.accept("IGNORE")
        cursor.expect("TABLE")
        old = cursor.table_name(_UNSAID)
        cursor.expect("RENAME")
        if not cursor.accept_any("TO", "AS"):
            cursor.accept_symbol("=")
        return [(old, cursor.table_name(_UNSAID))]
    cursor.expect("RENAME")
    cursor.expect("TABLE")
    pairs = [_pair(cursor)]
    while cursor.accept_symbol(","):
        pairs.append(_pair(cursor))
    return pairs


def _pair(cursor: Cursor) -> tuple[TableName, TableName]:
    old = cursor.table_name(_UNSAID)
    cursor.expect("TO")
    return old, cursor.table_name(_UNSAID)


def _old(old: TableName, new: TableName, table: TableName, old_name: TableName | None = None) -> TableName:
    """Complete the former name: without a database it was in the session's, as is a new name without one."""
    if old.schema == _UNSAID and old_name is not None:
        return old_name
    if old.schema != _UNSAID or new.schema == _UNSAID:
        return _in_database(old, table)
    raise NotParsedError(f"the statement does not say in which database {old.table} was before it became {new}")


def _in_database(name: TableName, table: TableName) -> TableName:
    return name if name.schema != _UNSAID else TableName(table.schema, name.table)
