"""The seam between what brings records and everything that makes tables of them.

A source has streams with partitions, and records with positions (`pipeline.model.places`). It alone knows what these
are (a topic and its offsets, a directory and its files), what it means when some are gone, and which partitions may
still bring something. Everybody else holds positions, compares them, and asks. `pipeline.sources.build` names the
sources that there are; docs/contributing/add-a-source.md says what a new one has to bring.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pipeline.model.places import Partition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

    from pipeline.errors import PipelineError
    from pipeline.model.columns import SchemaId
    from pipeline.model.frontier import Frontier
    from pipeline.model.messages import Messages
    from pipeline.model.names import TableName
    from pipeline.model.places import PartitionId, Position, Range
    from pipeline.protocols.large.completion import Completion


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream as the source has it now. One that was made anew under the same name has another identity."""

    name: str
    id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """How far the tables are, as the ledger says: end positions by partition, and the name of each stream."""

    ends: Mapping[PartitionId, Position] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def of(self, streams: Mapping[str, Stream]) -> dict[Partition, Position]:
        """End positions of the partitions of these streams, under their names."""
        return self.of_names({stream.id: stream.name for stream in streams.values()})

    def of_names(self, ids: Mapping[str, str]) -> dict[Partition, Position]:
        """End positions under the names that these identities have."""
        return {Partition(ids[stream], number): end for (stream, number), end in self.ends.items() if stream in ids}

    def under(self, successors: Mapping[str, str]) -> Committed:
        """The same, where streams have got other identities (`Resumed.successors`)."""
        names = {successors.get(stream, stream): name for stream, name in self.names.items()}
        return Committed(ends_under(self.ends, successors), names)


def ends_under(ends: Mapping[PartitionId, Position], successors: Mapping[str, str]) -> dict[PartitionId, Position]:
    """End positions, where streams have got other identities; the later one where both have been recorded."""
    moved: dict[PartitionId, Position] = {}
    for (stream, number), end in ends.items():
        partition = (successors.get(stream, stream), number)
        moved[partition] = max(end, moved.get(partition, end))
    return moved


class Resumed(NamedTuple):
    """Where a pipeline goes on that a source has not refused.

    `successors`: identities of streams that are others by now, with the new ones. `recorded`: what the ledger has,
    under the identities of now. `accepted`: what counts, once every refusal that a person has accepted is passed over.
    """

    successors: Mapping[str, str]
    recorded: Committed
    accepted: Committed


class Planned(NamedTuple):
    """The positions [start, end) that a source has planned for a batch. A partition without a start begins at 0.

    `versions`: of which tables and versions all its records are rows, if the source knows that; else None.
    """

    start: Mapping[Partition, Position]
    end: Mapping[Partition, Position]
    versions: frozenset[tuple[TableName, SchemaId]] | None = None


class Taken(NamedTuple):
    """A batch as a source gives it: its raw frame (`RAW`), the source's own number of it, and what was planned."""

    raw: DataFrame
    number: int
    planned: Planned | None


class Ahead(NamedTuple):
    """Records that a source has and no batch has taken, as a raw frame. `ends`: up to where, by partition."""

    raw: DataFrame
    ends: Mapping[Partition, Position]


class SourceNotes(Protocol):
    """The pipeline's own tables, as far as a source needs them."""

    def read(self, name: str) -> DataFrame:
        """A table as it stands. The positions in `batches` are those that the source has written (`as_text`)."""
        ...

    def write(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append a few rows to a table, in one commit, as of the next batch."""
        ...


class Backlog(Protocol):
    """What a source has and no batch has taken yet, by the stream's name."""

    def records(self) -> Mapping[str, int]:
        """How many records there are."""
        ...

    def size(self) -> Mapping[str, int]:
        """How many bytes they have, if that is known before they are read."""
        ...

    def oldest(self, now: float) -> Mapping[str, float]:
        """When the oldest of them came, where it waits for long; seconds since the epoch, as is `now`."""
        ...

    def complete_up_to(self) -> float | None:
        """The commit time up to which the source has everything, in the same; None where it does not say so."""
        ...


class Feed(Protocol):
    """A source that is being read: it gives one batch after the other until it ends or is stopped."""

    @property
    def runs(self) -> bool:
        """Whether more batches may come."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait so long, or until it ends. May raise what has ended it."""
        ...

    def error(self) -> Exception | None:
        """What has ended it, if it did not end by itself."""
        ...

    def stop(self) -> None:
        """End it after the batch that is under way."""
        ...


class Source(Protocol):
    """One source, bound to its settings. Raises `EnvironmentFault` where it does not answer."""

    @property
    def stream_noun(self) -> str:
        """What users call a stream: `topic`."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its raw frames: those of `RAW`, and what `restored` has."""
        ...

    def restored(self) -> Mapping[str, Column]:
        """The columns of its raw frames beyond those of `RAW`, from a record as it was set aside.

        It is `FILE` if its records stand in files.
        """
        ...

    @property
    def completion(self) -> Completion:
        """Where the rows are that were too large for a record."""
        ...

    @property
    def tells_deliveries(self) -> bool:
        """Whether the place of a record tells in which delivery it has come: a file is one."""
        ...

    @property
    def brings_late(self) -> bool:
        """Whether it may bring a row for the first time that its own progress has passed already."""
        ...

    def resume(
        self, committed: Committed, recorded: Collection[str], notes: SourceNotes, accept: Collection[str]
    ) -> Resumed:
        """Say where a pipeline goes on, and refuse where that would lose or repeat records without a word.

        `recorded`: every identity of a stream that the tables know. `notes`: what the pipeline has noted, and where
        the source may note something itself. `accept`: codes of refusals to pass over. Raises `Refused` with the code,
        what is lost, and the command that accepts it.
        """
        ...

    def is_there(self) -> bool:
        """Whether there is any stream yet. Answers soon, or raises: a person may be waiting."""
        ...

    def absence(self) -> PipelineError | None:
        """What to tell where nothing is there and nobody waits for it; None if that is as good as nothing new."""
        ...

    def streams(self) -> Mapping[str, Stream]:
        """The streams that the settings ask for and that exist, by name."""
        ...

    def stream_ids(self) -> Mapping[str, str]:
        """Name → identity of the same, which costs less."""
        ...

    def unread(self, reached: Mapping[Partition, Position]) -> frozenset[Partition]:
        """Those of these partitions that have records past the positions up to which they have been read.

        The others are stale: TiCDC sends a watermark only when all before it is acknowledged, so what they are yet to
        bring is newer than any progress that was seen before this was asked.
        """
        ...

    def progress(self, messages: Messages) -> Mapping[Partition, Frontier]:
        """How far each partition is complete, as far as this batch or the source itself says."""
        ...

    def count(self, ranges: Mapping[Partition, Range]) -> int:
        """How many records these ranges have at most."""
        ...

    def as_text(self, positions: Mapping[Partition, Position]) -> str:
        """Positions as `_pipeline.batches` keeps them (`start_offsets`, `end_offsets`)."""
        ...

    def ahead(self, since: Mapping[Partition, Position]) -> Ahead | None:
        """What partitions have now from these positions on; None if that is nothing."""
        ...

    def sent_again(self, torn: Callable[[], Collection[str]]) -> Collection[str]:
        """Which of the files that end within a record have come again, with the newest batch at the latest.

        `torn`: asks for the open ones (`FILE_TRUNCATED`), as `_topic` names them.
        """
        ...

    def backlog(self, committed: Committed) -> Backlog:
        """What is there past what is committed."""
        ...

    def feed(
        self, take: Callable[[Taken], None], committed: Committed, checkpoint: Path, *, available_now: bool
    ) -> Feed:
        """Begin to read where the tables end, and give each batch to `take`.

        `checkpoint`: a folder in which the source may keep what it has planned. `available_now`: end by itself when all
        that is there now is taken.
        """
        ...

    def explained(self, error: Exception) -> PipelineError | None:
        """What an error means that has ended a feed, where the source is its cause."""
        ...

    def notes(self, committed: Committed, *, available_now: bool) -> list[str]:
        """What a person should know before the first batch: one sentence each."""
        ...

    def close(self) -> None:
        """Let the connections go."""
        ...
