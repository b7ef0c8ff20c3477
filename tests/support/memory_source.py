"""A source in memory: what the batch model and tests of state logic run on instead of Kafka."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.model.frontier import closed_by_watermark
from pipeline.model.places import RAW, Partition
from pipeline.protocols.large.completion import Completion
from pipeline.sources.source import Ahead, Committed, Planned, Resumed, Stream, Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from pipeline.errors import PipelineError
    from pipeline.model.frontier import Frontier
    from pipeline.model.messages import Messages
    from pipeline.model.places import Position, Range


@dataclass(slots=True)
class MemorySource:
    """Streams whose records are kept for ever: nothing is lost, so nothing is refused.

    `frame`: makes a raw frame of records. A position is a record's index in its partition's log.
    """

    frame: Callable[[Iterable[Any]], Any]
    known: dict[str, Stream] = field(default_factory=dict)
    logs: dict[Partition, list[Any]] = field(default_factory=dict)
    said: dict[Partition, Frontier] = field(default_factory=dict)
    """Progress that comes from elsewhere than from messages, as of a storage changefeed's `metadata` file."""
    stream_noun: str = "stream"
    columns: tuple[str, ...] = RAW
    tells_deliveries: bool = False
    brings_late: bool = False
    completion: Completion = field(default_factory=Completion)

    def restored(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}

    def add(self, name: str, partitions: int = 1) -> Stream:
        """The stream of this name, made at the first question."""
        if name not in self.known:
            self.known[name] = Stream(name, f"id-of-{name}", tuple(range(partitions)))
            self.logs |= {Partition(name, number): [] for number in range(partitions)}
        return self.known[name]

    @property
    def ends(self) -> dict[Partition, Position]:
        """Where each partition ends."""
        return {at: len(log) for at, log in self.logs.items()}

    def records(self, ranges: Mapping[Partition, Range]) -> Any:
        """The raw frame of these ranges."""
        return self.frame(one for at, (start, end) in ranges.items() for one in self.logs[at][start:end])

    def resume(
        self,
        committed: Committed,
        recorded: Collection[str],
        notes: Any,
        accept: Collection[str],
    ) -> Resumed:
        """See `Source.resume`."""
        del recorded, notes, accept
        return Resumed({}, committed, committed)

    def is_there(self) -> bool:
        """See `Source.is_there`."""
        return bool(self.known)

    def absence(self) -> None:
        """See `Source.absence`."""

    def streams(self) -> Mapping[str, Stream]:
        """See `Source.streams`."""
        return self.known

    def stream_ids(self) -> Mapping[str, str]:
        """See `Source.stream_ids`."""
        return {stream.name: stream.id for stream in self.known.values()}

    def ahead(self, since: Mapping[Partition, Position]) -> Ahead | None:
        """See `Source.ahead`."""
        ranges = {at: (position, self.ends[at]) for at, position in since.items() if self.ends[at] > position}
        return Ahead(self.records(ranges), {at: end for at, (_, end) in ranges.items()}) if ranges else None

    def sent_again(self, torn: Callable[[], Collection[str]]) -> Collection[str]:
        """See `Source.sent_again`."""
        del torn
        return ()

    def unread(self, reached: Mapping[Partition, Position]) -> frozenset[Partition]:
        """See `Source.unread`."""
        return frozenset(at for at, position in reached.items() if position < len(self.logs[at]))

    def progress(self, messages: Messages) -> Mapping[Partition, Frontier]:
        """See `Source.progress`."""
        return {**{at: closed_by_watermark(ts) for at, ts in messages.watermarks.items()}, **self.said}

    def count(self, ranges: Mapping[Partition, Range]) -> int:
        """See `Source.count`."""
        return sum(end - start for start, end in ranges.values())

    def as_text(self, positions: Mapping[Partition, Position]) -> str:
        """See `Source.as_text`."""
        return json.dumps({f"{at.stream}/{at.number}": position for at, position in sorted(positions.items())})

    def backlog(self, committed: Committed) -> MemoryBacklog:
        """See `Source.backlog`."""
        reached = committed.of(self.known)
        waiting = dict.fromkeys(self.known, 0)
        for at, log in self.logs.items():
            waiting[at.stream] += len(log) - reached.get(at, 0)
        return MemoryBacklog(waiting)

    def feed(
        self, take: Callable[[Taken], None], committed: Committed, checkpoint: Path, *, available_now: bool
    ) -> MemoryFeed:
        """See `Source.feed`: one batch of everything, whenever it is waited for and there is something."""
        del checkpoint
        return MemoryFeed(self, take, committed.of(self.known), available_now)

    def explained(self, error: Exception) -> PipelineError | None:
        """See `Source.explained`."""
        del error
        return None

    def notes(self, committed: Committed, *, available_now: bool) -> list[str]:
        """See `Source.notes`."""
        del committed, available_now
        return []

    def close(self) -> None:
        """See `Source.close`."""


@dataclass(frozen=True, slots=True)
class MemoryBacklog:
    """Nothing in memory waits for long."""

    waiting: Mapping[str, int]

    def records(self) -> Mapping[str, int]:
        """See `Backlog.records`."""
        return self.waiting

    def size(self) -> Mapping[str, int]:
        """See `Backlog.size`."""
        return {}

    def oldest(self, now: float) -> Mapping[str, float]:
        """See `Backlog.oldest`."""
        del now
        return {}

    def complete_up_to(self) -> float | None:
        """See `Backlog.complete_up_to`."""
        return None


@dataclass(slots=True)
class MemoryFeed:
    """Gives its batches in the thread that waits for them."""

    source: MemorySource
    take: Callable[[Taken], None]
    reached: dict[Partition, Position]
    available_now: bool
    runs: bool = True
    number: int = 0

    def wait(self, seconds: float) -> None:
        """See `Feed.wait`."""
        del seconds
        ends = self.source.ends
        ranges = {at: (self.reached.get(at, 0), end) for at, end in ends.items() if end > self.reached.get(at, 0)}
        if ranges:
            planned = Planned({at: start for at, (start, _) in ranges.items()}, ends)
            self.take(Taken(self.source.records(ranges), self.number, planned))
            self.reached, self.number = ends, self.number + 1
        self.runs = not self.available_now

    def error(self) -> Exception | None:
        """See `Feed.error`."""
        return None

    def stop(self) -> None:
        """See `Feed.stop`."""
        self.runs = False
