"""Where a run begins: what is refused, at which offset each partition starts, when a checkpoint is still good."""

import pytest

from pipeline.errors import Refused
from pipeline.model.places import Partition
from pipeline.sources.kafka.checkpoint import agrees
from pipeline.sources.kafka.offsets import (
    EARLIEST,
    OFFSETS_LOST,
    OFFSETS_SHRUNK,
    TOPIC_RECREATED,
    KafkaState,
    as_json,
    check,
    from_json,
    gone,
    starting_offsets,
)
from pipeline.sources.source import Committed, Stream

P0, P1 = Partition("orders", 0), Partition("orders", 1)


def kafka(topic_id="id-1", earliest=0, latest=10):
    topics = {"orders": Stream("orders", topic_id, (0, 1))}
    return KafkaState(topics, {P0: earliest, P1: earliest}, {P0: latest, P1: latest})


def committed(end=5, topic_id="id-1"):
    return Committed({(topic_id, 0): end}, {topic_id: "orders"})


@pytest.mark.parametrize(
    ("before", "now", "code"),
    [
        (committed(), kafka(topic_id="id-2"), TOPIC_RECREATED),
        (committed(end=11), kafka(), OFFSETS_SHRUNK),
        (committed(end=5), kafka(earliest=6), OFFSETS_LOST),
    ],
)
def test_what_would_lose_records_is_refused_until_it_is_accepted(before, now, code):
    with pytest.raises(Refused) as refusal:
        check(before, now, frozenset())
    assert refusal.value.code == code
    assert f"--accept {code}" in str(refusal.value.hint)
    check(before, now, frozenset({code}))


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (Committed(), kafka()),
        (committed(end=10), kafka()),
        (committed(end=5), kafka(earliest=5)),
        (committed(), KafkaState({}, {}, {})),
        (Committed({("id-1", 0): 5}, {"id-1": "orders", "id-2": "orders"}), kafka(topic_id="id-2")),
    ],
    ids=["nothing yet", "all read", "just in time", "the topic is gone", "a new topic that was accepted"],
)
def test_what_loses_nothing_is_allowed(before, now):
    check(before, now, frozenset())


@pytest.mark.parametrize(
    ("before", "now", "wanted", "start"),
    [
        (Committed(), kafka(), "earliest", {P0: EARLIEST, P1: EARLIEST}),
        (Committed(), kafka(), "latest", {P0: 10, P1: 10}),
        (Committed(), kafka(), {"orders": {1: 7}}, {P0: EARLIEST, P1: 7}),
        (committed(end=5), kafka(), "latest", {P0: 5, P1: EARLIEST}),
        (committed(end=5), kafka(earliest=6), "latest", {P0: 6, P1: EARLIEST}),
        (committed(end=12), kafka(), "latest", {P0: 10, P1: EARLIEST}),
        (committed(end=5), kafka(topic_id="id-2"), "latest", {P0: EARLIEST, P1: EARLIEST}),
    ],
    ids=["earliest", "latest", "by number", "where the tables end", "what is left", "what there is", "a new topic"],
)
def test_a_partition_starts_where_the_tables_end_and_else_where_the_settings_say(before, now, wanted, start):
    assert starting_offsets(before, now, wanted) == start


@pytest.mark.parametrize(
    ("planned", "ends", "good"),
    [
        (({P0: 0}, {P0: 5}), {P0: 5}, True),
        (({P0: 0}, {P0: 5}), {P0: 0}, True),
        (({P0: 2}, {P0: 5}), {P0: 3}, True),
        (({P0: 0}, {P0: 5}), {P0: 6}, False),
        (({P0: 2}, {P0: 5}), {P0: 1}, False),
        (({}, {P0: 5}), {P0: 3, P1: 4}, True),
        (({P0: 0, P1: 0}, {P0: 5, P1: 5}), {P0: 5, P1: 6}, False),
        (({}, {P0: 5}), {}, True),
    ],
)
def test_a_checkpoint_is_good_while_the_tables_end_within_its_newest_batch(planned, ends, good):
    assert agrees(planned, ends) is good


def test_offsets_survive_their_json():
    assert from_json(as_json({P1: 3, P0: EARLIEST})) == {P0: EARLIEST, P1: 3}


def test_a_topic_of_the_tables_that_is_asked_for_and_not_there_any_more_is_told():
    assert gone(lambda names: names, committed(), ["items"])
    assert gone(lambda names: names, committed(), ["orders", "items"]) == []
    assert gone(lambda names: {*names} & {"items"}, committed(), ["items"]) == []
