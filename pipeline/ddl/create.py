"""CREATE TABLE: the columns that it defines. The protocols tell most of it, but not which columns are virtual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ddl.definition import BINARY, read_charset, read_definition
from pipeline.ddl.lexemes import Cursor, LexemeKind, NotParsedError, lexemes
from pipeline.model.names import TableName

if TYPE_CHECKING:
    from pipeline.ddl.definition import Definition

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
    columns = read_columns(cursor)
    if _is_binary(cursor):
        for column in columns:
            if not (column.charset or column.collation):
                column.type = column.type.as_binary()
    return columns


def _is_binary(cursor: Cursor) -> bool:
    """Whether the table's options make texts bytes that do not say their character set; partitions follow options."""
    binary = False
    while not (cursor.at_end() or cursor.accept("PARTITION")):
        if cursor.accept("CHARSET") or cursor.accept("CHARACTER", "SET") or cursor.accept("COLLATE"):
            binary = read_charset(cursor) == BINARY
        else:
            cursor.take()
    return binary


def created_table(cursor: Cursor) -> TableName:
    """Read the beginning of a CREATE TABLE up to the table's name, which has no database where the text has none."""
    cursor.expect("CREATE")
    while not cursor.accept("TABLE"):
        cursor.expect_kind(LexemeKind.WORD, "TABLE")
    cursor.accept("IF", "NOT", "EXISTS")
    return cursor.table_name("")


def read_model(cursor: Cursor, created: TableName, schema: str) -> TableName | None:
    """Read LIKE and the table that it names, after the name of the table that is created, as the text has it.

    A name without a database is in the session's database, which TiCDC does not send. It is taken to be `schema`, that
    of the new table, only if the text has no database for either table. None without LIKE, or if no database is known.
    """
    cursor.accept_symbol("(")
    if not cursor.accept("LIKE"):
        return None
    model = cursor.table_name("")
    if model.schema:
        return model
    return None if created.schema else TableName(schema, model.table)


def read_columns(cursor: Cursor) -> tuple[Definition, ...]:
    """Read the parenthesis with the columns; keys and constraints between them are passed over."""
    cursor.expect_symbol("(")
    definitions: list[Definition] = []
    while True:
        if cursor.peek().kind is LexemeKind.WORD and cursor.peek().text in _OTHERS:
            cursor.skip_clause()
        else:
            definitions.append(read_definition(cursor))
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return tuple(definitions)
