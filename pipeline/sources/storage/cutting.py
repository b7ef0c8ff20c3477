"""A file as records, some at a time. Pure functions of bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from pipeline.model.set_aside import FILE_TRUNCATED
from pipeline.protocols.csv.form import escaped
from pipeline.protocols.files.cut import Cut
from pipeline.protocols.files.head import RECORD_TOO_LARGE

if TYPE_CHECKING:
    from pipeline.protocols.csv import CsvForm
    from pipeline.protocols.files.cut import Numbers

HEADER = b"ticdc-meta$"
"""How the first line of a file begins that names its columns."""
BLOCK = 8 << 20
"""So many bytes are read at once."""
AT_ONCE = 1 << 20
"""So many are cut at once: what numpy makes of them fits into a processor's cache, which takes a fifth less time."""
MOST = 64 << 20
"""A record is not longer; what is longer is cut here."""
_KEPT = 2
"""Records that wait for the next block: the last one may go on there, and be the second line of an update."""


Cutter: TypeAlias = Callable[[bytes], Cut]


class Piece(NamedTuple):
    """Records that follow each other in a file: where each begins and ends in `content`.

    `fault`: the code of what is none, because no line end closes it: `FILE_TRUNCATED` or `RECORD_TOO_LARGE`.
    """

    content: bytes
    starts: Numbers
    ends: Numbers
    fault: str = ""

    @staticmethod
    def of(content: bytes, starts: Numbers, ends: Numbers) -> Piece:
        """These records, without the bytes that come after them."""
        return Piece(content[: ends[-1]], starts, ends)

    @staticmethod
    def whole(content: bytes, fault: str = "") -> Piece:
        """All bytes as one record."""
        return Piece(content, np.array([0]), np.array([len(content)]), fault)

    def without_first(self, count: int) -> Piece:
        """The other records."""
        return self._replace(starts=self.starts[count:], ends=self.ends[count:])

    def records(self) -> list[bytes]:
        """The bytes of each."""
        return [self.content[start:end] for start, end in zip(self.starts, self.ends, strict=True)]


def pieces(read: Callable[[int, int], bytes], size: int, cut: Cutter) -> Iterator[Piece]:
    """All records of a file, some at a time. `read`: gives its bytes from a place on, so many or less."""
    pending, enough = b"", 0
    for some in _some_bytes(read, size):
        if len(pending) >= enough or len(pending) > MOST:
            starts, ends, _ = cut(pending)
            count = len(starts) - _KEPT
            if count > 0:
                yield Piece.of(pending, starts[:count], ends[:count])
                pending, enough = pending[starts[count] :], 0
            elif len(pending) > MOST:
                yield Piece.whole(pending, RECORD_TOO_LARGE)
                pending, enough = b"", 0
            else:
                enough = 2 * len(pending)
        pending += some
    starts, ends, behind = cut(pending)
    if len(starts):
        yield Piece.of(pending, starts, ends)
    if behind < len(pending):
        yield Piece.whole(pending[behind:], FILE_TRUNCATED)


def _some_bytes(read: Callable[[int, int], bytes], size: int) -> Iterator[bytes]:
    place = 0
    while place < size and (block := read(place, BLOCK)):
        place += len(block)
        for begin in range(0, len(block), AT_ONCE):
            yield block[begin : begin + AT_ONCE]


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
