"""The files of a storage changefeed as a `Source`: one stream with one partition (decision 008).

The order of its records is the order in which files are taken.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pipeline.errors import EnvironmentFault
from pipeline.model.frontier import NEVER, Frontier
from pipeline.model.places import FILE, FILES, RAW, Partition, position_in_files
from pipeline.protocols.csv.form import form_of
from pipeline.sources.source import Planned, Resumed, Stream, Taken
from pipeline.sources.storage.cutting import HEADER, csv_records
from pipeline.sources.storage.feed import Batch, StorageFeed
from pipeline.sources.storage.frame import raw_frame
from pipeline.sources.storage.inventory import Inventory
from pipeline.sources.storage.plan_log import PlanLog
from pipeline.sources.storage.planner import plan
from pipeline.sources.storage.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pipeline.errors import PipelineError
    from pipeline.model.messages import Messages
    from pipeline.model.places import Position, Range
    from pipeline.protocols.csv import CsvForm
    from pipeline.settings import Settings
    from pipeline.sources.source import Committed, SourceNotes
    from pipeline.sources.storage.store import Store, StoredFile

_PARTITION = Partition(FILES, 0)
_FIRST_BYTES = 1 << 20
"""So much of a file is read for the commit ts of its first row."""
_MANY = 1 << 40


class StorageSource:
    """The files below `source.path`."""

    stream_noun = "file"
    columns = (*RAW, FILE)
    tells_deliveries = True

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._spark, self._settings = spark, settings
        self._store: Store = FolderStore(settings.source.folder)
        self._form = form_of(settings.changefeed.csv)
        self._cut = csv_records(self._form)
        self._progress: Frontier = NEVER
        self._first_ts: dict[tuple[str, str], int] = {}
        self._inventory: Inventory | None = None

    @property
    def inventory(self) -> Inventory:
        """What there is; once the source has been resumed."""
        if self._inventory is None:
            raise AssertionError("the source has not been resumed")
        return self._inventory

    def resume(
        self, committed: Committed, recorded: Collection[str], notes: SourceNotes, accept: Collection[str]
    ) -> Resumed:
        """See `Source.resume`."""
        del recorded, accept
        log = PlanLog(notes)
        terminator = self._form.terminator.encode()
        self._inventory = Inventory(self._store, log, self._settings.source.protocol, terminator)
        self._progress = log.progress
        return Resumed({}, committed, committed)

    def is_there(self) -> bool:
        """See `Source.is_there`."""
        return self.inventory.checkpoint() is not None

    def streams(self) -> Mapping[str, Stream]:
        """See `Source.streams`."""
        return {FILES: Stream(FILES, FILES, (0,))}

    def stream_ids(self) -> Mapping[str, str]:
        """See `Source.stream_ids`."""
        return {FILES: FILES}

    def unread(self, reached: Mapping[Partition, Position]) -> frozenset[Partition]:
        """See `Source.unread`: files that are left were seen to when the progress was found."""
        del reached
        return frozenset()

    def progress(self, messages: Messages) -> Mapping[Partition, Frontier]:
        """See `Source.progress`: what `metadata` says, and which files are left."""
        del messages
        return {_PARTITION: self._progress} if self._progress else {}

    def count(self, ranges: Mapping[Partition, Range]) -> int:
        """See `Source.count`: nobody knows before the files are read."""
        return _MANY if ranges else 0

    def as_text(self, positions: Mapping[Partition, Position]) -> str:
        """See `Source.as_text`."""
        return json.dumps({at.stream: {str(at.number): position} for at, position in sorted(positions.items())})

    def backlog(self, committed: Committed) -> StorageBacklog:
        """See `Source.backlog`."""
        del committed
        return StorageBacklog(self.inventory)

    def explained(self, error: Exception) -> PipelineError | None:
        """See `Source.explained`: what the folder does not let a run do."""
        match error:
            case FileNotFoundError():
                return EnvironmentFault(
                    "FILE_MISSING",
                    f"a file that a batch is to take is gone: {error.filename or error}",
                    "restore it, and run again: the batch takes the same files",
                )
            case PermissionError():
                return EnvironmentFault(
                    "STORE_FORBIDDEN",
                    f"this user may not read {error.filename or self._settings.source.folder}",
                    "let this user list and read everything below source.path",
                )
        return None

    def notes(self, committed: Committed, *, available_now: bool) -> list[str]:
        """See `Source.notes`."""
        del committed, available_now
        return []

    def close(self) -> None:
        """See `Source.close`: nothing is open."""

    def feed(
        self, take: Callable[[Taken], None], committed: Committed, checkpoint: Path, *, available_now: bool
    ) -> StorageFeed:
        """See `Source.feed`."""
        del checkpoint
        feed = StorageFeed(self, take, committed, self._settings.trigger_seconds, available_now=available_now)
        feed.start()
        return feed

    def next_batch(self, ordinal: int) -> Batch:
        """See `Batches.next_batch`: what a try that died has planned, or else what is new."""
        inventory, before = self.inventory, self._progress
        planned = inventory.log.since(ordinal)
        if planned:
            self._progress = max(before, planned[-1].progress)
            return Batch(planned, moved=True, settled=False)
        new = inventory.found()
        rows, self._progress = plan(new, self._settings.source.most_bytes, self._first_commit_ts, before)
        files = [*new.schemas, *map(inventory.planned, rows)]
        taken = inventory.log.add(files, self._progress) if files else ()
        checkpoint = new.checkpoint
        return Batch(taken, moved=self._progress > before, settled=checkpoint is None or checkpoint.settled)

    def taken(self, batch: Batch, number: int) -> Taken:
        """See `Batches.taken`."""
        frame = raw_frame(self._spark, self._store, self._cut, batch.files)
        next_ordinal = self.inventory.log.next_ordinal
        start = batch.files[0].ordinal if batch.files else next_ordinal
        end = batch.files[-1].ordinal + 1 if batch.files else next_ordinal
        return Taken(
            frame,
            number,
            Planned({_PARTITION: position_in_files(start)}, {_PARTITION: position_in_files(end)}),
        )

    def _first_commit_ts(self, entry: StoredFile) -> int:
        key = entry.path, entry.etag
        if key not in self._first_ts:
            self._first_ts[key] = first_commit_ts(self._store.read(entry.path, 0, _FIRST_BYTES), self._form)
        return self._first_ts[key]


class StorageBacklog:
    """Files that no batch has taken."""

    def __init__(self, inventory: Inventory) -> None:
        new = inventory.found()
        self._waiting = [rows.entry for rows in (*new.rows, *new.unfinished)]

    def records(self) -> Mapping[str, int]:
        """See `Backlog.records`: so many files."""
        return {FILES: len(self._waiting)}

    def oldest(self, now: float) -> Mapping[str, float]:
        """See `Backlog.oldest`."""
        del now
        return {FILES: min(entry.modified for entry in self._waiting)} if self._waiting else {}


def first_commit_ts(content: bytes, form: CsvForm) -> int:
    """The commit ts of the first row of a file that begins so; 0 if it has none."""
    if content.startswith(HEADER):
        content = content.partition(form.terminator.encode())[2]
    match = re.match(form.head.encode(), content)
    return int(match[2]) if match else 0
