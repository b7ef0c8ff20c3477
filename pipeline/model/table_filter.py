"""Which tables a pipeline reads: TiCDC's `filter.rules`.

A rule is `schema.table`. Each side has `*`, `?` and `[a-z]`, or is a regular expression (`/^t[0-9]+$/`), or a name in
quotes. `!` before it takes tables out. The last rule that a table fits decides, and without one it is left out. Names
have no case. Source: TiDB's documentation of the table filter, and TiCDC's default `case-sensitive = false`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline.model.names import TableName

EVERY_TABLE = "*.*"
_SIDE = re.compile(
    r"""/(?P<regex>(?:\\.|[^/])+)/
      | "(?P<quoted>(?:""|[^"])+)"
      | `(?P<ticked>(?:``|[^`])+)`
      | (?P<wild>(?:\\[^0-9A-Za-z] | \[!?(?:\\[^0-9A-Za-z]|[^\\\]])+\] | [*?$_0-9A-Za-z] | [^\x00-\x7f])+)""",
    re.VERBOSE | re.DOTALL,
)
_PIECE = re.compile(r"\\(?P<escaped>.)|\[(?P<not>!?)(?P<members>(?:\\.|[^\]])+)\]|(?P<plain>.)", re.DOTALL)
_WILD = {"*": ".*", "?": "."}


class NotARule(ValueError):
    """A text that is no rule; the message says what is wrong with it."""


class _Rule(NamedTuple):
    """`takes`: whether tables that fit it are read."""

    takes: bool
    schema: re.Pattern[str]
    table: re.Pattern[str]

    def fits(self, table: TableName) -> bool:
        return bool(self.schema.search(table.schema) and self.table.search(table.table))


@dataclass(frozen=True, slots=True)
class TableFilter:
    """Rules, in their order."""

    rules: tuple[_Rule, ...]

    @staticmethod
    def of(rules: Iterable[str]) -> TableFilter:
        """Read rules. Raises `NotARule`."""
        return TableFilter(tuple(map(_rule, rules)))

    @property
    def takes_some(self) -> bool:
        """Whether there may be a table that is read."""
        return any(rule.takes for rule in self.rules)

    def takes(self, table: TableName) -> bool:
        """Whether a table is read."""
        return next((rule.takes for rule in reversed(self.rules) if rule.fits(table)), False)


def _rule(text: str) -> _Rule:
    takes = not text.startswith("!")
    schema, dot = _side(text, 0 if takes else 1)
    if text[dot : dot + 1] != ".":
        raise NotARule(f"expected `.` and a table after the schema{_where(text, dot)}")
    table, end = _side(text, dot + 1)
    if end < len(text):
        raise NotARule(f"names with such characters stand in quotes{_where(text, end)}")
    return _Rule(takes, schema, table)


def _side(text: str, start: int) -> tuple[re.Pattern[str], int]:
    """The schema or the table of a rule, and where it ends."""
    match = _SIDE.match(text, start)
    if match is None:
        raise NotARule(f"expected a name or pattern, such as `shop.*`{_where(text, start)}")
    return _pattern(match), match.end()


def _pattern(side: re.Match[str]) -> re.Pattern[str]:
    match side.lastgroup:
        case "regex":
            expression = side["regex"]
        case "quoted":
            expression = _name(side["quoted"], '"')
        case "ticked":
            expression = _name(side["ticked"], "`")
        case _:
            expression = rf"\A{''.join(map(_piece, _PIECE.finditer(side['wild'])))}\Z"
    try:
        return re.compile(expression, re.IGNORECASE | re.DOTALL)
    except re.error as error:
        raise NotARule(f"`{side[0]}` is no pattern: {error}") from error


def _name(text: str, quote: str) -> str:
    return rf"\A{re.escape(text.replace(quote * 2, quote))}\Z"


def _piece(piece: re.Match[str]) -> str:
    if piece["members"]:
        members = re.sub(r"^\^", r"\^", piece["members"]).replace("[", r"\[")
        return f"[{'^' * bool(piece['not'])}{members}]"
    if piece["escaped"]:
        return re.escape(piece["escaped"])
    return _WILD.get(piece["plain"], re.escape(piece["plain"]))


def _where(text: str, place: int) -> str:
    return f"; here: `{text[place:]:.40}`" if place < len(text) else ", at its end"
