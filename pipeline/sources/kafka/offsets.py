"""Where a run begins, decided from what the tables, the checkpoint and Kafka say (design.md, rule 3).

Pure: every case is a value in, a value or a refusal out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.errors import Refused
from pipeline.model.places import Partition
from pipeline.sources.kafka.identities import by_name, is_by_name, is_missing, name_in
from pipeline.sources.source import Committed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pipeline.settings.sections import SourceSection
    from pipeline.sources.source import Stream

EARLIEST, LATEST = -2, -1
TOPIC_RECREATED = "TOPIC_RECREATED"
OFFSETS_SHRUNK = "OFFSETS_SHRUNK"
OFFSETS_LOST = "OFFSETS_LOST"
TOPICS_MIXED = "TOPICS_MIXED"
REFUSALS = (TOPIC_RECREATED, OFFSETS_SHRUNK, OFFSETS_LOST)
"""Those that a person can accept."""
_LISTED = 5


@dataclass(frozen=True, slots=True)
class KafkaState:
    """What the cluster has now."""

    topics: Mapping[str, Stream]
    earliest: Mapping[Partition, int]
    latest: Mapping[Partition, int]

    def partitions(self) -> list[Partition]:
        """Every partition of every topic."""
        return [Partition(t.name, p) for t in self.topics.values() for p in t.partitions]


def succeeded(recorded: Collection[str], state: KafkaState, read: Callable[[], Collection[str]]) -> dict[str, str]:
    """Recorded identity → the one that the same topic has by now; only those that are not the same.

    Progress under a topic's name is that of the id which the topic has got: its broker was upgraded. Progress under
    no identity, which an earlier version has recorded, is the topic's where there was only one. `read`: the topics
    that batches have read, asked for only then. Raises `Refused`: TOPICS_MIXED where there were more.
    """
    now = {topic.name: topic.id for topic in state.topics.values()}
    successors = {topic: now.get(name_in(topic), topic) for topic in recorded if is_by_name(topic)}
    missing = [topic for topic in recorded if is_missing(topic)]
    if missing:
        only = _only_topic(read())
        successors |= dict.fromkeys(missing, now.get(only, by_name(only)))
    return {before: after for before, after in successors.items() if before != after}


def _only_topic(read: Collection[str]) -> str:
    if len(read) != 1:
        names = ", ".join(sorted(read)) or "each topic"
        raise Refused(
            TOPICS_MIXED,
            "the broker gave no topic ids, so an earlier version recorded the progress of all topics under one id: "
            f"records of {names} may be missing in the tables, or be there twice",
            "to begin again, name an empty warehouse.path and checkpoint, then: ticdc-warehouse run. It reads what "
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
    return [f"topic {name} no longer exists: the records of it that were not read are lost" for name in asked]


def missing(source: SourceSection, present: Collection[str], *, available_now: bool) -> list[str]:
    """Give a sentence for each topic that is asked for and does not exist."""
    what = "skipped" if available_now else "waiting for it"
    if source.topic_pattern is None:
        absent = [topic for topic in source.topics if topic not in present]
        return [f"topic {topic} does not exist yet: {what}" for topic in absent]
    if present:
        return []
    what = "nothing to take" if available_now else "waiting for one"
    return [f"no topic matches {source.topic_pattern} yet: {what}"]


def without_ids(topics: Collection[str]) -> str:
    """Say what it costs that a broker gives these topics no id."""
    some = ", ".join(sorted(topics)[:_LISTED]) + (" …" if len(topics) > _LISTED else "")
    return (
        f"the broker gives no topic id to {some}: a run notices a topic that was deleted and created again only if "
        "its offsets end before those of the tables. The same is true of another cluster in the place of this one"
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
                f"topic {name} was deleted and created again: its offsets begin again, "
                f"and records of the old topic past offset {_ends_of(committed, topic_id)} were never read",
                "to read the new topic from its beginning: ticdc-warehouse run --accept TOPIC_RECREATED",
            )
    for partition, end in committed.of(state.topics).items():
        _check_range(partition, end, state, accepted)


def _ends_of(committed: Committed, topic_id: str) -> str:
    ends = {partition: end for (topic, partition), end in committed.ends.items() if topic == topic_id}
    return ", ".join(f"{end} of partition {partition}" for partition, end in sorted(ends.items())) or "0"


def _check_range(partition: Partition, end: int, state: KafkaState, accepted: frozenset[str]) -> None:
    latest, earliest = state.latest.get(partition, end), state.earliest.get(partition, 0)
    where = f"topic {partition.stream} partition {partition.number}"
    if latest < end and OFFSETS_SHRUNK not in accepted:
        raise Refused(
            OFFSETS_SHRUNK,
            f"{where} ends at offset {latest}, but records up to {end} are in the tables: the broker has lost what it "
            "had acknowledged",
            "to go on from where the topic ends now: ticdc-warehouse run --accept OFFSETS_SHRUNK",
        )
    if earliest > end and OFFSETS_LOST not in accepted:
        raise Refused(
            OFFSETS_LOST,
            f"{where} begins at offset {earliest}: {earliest - end} records from offset {end} on were removed by "
            "retention before they were read",
            "to go on without them: ticdc-warehouse run --accept OFFSETS_LOST",
        )


def starting_offsets(
    committed: Committed, state: KafkaState, wanted: str | Mapping[str, Mapping[int, int]]
) -> dict[Partition, int]:
    """The offset at which each partition begins without a checkpoint: the tables' end, else the settings'."""
    ends = committed.of(state.topics)
    begun = bool(committed.ends)
    start: dict[Partition, int] = {}
    for partition in state.partitions():
        if partition in ends:
            start[partition] = min(
                max(ends[partition], state.earliest.get(partition, 0)), state.latest.get(partition, ends[partition])
            )
        elif begun or wanted == "earliest":
            start[partition] = EARLIEST
        elif wanted == "latest":
            start[partition] = state.latest[partition]
        else:
            offsets = wanted.get(partition.stream, {}) if not isinstance(wanted, str) else {}
            start[partition] = offsets.get(partition.number, EARLIEST)
    return start


def as_json(offsets: Mapping[Partition, int]) -> str:
    """Offsets as Spark's Kafka source takes them."""
    nested: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        nested.setdefault(partition.stream, {})[str(partition.number)] = offset
    return json.dumps(nested)


def from_json(text: str) -> dict[Partition, int]:
    """The inverse of `as_json`."""
    return {
        Partition(topic, int(partition)): int(offset)
        for topic, partitions in json.loads(text).items()
        for partition, offset in partitions.items()
    }


def accepted(committed: Committed, state: KafkaState) -> Committed:
    """What counts as committed once every refusal was passed over: no less and no more than Kafka has."""
    ids = {topic.name: topic.id for topic in state.topics.values()}
    within = {
        (ids[partition.stream], partition.number): min(
            max(end, state.earliest.get(partition, 0)), state.latest.get(partition, end)
        )
        for partition, end in committed.of(state.topics).items()
    }
    again = {ids[name]: name for name in committed.names.values() if name in ids}
    return Committed({**committed.ends, **within}, {**committed.names, **again})
