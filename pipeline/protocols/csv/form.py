r"""The characters of a changefeed's CSV, and what its lines begin with.

With a quote character texts stand between quotes, and a quote in a text is doubled; numbers and NULL are bare. So a
bare `\N` is NULL, and `"\N"` is a text. Without one a backslash stands before each delimiter and
backslash, and a line end of a text is `\n` or `\r`.

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
    def _text(self) -> str:
        """An expression for a text as a field has it."""
        d, q = escaped(self.delimiter), escaped(self.quote)
        return rf"{q}[^{q}]*+(?:{q}{q}[^{q}]*+)*+{q}" if self.quote else rf"(?:\\[\s\S]|(?!{d})[^\\])*+"

    @cached_property
    def names(self) -> str:
        """An expression for what every line begins with: operation, table, schema. Its group is the operation."""
        d, q = escaped(self.delimiter), escaped(self.quote)
        return rf"^{q}([IUD]){q}{d}{self._text}{d}{self._text}(?={d})"

    @cached_property
    def head(self) -> str:
        """An expression for the fields before the columns: operation, table, schema, commit ts, is-update.

        Its groups are the operation, the commit ts, and `true` or `false`.
        """
        d = escaped(self.delimiter)
        update = rf"(?:{d}(true|false)(?={d}|$))?"
        return rf"{self.names}{d}([0-9]{{15,19}})(?={d}|$){update}"


def form_of(settings: CsvSettings) -> CsvForm:
    """The characters that the settings name."""
    return CsvForm(
        settings.delimiter, settings.quote, settings.null, settings.terminator, settings.binary_encoding_method
    )
