"""The partitioning of a CREATE TABLE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ddl.create import read_columns, read_model
from pipeline.ddl.definition import read_charset
from pipeline.ddl.lexemes import Cursor, LexemeKind, NotParsedError, lexemes
from pipeline.ddl.partitions.reading import read_scheme
from pipeline.ddl.partitions.scheme import UNKNOWN_COLLATION
from pipeline.model.names import folded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pipeline.ddl.lexemes import Lexeme
    from pipeline.ddl.partitions.scheme import PartitionScheme
    from pipeline.model.names import TableName

_UNSAID = ""


def partitioning(sql: str, table: TableName | None = None) -> PartitionScheme | None:
    """How a CREATE TABLE partitions its table; None if not, or if the text is none.

    Where the text creates several tables, that of `table`. `LIKE` another table gives None: see `created_like`.
    """
    try:
        created = _created(sql, table)
        return None if created is None else _partitioning(created[0])
    except NotParsedError:
        return None


def created_like(sql: str, table: TableName) -> TableName | None:
    """The table that a CREATE TABLE … LIKE copies, with its partitioning; None if its database is not known."""
    try:
        created = _created(sql, table)
        return None if created is None else read_model(*created, table.schema)
    except NotParsedError:
        return None


def _created(sql: str, table: TableName | None) -> tuple[Cursor, TableName] | None:
    """A cursor after the table's name, and the name as the text has it."""
    statements = [Cursor(statement) for statement in _statements(lexemes(sql))]
    for cursor in statements:
        name = _name(cursor)
        if name is not None and (len(statements) == 1 or table is None or _same(name, table)):
            return cursor, name
    return None


def _statements(read: Sequence[Lexeme]) -> Iterator[Sequence[Lexeme]]:
    start = 0
    for place, lexeme in enumerate(read):
        if lexeme.kind is LexemeKind.SYMBOL and lexeme.text == ";":
            yield read[start:place]
            start = place + 1
    if start < len(read):
        yield read[start:]


def _name(cursor: Cursor) -> TableName | None:
    if not cursor.accept("CREATE"):
        return None
    while not cursor.accept("TABLE"):
        if cursor.take().kind is not LexemeKind.WORD:
            return None
    cursor.accept("IF", "NOT", "EXISTS")
    return cursor.table_name(_UNSAID)


def _same(written: TableName, table: TableName) -> bool:
    return written.key[1] == table.key[1] and written.key[0] in (_UNSAID, table.key[0])


def _partitioning(cursor: Cursor) -> PartitionScheme | None:
    collation_of = _collations(cursor)
    of_table = _UNSAID
    while not cursor.accept("PARTITION", "BY"):
        if cursor.at_end():
            return None
        of_table = _option(cursor) or of_table
    return read_scheme(cursor, lambda column: collation_of(column) or of_table)


def _collations(cursor: Cursor) -> Callable[[str], str]:
    """Read the columns, if any, and give the collation that each names, empty where it names none."""
    if not cursor.at_symbol("("):
        return lambda _: UNKNOWN_COLLATION
    start = cursor.at
    try:
        columns = read_columns(cursor)
    except NotParsedError:
        cursor.back(start)
        cursor.skip_parentheses()
        return lambda _: UNKNOWN_COLLATION
    collations = {folded(column.name): column.collation or _binary(column.charset) for column in columns}
    return lambda column: collations.get(folded(column), UNKNOWN_COLLATION)


def _option(cursor: Cursor) -> str:
    """Move past one word of the table's options; give the collation that follows from it."""
    if cursor.accept("COLLATE"):
        return read_charset(cursor)
    if cursor.accept("CHARSET") or cursor.accept("CHARACTER", "SET"):
        charset = _binary(read_charset(cursor))
        cursor.accept("DEFAULT")
        return read_charset(cursor) if cursor.accept("COLLATE") else charset
    if cursor.at_symbol("("):
        cursor.skip_parentheses()
    else:
        cursor.take()
    return _UNSAID


def _binary(charset: str) -> str:
    """TiDB's default collation of a character set; `gbk_bin` is none that is known further on, as is right."""
    return charset if charset in ("", "binary") else f"{charset}_bin"
