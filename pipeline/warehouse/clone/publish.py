"""One publish of a current table by the files that its changes table has got, if it can be done so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.model import change
from pipeline.model.change import Op
from pipeline.warehouse.clone import files
from pipeline.warehouse.clone.aligned import SHARED, are_aligned, field_ids
from pipeline.warehouse.clone.files import Delta
from pipeline.warehouse.clone.keys import CannotClone, Changes, winners
from pipeline.warehouse.clone.live_files import LiveFile, LiveFiles, deleted_rows
from pipeline.warehouse.clone.parquet import ColumnFile
from pipeline.warehouse.locations import as_path
from pipeline.warehouse.shape import is_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pipeline.warehouse.clone.files import AddedFile
    from pipeline.warehouse.clone.keys import Flags, Numbers
    from pipeline.warehouse.iceberg import Table
    from pipeline.warehouse.pairs import TablePair

MOST_ROWS = 4_000_000
"""More rows than these are not looked at by the driver."""
EXCERPT_OF = 8
"""Where at most one row in so many shows, these rows are written as a small file: a link would be of dead rows."""
_INDEX_BITS = 20
_MODES = ("write.delete.mode", "write.merge.mode", "write.update.mode")
_UNORDERED = frozenset({"float", "double"})
"""Types of which equal values may have different bytes."""


@dataclass(frozen=True, slots=True)
class Within:
    """By commit ts: what shows are changes with a commit ts in (`after`, `until`]; `after` is what shows already."""

    after: int
    until: int


def check(table: TablePair) -> None:
    """Raises `CannotClone` where files of the changes table cannot be files of the current table, by what these are."""
    layout, current = table.layout, table.current
    if current is None:
        raise CannotClone("there is no current table")
    if not layout.key:
        raise CannotClone("the table has no key")
    if table.not_ours or table.not_ours_in_current:
        raise CannotClone("a user has added columns")
    if any(column.type in _UNORDERED for column in layout.key):
        raise CannotClone("the key has a FLOAT or DOUBLE")
    properties = current.properties
    if any(properties.get(name) == "copy-on-write" for name in _MODES):
        raise CannotClone("a user wants no files of deletes")
    if as_path(current.location) is None or as_path(table.changes.location) is None:
        raise CannotClone("the files lie in a store")
    if not are_aligned(table.changes, current):
        raise CannotClone("an earlier version has made the pair")


def clone(
    table: TablePair,
    current: Table,
    snapshots: Sequence[int],
    summary: Mapping[str, str],
    step: Callable[[str], None],
    within: Within | None = None,
) -> int:
    """Show what these appends have brought; how many keys have changed.

    `summary`: what the commit is to say of itself. `within`: by commit ts; None: by offset. Raises `CannotClone` where
    another way has to be taken, and `BatchFailed` (`MAIN_MOVED`).
    """
    added = [file for snapshot in snapshots for file in files.added_by(table.changes, snapshot)]
    if not 0 < sum(file.rows for file in added) <= MOST_ROWS:
        raise CannotClone("there are no rows, or too many")
    current.refresh()
    files.check_arrangement(current)
    reader = _ChangesReader.of(table)
    changes = reader.changes(added, within)
    done = winners(changes, by_place=within is None)
    live = _live(table, current)
    delta, begin = Delta(current, "" if within is None else f"-after-{within.after}"), 0
    columns = [number for name, number in field_ids(table.changes).items() if name not in _OF_CHANGES_ALONE]
    new: list[tuple[LiveFile, Numbers]] = []
    for file in added:
        shows = done.shows[begin : begin + file.rows]
        begin += file.rows
        rows = np.flatnonzero(shows)
        if len(rows) * EXCERPT_OF > file.rows:
            location = delta.link(file)
            new.append((LiveFile(location, str(files.local(location)), file.rows), np.flatnonzero(~shows)))
        elif len(rows):
            location = delta.excerpt(file, rows, columns)
            new.append((LiveFile(location, str(files.local(location)), len(rows)), rows[:0]))
    old = [] if done.keys is None else [(holder, rows) for holder, rows in live.holding(done.keys) if len(rows)]
    for live_file, rows in (*old, *new):
        delta.delete(live_file.location, rows)
    step("linked")
    delta.commit(summary, live.snapshot)
    for live_file, rows in (*old, *new):
        live_file.delete(rows)
        live.files[live_file.location] = live_file
    live.snapshot = current.head()
    step("published")
    return 0 if done.keys is None else len(done.keys.codes)


def _live(table: TablePair, current: Table) -> LiveFiles:
    """The files of the current table, listed anew where another than `clone` has committed.

    What is known of the keys of a file stays known: a file never changes.
    """
    head, key = current.head(), tuple(field_ids(current)[column.name] for column in table.layout.key)
    live = table.live_files
    if live is not None and live.snapshot == head and live.key == key:
        return live
    before = live.files if live is not None and live.key == key else {}
    live = LiveFiles(key, head)
    shown = files.scanned(current)
    for location, rows in shown.files:
        file = LiveFile(location, str(files.local(location)), rows)
        if location in before:
            file.groups, file.keys = before[location].groups, before[location].keys
        live.files[location] = file
    for location, gone in deleted_rows(str(files.local(delete)) for delete in shown.deletes).items():
        if location in live.files:
            live.files[location].delete(gone)
    table.live_files = live
    return live


@dataclass(frozen=True, slots=True)
class _ChangesReader:
    """What is read of appended files. By field id: of the envelope, of the key, and of the key of the row as it was."""

    table: TablePair
    envelope: Mapping[str, int]
    key: tuple[int, ...]
    before: tuple[int, ...]
    lost: tuple[int, ...]
    """`_unrepresentable`, and that of `_before`, where the key's columns may lose values."""

    @classmethod
    def of(cls, table: TablePair) -> _ChangesReader:
        schema = {field["name"]: field for field in table.changes.schema()["fields"]}
        ids = {name: int(field["id"]) for name, field in schema.items()}
        names = [column.name for column in table.layout.key]
        was = schema[change.BEFORE]["type"]["fields"] if table.layout.before else ()
        inner = {field["name"]: int(field["id"]) for field in was}
        lost: tuple[int, ...] = ()
        if any(column.loses for column in table.layout.key):
            lost = (ids[change.UNREPRESENTABLE], *((inner[change.UNREPRESENTABLE],) if inner else ()))
        envelope = {name: ids[name] for name in _ENVELOPE}
        return cls(table, envelope, tuple(map(ids.__getitem__, names)), tuple(inner[n] for n in names if inner), lost)

    def changes(self, added: Iterable[AddedFile], within: Within | None) -> Changes:
        """The changes of these files. Raises `CannotClone`."""
        wanted = (*self.envelope.values(), *self.key, *self.before, *self.lost)
        parts = [ColumnFile.at(str(file.path)).read(wanted) for file in added]
        columns = [_concatenated([part[number] for part in parts]) for number in range(len(wanted))]
        envelope = dict(zip(self.envelope, columns, strict=False))
        columns = columns[len(self.envelope) :]
        key, before = columns[: len(self.key)], columns[len(self.key) : len(self.key) + len(self.before)]
        there = ~_flags(pc.equal(envelope[change.OP], Op.DELETE.value.encode()))
        self._check(envelope[change.SCHEMA_ID], there, columns[len(self.key) + len(self.before) :])
        place = (_numbers(envelope[change.OFFSET]) << _INDEX_BITS) + _numbers(envelope[change.INDEX])
        commit_ts = envelope[change.COMMIT_TS]
        if within is None:
            order, counts = np.zeros(len(there), np.int64), np.ones(len(there), np.bool_)
            there &= self._newer_than_truncate(commit_ts)
        else:
            times = _numbers(commit_ts)
            order, counts = (times << 1) + there, (times > within.after) & (times <= within.until)
        was = self._of_updates(before, envelope[change.OP])
        return Changes(key, was, order, place, _sources(envelope), there, counts)

    def _check(self, versions: pa.ChunkedArray, there: Flags, lost: Sequence[pa.ChunkedArray]) -> None:
        """That values are in their columns as they are to be shown, and that those of keys are there at all."""
        layout = self.table.layout
        of_all, of_rows = (frozenset(column.unique().to_pylist()) for column in (versions, versions.filter(there)))
        if not (is_plain(layout, of_rows) and is_plain(layout, of_all, key=True)):
            raise CannotClone("rows of earlier versions show other values than they have")
        names = {column.name for column in self.table.layout.key}
        for column in lost:
            if column.null_count < len(column) and names.intersection(_map_keys(column)):
                raise CannotClone("a value of a key could not be held by its column")

    def _newer_than_truncate(self, commit_ts: pa.ChunkedArray) -> Flags:
        truncated_at = self.table.by_offset.truncated_at
        if not truncated_at:
            return np.ones(len(commit_ts), np.bool_)
        return _flags(pc.greater(commit_ts, truncated_at).fill_null(True))

    @staticmethod
    def _of_updates(before: Sequence[pa.ChunkedArray], op: pa.ChunkedArray) -> list[pa.ChunkedArray]:
        """What updates say of the row as it was; deletes and inserts say nothing here."""
        is_update = pc.equal(op, Op.UPDATE.value.encode())
        return [pc.if_else(is_update, column, pa.scalar(None, column.type)) for column in before]


_OF_CHANGES_ALONE = {*change.ENVELOPE, change.BEFORE}.difference(SHARED)
_ENVELOPE = (
    change.OP, change.TOPIC, change.PARTITION, change.OFFSET, change.INDEX, change.COMMIT_TS, change.SCHEMA_ID,
)  # fmt: skip


def _concatenated(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """As one column, of the newest type: a column may have been widened between two appends."""
    newest = next((column.type for column in reversed(columns) if not pa.types.is_null(column.type)), pa.null())
    return pa.chunked_array([chunk for column in columns for chunk in column.cast(newest).chunks], newest)


def _numbers(column: pa.ChunkedArray) -> Numbers:
    numbers: Numbers = column.to_numpy().astype(np.int64)
    return numbers


def _flags(column: pa.ChunkedArray) -> Flags:
    return np.asarray(column.to_numpy(), np.bool_)


def _sources(envelope: Mapping[str, pa.ChunkedArray]) -> Numbers:
    """Stream and partition as one number."""
    streams = envelope[change.TOPIC].combine_chunks().dictionary_encode().indices
    sources: Numbers = (np.asarray(streams).astype(np.int64) << 32) + _numbers(envelope[change.PARTITION])
    return sources


def _map_keys(column: pa.ChunkedArray) -> set[str]:
    return {name for chunk in column.chunks for name in chunk.keys.to_pylist()}
