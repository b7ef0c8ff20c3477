"""What there is in the folder of a changefeed that no batch has taken.

`metadata` is read before the listing: all rows up to its commit ts are in files that the listing has. A listing looks
where new files may come (`LiveFolders`), and now and then everywhere.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pipeline.model.columns import FAR_FUTURE, time_of
from pipeline.protocols.described.head import MessageKind
from pipeline.protocols.files.head import DAMAGED, ROWS
from pipeline.sources.storage.lanes import Lane, live_folders
from pipeline.sources.storage.paths import METADATA, DataFile, SchemaPath, VersionPath, read_path
from pipeline.sources.storage.plan_log import LOST, PlannedFile, is_same
from pipeline.sources.storage.planner import Checkpoint, New, RowsFile
from pipeline.sources.storage.schema_files import SchemaFile, SchemaFileDamaged, read_schema_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pipeline.sources.storage.plan_log import PlanLog
    from pipeline.sources.storage.planner import Hole
    from pipeline.sources.storage.store import Store, StoredFile

_SETTLES_IN = 10.0
"""Seconds after which every DDL event of the commit ts in `metadata` is written: TiCDC writes it every two seconds."""
METADATA_MISSING, METADATA_UNREADABLE = "METADATA_MISSING", "METADATA_UNREADABLE"
UNREADABLE = (ValueError, KeyError, TypeError)
"""What `read_metadata` raises for a file that says no commit ts."""


_WRITTEN_IN = 60.0
"""Seconds that a file takes at most to be written, and that clocks may differ by."""
_LAST_BYTES = 1 << 20
"""So much of a file is read to see whether it ends with a record."""


class Described(NamedTuple):
    """Of which table a version is, and its number, as its schema file says."""

    schema: str
    table: str
    version: int


class Found(NamedTuple):
    """What no batch has taken. `schemas`: schema files. `damaged`: those of them that can't be read, and why.

    `other`: files of rows of another protocol than the settings name.
    """

    new: New
    schemas: tuple[PlannedFile, ...]
    damaged: dict[str, str]
    other: int


@dataclass(slots=True)
class Inventory:
    """Lists a store. `protocol`: that of its files of rows. `is_closed`: see `Lines`.

    `full_listing`: after so many seconds everything is listed again.
    """

    store: Store
    log: PlanLog
    protocol: str
    is_closed: Callable[[bytes], bool]
    full_listing: float
    _described: dict[VersionPath, Described] = field(init=False)
    _listed_at: float | None = field(default=None, init=False)
    """When everything was listed, by `time.monotonic`."""
    _waiting: dict[str, StoredFile] = field(default_factory=dict, init=False)
    """New files of rows that earlier listings had, and that were left."""

    def __post_init__(self) -> None:
        self._described = {}
        for file in self.log.schemas:
            self._describe(file)

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
        damaged: dict[str, str] = {}
        lanes: dict[Lane, list[tuple[StoredFile, DataFile]]] = defaultdict(list)
        taken_up_to: dict[Lane, int] = {}
        other = 0
        for entry in self._listed():
            file = read_path(entry.path)
            match file:
                case DataFile(protocol=self.protocol):
                    lane = Lane(file.folder, file.dispatcher)
                    if is_same(self.log.known(entry.path), entry):
                        self._waiting.pop(entry.path, None)
                        taken_up_to[lane] = max(file.number, taken_up_to.get(lane, 0))
                    else:
                        self._waiting[entry.path] = entry
                        lanes[lane].append((entry, file))
                case DataFile():
                    other += 1
                case SchemaPath():
                    schemas += self._schema_file(entry, file, damaged)
        rows = {lane: tuple(self._rows(files, checkpoint)) for lane, files in lanes.items()}
        for lane in rows:
            end = self.log.ends.get(lane)
            taken_up_to[lane] = max(taken_up_to.get(lane, 0), end.number if end else 0)
        schemas.sort(key=lambda file: (file.version, file.path))
        return Found(New(checkpoint, rows, taken_up_to), tuple(schemas), damaged, other)

    def waiting(self) -> list[StoredFile]:
        """Files of rows that the last listing had, and that no batch has taken."""
        return list(self._waiting.values())

    def planned(self, rows: RowsFile) -> PlannedFile:
        """A file of rows as it is planned: its table and version are those of its schema file."""
        version = rows.file.under(self._described)
        if version is None:
            raise AssertionError(f"no schema file describes {rows.entry.path}")
        self._waiting.pop(rows.entry.path, None)
        return self._planned(rows.entry, ROWS, self._described[version])

    def given_up(self, hole: Hole) -> Iterator[PlannedFile]:
        """The files of a hole as they are planned: nobody waits for them any more."""
        version = hole.behind.file.under(self._described)
        described = self._described[version] if version else Described("", "", 0)
        for number in range(hole.first, hole.last + 1):
            lost = hole.behind.entry._replace(path=hole.path(number), size=0, etag="")
            yield self._planned(lost, LOST, described)

    def _listed(self) -> Iterator[StoredFile]:
        """Each file once that may be new, of all folders or of live ones."""
        now = time.monotonic()
        if self._listed_at is None or now - self._listed_at >= self.full_listing:
            self._waiting.clear()
            yield from self.store.everything()
            self._listed_at = now
            return
        before = {**self._waiting}
        for entry in self.store.recent(live_folders(self.log.ends, self._described.keys())):
            before.pop(entry.path, None)
            yield entry
        yield from before.values()

    def _rows(self, files: Iterable[tuple[StoredFile, DataFile]], checkpoint: Checkpoint | None) -> Iterator[RowsFile]:
        """The files of a lane, by their numbers."""
        *older, (newest, last) = sorted(files, key=lambda pair: pair[1].number)
        for entry, file in older:
            yield RowsFile(entry, file, file.under(self._described) is not None)
        whole = self._is_whole(newest)
        if not whole:  # it may have grown since it was listed
            newest = self._waiting[newest.path] = self.store.entry(newest.path)
            whole = self._is_whole(newest) or _is_over(newest, checkpoint)
        yield RowsFile(newest, last, last.under(self._described) is not None, whole)

    def _schema_file(self, entry: StoredFile, path: SchemaPath, damaged: dict[str, str]) -> Iterator[PlannedFile]:
        if is_same(self.log.known(entry.path), entry):
            return
        try:
            read = read_schema_file(self.store.read(entry.path), path.checksum)
        except SchemaFileDamaged as damage:
            damaged[entry.path] = damage.message
            schema, _, table = path.describes.table.partition("/")
            planned = self._planned(entry, DAMAGED, Described(schema, table, path.describes.version))
            self._describe(planned)
            yield planned
            return
        if read.query or read.columns:
            planned = self._planned(entry, MessageKind.DDL if read.query else MessageKind.BOOTSTRAP, _of(read))
            self._describe(planned)
            yield planned

    def _describe(self, file: PlannedFile) -> None:
        """A schema file of a table describes its version."""
        path = read_path(file.path)
        if isinstance(path, SchemaPath) and file.table_name:
            self._described[path.describes] = Described(file.schema_name, file.table_name, file.version)

    def _planned(self, entry: StoredFile, kind: str, of: Described) -> PlannedFile:
        earlier = self.log.known(entry.path)
        return PlannedFile(
            ordinal=0,
            path=entry.path,
            incarnation=1 if earlier is None else earlier.incarnation + 1,
            size=entry.size,
            etag=entry.etag,
            modified=entry.modified,
            kind=str(kind),
            schema_name=of.schema,
            table_name=of.table,
            version=of.version,
        )

    def _is_whole(self, entry: StoredFile) -> bool:
        return self.is_closed(self.store.read(entry.path, max(0, entry.size - _LAST_BYTES)))


def _is_over(entry: StoredFile, checkpoint: Checkpoint | None) -> bool:
    """Whether nobody writes a file any more: the changefeed is complete up to a while after its last byte.

    TiCDC has died within it then, and goes on in another folder.
    """
    return checkpoint is not None and time_of(checkpoint.commit_ts).timestamp() - entry.modified > _WRITTEN_IN


def _of(read: SchemaFile) -> Described:
    return Described(read.schema, read.table, read.version)


def read_metadata(store: Store) -> tuple[int, float]:
    """The commit ts in `metadata`, and when that was written. Raises `FileNotFoundError`, or one of `UNREADABLE`."""
    modified = store.entry(METADATA).modified
    commit_ts = json.loads(store.read(METADATA))["checkpoint-ts"]
    if not isinstance(commit_ts, int) or not 0 < commit_ts <= FAR_FUTURE:
        raise ValueError(f"{commit_ts!r:.40} is no commit ts")
    return commit_ts, modified
