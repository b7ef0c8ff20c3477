"""One column definition: name, type, attributes, place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.ddl.defaults import default_of
from pipeline.ddl.lexemes import LexemeKind, NotParsedError
from pipeline.ddl.literals import read_default, skip_call
from pipeline.ddl.sql_types import read_type
from pipeline.model.columns import UNKNOWN_DEFAULT, SourceColumn

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.ddl.lexemes import Cursor
    from pipeline.ddl.literals import Literal
    from pipeline.ddl.sql_types import SqlType

BINARY = "binary"
"""The character set, and its collation, in which texts are bytes."""
_REFERENCE_ACTIONS = ("RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT", "NO ACTION")


@dataclass(slots=True)
class Definition:
    """A definition while it is read."""

    name: str
    type: SqlType
    nullable: bool = True
    default: Literal | None = None
    generated: bool = False
    stored: bool = False
    key: bool = False
    charset: str = ""
    collation: str = ""
    """Both in small letters, and empty where the definition does not say."""

    @property
    def virtual(self) -> bool:
        """A virtual generated column: TiCDC never sends it, so it has no column in the warehouse."""
        return self.generated and not self.stored

    def column(self, *, decimals_as_text: bool) -> SourceColumn:
        """Give the column as the warehouse sees it."""
        default = UNKNOWN_DEFAULT
        if not self.generated:
            default = default_of(self.default, self.type, nullable=self.nullable)
        kind = self.type.warehouse_type(decimals_as_text=decimals_as_text)
        return SourceColumn(
            self.name, kind, self.type.tidb_type, self.nullable, default,
            members=self.type.members, written=self.type.written,
        )  # fmt: skip


def read_definition(cursor: Cursor) -> Definition:
    """Read the column definition at the cursor, up to the comma or parenthesis that ends it."""
    definition = Definition(cursor.column_name(), read_type(cursor))
    while not cursor.at_clause_end():
        attribute = next((a for a in _ATTRIBUTES if cursor.accept(*a.split())), None)
        if attribute is None:
            raise cursor.fault("a column attribute")
        _ATTRIBUTES[attribute](cursor, definition)
    return definition


def _not_null(_: Cursor, definition: Definition) -> None:
    definition.nullable = False


def _null(_: Cursor, definition: Definition) -> None:
    definition.nullable = True


def _default(cursor: Cursor, definition: Definition) -> None:
    definition.default = read_default(cursor)


def _serial_default(_: Cursor, definition: Definition) -> None:
    definition.nullable = False


def _on_update(cursor: Cursor, _: Definition) -> None:
    skip_call(cursor)


def _nothing(_cursor: Cursor, _definition: Definition) -> None:
    """Pass over an attribute that says nothing about values."""


def _primary(cursor: Cursor, definition: Definition) -> None:
    cursor.accept_any("CLUSTERED", "NONCLUSTERED")
    cursor.accept_any("GLOBAL", "LOCAL")
    definition.nullable = False
    definition.key = True


def _unique(cursor: Cursor, _: Definition) -> None:
    cursor.accept("KEY")
    cursor.accept_any("GLOBAL", "LOCAL")


def _text(cursor: Cursor, _: Definition) -> None:
    cursor.accept_symbol("=")
    cursor.expect_kind(LexemeKind.STRING, "a text in quotes")


def _word(cursor: Cursor, _: Definition) -> None:
    cursor.expect_kind(LexemeKind.WORD, "a word")


def _random(cursor: Cursor, _: Definition) -> None:
    if cursor.at_symbol("("):
        cursor.skip_parentheses()


def read_charset(cursor: Cursor) -> str:
    """Read the name after CHARACTER SET or COLLATE, in small letters."""
    cursor.accept_symbol("=")
    named = cursor.take()
    if named.kind not in (LexemeKind.WORD, LexemeKind.NAME, LexemeKind.STRING):
        raise NotParsedError("a character set has no name")
    return named.text.lower()


def _charset(cursor: Cursor, definition: Definition) -> None:
    definition.charset = read_charset(cursor)
    if definition.charset == BINARY:
        definition.type = definition.type.as_binary()


def _collate(cursor: Cursor, definition: Definition) -> None:
    definition.collation = read_charset(cursor)
    if definition.collation == BINARY:
        definition.type = definition.type.as_binary()


def _byte(_: Cursor, definition: Definition) -> None:
    definition.type = definition.type.as_binary()


def _check(cursor: Cursor, _: Definition) -> None:
    cursor.skip_parentheses()
    if not cursor.accept("NOT", "ENFORCED"):
        cursor.accept("ENFORCED")


def _named_check(cursor: Cursor, definition: Definition) -> None:
    if not cursor.accept("CHECK"):
        cursor.name()
        cursor.expect("CHECK")
    _check(cursor, definition)


def _generated(cursor: Cursor, definition: Definition) -> None:
    cursor.skip_parentheses()
    definition.generated = True
    definition.stored = cursor.accept_any("VIRTUAL", "STORED") == "STORED"


def _references(cursor: Cursor, _: Definition) -> None:
    cursor.table_name("")
    cursor.skip_parentheses()
    if cursor.accept("MATCH"):
        cursor.expect_kind(LexemeKind.WORD, "a word")
    while cursor.accept("ON", "DELETE") or cursor.accept("ON", "UPDATE"):
        if not any(cursor.accept(*action.split()) for action in _REFERENCE_ACTIONS):
            raise cursor.fault("an action")


def _after(cursor: Cursor, _: Definition) -> None:
    cursor.column_name()
    if not cursor.at_clause_end():
        raise cursor.fault("the end of the clause")


def _first(cursor: Cursor, _: Definition) -> None:
    if not cursor.at_clause_end():
        raise cursor.fault("the end of the clause")


_ATTRIBUTES: dict[str, Callable[[Cursor, Definition], None]] = {
    "NOT NULL": _not_null,
    "NULL": _null,
    "SERIAL DEFAULT VALUE": _serial_default,
    "DEFAULT": _default,
    "ON UPDATE": _on_update,
    "AUTO_INCREMENT": _nothing,
    "AUTO_RANDOM": _random,
    "PRIMARY KEY": _primary,
    "PRIMARY": _primary,
    "KEY": _primary,
    "UNIQUE": _unique,
    "COMMENT": _text,
    "SECONDARY_ENGINE_ATTRIBUTE": _text,
    "CHARACTER SET": _charset,
    "CHARSET": _charset,
    "COLLATE": _collate,
    "ASCII": _nothing,
    "UNICODE": _nothing,
    "BYTE": _byte,
    "BINARY": _nothing,
    "CONSTRAINT": _named_check,
    "CHECK": _check,
    "GENERATED ALWAYS AS": _generated,
    "AS": _generated,
    "REFERENCES": _references,
    "COLUMN_FORMAT": _word,
    "STORAGE": _word,
    "FIRST": _first,
    "AFTER": _after,
}
"""What may follow the type; the longer phrase stands before its beginning."""
