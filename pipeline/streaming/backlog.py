"""What Kafka has and no batch has taken yet: how much, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.model.messages import TopicPartition

if TYPE_CHECKING:
    from pipeline.sources.kafka import Cluster
    from pipeline.streaming.position import Committed

LONG_SECONDS = 3600
"""So old is what counts as waiting for long: Kafka forgets after days."""
_QUESTIONS = 10
"""So often Kafka is asked, at most: what is found is right to a 256th of the time for which it keeps records."""


class Backlog:
    """Of the topics of a run, as Kafka has them now. Raises `EnvironmentFault` where it does not answer."""

    def __init__(self, cluster: Cluster, committed: Committed) -> None:
        self._cluster = cluster
        topics = cluster.topics()
        partitions = [TopicPartition(topic.name, n) for topic in topics.values() for n in topic.partitions]
        earliest, latest = cluster.earliest(partitions), cluster.latest(partitions)
        ends = committed.of_names({topic.id: topic.name for topic in topics.values()})
        self._topics = sorted(topics)
        self._next = {at: max(earliest[at], ends.get(at, 0)) for at in latest}
        self._waiting = {at: max(0, latest[at] - first) for at, first in self._next.items()}

    def records(self) -> dict[str, int]:
        """How many there are, by topic."""
        return {name: sum(n for at, n in self._waiting.items() if at.topic == name) for name in self._topics}

    def oldest(self, now: float) -> dict[str, float]:
        """When the oldest of them came, by topic, where it waits for long; seconds since the epoch, as is `now`.

        Kafka tells of a moment only which record is the first since then, and when that came: so it is asked for
        the moment between those before and after which it must have been, again and again. Where nothing waits for
        long, which is nearly always, one question is enough.
        """
        bound = int((now - LONG_SECONDS) * 1000)
        came: dict[TopicPartition, int] = {}
        after: dict[TopicPartition, int] = {}
        before: dict[TopicPartition, int] = {}
        asked = {at: bound for at, records in self._waiting.items() if records}
        for _ in range(_QUESTIONS):
            if not asked:
                break
            for at, (offset, moment) in self._cluster.since(asked).items():
                if 0 <= offset < self._next[at]:
                    after[at] = moment + 1
                elif offset == self._next[at]:
                    after[at] = before[at] = asked[at]
                    came[at] = moment
                else:
                    before[at] = came[at] = asked[at]
            asked = {at: (after.get(at, 0) + end) // 2 for at, end in before.items() if after.get(at, 0) < end}
        old = {at: moment / 1000 for at, moment in came.items() if moment <= bound}
        return {name: min(old[at] for at in old if at.topic == name) for name in {at.topic for at in old}}
