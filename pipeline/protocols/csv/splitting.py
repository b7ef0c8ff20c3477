"""What a record of CSV says, found out on the JVM by a function of ours (`Splitting.java`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.projection import Projection, once
from pipeline.protocols.files.head import COLUMNS, ROWS, of_file
from pipeline.runtime.shipped import called

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pipeline.protocols.csv.form import CsvForm

SPLIT = "split"
"""The column of what a record says.

`op` is NULL where the record is no row. `commit_ts` is NULL where the row does not say it. `after` are the values of
its line, NULL where a quote stands where none may, and where of an update only the row as it was is there. `before` are
those of the line before, of an update with the row as it was: none where that is broken. Of a delete they are `after`,
and else NULL.
"""
_TYPE = "struct<op: string, commit_ts: bigint, after: array<string>, before: array<string>>"
_SOURCE = Path(__file__).with_name("Splitting.java")


def split(form: CsvForm) -> Projection:
    """The raw frame with `SPLIT`."""
    characters = (form.delimiter, form.quote, form.null, form.terminator)
    record = F.when(once() & (of_file("kind") == ROWS), F.col("value"))
    says = called(_SOURCE, _TYPE, record, *(F.lit(text.encode()) for text in characters))
    return Projection([*map(F.col, COLUMNS), says.alias(SPLIT)])


def said(name: str) -> Column:
    """A field of `SPLIT`."""
    return F.col(SPLIT).getField(name)
