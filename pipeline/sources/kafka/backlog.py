"""What Kafka has and no batch has taken yet: how much, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.model.places import Partition

if TYPE_CHECKING:
    from pipeline.sources.kafka.cluster import Cluster
    from pipeline.sources.source import Committed

LONG_SECONDS = 3600
"""So old is what counts as waiting for long: Kafka forgets after days."""
_QUESTIONS = 10
"""So often Kafka is asked, at most: what is found is right to a 256th of the time for which it keeps records."""


class KafkaBacklog:
    """Of the topics of a run, as Kafka has them now. Raises `EnvironmentFault` where it does not answer."""

    def __init__(self, cluster: Cluster, committed: Committed) -> None:
        self._cluster = cluster
        topics = cluster.topics()
        partitions = [Partition(topic.name, n) for topic in topics.values() for n in topic.partitions]
        earliest, latest = cluster.earliest(partitions), cluster.latest(partitions)
        ends = committed.of(topics)
        self._topics = sorted(topics)
        self._next = {partition: max(earliest[partition], ends.get(partition, 0)) for partition in latest}
        self._waiting = {partition: max(0, latest[partition] - first) for partition, first in self._next.items()}

    def records(self) -> dict[str, int]:
        """How many there are, by topic."""
        return {
            name: sum(n for partition, n in self._waiting.items() if partition.stream == name) for name in self._topics
        }

    def size(self) -> dict[str, int]:
        """See `Backlog.size`: Kafka does not say."""
        return {}

    def complete_up_to(self) -> float | None:
        """See `Backlog.complete_up_to`: records tell, and Kafka does not."""
        return None

    def oldest(self, now: float) -> dict[str, float]:
        """When the oldest of them came, by topic, where it waits for long; seconds since the epoch, as is `now`.

        Kafka tells of a moment only which record is the first since then, and when that came: so it is asked for
        the moment between those before and after which it must have been, again and again. Where nothing waits for
        long, which is nearly always, one question is enough.
        """
        bound = int((now - LONG_SECONDS) * 1000)
        came: dict[Partition, int] = {}
        after: dict[Partition, int] = {}
        before: dict[Partition, int] = {}
        asked = {partition: bound for partition, records in self._waiting.items() if records}
        for _ in range(_QUESTIONS):
            if not asked:
                break
            for partition, (offset, moment) in self._cluster.since(asked).items():
                if 0 <= offset < self._next[partition]:
                    after[partition] = moment + 1
                elif offset == self._next[partition]:
                    after[partition] = before[partition] = asked[partition]
                    came[partition] = moment
                else:
                    before[partition] = came[partition] = asked[partition]
            asked = {
                partition: (after.get(partition, 0) + end) // 2
                for partition, end in before.items()
                if after.get(partition, 0) < end
            }
        old = {partition: moment / 1000 for partition, moment in came.items() if moment <= bound}
        return {
            name: min(old[partition] for partition in old if partition.stream == name)
            for name in {partition.stream for partition in old}
        }
