"""Which columns a statement makes virtual: TiCDC never sends their values, and not every protocol says which they are.

Read clause by clause; what follows a clause that is not understood is not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ddl.create import created_columns, created_table, read_columns, read_model
from pipeline.ddl.definition import read_definition
from pipeline.ddl.lexemes import Cursor, LexemeKind, NotParsedError, lexemes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.ddl.definition import Definition
    from pipeline.model.names import TableName

_OTHERS = (
    "PRIMARY", "UNIQUE", "INDEX", "KEY", "FULLTEXT", "SPATIAL", "VECTOR", "COLUMNAR", "CONSTRAINT", "FOREIGN", "CHECK",
    "PARTITION", "STATS_EXTENDED",
)  # fmt: skip
"""What else than a column ADD may name."""


def virtual_columns(sql: str) -> tuple[tuple[str, bool], ...]:
    """Each column that a CREATE TABLE defines, or an ALTER TABLE adds, modifies or changes: (name, is virtual)."""
    created = created_columns(sql)
    definitions = created or (definition for definition, _ in _altered(sql) if definition is not None)
    return tuple((definition.name, definition.virtual) for definition in definitions)


def renamed_columns(sql: str) -> tuple[tuple[str, str], ...]:
    """The columns that an ALTER TABLE gives another name: (old, new)."""
    return tuple(renamed for _, renamed in _altered(sql) if renamed is not None)


def created_like(sql: str, schema: str) -> TableName | None:
    """The table that a CREATE TABLE ... LIKE names; `schema` is the database of the new one (`read_model`)."""
    try:
        cursor = Cursor(lexemes(sql))
        return read_model(cursor, created_table(cursor), schema)
    except NotParsedError:
        return None


_Clause = tuple["Definition | None", tuple[str, str] | None]
"""A definition of the clause, and (old, new) of a column that it renames."""


def _altered(sql: str) -> Iterator[_Clause]:
    try:
        cursor = Cursor(lexemes(sql))
        cursor.expect("ALTER")
        cursor.accept("IGNORE")
        cursor.expect("TABLE")
        cursor.table_name("")
        yield from _clause(cursor)
        while cursor.accept_symbol(","):
            yield from _clause(cursor)
    except NotParsedError:
        return


def _clause(cursor: Cursor) -> Iterator[_Clause]:
    if cursor.accept("ADD"):
        yield from ((definition, None) for definition in _added(cursor))
    elif cursor.accept("MODIFY"):
        _name_follows(cursor)
        yield read_definition(cursor), None
    elif cursor.accept("CHANGE"):
        _name_follows(cursor)
        old = cursor.column_name()
        definition = read_definition(cursor)
        yield definition, (old, definition.name)
    elif cursor.accept("RENAME", "COLUMN"):
        old = cursor.column_name()
        cursor.expect("TO")
        yield None, (old, cursor.column_name())
    cursor.skip_clause()


def _added(cursor: Cursor) -> tuple[Definition, ...]:
    ahead = cursor.peek()
    if not cursor.accept("COLUMN") and ahead.kind is LexemeKind.WORD and ahead.text in _OTHERS:
        return ()
    cursor.accept("IF", "NOT", "EXISTS")
    return read_columns(cursor) if cursor.at_symbol("(") else (read_definition(cursor),)


def _name_follows(cursor: Cursor) -> None:
    cursor.accept("COLUMN")
    cursor.accept("IF", "EXISTS")
