"""Where a run begins, decided from what the tables, the checkpoint and Kafka say (DESIGN rule 3).

Pure: every case is a value in, a value or a refusal out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.errors import Refused
from pipeline.model.messages import TopicPartition
from pipeline.sources.identities import by_name, is_by_name, is_missing, name_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pipeline.sources.kafka import Topic
    from pipeline.warehouse.pairs import TopicIdPartition

EARLIEST, LATEST = -2, -1
TOPIC_RECREATED = "TOPIC_RECREATED"
OFFSETS_SHRUNK = "OFFSETS_SHRUNK"
OFFSETS_LOST = "OFFSETS_LOST"
TOPICS_MIXED = "TOPICS_MIXED"
_LISTED = 5


@dataclass(frozen=True, slots=True)
class KafkaState:
    """What the cluster has now."""

    topics: Mapping[str, Topic]
    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]

    def partitions(self) -> list[TopicPartition]:
        """Every partition of every topic."""
        return [TopicPartition(t.name, p) for t in self.topics.values() for p in t.partitions]


@dataclass(frozen=True, slots=True)
class Committed:
    """What the ledger says: end offsets by topic id, and the name that each topic id had."""

    ends: Mapping[TopicIdPartition, int] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def of(self, state: KafkaState) -> dict[TopicPartition, int]:
        """End offsets of the partitions that exist now, under their names."""
        return self.of_names({topic.id: topic.name for topic in state.topics.values()})

    def of_names(self, ids: Mapping[str, str]) -> dict[TopicPartition, int]:
        """End offsets under the names that these topic ids have."""
        return {
            TopicPartition(ids[topic], partition): end for (topic, partition), end in self.ends.items() if topic in ids
        }

    def under(self, successors: Mapping[str, str]) -> Committed:
        """The same, where topics have got other identities (`succeeded`)."""
        names = {successors.get(topic, topic): name for topic, name in self.names.items()}
        return Committed(ends_under(self.ends, successors), names)


def ends_under(ends: Mapping[TopicIdPartition, int], successors: Mapping[str, str]) -> dict[TopicIdPartition, int]:
    """End offsets, where topics have got other identities; the later one where both have been recorded."""
    found: dict[TopicIdPartition, int] = {}
    for (topic, partition), end in ends.items():
        at = (successors.get(topic, topic), partition)
        found[at] = max(end, found.get(at, end))
    return found


def succeeded(recorded: Collection[str], state: KafkaState, read: Callable[[], Collection[str]]) -> dict[str, str]:
    """Recorded identity → the one that the same topic has by now; only those that are not the same.

    Progress under a topic's name is that of the id which the topic has got: its broker was upgraded. Progress under
    no identity, which an earlier version has recorded, is the topic's where there was only one. `read`: the topics
    that batches have read, asked for only then. Raises `Refused`: TOPICS_MIXED where there were more.
    """
    now = {topic.name: topic.id for topic in state.topics.values()}
    found = {topic: now.get(name_in(topic), topic) for topic in recorded if is_by_name(topic)}
    missing = [topic for topic in recorded if is_missing(topic)]
    if missing:
        only = _only_topic(read())
        found |= dict.fromkeys(missing, now.get(only, by_name(only)))
    return {before: after for before, after in found.items() if before != after}


def _only_topic(read: Collection[str]) -> str:
    if len(read) != 1:
        names = ", ".join(sorted(read)) or "each topic"
        raise Refused(
            TOPICS_MIXED,
            "the broker gave no topic ids, and an earlier version recorded under one id how far all topics were read: "
            f"records of {names} may be missing in the tables, or be there twice",
            "to begin afresh: name an empty warehouse.path and checkpoint, then ticdc-warehouse run; it reads what "
            "Kafka still has",
        )
    return next(iter(read))


def gone(
    wanted: Callable[[Collection[str]], Collection[str]], committed: Committed, present: Collection[str]
) -> list[str]:
    """Give a sentence for each topic that the tables have records of, that is asked for, and that is not there.

    `wanted`: which of these names the settings ask for (`Cluster.wanted`).
    """
    absent = {*committed.names.values()} - {*present}
    asked = sorted(wanted(absent)) if absent else []
    return [f"topic {name} is not there any more: what had not been read of it is lost" for name in asked]


def without_ids(topics: Collection[str]) -> str:
    """Say what it costs that a broker gives these topics no id."""
    some = ", ".join(sorted(topics)[:_LISTED]) + (" …" if len(topics) > _LISTED else "")
    return (
        f"the broker gives no topic id to {some}: a topic that is deleted and made again, or another cluster in the "
        "place of this one, is noticed only where its offsets end before those of the tables"
    )


def check(committed: Committed, state: KafkaState, accepted: frozenset[str]) -> None:
    """Refuse to go on where going on would lose or repeat records without a word.

    Raises `Refused` with the code, what is lost, and the command that accepts it.
    """
    for topic_id, name in committed.names.items():
        now = state.topics.get(name)
        if now is not None and now.id != topic_id and now.id not in committed.names and TOPIC_RECREATED not in accepted:
            raise Refused(
                TOPIC_RECREATED,
                f"topic {name} was deleted and created again: its offsets begin anew, "
                f"records of the old topic past offset {_ends_of(committed, topic_id)} were never read",
                "to read the new topic from its beginning: ticdc-warehouse run --accept TOPIC_RECREATED",
            )
    for at, end in committed.of(state).items():
        _check_range(at, end, state, accepted)


def _ends_of(committed: Committed, topic_id: str) -> str:
    ends = {partition: end for (topic, partition), end in committed.ends.items() if topic == topic_id}
    return ", ".join(f"{end} of partition {partition}" for partition, end in sorted(ends.items())) or "0"


def _check_range(at: TopicPartition, end: int, state: KafkaState, accepted: frozenset[str]) -> None:
    latest, earliest = state.latest.get(at, end), state.earliest.get(at, 0)
    if latest < end and OFFSETS_SHRUNK not in accepted:
        raise Refused(
            OFFSETS_SHRUNK,
            f"topic {at.topic} partition {at.partition} ends at offset {latest}, but records up to {end} are in the "
            "tables: the broker has lost what it had acknowledged",
            "to go on from where the topic ends now: ticdc-warehouse run --accept OFFSETS_SHRUNK",
        )
    if earliest > end and OFFSETS_LOST not in accepted:
        raise Refused(
            OFFSETS_LOST,
            f"topic {at.topic} partition {at.partition} begins at offset {earliest}: {earliest - end} records from "
            f"offset {end} on were removed by retention before they were read",
            "to go on without them: ticdc-warehouse run --accept OFFSETS_LOST",
        )


def starting_offsets(
    committed: Committed, state: KafkaState, wanted: str | Mapping[str, Mapping[int, int]]
) -> dict[TopicPartition, int]:
    """The offset at which each partition begins without a checkpoint: the tables' end, else the settings'."""
    known = committed.of(state)
    begun = bool(committed.ends)
    start: dict[TopicPartition, int] = {}
    for at in state.partitions():
        if at in known:
            start[at] = min(max(known[at], state.earliest.get(at, 0)), state.latest.get(at, known[at]))
        elif begun or wanted == "earliest":
            start[at] = EARLIEST
        elif wanted == "latest":
            start[at] = state.latest[at]
        else:
            offsets = wanted.get(at.topic, {}) if not isinstance(wanted, str) else {}
            start[at] = offsets.get(at.partition, EARLIEST)
    return start


def as_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets as Spark's Kafka source takes them."""
    nested: dict[str, dict[str, int]] = {}
    for at, offset in sorted(offsets.items()):
        nested.setdefault(at.topic, {})[str(at.partition)] = offset
    return json.dumps(nested)


def from_json(text: str) -> dict[TopicPartition, int]:
    """The inverse of `as_json`."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in json.loads(text).items()
        for partition, offset in partitions.items()
    }


def checkpoint_agrees(
    planned: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]],
    ends: Mapping[TopicPartition, int],
) -> bool:
    """Whether the checkpoint's newest planned batch [start, end) is one that the tables can continue with.

    A checkpoint after the tables would read everything again, one ahead of them would skip records.
    """
    start, end = planned
    return all(start.get(at, 0) <= reached <= end.get(at, reached) for at, reached in ends.items())


def checkpoint_fits(
    planned: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]], committed: Committed, state: KafkaState
) -> bool:
    """Whether Kafka still has, in the same topics, what the checkpoint planned: Spark may read it once more."""
    start, end = planned
    known = committed.of(state)
    return all(
        at in state.latest
        and state.earliest[at] <= start.get(at, reached)
        and reached <= state.latest[at]
        and (at in known or reached == 0 or not committed.ends)
        for at, reached in end.items()
    )


def accepted(committed: Committed, state: KafkaState) -> Committed:
    """What counts as committed once every refusal was passed over: no less and no more than Kafka has."""
    ids = {topic.name: topic.id for topic in state.topics.values()}
    within = {
        (ids[at.topic], at.partition): min(max(end, state.earliest.get(at, 0)), state.latest.get(at, end))
        for at, end in committed.of(state).items()
    }
    again = {ids[name]: name for name in committed.names.values() if name in ids}
    return Committed({**committed.ends, **within}, {**committed.names, **again})
