"""DDL text as lexemes, read with sqlglot's MySQL tokenizer, and a cursor over them.

The grammar on top is ours: sqlglot's own (30.30) refuses what TiDB writes (`FLOAT UNSIGNED`, `RENAME AS y`,
`ADD COLUMN (a INT, b INT NOT NULL)`), reads REAL as FLOAT, and loses how ENUM members were spelled.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from sqlglot import TokenType
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import SqlglotError

from pipeline.model.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlglot import Token

    _Escapes = Mapping[str, re.Pattern[str]]
    """By quotation mark: what stands for another character within."""


class NotParsedError(ValueError):
    """The text is not a statement that this grammar knows; the sentence says where it ended."""


class LexemeKind(Enum):
    """What a lexeme is."""

    WORD = auto()
    NAME = auto()
    STRING = auto()
    NUMBER = auto()
    BITS = auto()
    HEX = auto()
    SYMBOL = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Lexeme:
    """One word, name in back quotes, literal or symbol.

    `text` is without quotes and escapes (a WORD in capitals), `raw` is what the statement has.
    """

    kind: LexemeKind
    text: str
    raw: str
    feature: bool = field(default=False, compare=False)
    """Whether a comment follows that only a TiDB reads which has the feature: `/*T![ttl] TTL_ENABLE = 'OFF' */`."""


_FEATURE = "/*T!"
_LITERALS = {
    TokenType.IDENTIFIER: LexemeKind.NAME,
    TokenType.STRING: LexemeKind.STRING,
    TokenType.NATIONAL_STRING: LexemeKind.STRING,
    TokenType.NUMBER: LexemeKind.NUMBER,
    TokenType.BIT_STRING: LexemeKind.BITS,
    TokenType.HEX_STRING: LexemeKind.HEX,
}
_ESCAPES = {
    "'": re.compile(r"\\.|''", re.DOTALL),
    '"': re.compile(r'\\.|""', re.DOTALL),
    "`": re.compile("``"),
}
_DOUBLED = {
    "'": re.compile(r"\\\\|''"),
    '"': re.compile(r'\\\\|""'),
    "`": re.compile("``"),
}
_ESCAPED = {
    r"\0": "\0", r"\b": "\b", r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\Z": "\x1a",
    r"\%": r"\%", r"\_": r"\_",
}  # fmt: skip
_END = Lexeme(LexemeKind.END, "", "the end")


class _Tokenizer(MySQL.Tokenizer):
    COMMANDS: ClassVar[set[TokenType]] = set()
    """sqlglot leaves the rest of a RENAME in one piece otherwise."""


class _Doubling(_Tokenizer):
    STRING_ESCAPES: ClassVar[list[str]] = ["'", '"']
    """A backslash before a quote is none of these."""


_READINGS = ((_Tokenizer, _ESCAPES), (_Doubling, _DOUBLED))
"""How texts in quotes are read. TiDB doubles the backslashes of defaults and of columns' comments, but writes those of
ENUM and SET members, of tables' and of indexes' comments as they are: `'C:\\'` breaks the first reading, and none of
what TiDB writes breaks the second."""


def lexemes(sql: str) -> list[Lexeme]:
    """Read the statement, comments left out (`/*T![auto_rand] AUTO_RANDOM */` is one)."""
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise NotParsedError("the text is not Unicode") from error
    for tokenizer, escapes in _READINGS:
        with suppress(SqlglotError):
            return _lexemes(sql, tokenizer, escapes)
    raise NotParsedError("the text breaks off inside a literal or a comment")


def _lexemes(sql: str, tokenizer: type[_Tokenizer], escapes: _Escapes) -> list[Lexeme]:
    tokens = tokenizer(dialect="mysql").tokenize(sql)
    gaps = zip(tokens, _gaps(tokens, sql), strict=True)
    return [lexeme for token, gap in gaps for lexeme in _read(token, sql, escapes, feature=_FEATURE in gap)]


def _gaps(tokens: Sequence[Token], sql: str) -> Iterator[str]:
    """What follows each token up to the next: blanks and comments."""
    yield from (sql[token.end + 1 : following.start] for token, following in pairwise(tokens))
    if tokens:
        yield sql[tokens[-1].end + 1 :]


def _read(token: Token, sql: str, escapes: _Escapes, *, feature: bool) -> Iterator[Lexeme]:
    kind = _LITERALS.get(token.token_type)
    if kind is not None:
        raw = sql[token.start : token.end + 1]
        yield Lexeme(kind, _unquoted(raw, token.text, escapes), raw, feature)
        return
    for part in token.text.split():  # sqlglot makes one token of PRIMARY KEY, CHARACTER SET …
        kind = LexemeKind.WORD if part[0].isalnum() or part[0] in "_$" else LexemeKind.SYMBOL
        yield Lexeme(kind, part.upper() if kind is LexemeKind.WORD else part, part, feature)


def _unquoted(raw: str, text: str, escapes: _Escapes) -> str:
    """Undo quotes and escapes as MySQL does; how far sqlglot goes differs between its versions."""
    quote = raw[:1]
    if quote not in escapes or raw[-1:] != quote:
        return text
    return escapes[quote].sub(lambda found: _ESCAPED.get(found[0], found[0][1:]), raw[1:-1])


class Cursor:
    """A place in a statement. `accept…` moves on when it can and says so; the others move on or raise."""

    def __init__(self, read: Sequence[Lexeme]) -> None:
        self._lexemes = read
        self._at = 0

    @property
    def at(self) -> int:
        """The place, to go back to."""
        return self._at

    def back(self, place: int) -> None:
        """Go back to a place."""
        self._at = place

    def since(self, place: int) -> str:
        """What the statement has between a place and here."""
        return " ".join(lexeme.raw for lexeme in self._lexemes[place : self._at])

    def peek(self, ahead: int = 0) -> Lexeme:
        """Look at the lexeme that comes next, or `ahead` places after it."""
        place = self._at + ahead
        return self._lexemes[place] if place < len(self._lexemes) else _END

    def take(self) -> Lexeme:
        """Take the next lexeme, whatever it is."""
        lexeme = self.peek()
        self._at += 1
        return lexeme

    def accept(self, *words: str) -> bool:
        """Move past these keywords if all of them come next."""
        if all(self.peek(n) == Lexeme(LexemeKind.WORD, w, self.peek(n).raw) for n, w in enumerate(words)):
            self._at += len(words)
            return True
        return False

    def accept_any(self, *words: str) -> str:
        """Move past one of these keywords and give it; empty if none comes next."""
        return next((word for word in words if self.accept(word)), "")

    def at_symbol(self, *symbols: str, ahead: int = 0) -> bool:
        """Say whether one of these symbols comes next, or `ahead` places after it."""
        lexeme = self.peek(ahead)
        return lexeme.kind is LexemeKind.SYMBOL and lexeme.text in symbols

    def accept_symbol(self, symbol: str) -> bool:
        """Move past this symbol if it comes next."""
        matches = self.at_symbol(symbol)
        self._at += matches
        return matches

    def expect(self, *words: str) -> None:
        """Move past these keywords."""
        if not self.accept(*words):
            raise self.fault(" ".join(words))

    def expect_symbol(self, symbol: str) -> None:
        """Move past this symbol."""
        if not self.accept_symbol(symbol):
            raise self.fault(f"“{symbol}”")

    def expect_kind(self, kind: LexemeKind, described: str) -> Lexeme:
        """Take a lexeme of this kind."""
        if self.peek().kind is not kind:
            raise self.fault(described)
        return self.take()

    def name(self) -> str:
        """Take one name, in back quotes or bare."""
        lexeme = self.peek()
        if lexeme.kind not in (LexemeKind.NAME, LexemeKind.WORD) or not lexeme.text:
            raise self.fault("a name")
        self.take()
        return lexeme.text if lexeme.kind is LexemeKind.NAME else lexeme.raw

    def column_name(self) -> str:
        """Take a column's name; a table's before it is left out."""
        name = self.name()
        while self.accept_symbol("."):
            name = self.name()
        return name

    def table_name(self, schema: str) -> TableName:
        """Take a table's name, in the database `schema` where the text has none."""
        first = self.name()
        return TableName(first, self.name()) if self.accept_symbol(".") else TableName(schema, first)

    def skip_parentheses(self) -> None:
        """Move past one parenthesis with all that is in it."""
        self.expect_symbol("(")
        depth = 1
        while depth:
            lexeme = self.take()
            if lexeme.kind is LexemeKind.END:
                raise NotParsedError("a parenthesis is not closed")
            if lexeme.kind is LexemeKind.SYMBOL:
                depth += (lexeme.text == "(") - (lexeme.text == ")")

    def skip_clause(self) -> None:
        """Move to the comma that ends this clause, or to the end."""
        while not self.at_clause_end():
            if self.at_symbol("("):
                self.skip_parentheses()
            else:
                self.take()

    def at_clause_end(self) -> bool:
        """Say whether a comma, a closing parenthesis, a semicolon or the end comes next."""
        return self.at_end() or self.at_symbol(",", ")", ";")

    def after_feature(self) -> bool:
        """Say whether a comment of a feature of TiDB's stands just before here."""
        return any(lexeme.feature for lexeme in self._lexemes[self._at - 1 : self._at])

    def at_end(self) -> bool:
        """Say whether nothing more comes."""
        return self.peek().kind is LexemeKind.END

    def expect_end(self) -> None:
        """Refuse whatever follows, but for semicolons."""
        while self.accept_symbol(";"):
            pass
        if not self.at_end():
            raise self.fault("the end")

    def fault(self, wanted: str) -> NotParsedError:
        """Make the error that says what stands here instead of what was wanted."""
        return NotParsedError(f"expected {wanted} where “{self.peek().raw[:40]}” is")
