r"""Bytes of CSV as records, and the columns of each: megabytes at once, without a loop over lines.

numpy compares all bytes, and so finds what stands where. Without delimiters, quotes, line ends and what TiCDC says
before the columns, the bytes are the columns of all lines, one behind the other. An Arrow array is just that, and where
each of them ends.

- With a quote character a delimiter or a line end counts if the number of quotes before it in its line is even. A quote
  in a text is doubled, so a line end before `"I",` is in no text: there a new line begins, whatever is broken before.
- Without one a delimiter counts if no backslash escapes it.

Source: wire-formats.md, "Storage sink".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.model.change import Op
from pipeline.protocols.files.cut import Cut, Flags, Moments, Numbers, Octets, places, slices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.protocols.csv.form import CsvForm

SPLIT = pa.struct(
    [("op", pa.string()), ("commit_ts", pa.int64()), ("columns", pa.list_(pa.string())), ("after", pa.int32())]
)
"""`places.SPLIT_TYPE`."""


@dataclass(frozen=True, slots=True)
class _Lines:
    """Where lines begin and end, without their line ends."""

    starts: Numbers
    ends: Numbers

    @property
    def count(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, slots=True)
class _Fields:
    """Where fields begin and end, and all lines; and by line, which is its first field, and how many it has."""

    starts: Numbers
    ends: Numbers
    first: Numbers
    count: Numbers
    end: int

    def nth(self, number: int) -> tuple[Numbers, Numbers]:
        """Where the field of this number of each line begins and ends; two equal places where there is none."""
        place = np.where(self.count > number, self.first + number, 0)
        starts = self.starts[place]
        return starts, np.where(self.count > number, self.ends[place], starts)


@dataclass(frozen=True, slots=True)
class _Heads:
    """What stands before the columns of each line. `size`: so many fields. `is_row`: whether it is of a row at all."""

    is_row: Flags
    letter: Octets
    commit_ts: Moments
    tells_update: Flags
    is_update: Flags

    @property
    def size(self) -> Numbers:
        return np.where(self.tells_update, 5, 4)


_FEWEST_DIGITS, _MOST_DIGITS = 15, 19
_MOST_TS = 2**63 - 1
_LETTERS = np.frombuffer(b"IUD", np.uint8)
_OPS = pa.array([Op.INSERT.value, Op.UPDATE.value, Op.DELETE.value])
_INSERT, _UPDATE, _DELETE = range(3)
_PADDING = bytes(64)
"""So that what stands behind a place can be asked for at the end of the bytes, too."""


def split(form: CsvForm, content: bytes) -> Cut:
    """The records that these bytes begin with."""
    octets = np.frombuffer(content + _PADDING, np.uint8)
    ends = places(octets[: len(content)], form.terminator)
    marks = places(octets[: len(content)], form.quote or "\\")
    lines = _quoted_lines(form, octets, ends, marks) if form.quote else _lines(form, ends)
    if not lines.count:
        return Cut(pa.array([], pa.binary()), lines.starts, 0, pa.array([], SPLIT))
    behind = int(lines.ends[-1]) + len(form.terminator.encode())
    marks = marks[: np.searchsorted(marks, behind)]
    delimiters = places(octets[:behind], form.delimiter)
    if form.quote:
        fields, dropped, whole = _quoted_fields(form, octets, lines, marks, delimiters)
    else:
        octets, fields, dropped, whole = _escaped_fields(form, octets, lines, marks, delimiters)
    heads = _heads(form, octets, fields)
    pairs = _pairs(heads)
    begins = ~np.append(False, pairs[:-1])
    sound = _utf8(content, lines)
    whole &= sound
    rows = _Rows(heads, np.flatnonzero(begins), pairs[begins], whole, sound)
    starts, stops = lines.starts[rows.first], lines.ends[rows.last]
    columns = _columns(form, octets, fields, heads, whole, dropped)
    return Cut(slices(content, starts, stops), starts, behind, rows.split(fields.count - heads.size, columns))


def split_each(form: CsvForm, values: Sequence[bytes]) -> pa.Array:
    """Cut that were cut before, each as a `SPLIT`."""
    end, next_line = form.terminator.encode(), f"{form.quote}I{form.quote}{form.delimiter}".encode()
    together = split(form, b"".join(value + end for value in values) + next_line)
    if together.values.to_pylist() == list(values):
        return together.split
    alone = [split(form, value + end + next_line) for value in values]  # of these some were no neighbours
    nothing = pa.array([None], SPLIT)
    return pa.concat_arrays([one.split if len(one.values) == 1 else nothing for one in alone])


# ---- lines


def _stands_at(octets: Octets, places: Numbers, text: str) -> Flags:
    """Whether a text stands at each of these places."""
    stands = np.ones(len(places), bool)
    for distance, octet in enumerate(text.encode()):
        stands &= octets[places + distance] == octet
    return stands


def _lines(form: CsvForm, ends: Numbers) -> _Lines:
    """Lines that end here, each of which begins behind the one before."""
    return _Lines(np.append(0, ends[:-1] + len(form.terminator.encode()))[: len(ends)], ends)


def _quoted_lines(form: CsvForm, octets: Octets, ends: Numbers, quotes: Numbers) -> _Lines:
    """Of these line ends those that are in no text."""
    quote, after = len(form.quote.encode()), ends + len(form.terminator.encode())
    begins = _stands_at(octets, after, form.quote) & np.isin(octets[after + quote], _LETTERS)
    begins &= _stands_at(octets, after + quote + 1, form.quote + form.delimiter)
    sure = np.append(0, after[begins])
    before = np.searchsorted(quotes, sure)[np.searchsorted(sure, ends, "right") - 1]
    return _lines(form, ends[begins | ((np.searchsorted(quotes, ends) - before) % 2 == 0)])


def _pairs(heads: _Heads) -> Flags:
    """Whether a line is the row before an update, and the next one the row after it."""
    updates = heads.is_row & heads.is_update
    old, new = updates & (heads.letter == ord("D")), updates & (heads.letter == ord("I"))
    same = heads.commit_ts[:-1] == heads.commit_ts[1:]
    return np.append(old[:-1] & new[1:] & same & (heads.commit_ts[1:] > 0), False)


def _utf8(content: bytes, lines: _Lines) -> Flags:
    """Whether each line is UTF-8."""
    sound = np.ones(lines.count, bool)
    try:
        str(memoryview(content)[: lines.ends[-1]], "utf-8")
    except UnicodeDecodeError:
        for number, (start, end) in enumerate(zip(lines.starts, lines.ends, strict=True)):
            sound[number] = "\ufffd" not in str(memoryview(content)[start:end], "utf-8", "replace")
    return sound


# ---- fields


def _quoted_fields(
    form: CsvForm, octets: Octets, lines: _Lines, quotes: Numbers, delimiters: Numbers
) -> tuple[_Fields, Numbers, Flags]:
    """The fields of lines; the quotes that are no part of a value; and whether each line has quotes as it should."""
    first = np.searchsorted(quotes, lines.starts)
    counts, odd = np.diff(np.append(first, len(quotes))), _odd(first)
    in_text = _odd(np.searchsorted(quotes, delimiters)) ^ np.repeat(odd, _counts(delimiters, lines))
    fields = _fields(form, lines, delimiters[~in_text])
    closes = _odd(np.arange(len(quotes))) ^ np.repeat(odd, counts)
    doubled = closes & np.append(np.diff(quotes) == 1, False)[: len(quotes)]  # it closes, and the next one opens again
    opens = ~closes & ~np.append(False, doubled[:-1])
    quoted = _stands_at(octets, fields.starts, form.quote)
    closed = quoted & _stands_at(octets, fields.ends - 1, form.quote)
    texts = _by_line(quoted, fields)
    whole = (counts % 2 == 0) & (counts // 2 - _counts(quotes[doubled], lines) == texts)
    return fields, quotes[closes | opens], whole & (_by_line(closed, fields) == texts)


def _escaped_fields(
    form: CsvForm, octets: Octets, lines: _Lines, backslashes: Numbers, delimiters: Numbers
) -> tuple[Octets, _Fields, Numbers, Flags]:
    r"""The same without a quote character, and the bytes with line ends for `\n` and `\r`."""
    numbers = np.arange(len(backslashes))
    begins = np.append(True, np.diff(backslashes) > 1)[: len(backslashes)]
    escapes = backslashes[(numbers - np.maximum.accumulate(np.where(begins, numbers, 0))) % 2 == 0]
    escaped = escapes + 1
    fields = _fields(form, lines, delimiters[~np.isin(delimiters, escaped)])
    nulls = fields.starts[_is(octets, fields.starts, fields.ends, form.null)]
    escapes = escapes[~np.isin(escapes, nulls)]
    plain = octets.copy()
    for letter, end in (("n", "\n"), ("r", "\r")):
        plain[(escapes + 1)[octets[escapes + 1] == ord(letter)]] = ord(end)
    torn = np.isin(lines.ends, escaped)
    return plain, fields, escapes, ~torn


def _fields(form: CsvForm, lines: _Lines, delimiters: Numbers) -> _Fields:
    """The fields between these delimiters."""
    delimiters = _apart(delimiters, form.delimiter.encode())
    count = _counts(delimiters, lines) + 1
    first = np.cumsum(count) - count
    begins, ends = (np.zeros(len(delimiters) + lines.count, bool) for _ in range(2))
    begins[first] = ends[first + count - 1] = True
    return _Fields(
        _merged(begins, lines.starts, delimiters + len(form.delimiter.encode())),
        _merged(ends, lines.ends, delimiters),
        first,
        count,
        int(lines.ends[-1]) + len(form.terminator.encode()),
    )


def _apart(places: Numbers, text: bytes) -> Numbers:
    """Of the places where a text stands those that do not overlap, from the left: of `|||` as `||` the first."""
    width = len(text)
    follows = np.append(False, np.diff(places) < width)[: len(places)]
    if not follows.any():
        return places
    period = next(size for size in range(1, width) if text[size:] == text[:-size])
    number, step = np.arange(len(places)), -(-width // period)
    apart: Numbers = places[(number - np.maximum.accumulate(np.where(follows, 0, number))) % step == 0]
    return apart


def _merged(chosen: Flags, these: Numbers, others: Numbers) -> Numbers:
    merged = np.empty(len(chosen), np.int64)
    merged[chosen], merged[~chosen] = these, others
    return merged


def _odd(numbers: Numbers) -> Flags:
    return np.asarray(numbers & 1, bool)


def _counts(places: Numbers, lines: _Lines) -> Numbers:
    """How many of these places each line has."""
    counts: Numbers = np.searchsorted(places, lines.ends) - np.searchsorted(places, lines.starts)
    return counts


def _by_line(flags: Flags, fields: _Fields) -> Numbers:
    """Of how many fields of each line this holds."""
    return np.add.reduceat(flags, fields.first, dtype=np.int64)


def _is(octets: Octets, starts: Numbers, ends: Numbers, text: str) -> Flags:
    """Whether a text stands between these places, and nothing else."""
    fits: Flags = ends - starts == len(text.encode())
    return fits & _stands_at(octets, starts, text)


# ---- what lines say


def _heads(form: CsvForm, octets: Octets, fields: _Fields) -> _Heads:
    """What the first fields of each line say: operation, table, schema, commit ts, is-update."""
    (start, end), quote = fields.nth(0), len(form.quote.encode())
    letter = octets[start + quote]
    is_row = (fields.count > 3) & (end - start == 2 * quote + 1) & np.isin(letter, _LETTERS)  # noqa: PLR2004
    for number in range(3):
        start, end = fields.nth(number)
        is_row &= _stands_at(octets, start, form.quote) & (end - start >= 2 * quote)
    start, end = fields.nth(4)
    is_update = _is(octets, start, end, "true")
    commit_ts = _commit_ts(octets, *fields.nth(3))
    tells_update = (commit_ts > 0) & (is_update | _is(octets, start, end, "false"))
    return _Heads(is_row, letter, commit_ts, tells_update, is_update & tells_update)


def _commit_ts(octets: Octets, starts: Numbers, ends: Numbers) -> Moments:
    """The numbers that stand here; 0 where there is none, or none that is a commit ts."""
    sizes, number = ends - starts, np.zeros(len(starts), np.uint64)
    sound = (sizes >= _FEWEST_DIGITS) & (sizes <= _MOST_DIGITS)
    for place in range(_MOST_DIGITS):
        digit = octets[starts + np.minimum(place, sizes)] - np.uint8(ord("0"))
        here = place < sizes
        sound &= ~here | (digit <= 9)  # noqa: PLR2004
        number = np.where(here, number * np.uint64(10) + digit, number)
    return np.where(sound & (number <= _MOST_TS), number, np.uint64(0))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Cut: each is one line, or a pair of two. `first`: the number of its first line."""

    heads: _Heads
    first: Numbers
    paired: Flags
    whole: Flags
    sound: Flags

    @property
    def last(self) -> Numbers:
        """The number of its last line."""
        return self.first + self.paired

    def split(self, sizes: Numbers, columns: pa.Array) -> pa.Array:
        """Each as a `SPLIT`. `sizes`: how many columns each line has; `columns`: of the lines that are whole rows."""
        has_columns = self.heads.is_row & self.whole
        counts = np.where(has_columns, np.maximum(sizes, 0), 0)
        of_first = np.where(self.paired, counts[self.first], 0)
        bounds = np.append(0, np.cumsum(counts[self.last] + of_first)).astype(np.int32)
        broken = ~(has_columns[self.first] & has_columns[self.last])
        listed = pa.ListArray.from_arrays(pa.array(bounds), columns, mask=pa.array(broken))
        commit_ts = self.heads.commit_ts[self.last].astype(np.int64)
        parts = [self._op(), pa.array(commit_ts, mask=commit_ts == 0), listed, pa.array(of_first.astype(np.int32))]
        return pa.StructArray.from_arrays(parts, fields=list(SPLIT))

    def _op(self) -> pa.Array:
        heads, line = self.heads, self.last
        letter, update = heads.letter[line], heads.is_update[line]
        number = np.where(letter == ord("D"), _DELETE, np.where((letter == ord("U")) | update, _UPDATE, _INSERT))
        is_row = heads.is_row[line] & self.sound[self.first] & self.sound[line]
        return _OPS.take(pa.array(number, mask=~is_row))


# ---- the columns


def _columns(form: CsvForm, octets: Octets, fields: _Fields, heads: _Heads, whole: Flags, dropped: Numbers) -> pa.Array:
    """The values of the columns of all lines that are whole rows; NULL for NULL."""
    content = np.ones(fields.end, bool)
    content[dropped] = False
    behind = np.append(fields.starts[1:], fields.end)
    for distance in range(int((behind - fields.ends).max())):
        between = fields.ends + distance
        content[between[between < behind]] = False
    bounds = np.cumsum(fields.ends - fields.starts) - np.searchsorted(dropped, fields.ends)
    null = _is(octets, fields.starts, fields.ends, form.null)
    values = pa.StringArray.from_buffers(
        len(null),
        pa.py_buffer(np.append(0, bounds).astype(np.int32)),
        pa.py_buffer(octets[: fields.end][content]),
        pa.py_buffer(np.packbits(~null, bitorder="little")),
    )
    return values.filter(pa.array(_are_columns(fields, heads, whole)))


def _are_columns(fields: _Fields, heads: _Heads, whole: Flags) -> Flags:
    """Whether each field is the value of a column, in a line that is a whole row."""
    are_columns = np.repeat(heads.is_row & whole, fields.count)
    for number in range(5):
        are_columns[(fields.first + number)[heads.is_row & (heads.size > number)]] = False
    return are_columns
