"""What the driver knows of a current table's data files: which rows of each are deleted, and where keys may be."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.warehouse.clone.parquet import ColumnFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pipeline.warehouse.clone.keys import ChangedKeys, Flags, Numbers
    from pipeline.warehouse.clone.parquet import RowGroup

_KEPT_ROWS = 20_000
"""The keys of a file of so many rows stay in memory: it is looked at in every batch until it is compacted."""
_AT_ONCE = 8_000_000
"""Rows whose keys are compared at once."""


@dataclass(slots=True)
class LiveFile:
    """One data file. `path`: on this machine; `location`: as the table's metadata names it."""

    location: str
    path: str
    rows: int
    dead: Flags | None = None
    """Which rows are deleted; None: none is."""
    groups: list[RowGroup] | None = None
    """Once they are known."""
    keys: Sequence[pa.ChunkedArray] | None = None
    """The key columns of all rows, of a small file."""

    def delete(self, rows: Numbers) -> None:
        """Note that these rows are deleted."""
        if len(rows):
            self.dead = np.zeros(self.rows, np.bool_) if self.dead is None else self.dead
            self.dead[rows] = True


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
                for number in wanted:
                    yield file.groups[number].start, columns.read(self.key, [number])
                return
            file.keys = columns.read(self.key)
        yield 0, file.keys


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
        rows_of[file.location].append(rows if file.dead is None else rows[~file.dead[rows]])
        begin = end
    for location, of_file in rows_of.items():
        yield files[location], np.concatenate(of_file)


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
