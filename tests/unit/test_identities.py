"""Which topic is which where a broker gives no ids, and whose progress is whose when it begins to, or ends to."""

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from pipeline.errors import Refused
from pipeline.model.places import Partition
from pipeline.sources.kafka.checkpoint import agrees
from pipeline.sources.kafka.cluster import _LISTING
from pipeline.sources.kafka.identities import by_name, given, identified, is_by_name
from pipeline.sources.kafka.offsets import (
    TOPICS_MIXED,
    KafkaState,
    accepted,
    check,
    starting_offsets,
    succeeded,
    without_ids,
)
from pipeline.sources.source import Committed, Stream

ZERO = "AAAAAAAAAAAAAAAAAAAAAA"
A, B = Partition("a", 0), Partition("b", 0)


def listed(**ids):
    return list(ids.items())


class TestIdentities:
    @pytest.mark.parametrize("missing", [ZERO, "", "null"])
    def test_an_id_that_is_none_is_the_topics_name(self, missing):
        assert identified(listed(a=missing, b="B1"), {}) == {"a": "name:a", "b": "B1"}

    def test_an_id_of_two_topics_is_no_ones(self):
        assert identified(listed(a="X", b="X", c="C1"), {}) == {"a": "name:a", "b": "name:b", "c": "C1"}

    def test_an_id_that_another_topic_had_is_no_ones(self):
        assert identified(listed(b="X"), {"a": "X"}) == {"b": "name:b"}

    def test_a_topic_that_the_broker_lists_twice_has_its_id(self):
        assert given([("a", "A1"), ("a", "A1")]) == {"a": "A1"}

    def test_a_broker_that_gives_no_id_any_more_takes_none_away(self):
        assert identified(listed(a=ZERO), {"a": "A1"}) == {"a": "A1"}

    def test_an_id_that_comes_while_a_run_lives_is_taken_up_by_the_next(self):
        assert identified(listed(a="A1"), {"a": "name:a"}) == {"a": "name:a"}

    def test_a_topic_that_was_made_again_has_another(self):
        assert identified(listed(a="A2"), {"a": "A1"}) == {"a": "A2"}

    @drawn(
        st.lists(
            st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", ZERO, "null", "X", "A1", "B1"])), max_size=5
        )
    )
    def test_no_two_topics_are_one_whatever_brokers_answer_one_after_the_other(self, answers):
        known = {}
        for answer in answers:
            found = identified(answer.items(), known)
            assert found.keys() == answer.keys()
            assert all(not is_by_name(identity) or identity == by_name(name) for name, identity in found.items())
            known |= found
            assert len(set(known.values())) == len(known)

    def test_a_topic_is_listed_whatever_its_id(self):
        text = f"[(name=a.b-c_d, topicId={ZERO}, internal=false), (name=e, topicId=, internal=false)]"
        assert _LISTING.findall(text) == [("a.b-c_d", ZERO), ("e", "")]


def kafka(a, b):
    """Two topics with these identities; `b` has fewer records than were read of `a`."""
    topics = {"a": Stream("a", a, (0,)), "b": Stream("b", b, (0,))}
    return KafkaState(topics, {A: 0, B: 0}, {A: 200, B: 10})


def never():
    raise AssertionError("nobody needs to know")


class TestProgress:
    by_names = Committed({("name:a", 0): 200, ("name:b", 0): 7}, {"name:a": "a", "name:b": "b"})
    by_ids = Committed({("A1", 0): 200, ("B1", 0): 7}, {"A1": "a", "B1": "b"})

    def test_by_name_each_topic_has_its_own(self):
        state = kafka("name:a", "name:b")
        assert succeeded(self.by_names.names, state, never) == {}
        check(self.by_names, state, frozenset())
        assert starting_offsets(self.by_names, state, "earliest") == {A: 200, B: 7}
        assert agrees(({}, {A: 200, B: 7}), self.by_names.of(state.topics))

    def test_a_topic_that_gets_an_id_is_the_same_one(self):
        state = kafka("A1", "B1")
        successors = succeeded(self.by_names.names, state, never)
        now = self.by_names.under(successors)
        assert now == self.by_ids
        check(now, state, frozenset())
        assert accepted(now, state) == self.by_ids
        assert succeeded(now.names, state, never) == {}

    def test_one_that_is_gone_waits_under_its_name_and_one_by_one_is_no_matter(self):
        state = KafkaState({"a": Stream("a", "A1", (0,))}, {A: 0}, {A: 200})
        now = self.by_names.under(succeeded(self.by_names.names, state, never))
        assert now == Committed({("A1", 0): 200, ("name:b", 0): 7}, {"A1": "a", "name:b": "b"})

    def test_what_a_table_has_and_the_ledger_has_not_goes_along(self):
        recorded = {"name:b"}  # of a batch that was never committed
        assert succeeded(recorded, kafka("A1", "B1"), never) == {"name:b": "B1"}

    def test_where_both_were_recorded_the_later_end_counts(self):
        both = Committed({("name:a", 0): 5, ("A1", 0): 3, ("A1", 1): 4}, {"A1": "a", "name:a": "a"})
        assert both.under({"name:a": "A1"}) == Committed({("A1", 0): 5, ("A1", 1): 4}, {"A1": "a"})

    @pytest.mark.parametrize(("identity", "state"), [("name:a", kafka("name:a", "name:b")), ("A1", kafka("A1", "B1"))])
    def test_what_an_earlier_version_noted_of_one_topic_under_no_id_is_that_topics(self, identity, state):
        before = Committed({(ZERO, 0): 150}, {ZERO: "a"})
        now = before.under(succeeded(before.names, state, lambda: ["a"]))
        assert now == Committed({(identity, 0): 150}, {identity: "a"})
        check(now, state, frozenset())

    @pytest.mark.parametrize("read", [["a", "b"], []])
    def test_what_it_noted_of_several_is_refused_with_their_names_and_the_way_on(self, read):
        before = Committed({(ZERO, 0): 10}, {ZERO: "b"})
        with pytest.raises(Refused) as refusal:
            succeeded(before.names, kafka("name:a", "name:b"), lambda: read)
        assert refusal.value.code == TOPICS_MIXED
        assert (", ".join(read) or "each topic") in refusal.value.message
        assert "empty warehouse.path and checkpoint" in refusal.value.hint

    def test_fewer_offsets_are_all_that_tells_a_topic_that_was_made_again(self):
        with pytest.raises(Refused, match="OFFSETS_SHRUNK"):
            check(self.by_names, KafkaState({"a": Stream("a", "name:a", (0,))}, {A: 0}, {A: 199}), frozenset())
        assert "deleted and created again" in without_ids(["a", "b"])

    def test_of_many_topics_a_few_are_named(self):
        assert without_ids([*"gfedcba"]).startswith("the broker gives no topic id to a, b, c, d, e …: ")
