"""How much Kafka has that no batch has taken, and since when, by the few questions that its admin client answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.model.places import Partition
from pipeline.sources.kafka.backlog import LONG_SECONDS, KafkaBacklog
from pipeline.sources.source import Committed, Stream

NOW = 1_800_000_000
HOUR, DAY = 3600, 86_400


class Kafka:
    """Partitions of one topic: of each the offset of its first record, and how many seconds ago each record came."""

    def __init__(self, **partitions):
        self._kept = {Partition("cdc", int(name[1:])): kept for name, kept in partitions.items()}
        self.asked = 0

    def topics(self):
        return {"cdc": Stream("cdc", "id", tuple(at.number for at in self._kept))}

    def earliest(self, partitions):
        return {at: self._kept[at][0] for at in partitions}

    def latest(self, partitions):
        return {at: self._kept[at][0] + len(self._kept[at][1]) for at in partitions}

    def since(self, moments):
        self.asked += 1
        return {at: self._first(at, moment) for at, moment in moments.items()}

    def _first(self, at, moment):
        first, ages = self._kept[at]
        came = [(NOW - age) * 1000 for age in ages]
        return next(((first + n, ms) for n, ms in enumerate(came) if ms >= moment), (-1, -1))


def backlog(kafka, *ends):
    return KafkaBacklog(kafka, Committed({("id", n): end for n, end in enumerate(ends)}, {"id": "cdc"}))


def ages(kafka, *ends):
    return {topic: NOW - came for topic, came in backlog(kafka, *ends).oldest(NOW).items()}


def test_what_is_past_the_ledger_is_counted_by_topic_and_what_kafka_has_forgotten_is_not():
    kafka = Kafka(p0=(10, [9, 8, 7]), p1=(0, [5]))
    assert backlog(kafka, 12, 0).records() == {"cdc": 2}
    assert backlog(kafka, 3).records() == {"cdc": 4}


def test_where_everything_is_taken_kafka_is_not_asked():
    kafka = Kafka(p0=(0, [6 * DAY, 5 * DAY]))
    assert ages(kafka, 2) == {}
    assert kafka.asked == 0


def test_a_quiet_table_that_is_read_late_does_not_wait_for_long():
    """Its changes were six days old when they came into the table: that they are taken now counts."""
    kafka = Kafka(p0=(0, [6 * DAY, 6 * DAY, 30]))
    assert ages(kafka, 2) == {}
    assert kafka.asked == 1


def test_a_run_that_hangs_has_records_as_old_as_the_first_that_it_has_not_taken():
    kafka = Kafka(p0=(100, [7 * DAY - 600 * n for n in range(1_008)]))  # six an hour, for a week
    taken = 100 + 2 * 144
    assert ages(kafka, taken)["cdc"] == pytest.approx(5 * DAY, abs=7 * DAY / 256)
    assert kafka.asked <= 10


def test_the_oldest_of_a_topic_counts_also_where_it_has_come_alone():
    kafka = Kafka(p0=(7, [5 * DAY]), p1=(0, [2 * DAY, 2 * HOUR, HOUR]))
    assert ages(kafka, 7, 1) == {"cdc": 5 * DAY}
    assert ages(kafka, 8, 1) == {"cdc": 2 * HOUR}


def test_a_record_behind_which_one_has_come_just_now_is_as_old_as_it_is():
    kafka = Kafka(p0=(0, [7 * DAY, 5 * DAY + 1, 5 * DAY, 1]))
    assert ages(kafka, 2)["cdc"] == pytest.approx(5 * DAY, abs=7 * DAY / 256)


@given(
    came=st.lists(st.integers(0, 14 * DAY), min_size=1, max_size=40).map(lambda ages: sorted(ages, reverse=True)),
    share=st.floats(0, 0.999),
)
def test_an_age_is_right_to_a_small_part_of_what_kafka_keeps(came, share):
    taken = int(len(came) * share)
    found = ages(Kafka(p0=(0, came)), taken)
    if came[taken] < LONG_SECONDS:
        assert found == {}
    elif came[taken] > LONG_SECONDS:
        assert found["cdc"] == pytest.approx(came[taken], abs=came[0] / 256 + 1)
