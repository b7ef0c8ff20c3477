"""Where the records of some bytes stand, found without a loop over them."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Octets: TypeAlias = npt.NDArray[np.uint8]


class Cut(NamedTuple):
    """The records that some bytes begin with: `values` without line ends, of the type BINARY.

    `starts` says where each begins. The bytes from `behind` on are no record yet.
    """

    values: pa.Array
    starts: Numbers
    behind: int


def places(octets: Octets, text: str) -> Numbers:
    """Where a text stands."""
    sought = text.encode()
    if len(octets) < len(sought):
        return np.zeros(0, np.int64)
    last = len(octets) - len(sought) + 1
    hits = octets[:last] == sought[0]
    for place, octet in enumerate(sought[1:], start=1):
        hits &= octets[place : last + place] == octet
    return np.flatnonzero(hits)


def slices(content: bytes, starts: Numbers, ends: Numbers) -> pa.Array:
    """The bytes between these places, of the type BINARY."""
    bounds = np.column_stack([starts, ends]).ravel().astype(np.int32)
    count = max(len(bounds) - 1, 0)
    alternating = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(content)])
    return alternating.take(pa.array(np.arange(0, count, 2)))


def json_lines(content: bytes) -> Cut:
    """A record a line, ended by LF or CR LF: JSON has no line end within."""
    octets = np.frombuffer(content, np.uint8)
    ends = places(octets, "\n")
    starts = np.append(0, ends[:-1] + 1)[: len(ends)]
    stops = ends - ((ends > starts) & (octets[ends - 1] == ord("\r")))
    return Cut(slices(content, starts, stops), starts, int(ends[-1]) + 1 if len(ends) else 0)
