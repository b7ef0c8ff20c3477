r"""The shape of a row event: its text without values and old image, of which each layout has one.

Within a JSON text every quotation mark has a backslash before it, so that the patterns find members of objects and
nothing in values. What repeats in a pattern is possessive: else Java's stack grows with each time.
"""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

DELETED = '{"d":{'
"""How the plain shapes of deletes begin."""

_OLD_IMAGE = r'(?s)\}\},"p":\{.*'
_VALUE, _NO_VALUE = r'"v":(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|[-+.\w]++)', '"v":0'
_COLUMN = rf'"[^"\\]++":\{{"t":\d{{1,3}}(?:,"h":true)?(?:,"f":\d{{1,9}})?,{_NO_VALUE}\}}'
_COLUMNS = rf'\A\{{"[ud]":\{{{_COLUMN}(?:,{_COLUMN})*+\}}\}}\z'
_END = "}}}"


def shape_of(value: Column) -> Column:
    """The shape of a row event's value."""
    return F.regexp_replace(F.regexp_replace(value, _OLD_IMAGE, _END), f"(?s){_VALUE}", _NO_VALUE)


def is_plain(shape: Column) -> Column:
    """Whether a shape has columns, all of them written as TiCDC writes them."""
    return F.coalesce(shape.rlike(_COLUMNS), F.lit(False))


def is_shaped(value: Column, shape: str) -> Column:
    """`shape_of(value) == shape`, for a plain shape that is known: one pattern, which gives up where it differs."""
    *columns, end = shape.split(_NO_VALUE)
    if end != _END:
        raise ValueError(f"not a plain shape: {shape}")
    begun = _VALUE.join(re.escape(text) for text in columns) + _VALUE
    return value.rlike(rf'(?s)\A{begun}\}}\}}(?:\}}\z|,"p":\{{)')
