"""What there is in the folder of a changefeed that no batch has taken.

`metadata` is read before the listing: all rows up to its commit ts are in files that the listing has.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pipeline.protocols.described.head import MessageKind
from pipeline.protocols.files.head import ROWS
from pipeline.sources.storage.paths import METADATA, DataFile, SchemaPath, VersionPath, read_path
from pipeline.sources.storage.plan_log import PlannedFile
from pipeline.sources.storage.planner import Checkpoint, RowsFile
from pipeline.sources.storage.schema_files import SchemaFile, SchemaFileDamaged, read_schema_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pipeline.sources.storage.plan_log import PlanLog
    from pipeline.sources.storage.store import Store, StoredFile

_SETTLES_IN = 10.0
"""Seconds after which every DDL event of the commit ts in `metadata` is written: TiCDC writes it every two seconds."""
UNREADABLE = (ValueError, KeyError, TypeError)
"""What `read_metadata` raises for a file that says no commit ts."""
_Lane = tuple[str, str]
"""Folder and dispatcher of files whose numbers count up."""


class Found(NamedTuple):
    """What no batch has taken. `checkpoint`: None without a `metadata` that can be read.

    `schemas`: schema files, read. `rows`: files of rows; `unfinished`: newest ones of their folder that end within a
    record. `damaged`: by the version that a schema file is to describe, why it can't be read.
    """

    checkpoint: Checkpoint | None
    schemas: tuple[PlannedFile, ...]
    rows: tuple[RowsFile, ...]
    unfinished: tuple[RowsFile, ...]
    damaged: dict[VersionPath, str]


@dataclass(slots=True)
class Inventory:
    """Lists a store. `protocol`: that of its files of rows. `terminator`: what a whole file ends with."""

    store: Store
    log: PlanLog
    protocol: str
    terminator: bytes
    _described: dict[VersionPath, SchemaFile] = field(default_factory=dict)
    _read: set[StoredFile] = field(default_factory=set)
    """Schema files that were read."""

    def checkpoint(self) -> Checkpoint | None:
        """What `metadata` says; None where there is none, or it can't be read."""
        try:
            commit_ts, modified = read_metadata(self.store)
        except (FileNotFoundError, *UNREADABLE):
            return None
        return Checkpoint(commit_ts, time.time() - modified >= _SETTLES_IN)

    def found(self) -> Found:
        """What there is now."""
        checkpoint = self.checkpoint()
        schemas: list[PlannedFile] = []
        damaged: dict[VersionPath, str] = {}
        files: list[tuple[StoredFile, DataFile]] = []
        for entry in self.store.entries():
            match read_path(entry.path):
                case DataFile() as file if file.protocol == self.protocol:
                    files.append((entry, file))
                case SchemaPath() as path:
                    try:
                        schemas += self._schema_file(entry, path)
                    except SchemaFileDamaged as damage:
                        damaged[path.describes] = damage.message
        newest = _newest(file for _, file in files)
        rows: list[RowsFile] = []
        unfinished: list[RowsFile] = []
        for entry, file in files:
            if not self._is_taken(entry):
                is_newest = file.number == newest[file.folder, file.dispatcher]
                wanted = unfinished if is_newest and not self._is_whole(entry) else rows
                wanted.append(RowsFile(entry, file, file.under(self._described) is not None))
        schemas.sort(key=lambda file: (file.version, file.path))
        return Found(checkpoint, tuple(schemas), tuple(rows), tuple(unfinished), damaged)

    def planned(self, rows: RowsFile) -> PlannedFile:
        """A file of rows as it is planned: its table and version are those of its schema file."""
        version = rows.file.under(self._described)
        if version is None:
            raise AssertionError(f"no schema file describes {rows.entry.path}")
        return self._planned(rows.entry, ROWS, self._described[version])

    def _schema_file(self, entry: StoredFile, path: SchemaPath) -> Iterator[PlannedFile]:
        is_taken = self._is_taken(entry)
        if is_taken and entry in self._read:
            return
        read = read_schema_file(self.store.read(entry.path), path.checksum)
        self._read.add(entry)
        if read.columns:
            self._described[path.describes] = read
        if not is_taken and (read.query or read.columns):
            yield self._planned(entry, MessageKind.DDL if read.query else MessageKind.BOOTSTRAP, read)

    def _planned(self, entry: StoredFile, kind: str, read: SchemaFile) -> PlannedFile:
        earlier = self.log.newest(entry.path)
        return PlannedFile(
            ordinal=0,
            path=entry.path,
            incarnation=1 if earlier is None else earlier.incarnation + 1,
            size=entry.size,
            etag=entry.etag,
            modified=entry.modified,
            kind=str(kind),
            schema_name=read.schema,
            table_name=read.table,
            version=read.version,
        )

    def _is_taken(self, entry: StoredFile) -> bool:
        newest = self.log.newest(entry.path)
        return newest is not None and newest.is_of(entry)

    def _is_whole(self, entry: StoredFile) -> bool:
        length = len(self.terminator)
        return entry.size >= length and self.store.read(entry.path, entry.size - length) == self.terminator


def read_metadata(store: Store) -> tuple[int, float]:
    """The commit ts in `metadata`, and when that was written. Raises `FileNotFoundError`, or one of `UNREADABLE`."""
    modified = store.entry(METADATA).modified
    return int(json.loads(store.read(METADATA))["checkpoint-ts"]), modified


def _newest(files: Iterable[DataFile]) -> dict[_Lane, int]:
    """The greatest number of each lane."""
    newest: dict[_Lane, int] = {}
    for file in files:
        lane = file.folder, file.dispatcher
        newest[lane] = max(file.number, newest.get(lane, file.number))
    return newest
