"""What a run remembers of accepted refusals, and when Kafka still has what a checkpoint planned."""

import pytest

from pipeline.errors import Refused
from pipeline.model.places import Partition
from pipeline.sources.kafka.checkpoint import fits
from pipeline.sources.kafka.offsets import (
    OFFSETS_LOST,
    OFFSETS_SHRUNK,
    TOPIC_RECREATED,
    KafkaState,
    accepted,
    check,
    starting_offsets,
)
from pipeline.sources.source import Committed, Stream

AT = Partition("orders", 0)
READ = Committed({("id1", 0): 10}, {"id1": "orders"})


def kafka(earliest, latest, topic_id="id1"):
    return KafkaState({"orders": Stream("orders", topic_id, (0,))}, {AT: earliest}, {AT: latest})


class TestRefusals:
    @pytest.mark.parametrize(
        ("state", "code"),
        [
            (kafka(0, 3, "id2"), TOPIC_RECREATED),
            (kafka(0, 9), OFFSETS_SHRUNK),
            (kafka(11, 20), OFFSETS_LOST),
        ],
    )
    def test_what_would_be_lost_is_refused_until_it_is_accepted_and_then_once_for_all(self, state, code):
        with pytest.raises(Refused) as refusal:
            check(READ, state, frozenset())
        assert refusal.value.code == code
        check(READ, state, frozenset({code}))
        check(accepted(READ, state), state, frozenset())

    @pytest.mark.parametrize("state", [kafka(0, 10), kafka(0, 99), kafka(10, 99), KafkaState({}, {}, {})])
    def test_where_nothing_is_lost_nothing_is_refused_or_remembered(self, state):
        check(READ, state, frozenset())
        assert accepted(READ, state) == READ

    def test_accepted_ends_are_those_that_kafka_has(self):
        assert accepted(READ, kafka(0, 7)).ends == {("id1", 0): 7}
        assert accepted(READ, kafka(15, 20)).ends == {("id1", 0): 15}
        again = accepted(READ, kafka(0, 3, "id2"))
        assert (again.ends, again.names) == (READ.ends, {"id1": "orders", "id2": "orders"})
        assert starting_offsets(again, kafka(0, 3, "id2"), "latest") == {AT: -2}


class TestCheckpoints:
    @pytest.mark.parametrize(("start", "end"), [({}, {AT: 10}), ({AT: 4}, {AT: 10}), ({AT: 10}, {AT: 12})])
    def test_a_checkpoint_that_goes_on_where_the_tables_end_is_kept(self, start, end):
        assert fits((start, end), READ, kafka(0, 12))

    @pytest.mark.parametrize(
        "state",
        [
            pytest.param(kafka(5, 12), id="retention took what Spark may read once more"),
            pytest.param(kafka(0, 9), id="the topic has become shorter"),
            pytest.param(kafka(0, 99, "id2"), id="the topic is another"),
            pytest.param(KafkaState({}, {}, {}), id="the topic is gone"),
        ],
    )
    def test_one_whose_records_kafka_does_not_have_is_not_kept(self, state):
        assert not fits(({AT: 4}, {AT: 10}), READ, state)

    def test_before_the_first_commit_the_checkpoint_alone_knows_where_it_began(self):
        assert fits(({}, {AT: 10}), Committed(), kafka(0, 12))
