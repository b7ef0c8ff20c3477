r"""Bytes of CSV as records, megabytes at once and without a loop over lines: numpy compares all bytes.

- With a quote character a line end counts if the number of quotes before it in its line is even. A quote in a text is
  doubled, so a line end before `"I",` is in no text: there a new line begins, whatever is broken before.
- Without one every line end counts: TiCDC writes `\n` and `\r` for those of a text.
- The row before an update and the row after it are two lines and one record.

Source: wire-formats.md, "Storage sink".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.protocols.files.cut import Cut, places

if TYPE_CHECKING:
    from pipeline.protocols.csv.form import CsvForm
    from pipeline.protocols.files.cut import Flags, Numbers, Octets

_LETTERS = np.frombuffer(b"IUD", np.uint8)
_ZERO, _NINE = b"09"
_TRUE = "true"
_BEHIND = b"\0"
"""What stands at any place behind the bytes."""
_LONGEST_HEAD = 2048
"""A name has at most 64 characters."""


def csv_records(form: CsvForm, content: bytes) -> Cut:
    """The records that these bytes begin with."""
    octets = np.frombuffer(content + _BEHIND, np.uint8)
    ends = places(octets[:-1], form.terminator)
    if form.quote:
        ends = ends[_are_in_no_text(form, octets, ends)]
    if not len(ends):
        return Cut(ends, ends, 0)
    behind = ends + len(form.terminator)
    lines = _Lines(form, octets, np.append(0, behind[:-1]), ends)
    goes_on = lines.go_on()
    starts = lines.starts[~np.append(False, goes_on[:-1])]
    return Cut(starts, ends[~goes_on], int(behind[-1]))


def _are_in_no_text(form: CsvForm, octets: Octets, ends: Numbers) -> Flags:
    """Which of these line ends are in no text."""
    behind = ends + len(form.terminator)
    closes = _stands_at(octets, behind, form.quote) & np.isin(_at(octets, behind + 1), _LETTERS)
    closes &= _stands_at(octets, behind + 2, form.quote + form.delimiter)
    doubtful = np.flatnonzero(~closes)
    if len(doubtful):
        sure, ends = np.append(0, behind[closes]), ends[doubtful]
        since = sure[np.searchsorted(sure, ends, "right") - 1]
        quotes = places(octets[since[0] : ends[-1]], form.quote) + since[0]
        closes[doubtful] = (np.searchsorted(quotes, ends) - np.searchsorted(quotes, since)) % 2 == 0
    return closes


class _Heads(NamedTuple):
    """Of some lines: whether they begin like another one, the digits of their commit ts, and whether is-update is true.

    Of a line that does not begin like it the other two mean nothing.
    """

    is_like: Flags
    commit_ts: Octets
    is_update: Flags


@dataclass(frozen=True, slots=True)
class _Lines:
    """Where lines begin and end, without their line ends."""

    form: CsvForm
    octets: Octets
    starts: Numbers
    ends: Numbers

    def go_on(self) -> Flags:
        """Whether a line is the row before an update, and the next one the row after it."""
        operations = _at(self.octets, self.starts + len(self.form.quote))
        goes_on = np.zeros(len(operations), bool)
        pairs = np.flatnonzero((operations[:-1] == ord("D")) & (operations[1:] == ord("I")))
        goes_on[pairs[self._are_updates(pairs)]] = True
        return goes_on

    def _are_updates(self, pairs: Numbers) -> Flags:
        """Of pairs of lines, by the number of the first, which say that they are one update.

        The lines of a file begin alike but for their commit ts and what they do. Pairs that do not are looked at one by
        one.
        """
        heads = (self._head(number) for number in pairs.tolist())
        likeness = next((head for head in heads if head is not None and head.end() <= _LONGEST_HEAD), None)
        if likeness is None:
            return np.array([self._is_update(number) for number in pairs.tolist()], bool)
        first, second = (self._like(likeness, pairs + number) for number in range(2))
        updates: Flags = first.is_update & second.is_update & (first.commit_ts == second.commit_ts).all(1)
        for place in np.flatnonzero(~(first.is_like & second.is_like)).tolist():
            updates[place] = self._is_update(int(pairs[place]))
        return updates

    def _like(self, likeness: re.Match[bytes], lines: Numbers) -> _Heads:
        """What these lines say, if they begin like another one."""
        starts, behind = self.starts[lines], likeness.end(2)
        names = np.arange(1 + len(self.form.quote), likeness.start(2))
        wanted = np.frombuffer(likeness[0], np.uint8)[names]
        commit_ts = self._octets(starts, np.arange(likeness.start(2), behind))
        is_like = (self._octets(starts, names) == wanted).all(1) & ((commit_ts >= _ZERO) & (commit_ts <= _NINE)).all(1)
        is_like &= _stands_at(self.octets, starts, self.form.quote)
        is_like &= _stands_at(self.octets, starts + behind, self.form.delimiter)
        flag = starts + behind + len(self.form.delimiter.encode())
        end = flag + len(_TRUE)
        is_update = _stands_at(self.octets, flag, _TRUE)
        is_update &= _stands_at(self.octets, end, self.form.delimiter) | (end == self.ends[lines])
        return _Heads(is_like, commit_ts, is_update)

    def _octets(self, starts: Numbers, distances: Numbers) -> Octets:
        """What stands so far behind each place; a row for each."""
        return _at(self.octets, starts[:, None] + distances)

    def _is_update(self, number: int) -> bool:
        first, second = self._head(number), self._head(number + 1)
        return bool(first and second and first[2] == second[2] and first[3] == second[3] == b"true")

    def _head(self, number: int) -> re.Match[bytes] | None:
        """What the line of this number begins with; see `CsvForm.head`."""
        return re.match(self.form.head.encode(), self.octets[self.starts[number] : self.ends[number]].tobytes())


def _stands_at(octets: Octets, places: Numbers, text: str) -> Flags:
    """Whether a text stands at each of these places."""
    stands = np.ones(len(places), bool)
    for distance, octet in enumerate(text.encode()):
        stands &= _at(octets, places + distance) == octet
    return stands


def _at(octets: Octets, places: Numbers) -> Octets:
    """The octets at these places, of which some may be behind the last one."""
    there: Octets = octets[np.minimum(places, len(octets) - 1)]
    return there
