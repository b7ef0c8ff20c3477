r"""The characters of a changefeed's CSV, and the expressions that take a line apart.

With a quote character texts stand between quotes, and a quote in a text is doubled; numbers and NULL are bare. So a
bare `\N` is NULL, and `"\N"` is a text. Without one a backslash stands before each delimiter, line end and backslash.

Source: wire-formats.md, "Storage sink"; TiCDC's `[sink.csv]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pipeline.settings.sections import CsvSettings

_SPECIAL = re.compile(r"([\\^$.|?*+()\[\]{}])")


def escaped(text: str) -> str:
    """A text as an expression of Java's, and of Python's, that matches it."""
    return _SPECIAL.sub(r"\\\1", text).replace("\r", r"\r").replace("\n", r"\n").replace("\t", r"\t")


@dataclass(frozen=True)
class CsvForm:
    r"""As `[sink.csv]` has it. `quote`: "" for none."""

    delimiter: str = ","
    quote: str = '"'
    null: str = r"\N"
    terminator: str = "\r\n"
    binary: Literal["base64", "hex"] = "base64"

    @cached_property
    def text(self) -> str:
        """An expression for a text as a field has it."""
        q = escaped(self.quote)
        return rf"{q}[^{q}]*+(?:{q}{q}[^{q}]*+)*+{q}" if self.quote else self._bare

    @cached_property
    def _bare(self) -> str:
        d = escaped(self.delimiter)
        if len(self.delimiter) == 1:  # what needs no look ahead takes half the time
            return rf"(?!{escaped(self.quote)})[^{d}]*+" if self.quote else rf"(?:[^{d}\\]|\\[\s\S])*+"
        if self.quote:
            return rf"(?!{escaped(self.quote)})(?:(?!{d})[\s\S])*+"
        return rf"(?:\\[\s\S]|(?!{d})[^\\])*+"

    @cached_property
    def field(self) -> str:
        """An expression for a field after the delimiter or the beginning of the line; its group is the field."""
        either = f"{self.text}|{self._bare}" if self.quote else self._bare
        return f"(?:^|{escaped(self.delimiter)})({either})"

    @cached_property
    def names(self) -> str:
        """An expression for what every line begins with: operation, table, schema. Its group is the operation."""
        d, q = escaped(self.delimiter), escaped(self.quote)
        return rf"^{q}([IUD]){q}{d}{self.text}{d}{self.text}(?={d})"

    @cached_property
    def head(self) -> str:
        """An expression for the fields before the columns: operation, table, schema, commit ts, is-update.

        Its groups are the operation, the commit ts, and `true` or `false`.
        """
        d = escaped(self.delimiter)
        update = rf"(?:{d}(true|false)(?={d}|$))?"
        return rf"{self.names}{d}([0-9]{{15,19}})(?={d}|$){update}"

    @cached_property
    def moment(self) -> str:
        """The same for one group: the commit ts, and behind it, if it stands there, the delimiter and is-update."""
        d = escaped(self.delimiter)
        names = self.names.replace("(", "(?:", 1)
        return rf"{names}{d}([0-9]{{15,19}}(?:{d}(?:true|false)(?={d}|$))?)(?={d}|$)"

    @cached_property
    def second_line(self) -> str:
        """An expression for the line end before the second line of an update."""
        d, q = escaped(self.delimiter), escaped(self.quote)
        return rf"{escaped(self.terminator)}(?={q}I{q}{d})"


def form_of(settings: CsvSettings) -> CsvForm:
    """The characters that the settings name."""
    return CsvForm(
        settings.delimiter, settings.quote, settings.null, settings.terminator, settings.binary_encoding_method
    )
