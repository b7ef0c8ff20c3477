"""Which rows of an append are the last of their key, and which rows have one of these keys: arrays, no Spark.

Key values are told apart by codes. A value of a key column is its place among all that changed, which are hashed once a
publish; a key of several columns is the number that their places make.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

Numbers: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"
Flags: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"

_LARGEST = 2**62
"""Keys of several columns are numbered up to here."""
_NONE = -1
"""The code of what is no key among the changed ones."""
_FEW_VALUES = 20_000
"""So many values are kept in order, to see whether one of them may be in a row group."""


class CannotClone(Exception):
    """Why this publish has to take the way of `current` or `advance`."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes as columns, in the order of their files.

    `key`: that of the row after the change. `before`: that of the row before it, NULL where there was none; empty for
    tables that do not say it. `order`: which change of a key comes later, twice a number, and one more if it leaves a
    row; `place` decides among equal ones. `source`: the partition. `counts`: whether it is a change for this publish.
    """

    key: Sequence[pa.ChunkedArray]
    before: Sequence[pa.ChunkedArray]
    order: Numbers
    place: Numbers
    source: Numbers
    there: Flags
    counts: Flags


@dataclass(frozen=True)
class ChangedKeys:
    """The keys of some changes. `values`: by key column, the different ones; `codes`: of the keys, ascending."""

    values: Sequence[pa.Array]
    codes: Numbers

    @cached_property
    def _ordered(self) -> list[Any]:
        """The values of the first key column in order, if they are few; else the least and the greatest."""
        values = self.values[0]
        if len(values) <= _FEW_VALUES:
            return sorted(values.to_pylist())
        ends = pc.min_max(values)
        return [ends["min"].as_py(), ends["max"].as_py()]

    def may_lie_between(self, low: Any, high: Any) -> bool:
        """Whether one of the keys may be where the first key column has these bounds; None: they are not known."""
        if low is None or high is None:
            return True
        try:
            values = self._ordered
            if len(self.values[0]) > _FEW_VALUES:
                return bool(values[0] <= high and values[1] >= low)
            place = bisect_left(values, low)
            return place < len(values) and bool(values[place] <= high)
        except TypeError:  # statistics of another type
            return True

    def among(self, columns: Sequence[pa.ChunkedArray]) -> Flags:
        """Which rows have one of the keys. `columns`: the key columns of these rows."""
        places = [_places(column, values) for column, values in zip(columns, self.values, strict=True)]
        codes = _joined(places, self.values)
        are_changed: Flags = codes != _NONE
        if len(self.values) > 1:
            nearest = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
            are_changed &= self.codes[nearest] == codes
        return are_changed


@dataclass(frozen=True, slots=True)
class Winners:
    """What changes leave: their keys (None without any change), and of all of them, which show."""

    keys: ChangedKeys | None
    shows: Flags


def winners(changes: Changes, *, by_place: bool) -> Winners:
    """The last change of each key.

    `by_place`: only places say which is the last. Raises `CannotClone` where they cannot, as a key has changes in
    several partitions; where a key is NULL; where there are too many combinations of values.
    """
    rows = np.flatnonzero(changes.counts)
    shows = np.zeros(len(changes.counts), np.bool_)
    if not len(rows):
        return Winners(None, shows)
    moved = rows[_has_before(changes, rows)]
    both = [
        pa.chunked_array([*column.take(rows).chunks, *(changes.before[n].take(moved).chunks if len(moved) else ())])
        for n, column in enumerate(changes.key)
    ]
    if any(column.null_count for column in both):
        raise CannotClone("a value of a key could not be held by its column")
    encoded = [column.combine_chunks().dictionary_encode() for column in both]
    values = [column.dictionary for column in encoded]
    codes = _joined([column.indices.to_numpy().astype(np.int64) for column in encoded], values)
    halves = np.concatenate([np.ones(len(rows), np.int8), np.zeros(len(moved), np.int8)])
    order = np.concatenate([changes.order[rows], changes.order[moved] & ~1])
    row_of = np.concatenate([rows, moved])
    sequence = np.lexsort((halves, changes.place[row_of], order, codes))
    sorted_codes = codes[sequence]
    is_last = np.append(sorted_codes[1:] != sorted_codes[:-1], True)
    if by_place and _in_several(changes.source[row_of][sequence], is_last):
        raise CannotClone("a key has changes in several partitions")
    last = sequence[is_last]
    last = last[last < len(rows)]
    shows[rows[last]] = changes.there[rows[last]]
    return Winners(ChangedKeys(values, sorted_codes[is_last]), shows)


def _has_before(changes: Changes, rows: Numbers) -> Flags:
    """Which of these rows say what the row's key was."""
    if not changes.before:
        return np.zeros(len(rows), np.bool_)
    return np.asarray(changes.before[0].is_valid())[rows]


def _in_several(sources: Numbers, is_last: Flags) -> bool:
    """Whether changes of one key are of different sources; those of a key stand together."""
    return bool(np.any((sources[1:] != sources[:-1]) & ~is_last[:-1]))


def _joined(places: Sequence[Numbers], values: Sequence[pa.Array]) -> Numbers:
    """One code for each row, of its places in the values of each column; `_NONE` where one has none."""
    codes, most = places[0], len(values[0])
    for column, of in zip(places[1:], values[1:], strict=True):
        most *= len(of)
        if most > _LARGEST:
            raise CannotClone("there are too many combinations of key values")
        codes = np.where((codes == _NONE) | (column == _NONE), _NONE, codes * len(of) + column)
    return codes


def _places(column: pa.ChunkedArray, values: pa.Array) -> Numbers:
    """Where each value is among these; `_NONE` if it is not."""
    places = pc.index_in(column, value_set=values)
    return np.asarray(places.fill_null(_NONE)).astype(np.int64)
