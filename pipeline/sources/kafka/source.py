"""Kafka as a `Source`: Spark's Structured Streaming gives the batches, the admin client answers the rest."""

from __future__ import annotations

import re
import shutil
import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.frontier import closed_by_watermark
from pipeline.model.places import RAW
from pipeline.sources.kafka import checkpoint as checkpoints
from pipeline.sources.kafka import offsets
from pipeline.sources.kafka.backlog import KafkaBacklog
from pipeline.sources.kafka.cluster import OUTAGE, Cluster
from pipeline.sources.kafka.offsets import KafkaState
from pipeline.sources.kafka.reader import records, stream_options
from pipeline.sources.large_rows import completion_of
from pipeline.sources.source import Ahead, Committed, Resumed, Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from pipeline.errors import PipelineError
    from pipeline.model.frontier import Frontier
    from pipeline.model.messages import Messages
    from pipeline.model.places import Partition, Position, Range
    from pipeline.settings import Settings
    from pipeline.sources.source import SourceNotes, Stream

_ERROR = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+: [^\n]*)")
_LONGEST_BATCH = 3600
"""Seconds for which a batch that is under way is waited for when the feed is stopped."""


class KafkaSource:
    """Asks briefly (`cluster.START`) where a person may be waiting, and patiently (`cluster.OUTAGE`) within a batch."""

    stream_noun = "topic"
    columns = RAW
    tells_deliveries = brings_late = False

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._spark, self._settings = spark, settings
        self.completion = completion_of(settings)
        self._hasty = Cluster(spark, settings)
        self._patient = self._hasty.within(OUTAGE)

    def restored(self) -> Mapping[str, Column]:
        """See `Source.restored`: nothing."""
        return {}

    def resume(
        self, committed: Committed, recorded: Collection[str], notes: SourceNotes, accept: Collection[str]
    ) -> Resumed:
        """See `Source.resume`."""
        self._hasty.recall(committed.names)
        state = state_of(self._hasty)
        successors = offsets.succeeded(recorded, state, lambda: _topics_read(notes.read("batches")))
        recorded_now = committed.under(successors)
        offsets.check(recorded_now, state, frozenset(accept))
        return Resumed(successors, recorded_now, offsets.accepted(recorded_now, state))

    def is_there(self) -> bool:
        """See `Source.is_there`."""
        return bool(self._hasty.topics())

    def absence(self) -> None:
        """See `Source.absence`: a topic comes with its first record."""

    def streams(self) -> Mapping[str, Stream]:
        """See `Source.streams`."""
        return self._patient.topics()

    def stream_ids(self) -> Mapping[str, str]:
        """See `Source.stream_ids`."""
        return self._patient.topic_ids()

    def unread(self, reached: Mapping[Partition, Position]) -> frozenset[Partition]:
        """See `Source.unread`."""
        latest = self._patient.latest(reached)
        return frozenset(partition for partition, end in latest.items() if reached[partition] < end)

    def progress(self, messages: Messages) -> Mapping[Partition, Frontier]:
        """See `Source.progress`: watermarks are messages."""
        return {at: closed_by_watermark(commit_ts) for at, commit_ts in messages.watermarks.items()}

    def count(self, ranges: Mapping[Partition, Range]) -> int:
        """See `Source.count`: an offset for each record, and for markers of transactions."""
        return sum(end - start for start, end in ranges.values())

    def as_text(self, positions: Mapping[Partition, Position]) -> str:
        """See `Source.as_text`: as Spark's Kafka source writes them."""
        return offsets.as_json(positions)

    def ahead(self, since: Mapping[Partition, Position]) -> Ahead | None:
        """See `Source.ahead`."""
        ends = {at: end for at, end in self._patient.latest(since).items() if end > since[at]}
        ranges = {at: (since[at], end) for at, end in ends.items()}
        return Ahead(records(self._spark, self._settings, ranges), ends) if ends else None

    def sent_again(self, torn: Callable[[], Collection[str]]) -> Collection[str]:
        """See `Source.sent_again`: a message is whole."""
        del torn
        return ()

    def backlog(self, committed: Committed) -> KafkaBacklog:
        """See `Source.backlog`."""
        return KafkaBacklog(self._hasty, committed)  # the end of a run waits for it

    def feed(
        self, take: Callable[[Taken], None], committed: Committed, checkpoint: Path, *, available_now: bool
    ) -> KafkaFeed:
        """See `Source.feed`."""
        state = state_of(self._hasty)
        folder = self._checkpoint(checkpoints.folder_of(checkpoint), committed, state)
        start = offsets.starting_offsets(committed, state, self._settings.source.starting_offsets)
        options = stream_options(self._settings, offsets.as_json(start), state.topics, awaited=not available_now)

        def batch(raw: DataFrame, number: int) -> None:
            take(Taken(raw, number, checkpoints.planned_batch(folder)))

        reader = self._spark.readStream.format("kafka").options(**options).load()
        writer = reader.writeStream.foreachBatch(batch).option("checkpointLocation", str(folder))
        writer = writer.queryName(self._settings.name)
        if available_now:
            return KafkaFeed(writer.trigger(availableNow=True).start())
        return KafkaFeed(writer.trigger(processingTime=f"{self._settings.trigger_seconds} seconds").start())

    def _checkpoint(self, folder: Path, committed: Committed, state: KafkaState) -> Path:
        """Spark's folder, emptied where the tables cannot continue with what it has planned."""
        if not checkpoints.can_continue(checkpoints.planned_batch(folder), committed, state):
            shutil.rmtree(folder, ignore_errors=True)
        return folder

    def explained(self, error: Exception) -> PipelineError | None:
        """See `Source.explained`: Spark asks Kafka between batches, and gives up after some minutes."""
        reasons = _ERROR.findall(f"{error} {getattr(error, '_stackTrace', '')}")
        return self._patient.unreachable(reasons[-1]) if reasons else None

    def notes(self, committed: Committed, *, available_now: bool) -> list[str]:
        """See `Source.notes`: listed topics that do not exist, skipped now or waited for, and those without an id."""
        present, nameless = self._patient.topic_ids(), self._patient.without_ids()
        return [
            *offsets.gone(self._patient.wanted, committed, present),
            *offsets.missing(self._settings.source, present, available_now=available_now),
            *([offsets.without_ids(nameless)] if nameless else []),
        ]

    def close(self) -> None:
        """See `Source.close`."""
        self._hasty.close()


class KafkaFeed:
    """A streaming query, as a `Feed`."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query

    @property
    def runs(self) -> bool:
        """See `Feed.runs`."""
        return self._query.isActive

    def wait(self, seconds: float) -> None:
        """See `Feed.wait`."""
        self._query.awaitTermination(seconds)  # type: ignore[arg-type] # any number of seconds will do

    def error(self) -> Exception | None:
        """See `Feed.error`."""
        return self._query.exception()

    def stop(self) -> None:
        """See `Feed.stop`."""
        deadline = time.monotonic() + _LONGEST_BATCH
        while self._query.isActive and self._query.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(0.1)
        self._query.stop()


def _topics_read(batches: DataFrame) -> frozenset[str]:
    """The topics of which batches have read something."""
    ends = F.from_json("end_offsets", "map<string, map<string, bigint>>")
    topics = batches.select(F.explode(F.map_keys(ends)).alias("topic")).distinct()
    return frozenset(row["topic"] for row in topics.collect())


def state_of(cluster: Cluster) -> KafkaState:
    """What Kafka has now."""
    topics = cluster.topics()
    state = KafkaState(topics, {}, {})
    partitions = state.partitions()
    return KafkaState(topics, cluster.earliest(partitions), cluster.latest(partitions))
