"""Columns of Iceberg's data files by their field ids: names may have changed since a file was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pipeline.warehouse.clone.keys import Numbers

_FIELD_ID = b"PARQUET:field_id"
_PART_ROWS, _PART_BYTES = 8_192, 32 << 20
"""So much of a file is read at once. Values that the file has once for many rows may be larger in memory."""
_EXCERPT_BYTES = 64 << 20


class RowGroup(NamedTuple):
    """Rows of a file from `start` on, and what its first wanted column lies between; None where that is not known."""

    start: int
    rows: int
    low: Any
    high: Any


@dataclass(frozen=True, slots=True)
class ColumnFile:
    """One data file."""

    file: pq.ParquetFile
    paths: dict[int, str]
    """By field id, where a column is in the file's schema."""

    @classmethod
    def at(cls, path: str) -> ColumnFile:
        """The file at a path of this machine."""
        file = pq.ParquetFile(path, memory_map=True)
        return cls(file, dict(_paths(file.schema_arrow, "")))

    def groups(self, field_id: int) -> list[RowGroup]:
        """Its row groups, with the bounds of a column."""
        metadata, start = self.file.metadata, 0
        number = self._leaf(field_id)
        groups: list[RowGroup] = []
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            low, high = (None, None) if number is None else _bounds(group.column(number))
            groups.append(RowGroup(start, group.num_rows, low, high))
            start += group.num_rows
        return groups

    def read(self, field_ids: Sequence[int], groups: Sequence[int] | None = None) -> list[pa.ChunkedArray]:
        """These columns, of all row groups or of some; of one that the file has not got, NULLs. Texts are bytes.

        A column within a struct is NULL where the struct is.
        """
        paths = [self.paths[field_id] for field_id in field_ids if field_id in self.paths]
        wanted = range(self.file.num_row_groups) if groups is None else groups
        table = self.file.read_row_groups(list(wanted), columns=paths)
        return [_column(table, self.paths.get(field_id)) for field_id in field_ids]

    def excerpt(self, field_ids: Iterable[int], rows: Numbers) -> Iterator[pa.Table]:
        """Some rows (ascending) with these columns of the table, as they are: under the file's names, with their ids.

        A column that the file has not got is left out. What is held in memory are a part of the file and some rows:
        there is a table each time that they are `_EXCERPT_BYTES`.
        """
        names = [self.paths[field_id] for field_id in field_ids if field_id in self.paths]
        taken: list[pa.RecordBatch] = []
        size = 0
        for start, part in self._parts(names):
            first, last = np.searchsorted(rows, (start, start + part.num_rows))
            if first < last:
                taken.append(part.take(pa.array(rows[first:last] - start)))
                size += taken[-1].nbytes
            if size >= _EXCERPT_BYTES:
                yield pa.Table.from_batches(taken)
                taken, size = [], 0
        if taken:
            yield pa.Table.from_batches(taken)

    def _parts(self, names: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """All rows, part by part, each with the number of its first row."""
        metadata, start = self.file.metadata, 0
        size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
        rows = max(1, min(_PART_ROWS, _PART_BYTES * metadata.num_rows // max(1, size)))
        for part in self.file.iter_batches(rows, columns=names):
            yield start, part
            start += part.num_rows

    def _leaf(self, field_id: int) -> int | None:
        schema, path = self.file.schema, self.paths.get(field_id)
        return next((n for n in range(len(schema)) if schema.column(n).path == path), None)


def _paths(fields: pa.Schema | pa.StructType, prefix: str) -> Iterator[tuple[int, str]]:
    for number in range(len(fields)):
        field = fields.field(number)
        field_id = (field.metadata or {}).get(_FIELD_ID)
        if field_id is not None:
            yield int(field_id), f"{prefix}{field.name}"
        if pa.types.is_struct(field.type):
            yield from _paths(field.type, f"{prefix}{field.name}.")


def _bounds(chunk: pq.ColumnChunkMetaData) -> tuple[Any, Any]:
    if not chunk.is_stats_set or not chunk.statistics.has_min_max:
        return None, None
    try:
        low, high = chunk.statistics.min, chunk.statistics.max
    except UnicodeDecodeError:  # of a text that is no UTF-8
        return None, None
    return (low.encode(), high.encode()) if isinstance(low, str) else (low, high)


def _column(table: pa.Table, path: str | None) -> pa.ChunkedArray:
    if path is None:
        return pa.chunked_array([pa.nulls(table.num_rows)])
    if path in table.column_names:
        return _in_bytes(table[path])
    parent, _, name = path.partition(".")
    return _in_bytes(pa.chunked_array([_inner(chunk, name) for chunk in table[parent].chunks] or [pa.nulls(0)]))


def _in_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts as what they are stored as: they may be no UTF-8, and their order is that of their bytes."""
    return column.cast(pa.binary()) if pa.types.is_string(column.type) else column


def _inner(struct: pa.StructArray, name: str) -> pa.Array:
    """A field of a struct column, NULL where the struct is."""
    inner = struct.field(name)
    return pc.if_else(struct.is_valid(), inner, pa.scalar(None, inner.type)) if struct.null_count else inner
