"""The folder of a changefeed whose sink is storage: whether it is there, how far the changefeed is, what it has."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.cli.checkup.findings import fine, note, wrong
from pipeline.cli.wording import counted, some
from pipeline.errors import Refused
from pipeline.lake.catalog import extent, reader
from pipeline.model.columns import age_of
from pipeline.model.frontier import commit_ts_of
from pipeline.settings.durations import written
from pipeline.sources.storage.batches import FIRST_BYTES
from pipeline.sources.storage.cleanup import Removable
from pipeline.sources.storage.doubts import TableDoubts
from pipeline.sources.storage.inventory import Inventory
from pipeline.sources.storage.layout import FileLayout, denied
from pipeline.sources.storage.lines import lines_of
from pipeline.sources.storage.metadata import UNREADABLE, read_metadata
from pipeline.sources.storage.paths import METADATA, DataFile, Foreign, SchemaPath, VersionPath, read_path
from pipeline.sources.storage.plan_log import TABLE, PlanLog
from pipeline.sources.storage.schema_files import SchemaFileDamaged, read_schema_file
from pipeline.sources.storage.store import FolderStore
from pipeline.sources.storage.stores import store_of
from pipeline.warehouse.records import where

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.cli.checkup.findings import Finding
    from pipeline.settings import Settings
    from pipeline.sources.storage.lines import Lines
    from pipeline.sources.storage.store import Store, StoredFile

_OLD_SECONDS = 60.0
"""TiCDC writes `metadata` every two seconds."""


@dataclass(slots=True)
class _Listing:
    """What a listing shows."""

    protocol: str
    doubts: TableDoubts
    rows: dict[str, tuple[StoredFile, DataFile]] = field(default_factory=dict)
    """The newest file of rows of each folder."""
    files: int = 0
    size: int = 0
    oldest: float = 0.0
    schemas: dict[VersionPath, StoredFile] = field(default_factory=dict)
    strange: list[str] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)
    _firsts: dict[tuple[str, str], int] = field(default_factory=dict)

    def take(self, entry: StoredFile, store: Store) -> None:
        """Take note of a file."""
        match read_path(entry.path):
            case DataFile(protocol=self.protocol) as file:
                self.files, self.size = self.files + 1, self.size + entry.size
                self.oldest = min(self.oldest or entry.modified, entry.modified)
                lane = file.folder, file.dispatcher
                self._firsts[lane] = min(file.number, self._firsts.get(lane, file.number))
                self.rows[file.folder] = entry, file
            case DataFile() | Foreign():
                self.strange.append(entry.path)
            case SchemaPath(describes=version, checksum=checksum):
                self.schemas[version] = entry
                try:
                    self.doubts.learn(version.table, read_schema_file(store.read(entry.path), checksum))
                except SchemaFileDamaged as damage:
                    self.damaged[entry.path] = damage.message

    @property
    def expired(self) -> int:
        """Folders whose first files are gone."""
        return sum(number > 1 for number in self._firsts.values())

    def layouts(self) -> Iterator[tuple[FileLayout, VersionPath, StoredFile]]:
        """How the newest files of folders are laid out, and of which version they are."""
        for entry, file in self.rows.values():
            version = file.under(self.schemas)
            if version is not None:
                yield FileLayout.of(entry.path, file, version), version, entry


def examined(settings: Settings, spark: SparkSession) -> Iterator[Finding]:
    """The checkpoint, the files and their layout, what a run would not take, and what could be deleted."""
    store, place = store_of(settings.source), settings.source.place
    if isinstance(store, FolderStore) and not store.root.is_dir():
        yield wrong("storage", f"{place} is not a folder on this machine", "check source.path")
        return
    yield _checkpoint(store, place)
    facts = _Listing(settings.source.protocol, TableDoubts(lines_of(settings).names_members))
    removable = _removable(settings, store, spark)
    for entry in store.everything():
        facts.take(entry, store)
        if removable is not None:
            removable.offer(entry)
    files, schemas = counted(facts.files, "file"), counted(len(facts.schemas), "schema file")
    tables = counted(len({version.table for version in facts.schemas}), "table")
    yield fine("storage", f"{place}: {files} of rows, {facts.size:,} bytes; {schemas}, of {tables}")
    yield from _layout(settings, facts, store)
    yield from _expiry(settings, facts)
    yield from _passed_over(facts, store)
    for path, why in facts.damaged.items():
        yield wrong("storage", f"SCHEMA_FILE_DAMAGED: {path}: {why}", "restore the file as TiCDC wrote it")
    if removable is not None:
        size = sum(entry.size for entry in removable.files)
        would = "deletes" if settings.source.cleanup == "delete" else "keeps, and could delete,"
        yield fine("cleanup", f"source.cleanup: a run {would} {counted(len(removable.files), 'file')}, {size:,} bytes")


def _layout(settings: Settings, facts: _Listing, store: Store) -> Iterator[Finding]:
    counts = Counter(layout for layout, _, _ in facts.layouts())
    if not counts:
        return
    each = [f"{layout} ({counted(number, 'folder')})" for layout, number in counts.most_common()]
    yield fine("changefeed", f"files have {some(each, '; ')}")
    lines = lines_of(settings)
    differences: dict[str, None] = {}
    for layout, _, entry in facts.layouts():
        shown = partial(_shown, lines, store, entry.path) if not differences else dict
        differences |= dict.fromkeys(denied(settings.changefeed, layout, shown))
    for sentence in differences:
        yield note("changefeed", sentence, "correct the setting, or check that this is the changefeed you mean")
    for doubt, tables in facts.doubts.doubts((layout, version) for layout, version, _ in facts.layouts()):
        finding = wrong if doubt.loses else note
        yield finding("changefeed", doubt.sentence.format(some(tables)), doubt.remedy)


def _shown(lines: Lines, store: Store, path: str) -> dict[str, bool]:
    return lines.shown(store.read(path, 0, FIRST_BYTES))


def _expiry(settings: Settings, facts: _Listing) -> Iterator[Finding]:
    """Whether TiCDC deletes files, and how old they get."""
    if not facts.expired:
        return
    age, keep_for = time.time() - facts.oldest, settings.warehouse.maintenance.keep_for_seconds
    sentence = (
        f"the first files of {counted(facts.expired, 'folder')} are gone; the oldest that is left is {written(age)} old"
    )
    todo = "do not stop this pipeline for longer than file-expiration-days of the changefeed"
    if age < keep_for:
        sentence += f", which is less than warehouse.maintenance.keep_for ({written(keep_for)})"
    yield note("changefeed", sentence, todo)


def _passed_over(facts: _Listing, store: Store) -> Iterator[Finding]:
    no_files = store.no_files if isinstance(store, FolderStore) else []
    if facts.strange or no_files:
        others = "1 link or folder" if len(no_files) == 1 else f"{len(no_files):,} links or folders"
        yield note(
            "storage",
            f"a run skips {counted(len(facts.strange), 'file')} and {others}: {some([*facts.strange, *no_files])}",
            "nothing to do if they are not the changefeed's; if they are rows of another protocol, source.protocol is "
            "wrong",
        )


def _removable(settings: Settings, store: Store, spark: SparkSession) -> Removable | None:
    """What finds files that no run needs any more; None where no run has taken any."""
    try:
        extent(reader(settings), TABLE, settings.name)
    except Refused:  # there is no warehouse, or no such table in it
        return None
    log = PlanLog(_Looking(spark))
    inventory = Inventory(store, log, settings.source, lines_of(settings).is_closed)
    return Removable.of(inventory, commit_ts_of(log.progress), settings.warehouse.maintenance.keep_for_seconds)


@dataclass(frozen=True, slots=True)
class _Looking:
    """`SourceNotes` of somebody who writes nothing."""

    spark: SparkSession

    def read(self, name: str) -> DataFrame:
        """See `SourceNotes.read`."""
        return self.spark.table(where(name).sql)

    def write(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Nothing is written here."""
        raise AssertionError(f"{len(rows)} rows of {name}")


def _checkpoint(store: Store, place: str) -> Finding:
    try:
        commit_ts, modified = read_metadata(store)
    except FileNotFoundError:
        return wrong(
            "storage", f"METADATA_MISSING: {place} has no file `{METADATA}`",
            "check source.path: it is the folder of the sink URI; a new changefeed writes the file after some seconds",
        )  # fmt: skip
    except UNREADABLE as error:
        return wrong("storage", f"METADATA_UNREADABLE: `{METADATA}` has no checkpoint ts ({error})", "look at the file")
    now = time.time()
    age = f"TiCDC has written everything up to {written(age_of(commit_ts, now))} ago"
    if now - modified < _OLD_SECONDS:
        return fine("storage", age)
    return note(
        "storage", f"{age}; `{METADATA}` was last written {written(now - modified)} ago",
        "check that the changefeed runs: TiCDC writes the file every two seconds",
    )  # fmt: skip
