"""Statements that add indexes and do nothing else, whatever their kind: read to the last word.

Newer TiDB and TiCDC give new sorts of index a DDL type of their own. The text of such a statement says enough, if
there is nothing in it that this grammar does not read (design.md, rule 5). UNIQUE is left out: in a table without a
primary key such an index may become the handle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ddl.lexemes import Cursor, LexemeKind, NotParsedError, lexemes

if TYPE_CHECKING:
    from collections.abc import Callable

_SORTS = ("FULLTEXT", "HYBRID", "VECTOR", "COLUMNAR", "SPATIAL", "INVERTED")


def only_adds_indexes(sql: str) -> bool:
    """Whether a statement is CREATE INDEX, or an ALTER TABLE whose every clause is ADD INDEX."""
    try:
        cursor = Cursor(lexemes(sql))
        if cursor.accept("CREATE"):
            _create(cursor)
        else:
            _alter(cursor)
        cursor.expect_end()
    except NotParsedError:
        return False
    return True


def _create(cursor: Cursor) -> None:
    _sort(cursor)
    cursor.accept("IF", "NOT", "EXISTS")
    cursor.name()
    _options(cursor)  # USING may stand here
    cursor.expect("ON")
    cursor.table_name("")
    cursor.skip_parentheses()
    _options(cursor)


def _alter(cursor: Cursor) -> None:
    cursor.expect("ALTER", "TABLE")
    cursor.table_name("")
    _add(cursor)
    while cursor.accept_symbol(","):
        _add(cursor)


def _add(cursor: Cursor) -> None:
    cursor.expect("ADD")
    _sort(cursor)
    cursor.accept("IF", "NOT", "EXISTS")
    if not cursor.at_symbol("("):
        cursor.name()
        _options(cursor)
    cursor.skip_parentheses()
    _options(cursor)


def _sort(cursor: Cursor) -> None:
    cursor.accept_any(*_SORTS)
    if not cursor.accept_any("INDEX", "KEY"):
        raise cursor.fault("INDEX")


def _options(cursor: Cursor) -> None:
    while not (cursor.at_symbol("(") or cursor.at_clause_end()):
        option = next((o for o in _OPTIONS if cursor.accept(*o.split())), None)
        if option is None:
            return
        _OPTIONS[option](cursor)


def _nothing(_: Cursor) -> None:
    """Pass over an option without a value."""


def _word(cursor: Cursor) -> None:
    cursor.accept_symbol("=")
    cursor.name()


def _number(cursor: Cursor) -> None:
    cursor.accept_symbol("=")
    cursor.expect_kind(LexemeKind.NUMBER, "a number")


def _text(cursor: Cursor) -> None:
    cursor.accept_symbol("=")
    cursor.expect_kind(LexemeKind.STRING, "a text in quotes")


def _condition(cursor: Cursor) -> None:
    cursor.skip_parentheses()


_OPTIONS: dict[str, Callable[[Cursor], None]] = {
    "WITH PARSER": _word,
    "USING": _word,
    "TYPE": _word,
    "COMMENT": _text,
    "PARAMETER": _text,
    "KEY_BLOCK_SIZE": _number,
    "VISIBLE": _nothing,
    "INVISIBLE": _nothing,
    "GLOBAL": _nothing,
    "LOCAL": _nothing,
    "ADD_COLUMNAR_REPLICA_ON_DEMAND": _nothing,
    "SECONDARY_ENGINE_ATTRIBUTE": _text,
    "WHERE": _condition,
}
"""What may follow an index (TiDB's parser, `IndexOption`; TiCDC's page on FULLTEXT and HYBRID)."""
