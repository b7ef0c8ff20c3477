"""CREATE TABLE: the columns that it defines. The protocols tell most of it, but not which columns are virtual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.model.ddl.definition import read_definition
from pipeline.model.ddl.lexemes import Cursor, Kind, NotParsedError, lexemes

if TYPE_CHECKING:
    from pipeline.model.ddl.definition import Definition
    from pipeline.model.names import TableName

_OTHERS = (
    "PRIMARY",
    "UNIQUE",
    "INDEX",
    "KEY",
    "FULLTEXT",
    "SPATIAL",
    "VECTOR",
    "COLUMNAR",
    "CONSTRAINT",
    "FOREIGN",
    "CHECK",
)


def created_columns(sql: str) -> tuple[Definition, ...]:
    """The columns of a CREATE TABLE in their order; none for one that has no list of its own (LIKE), or is unclear."""
    try:
        return _columns(Cursor(lexemes(sql)))
    except NotParsedError:
        return ()


def _columns(cursor: Cursor) -> tuple[Definition, ...]:
    created_table(cursor)
    return read_columns(cursor)


def created_table(cursor: Cursor) -> TableName:
    """Read the beginning of a CREATE TABLE up to the table's name, which has no database where the text has none."""
    cursor.expect("CREATE")
    while not cursor.accept("TABLE"):
        cursor.expect_kind(Kind.WORD, "TABLE")
    cursor.accept("IF", "NOT", "EXISTS")
    return cursor.table_name("")


def read_columns(cursor: Cursor) -> tuple[Definition, ...]:
    """Read the parenthesis with the columns, and keys and constraints between them, which are passed over."""
    cursor.expect_symbol("(")
    found: list[Definition] = []
    while True:
        if cursor.peek().kind is Kind.WORD and cursor.peek().text in _OTHERS:
            cursor.skip_clause()
        else:
            found.append(read_definition(cursor))
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return tuple(found)
