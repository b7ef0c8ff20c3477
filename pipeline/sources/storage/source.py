"""The files of a storage changefeed as a `Source`: one stream with one partition (decision 008).

The order of its records is the order in which files are taken.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.errors import EnvironmentFault
from pipeline.model.columns import SchemaId, time_of
from pipeline.model.frontier import commit_ts_of
from pipeline.model.names import TableName
from pipeline.model.places import FILE, FILES, Partition, file_of, position_in_files
from pipeline.protocols.files.head import COLUMNS
from pipeline.protocols.large.completion import Completion
from pipeline.sources.source import Planned, Resumed, Stream, Taken
from pipeline.sources.storage.batches import COMPLETE, BatchPlans
from pipeline.sources.storage.feed import StorageFeed
from pipeline.sources.storage.frame import raw_frame
from pipeline.sources.storage.lines import lines_of
from pipeline.sources.storage.metadata import METADATA_MISSING, METADATA_UNREADABLE, UNREADABLE, read_metadata
from pipeline.sources.storage.paths import METADATA
from pipeline.sources.storage.sent_again import sent_again
from pipeline.sources.storage.stores import fault_of, faults_told, store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, SparkSession

    from pipeline.errors import PipelineError
    from pipeline.model.frontier import Frontier
    from pipeline.model.messages import Messages
    from pipeline.model.places import Position, Range
    from pipeline.settings import Settings
    from pipeline.sources.source import Committed, SourceNotes
    from pipeline.sources.storage.feed import Batch
    from pipeline.sources.storage.plan_log import PlannedFile
    from pipeline.sources.storage.store import StoredFile

_PARTITION = Partition(FILES, 0)
_MANY = 1 << 40


class StorageSource:
    """The files below `source.path`."""

    stream_noun = "file"
    tells_deliveries = brings_late = True
    columns = COLUMNS

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._spark, self._settings = spark, settings
        self._store = store_of(settings.source)
        self._lines = lines_of(settings)
        self.completion = Completion()  # a file has rows of any size
        self._plans: BatchPlans | None = None
        self._newest: Sequence[PlannedFile] = ()

    def restored(self) -> Mapping[str, Column]:
        """See `Source.restored`."""
        return {FILE: file_of(F.col("key"))}

    @property
    def plans(self) -> BatchPlans:
        """What there is, and what is taken when; once the source has been resumed."""
        if self._plans is None:
            raise AssertionError("the source has not been resumed")
        return self._plans

    def resume(
        self, committed: Committed, recorded: Collection[str], notes: SourceNotes, accept: Collection[str]
    ) -> Resumed:
        """See `Source.resume`."""
        del recorded
        with faults_told(self._settings.source.place):
            self._plans = BatchPlans(self._store, self._settings, self._lines, notes, accept)
        return Resumed({}, committed, committed)

    def is_there(self) -> bool:
        """See `Source.is_there`."""
        return self.plans.inventory.checkpoint() is not None

    def absence(self) -> PipelineError | None:
        """See `Source.absence`: without `metadata` nobody knows how far the files are complete."""
        try:
            read_metadata(self._store)
        except FileNotFoundError:
            return EnvironmentFault(
                METADATA_MISSING,
                f"{self._settings.source.path} has no file `{METADATA}`",
                "check source.path: it is the folder of the sink URI; a new changefeed writes the file after seconds",
            )
        except UNREADABLE as error:
            return EnvironmentFault(
                METADATA_UNREADABLE,
                f"`{METADATA}` of {self._settings.source.path} has no checkpoint ts ({error})",
                "look at the file; TiCDC writes it every two seconds",
            )
        return None

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
        return {_PARTITION: self.plans.progress} if self.plans.progress else {}

    def count(self, ranges: Mapping[Partition, Range]) -> int:
        """See `Source.count`: nobody knows before the files are read."""
        return _MANY if ranges else 0

    def as_text(self, positions: Mapping[Partition, Position]) -> str:
        """See `Source.as_text`: also the commit ts up to which the tables are complete."""
        places = {at.stream: {str(at.number): position} for at, position in sorted(positions.items())}
        return json.dumps({**places, COMPLETE: commit_ts_of(self.plans.progress)})

    def ahead(self, since: Mapping[Partition, Position]) -> None:
        """See `Source.ahead`: statements are files, and a batch takes them first."""
        del since

    def sent_again(self, torn: Callable[[], Collection[str]]) -> Collection[str]:
        """See `Source.sent_again`."""
        return sent_again(torn(), self._newest, self._store, self._lines.begins_at_most)

    def backlog(self, committed: Committed) -> StorageBacklog:
        """See `Source.backlog`."""
        del committed
        inventory = self.plans.inventory
        return StorageBacklog(inventory.waiting(), inventory.complete_up_to)

    def explained(self, error: Exception) -> PipelineError | None:
        """See `Source.explained`: what the folder does not let a run do."""
        return fault_of(error, self._settings.source.place)

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
        """See `Batches.next_batch`."""
        return self.plans.next_batch(ordinal)

    def stop(self) -> None:
        """See `Batches.stop`."""
        self._store.stop()

    def taken(self, batch: Batch, number: int) -> Taken:
        """See `Batches.taken`."""
        self._newest = batch.files
        frame = raw_frame(self._spark, self._store, self._lines, batch.files, self._settings.source.place)
        next_ordinal = self.plans.log.next_ordinal
        start = batch.files[0].ordinal if batch.files else next_ordinal
        end = batch.files[-1].ordinal + 1 if batch.files else next_ordinal
        return Taken(
            frame,
            number,
            Planned({_PARTITION: position_in_files(start)}, {_PARTITION: position_in_files(end)}, _versions(batch)),
        )


def _versions(batch: Batch) -> frozenset[tuple[TableName, SchemaId]] | None:
    """The tables and versions of its rows; None if it has anything else."""
    read = [file for file in batch.files if file.is_there]
    if not all(file.has_rows for file in read):
        return None
    return frozenset((TableName(file.schema_name, file.table_name), SchemaId(file.version)) for file in read)


class StorageBacklog:
    """Files that the last listing had, and that no batch has taken; and what `metadata` said then."""

    def __init__(self, waiting: Sequence[StoredFile], complete_up_to: int) -> None:
        self._waiting, self._complete_up_to = waiting, complete_up_to

    def records(self) -> Mapping[str, int]:
        """See `Backlog.records`: so many files."""
        return {FILES: len(self._waiting)}

    def size(self) -> Mapping[str, int]:
        """See `Backlog.size`."""
        return {FILES: sum(entry.size for entry in self._waiting)}

    def oldest(self, now: float) -> Mapping[str, float]:
        """See `Backlog.oldest`."""
        del now
        return {FILES: min(entry.modified for entry in self._waiting)} if self._waiting else {}

    def complete_up_to(self) -> float | None:
        """See `Backlog.complete_up_to`."""
        return time_of(self._complete_up_to).timestamp() if self._complete_up_to else None
