"""A file as records, some at a time. Pure functions of bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa

from pipeline.model.set_aside import FILE_TRUNCATED
from pipeline.protocols.csv.form import escaped
from pipeline.protocols.files.cut import Cut
from pipeline.protocols.files.head import RECORD_TOO_LARGE

if TYPE_CHECKING:
    from pipeline.protocols.csv import CsvForm

HEADER = b"ticdc-meta$"
"""How the first line of a file begins that names its columns."""
BLOCK = 8 << 20
"""So many bytes are read at once."""
PIECE = 1 << 20
"""So many are cut at once: what numpy makes of them fits into a processor's cache, which takes a fifth less time."""
MOST = 64 << 20
"""A record is not longer; what is longer is cut here."""
_KEPT = 2
"""Records that wait for the next block: the last one may go on there, and be the second line of an update."""


Cutter: TypeAlias = Callable[[bytes], Cut]


class RecordBlock(NamedTuple):
    """Records that follow each other in a file.

    `fault`: the code of what is none, because no line end closes it: `FILE_TRUNCATED` or `RECORD_TOO_LARGE`.
    """

    values: pa.Array
    fault: str = ""


def records(read: Callable[[int, int], bytes], size: int, cut: Cutter) -> Iterator[RecordBlock]:
    """All records of a file, some at a time. `read`: gives its bytes from a place on, so many or less."""
    pending, enough = b"", 0
    for piece in _pieces(read, size):
        if len(pending) >= enough or len(pending) > MOST:
            cut_off = cut(pending)
            count = len(cut_off.values) - _KEPT
            if count > 0:
                yield RecordBlock(cut_off.values[:count])
                pending, enough = pending[cut_off.starts[count] :], 0
            elif len(pending) > MOST:
                yield _unclosed(pending, RECORD_TOO_LARGE)
                pending, enough = b"", 0
            else:
                enough = 2 * len(pending)
        pending += piece
    cut_off = cut(pending)
    if len(cut_off.values):
        yield RecordBlock(cut_off.values)
    if cut_off.behind < len(pending):
        yield _unclosed(pending[cut_off.behind :], FILE_TRUNCATED)


def _pieces(read: Callable[[int, int], bytes], size: int) -> Iterator[bytes]:
    place = 0
    while place < size and (block := read(place, BLOCK)):
        place += len(block)
        for begin in range(0, len(block), PIECE):
            yield block[begin : begin + PIECE]


def _unclosed(content: bytes, fault: str) -> RecordBlock:
    return RecordBlock(pa.array([content], pa.binary()), fault)


def is_closed(form: CsvForm, last: bytes) -> bool:
    """Whether these last bytes of a file of CSV end with a record."""
    if not last.endswith(form.terminator.encode()):
        return False
    starts = [match.end() for match in _between(form).finditer(last)]
    return not form.quote or not starts or last.count(form.quote.encode(), starts[-1]) % 2 == 0


@lru_cache(maxsize=16)
def _between(form: CsvForm) -> re.Pattern[bytes]:
    """The line end before a record."""
    d, q, end = escaped(form.delimiter), escaped(form.quote), escaped(form.terminator)
    return re.compile(rf"{end}(?={q}[IUD]{q}{d})".encode())
