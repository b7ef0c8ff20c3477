r"""The shape of a row event: its text without values and old image, of which each layout has one.

Within a JSON text every quotation mark has a backslash before it, so that the patterns find members of objects and
nothing in values. What repeats in a pattern is possessive: else Java's stack grows with each time.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.tidb_types import TYPES, Domain, names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column

DELETED = '{"d":{'
"""How the plain shapes of deletes begin."""

_OLD_IMAGE = r'(?s)\}\},"p":\{.*'
_VALUE, _NO_VALUE = r'"v":(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|[-+.\w]++)', '"v":0'
_COLUMN = rf'"[^"\\]++":\{{"t":\d{{1,3}}(?:,"h":true)?(?:,"f":\d{{1,9}})?,{_NO_VALUE}\}}'
_COLUMNS = rf'\A\{{"[ud]":\{{{_COLUMN}(?:,{_COLUMN})*+\}}\}}\z'
_END = "}}}"

ARRAY = "_array"
"""What `listed` gives, where it is a column."""
INSERT, UPDATE, DELETE = "i", "u", "d"
"""What such an array begins with."""

SENT_AS_NUMBERS = names(Domain.WHOLE, Domain.FLOATING, Domain.MEMBERS)
"""Types whose values are numbers in JSON; those of all others are texts."""
NUMBERS = frozenset(code for name in SENT_AS_NUMBERS for code in TYPES[name].codes)
"""Their type codes."""
_TEXT = r'("[^"\\]*+(?:\\.[^"\\]*+)*+"|null)'
_NUMBER = r"(?:null|(-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][-+]?\d++)?))"
_BEFORE = '}},"p":{'
MOST_COLUMNS = 256
"""Java matches a pattern that lists more by a deep stack, some thousand of them by one too deep."""
MOST_VALUES = 128
"""The same for a pattern that takes the values out of two images."""
LARGEST = 1 << 16
"""Bytes of an event that a pattern takes apart: it needs many times as much memory."""


def width_of(shape: str) -> int:
    """How many columns a plain shape has."""
    return shape.count(_NO_VALUE)


def shape_of(value: Column) -> Column:
    """The shape of a row event's value."""
    return F.regexp_replace(F.regexp_replace(value, _OLD_IMAGE, _END), f"(?s){_VALUE}", _NO_VALUE)


def is_plain(shape: Column) -> Column:
    """Whether a shape has columns, all of them written as TiCDC writes them."""
    return F.coalesce(shape.rlike(_COLUMNS), F.lit(False))


def _texts(shape: str) -> list[str]:
    """What stands before each value of a plain shape."""
    *texts, end = shape.split(_NO_VALUE)
    if end != _END:
        raise ValueError(f"not a plain shape: {shape}")
    return texts


def is_shaped(value: Column, shape: str) -> Column:
    """`shape_of(value) == shape`, for a plain shape that is known: one pattern, which gives up where it differs."""
    begun = "".join(re.escape(text) + _VALUE for text in _texts(shape))
    return value.rlike(rf'(?s)\A{begun}\}}\}}(?:\}}\z|,"p":\{{)')


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an array has of each image: the values of these columns, and the type codes of the `coded` ones.

    `before`: whether it has the row as it was, too.
    """

    names: tuple[str, ...]
    coded: tuple[str, ...] = ()
    before: bool = True


@dataclass(frozen=True, slots=True)
class _Written:
    """A plain shape taken apart: the names of its columns, their type codes, and what stands before each value."""

    names: tuple[str, ...]
    codes: tuple[int, ...]
    texts: tuple[str, ...]

    @property
    def values(self) -> Iterator[str]:
        """Patterns, each with a group for the value."""
        return (_NUMBER if code in NUMBERS else _TEXT for code in self.codes)

    def pattern(self) -> str:
        """All columns of an image, without its braces."""
        return r"\}".join(re.escape(text) + value for text, value in zip(self.texts, self.values, strict=True))

    def tokens(self, wanted: Wanted, first: int) -> Iterator[str]:
        """What the array has of an image whose groups begin with this number; a number becomes a text."""
        groups = {name: first + place for place, name in enumerate(self.names)}
        codes = dict(zip(self.names, self.codes, strict=True))
        for name in wanted.names:
            group = f"${groups[name]}" if name in groups else "null"
            yield f'"{group}"' if codes.get(name) in NUMBERS else group
        for name in wanted.coded:
            yield f'"{codes[name]}"' if name in codes else "null"


@lru_cache(maxsize=1024)
def _written(shape: str) -> _Written:
    first, *others = _texts(shape)
    ((_, image),) = json.loads(shape).items()
    before_values = (first[len(DELETED) :], *(text[1:] for text in others))
    codes = tuple(column["t"] for column in image.values())
    return _Written(tuple(image), codes, tuple(f'{text}"v":' for text in before_values))


def listed(value: Column, shape: str, wanted: Wanted) -> Column:
    """An event of a plain shape as an array in JSON: what it is, then what is wanted of it.

    Where an event is of another shape, or its old image is, this is NULL or the event itself (`is_listed`). A number
    that is NULL has an empty text.
    """
    written = _written(shape)
    columns = written.pattern()
    own = [*written.tokens(wanted, 1)]
    small = F.octet_length(value) <= LARGEST

    def taken_apart(kind: str, pattern: str, tokens: Sequence[str]) -> Column:
        return F.regexp_replace(value, rf"(?s)\A{pattern}\z", f'["{kind}",{",".join(tokens)}]')

    begin, end = shape[: len(DELETED)], re.escape(_END)
    alone = re.escape(begin) + columns + end
    mine = F.startswith(value, F.lit(begin)) & small
    if begin == DELETED:
        return F.when(mine, taken_apart(DELETE, alone, own * 2 if wanted.before else own))
    was = [*written.tokens(wanted, 1 + len(written.names))] if wanted.before else []
    both = rf"{re.escape(begin)}{columns}{re.escape(_BEFORE)}{columns}{end}"
    updated = F.contains(value, F.lit(_BEFORE))
    return F.when(mine & updated, taken_apart(UPDATE, both, own + was)).when(mine, taken_apart(INSERT, alone, own))


def is_listed(name: str) -> Column:
    """Whether a column has an array, and not an event."""
    return F.coalesce(F.startswith(name, F.lit("[")), F.lit(False))
