"""Where the records of a file end. Pure functions of bytes.

A line of CSV may have line ends in its texts. Between quotes a quote is doubled, so a line end before `"I",` is never
in a text: it is the end of a record (wire-formats.md, "Storage sink").
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pipeline.protocols.csv.form import escaped

if TYPE_CHECKING:
    from pipeline.protocols.csv import CsvForm

HEADER = b"ticdc-meta$"
"""How the first line of a file begins that names its columns."""


class Cut(NamedTuple):
    """The records of a file, without their line ends, and what is left behind the last line end."""

    records: list[bytes]
    tail: bytes


Cutter: TypeAlias = Callable[[bytes], Cut]


def lines(content: bytes) -> Cut:
    """A record a line, ended by LF or CR LF: JSON has no line end within."""
    *whole, tail = content.split(b"\n")
    return Cut([line.removesuffix(b"\r") for line in whole], tail)


def csv_records(form: CsvForm) -> Cutter:
    """Records of CSV; the two lines of an update are one."""
    return lambda content: _csv_records(form, content)


def _csv_records(form: CsvForm, content: bytes) -> Cut:
    between, pair = _expressions(form)
    terminator = form.terminator.encode()
    end = content.rfind(terminator)
    whole, tail = (content[:end], content[end + len(terminator) :]) if end >= 0 else (b"", content)
    if not whole:
        return Cut([], tail)
    starts = {match.end() for match in between.finditer(whole)} - {match.end() for match in pair.finditer(whole)}
    bounds = [0, *sorted(starts)]
    last = len(terminator)
    records = [whole[start : stop - last] for start, stop in pairwise(bounds)]
    return Cut([*records, whole[bounds[-1] :]], tail)


@lru_cache(maxsize=16)
def _expressions(form: CsvForm) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """The line end before a record, and the one between the two lines of an update."""
    d, q, end = escaped(form.delimiter), escaped(form.quote), escaped(form.terminator)
    between = rf"{end}(?={q}[IUD]{q}{d})"
    names = rf"{d}{form.text}{d}{form.text}{d}"
    old_row = rf"(?:^|(?<={end})){q}D{q}{names}([0-9]+){d}true(?:(?!{end}{q}[IUD]{q}{d})[\s\S])*?"
    pair = rf"{old_row}{end}(?={q}I{q}{names}\1{d}true)"
    return re.compile(between.encode()), re.compile(pair.encode())
