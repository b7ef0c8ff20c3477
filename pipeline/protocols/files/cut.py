"""Where the records of some bytes stand, found without a loop over them."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Octets: TypeAlias = npt.NDArray[np.uint8]


class Cut(NamedTuple):
    """The records that some bytes begin with: where each begins and ends, without line ends.

    The bytes from `behind` on are no record yet.
    """

    starts: Numbers
    ends: Numbers
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


def json_lines(content: bytes) -> Cut:
    """A record a line, ended by LF or CR LF: JSON has no line end within."""
    octets = np.frombuffer(content, np.uint8)
    ends = places(octets, "\n")
    starts = np.append(0, ends[:-1] + 1)[: len(ends)]
    stops = ends - ((ends > starts) & (octets[ends - 1] == ord("\r")))
    return Cut(starts, stops, int(ends[-1]) + 1 if len(ends) else 0)
