"""Where the records of a file end. Pure functions of bytes.

A line of CSV may have line ends in its texts. Between quotes a quote is doubled, so a line end before `"I",` is never
in a text: it is the end of a record (wire-formats.md, "Storage sink").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pipeline.protocols.csv.form import escaped

if TYPE_CHECKING:
    from pipeline.protocols.csv import CsvForm

HEADER = b"ticdc-meta$"
"""How the first line of a file begins that names its columns."""
BLOCK = 8 << 20
"""So many bytes are read at once."""
MOST = 64 << 20
"""A record is not longer; what is longer is cut here."""
_KEPT = 2
"""Records that wait for the next block: the last one may go on there, and be the second line of an update."""


class Cut(NamedTuple):
    """The records of some bytes, each from a place to another, without its line end; what is behind is no record."""

    records: Sequence[tuple[int, int]]
    behind: int


Cutter: TypeAlias = Callable[[bytes], Cut]


class RecordBlock(NamedTuple):
    """Records that follow each other in a file. `torn`: whether they are pieces, which no line end closes."""

    values: Sequence[bytes]
    torn: bool = False


def records(read: Callable[[int, int], bytes], size: int, cut: Cutter) -> Iterator[RecordBlock]:
    """All records of a file, some at a time. `read`: gives its bytes from a place on, so many or less."""
    pending, place = b"", 0
    while place < size:
        block = read(place, BLOCK)
        if not block:
            break
        place += len(block)
        pending += block
        if place >= size:
            break
        bounds, _ = cut(pending)
        if len(bounds) > _KEPT:
            yield RecordBlock([pending[start:stop] for start, stop in bounds[:-_KEPT]])
            pending = pending[bounds[-_KEPT][0] :]
        elif len(pending) > MOST:
            yield RecordBlock([pending], torn=True)
            pending = b""
    bounds, behind = cut(pending)
    if bounds:
        yield RecordBlock([pending[start:stop] for start, stop in bounds])
    if behind < len(pending):
        yield RecordBlock([pending[behind:]], torn=True)


def json_records(content: bytes) -> Cut:
    """A record a line, ended by LF or CR LF: JSON has no line end within."""
    bounds: list[tuple[int, int]] = []
    start = 0
    while (end := content.find(b"\n", start)) >= 0:
        bounds.append((start, end - content.endswith(b"\r", start, end)))
        start = end + 1
    return Cut(bounds, start)


def csv_records(form: CsvForm) -> Cutter:
    """Records of CSV; the two lines of an update are one."""
    return partial(_csv_records, form)


def is_closed(form: CsvForm, last: bytes) -> bool:
    """Whether these last bytes of a file of CSV end with a record."""
    if not last.endswith(form.terminator.encode()):
        return False
    starts = [match.end() for match in _between(form).finditer(last)]
    return not form.quote or not starts or last.count(form.quote.encode(), starts[-1]) % 2 == 0


def _csv_records(form: CsvForm, content: bytes) -> Cut:
    terminator = form.terminator.encode()
    end = content.rfind(terminator)
    if end < 0:
        return Cut([], 0)
    whole = content[:end]
    starts = [0, *(match.end() for match in _between(form).finditer(whole)), end + len(terminator)]
    lines = [line for start, stop in pairwise(starts) for line in _lines(form, content, start, stop)]
    if form.quote and content.count(form.quote.encode(), *lines[-1]) % 2:  # a text goes on behind the last line end
        lines.pop()
    head = re.compile(form.head.removeprefix("^").encode())
    records: list[tuple[int, int]] = []
    before = -1
    for start, stop in lines:
        if before >= 0 and _is_pair(head, content, before, start):
            records[-1], before = (before, stop), -1
        else:
            records.append((start, stop))
            before = start
    return Cut(records, records[-1][1] + len(terminator) if records else 0)


def _lines(form: CsvForm, content: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """The lines from a beginning of one up to the next: several if some are none of TiCDC's."""
    terminator, quote = form.terminator.encode(), form.quote.encode()
    begin, place = start, content.find(terminator, start, stop)
    while place < stop - len(terminator):
        if not quote or content.count(quote, begin, place) % 2 == 0:
            yield begin, place
            begin = place + len(terminator)
        place = content.find(terminator, place + len(terminator), stop)
    yield begin, stop - len(terminator)


def _is_pair(head: re.Pattern[bytes], content: bytes, first: int, second: int) -> bool:
    """Whether two lines that follow each other are the row before an update and the row after it."""
    old = head.match(content, first)
    if old is None or old[1] != b"D" or old[3] != b"true":
        return False
    new = head.match(content, second)
    return new is not None and new[1] == b"I" and new.group(2, 3) == old.group(2, 3)


@lru_cache(maxsize=16)
def _between(form: CsvForm) -> re.Pattern[bytes]:
    """The line end before a record."""
    d, q, end = escaped(form.delimiter), escaped(form.quote), escaped(form.terminator)
    return re.compile(rf"{end}(?={q}[IUD]{q}{d})".encode())
