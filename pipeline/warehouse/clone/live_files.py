"""What the driver knows of a current table's data files: which rows of each are deleted, and where keys may be."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.warehouse.clone.parquet import ColumnFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pipeline.warehouse.clone.keys import ChangedKeys, Numbers
    from pipeline.warehouse.clone.parquet import RowGroup

Bits: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint8]]"

_KEPT_ROWS = 20_000
"""The keys of a file of so many rows stay in memory: it is looked at in every batch until it is compacted."""
_AT_ONCE = 8_000_000
"""Rows whose keys are compared at once."""
_READ_ROWS = 1_000_000
"""Neighbouring row groups of so many rows are read together: each reading has a price of its own."""


@dataclass(slots=True)
class LiveFile:
    """One data file. `path`: on this machine; `location`: as the table's metadata names it."""

    location: str
    path: str
    rows: int
    dead: Bits | None = None
    """Which rows are deleted, a bit a row; None: none is."""
    groups: list[RowGroup] | None = None
    """Once they are known."""
    keys: Sequence[pa.ChunkedArray] | None = None
    """The key columns of all rows, of a small file."""

    def delete(self, rows: Numbers) -> None:
        """Note that these rows are deleted."""
        if len(rows):
            self.dead = np.zeros((self.rows >> 3) + 1, np.uint8) if self.dead is None else self.dead
            np.bitwise_or.at(self.dead, rows >> 3, _bits(rows))

    def living(self, rows: Numbers) -> Numbers:
        """Those of the rows that are not deleted."""
        return rows if self.dead is None else rows[self.dead[rows >> 3] & _bits(rows) == 0]


@dataclass(slots=True)
class LiveFiles:
    """The data files of a current table at one snapshot. `key`: field ids of its key columns."""

    key: tuple[int, ...]
    snapshot: int | None = None
    files: dict[str, LiveFile] = field(default_factory=dict)
    """By location."""

    def holding(self, keys: ChangedKeys) -> Iterator[tuple[LiveFile, Numbers]]:
        """The rows that have one of these keys and are not deleted, by file."""
        parts: list[tuple[LiveFile, int, Sequence[pa.ChunkedArray]]] = []
        rows = 0
        for file in self.files.values():
            for start, columns in self._candidates(file, keys):
                parts.append((file, start, columns))
                rows += len(columns[0])
                if rows >= _AT_ONCE:
                    yield from _matches(parts, keys)
                    parts, rows = [], 0
        yield from _matches(parts, keys)

    def _candidates(self, file: LiveFile, keys: ChangedKeys) -> Iterator[tuple[int, Sequence[pa.ChunkedArray]]]:
        """The key columns of row groups that may have one of these keys, each with the number of its first row."""
        columns: ColumnFile | None = None
        if file.groups is None:
            columns = ColumnFile.at(file.path)
            file.groups = columns.groups(self.key[0])
        wanted = [number for number, group in enumerate(file.groups) if keys.may_lie_between(group.low, group.high)]
        if not wanted:
            return
        if file.keys is None:
            columns = columns or ColumnFile.at(file.path)
            if file.rows > _KEPT_ROWS:
                for numbers in _neighbours(file.groups, wanted):
                    yield file.groups[numbers[0]].start, columns.read(self.key, numbers)
                return
            file.keys = columns.read(self.key)
        yield 0, file.keys


def _neighbours(groups: Sequence[RowGroup], wanted: Iterable[int]) -> Iterator[list[int]]:
    """The wanted row groups, those together that stand one behind the other."""
    together: list[int] = []
    rows = 0
    for number in wanted:
        if together and (number > together[-1] + 1 or rows + groups[number].rows > _READ_ROWS):
            yield together
            together, rows = [], 0
        together.append(number)
        rows += groups[number].rows
    if together:
        yield together


def _matches(
    parts: Sequence[tuple[LiveFile, int, Sequence[pa.ChunkedArray]]], keys: ChangedKeys
) -> Iterator[tuple[LiveFile, Numbers]]:
    if not parts:
        return
    columns = [
        pa.chunked_array([chunk.cast(of.type) for _, _, part in parts for chunk in part[number].chunks], of.type)
        for number, of in enumerate(keys.values)
    ]
    are_changed, begin = keys.among(columns), 0
    rows_of: dict[str, list[Numbers]] = defaultdict(list)
    files = {file.location: file for file, _, _ in parts}
    for file, start, of_part in parts:
        end = begin + len(of_part[0])
        rows = np.flatnonzero(are_changed[begin:end]) + start
        rows_of[file.location].append(file.living(rows))
        begin = end
    for location, of_file in rows_of.items():
        yield files[location], np.concatenate(of_file)


def _bits(rows: Numbers) -> Bits:
    """The bit of each row in its byte."""
    bits: Bits = np.left_shift(1, rows & 7).astype(np.uint8)
    return bits


def deleted_rows(paths: Iterable[str]) -> Mapping[str, Numbers]:
    """What files of position deletes delete: by the data file's location, which rows."""
    rows_of: dict[str, list[Numbers]] = defaultdict(list)
    for path in paths:
        table = pq.read_table(path, columns=["file_path", "pos"], read_dictionary=["file_path"])
        names, rows = table.unify_dictionaries()["file_path"].combine_chunks(), table["pos"].to_numpy()
        codes = np.asarray(names.indices)
        for code, location in enumerate(names.dictionary.to_pylist()):
            rows_of[location].append(rows[codes == code])
    return {location: np.concatenate(rows) for location, rows in rows_of.items()}
