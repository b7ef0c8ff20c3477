"""Which topic is which: by Kafka's topic id, or by name where the broker gives none.

A re-created topic has another id, so progress is kept by id. Brokers before 2.8 and some that only speak Kafka's
protocol give none: the client then shows one and the same id for every topic (KIP-516, `Uuid.ZERO_UUID`). That a
topic has no id must never make it equal to another one that has none either.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NO_IDS = frozenset({"", "null", "AAAAAAAAAAAAAAAAAAAAAA"})
_BY_NAME = "name:"
"""No topic id has a colon: ids are base64 for URLs."""


def by_name(topic: str) -> str:
    """The identity of a topic that has no id."""
    return _BY_NAME + topic


def is_by_name(identity: str) -> bool:
    """Whether an identity is no more than the topic's name."""
    return identity.startswith(_BY_NAME)


def name_in(identity: str) -> str:
    """The name in an identity that is no more (`by_name`)."""
    return identity.removeprefix(_BY_NAME)


def is_missing(identity: str) -> bool:
    """Whether it is what a client shows for a topic without an id: it identifies nothing."""
    return identity in _NO_IDS


def given(listed: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Name → id of the topics to which the broker gives an id that no other topic has."""
    topics = dict(listed)
    count = Counter(topics.values())
    return {name: topic_id for name, topic_id in topics.items() if not is_missing(topic_id) and count[topic_id] == 1}


def identified(listed: Iterable[tuple[str, str]], before: Mapping[str, str]) -> dict[str, str]:
    """Name → identity of every listed topic; `before`: the identities that topics had before, by name.

    A topic whose id is not given keeps the identity that it had: while brokers are upgraded one by one, only some
    answer with ids. One that is known by its name keeps that, too: the next start takes its progress over
    (`position.succeeded`). An id that another topic had is not given: Kafka renames no topic.
    """
    topics, owners = dict(listed), {identity: name for name, identity in before.items()}
    ids = {name: topic_id for name, topic_id in given(topics.items()).items() if owners.get(topic_id, name) == name}
    return {name: _identity(name, ids.get(name), before.get(name)) for name in topics}


def _identity(name: str, topic_id: str | None, before: str | None) -> str:
    if topic_id is None:
        return before or by_name(name)
    return before if before is not None and is_by_name(before) else topic_id
