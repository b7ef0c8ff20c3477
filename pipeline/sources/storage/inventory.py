"""What there is in the folder of a changefeed that no batch has taken.

`metadata` is read before the listing: all rows up to its commit ts are in files that the listing has. A listing looks
where new files may come (`LiveFolders`), and now and then everywhere.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pipeline.model.columns import time_of
from pipeline.model.names import TableName
from pipeline.protocols.described.head import MessageKind
from pipeline.protocols.files.head import DAMAGED, ROWS
from pipeline.sources.storage.doubts import TableDoubts
from pipeline.sources.storage.lanes import Lane, live_folders
from pipeline.sources.storage.layout import FileLayout
from pipeline.sources.storage.metadata import UNREADABLE, read_metadata
from pipeline.sources.storage.paths import DataFile, SchemaPath, VersionPath, path_of, read_path
from pipeline.sources.storage.plan_log import ACCEPTED, LISTED, LOST, Listed, PlannedFile, is_same
from pipeline.sources.storage.planner import Checkpoint, New, RowsFile
from pipeline.sources.storage.schema_files import SchemaFile, SchemaFileDamaged, read_schema_file
from pipeline.sources.storage.store import StoredFile

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pipeline.model.table_filter import TableFilter
    from pipeline.settings.sections import SourceSection
    from pipeline.sources.storage.cleanup import Removable
    from pipeline.sources.storage.doubts import Doubt
    from pipeline.sources.storage.plan_log import PlanLog
    from pipeline.sources.storage.planner import Hole
    from pipeline.sources.storage.store import Store

_SETTLES_IN = 10.0
"""Seconds after which every DDL event of the commit ts in `metadata` is written: TiCDC writes it every two seconds."""
_WRITTEN_IN = 60.0
"""Seconds that a file takes at most to be written, and that clocks may differ by."""
MOST_SCHEMA_FILES = 50_000
"""So many are taken at once: their statements are read in the driver."""
_LAST_BYTES = 1 << 20
"""So much of a file is read to see whether it ends with a record."""


class Described(NamedTuple):
    """Of which table a version is, and its number, as its schema file says."""

    schema: str
    table: str
    version: int


class Found(NamedTuple):
    """What no batch has taken. `schemas`: schema files. `damaged`: those of them that can't be read, and why.

    `other`: files of rows of another protocol than the settings name. `doubts`: what the files do not tell of new
    tables, with the folders of these.
    """

    new: New
    schemas: tuple[PlannedFile, ...]
    damaged: dict[str, str]
    other: int
    doubts: tuple[tuple[Doubt, tuple[str, ...]], ...]


@dataclass(slots=True)
class Inventory:
    """Lists a store, as `source` says: which protocol, which tables, and how often all of it. `is_closed`: see `Lines`.

    An earlier run may have listed everything not long ago (`LISTED`).
    """

    store: Store
    log: PlanLog
    source: SourceSection
    is_closed: Callable[[bytes], bool]
    complete_up_to: int = field(default=0, init=False)
    """The commit ts that `metadata` had when it was last read; 0 if it has never been."""
    _tables: TableFilter = field(init=False)
    _described: dict[VersionPath, Described] = field(init=False)
    _left_out: set[VersionPath] = field(default_factory=set, init=False)
    """Versions of tables that are not read."""
    _table_doubts: TableDoubts = field(default_factory=TableDoubts, init=False)
    _listed_at: float = field(init=False)
    """When everything was listed, in seconds since the epoch."""
    _waiting: dict[str, StoredFile] = field(default_factory=dict, init=False)
    """New files of rows that earlier listings had, and that were left."""

    def __post_init__(self) -> None:
        self._tables = self.source.table_filter
        self._described = {}
        listed = self.log.listed
        self._listed_at = listed.when if listed.tables == self._rules else 0.0
        for file in self.log.schemas:
            self._describe(file)

    def checkpoint(self) -> Checkpoint | None:
        """What `metadata` says; None where there is none, or it can't be read."""
        try:
            commit_ts, modified = read_metadata(self.store)
        except (FileNotFoundError, *UNREADABLE):
            return None
        self.complete_up_to = commit_ts
        return Checkpoint(commit_ts, time.time() - modified >= _SETTLES_IN)

    @property
    def _rules(self) -> str:
        return " ".join(self.source.tables)

    @property
    def is_due(self) -> bool:
        """Whether everything is to be listed."""
        return not 0 <= time.time() - self._listed_at < self.source.full_listing_seconds

    @property
    def described(self) -> Collection[VersionPath]:
        """The versions of which a schema file was read."""
        return self._described.keys()

    def found(self, removable: Removable | None = None) -> Found:
        """What there is now. `removable` is offered what is listed."""
        checkpoint = self.checkpoint()
        schemas: list[PlannedFile] = []
        damaged: dict[str, str] = {}
        lanes: dict[Lane, list[tuple[StoredFile, DataFile]]] = defaultdict(list)
        taken_up_to: dict[Lane, int] = {}
        other = 0
        for entry in self._listed():
            if removable is not None:
                removable.offer(entry)
            file = read_path(entry.path)
            match file:
                case DataFile(protocol=self.source.protocol):
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
        schemas.sort(key=lambda file: (file.version, file.path))
        deferred = self._defer(schemas[MOST_SCHEMA_FILES:])
        rows = {
            lane: tuple(self._rows(files, checkpoint)) for lane, files in lanes.items() if not self._are_left_out(files)
        }
        for lane, files in rows.items():
            taken_up_to[lane] = max(taken_up_to.get(lane, 0), self._taken_before(lane, files[0]))
        new = New(checkpoint, rows, taken_up_to, deferred)
        return Found(new, tuple(schemas[:MOST_SCHEMA_FILES]), damaged, other, self._doubts(rows))

    def _defer(self, schemas: Sequence[PlannedFile]) -> int:
        """Leave schema files to a later batch, and so the rows of their versions; the first version, 0 for none."""
        for path in (read_path(file.path) for file in schemas):
            if isinstance(path, SchemaPath):
                self._described.pop(path.describes, None)
        self._listed_at = 0.0 if schemas else self._listed_at
        return schemas[0].version if schemas else 0

    def _doubts(self, lanes: Mapping[Lane, Sequence[RowsFile]]) -> tuple[tuple[Doubt, tuple[str, ...]], ...]:
        firsts = ((first.entry.path, first.file, first.file.under(self._described)) for first, *_ in lanes.values())
        layouts = ((FileLayout.of(path, file, version), version) for path, file, version in firsts if version)
        return tuple(self._table_doubts.doubts(layouts))

    def _are_left_out(self, files: Sequence[tuple[StoredFile, DataFile]]) -> bool:
        """Whether the files of a lane are of a table that is not read. Then they do not wait."""
        version = files[0][1].under(self._described)
        if version not in self._left_out:
            return False
        for entry, _ in files:
            self._waiting.pop(entry.path, None)
        return True

    def _taken_before(self, lane: Lane, first: RowsFile) -> int:
        """The greatest number of a lane that was taken, as far as the log knows: files may be deleted by now."""
        end = self.log.ends.get(lane)
        before = first.file.number - 1
        is_known = before > 0 and self.log.known(path_of(first.entry.path, before)) is not None
        return max(before if is_known else 0, end.number if end else 0)

    def waiting(self) -> list[StoredFile]:
        """Files of rows that the last listing had, and that no batch has taken."""
        return list(self._waiting.values())

    def listed(self) -> PlannedFile | None:
        """What notes whether the next run has to list everything at once; None if the log says so already."""
        now = Listed(0.0 if self._waiting else self._listed_at, self._rules)
        if now == self.log.listed or not (now.when or self.log.listed.when):
            return None
        return self._planned(StoredFile("", 0, now.tables, now.when), LISTED, Described("", "", 0))

    def went_back(self, checkpoint: int) -> PlannedFile:
        """What notes that a person has accepted this commit ts in `metadata`."""
        return self._planned(StoredFile("", 0, "", time.time()), ACCEPTED, Described("", "", checkpoint))

    def planned(self, rows: RowsFile) -> PlannedFile:
        """A file of rows as it is planned: its table and version are those of its schema file."""
        version = rows.file.under(self._described)
        if version is None:
            raise AssertionError(f"no schema file describes {rows.entry.path}")
        self._waiting.pop(rows.entry.path, None)
        return self._planned(rows.entry, ROWS, self._described[version])

    def given_up(self, hole: Hole) -> Iterator[PlannedFile]:
        """The files of a hole as they are planned: nobody waits for them any more."""
        described = self._of(hole)
        for number in range(hole.first, hole.last + 1):
            lost = hole.behind.entry._replace(path=path_of(hole.behind.entry.path, number), size=0, etag="")
            yield self._planned(lost, LOST, described)

    def table_of(self, hole: Hole) -> str:
        """The table of a hole's files; a sentence where no schema file describes their version."""
        described = self._of(hole)
        return f"{described.schema}.{described.table}" if described.table else "its table is not known"

    def _of(self, hole: Hole) -> Described:
        version = hole.behind.file.under(self._described)
        return self._described[version] if version else Described("", "", 0)

    def _listed(self) -> Iterator[StoredFile]:
        """Each file once that may be new, of all folders or of live ones."""
        if self.is_due:
            now = time.time()
            self._waiting.clear()
            yield from self.store.everything()
            self._listed_at = now
            return
        before = {**self._waiting}
        for entry in self.store.recent(live_folders(self.log.ends, self._described.keys(), self._left_out)):
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
        self._table_doubts.learn(path.describes.table, read)
        if read.query or read.columns:
            planned = self._planned(entry, MessageKind.DDL if read.query else MessageKind.BOOTSTRAP, _of(read))
            self._describe(planned)
            yield planned

    def _describe(self, file: PlannedFile) -> None:
        """A schema file of a table describes its version."""
        path = read_path(file.path)
        if isinstance(path, SchemaPath) and file.table_name:
            self._described[path.describes] = Described(file.schema_name, file.table_name, file.version)
            if not self._tables.takes(TableName(file.schema_name, file.table_name)):
                self._left_out.add(path.describes)

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
