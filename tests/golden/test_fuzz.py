"""Whatever stands in a record: it becomes a dead letter with its bytes, nothing else, and the stream goes on."""

from dataclasses import replace

import pytest
from golden.corpus import GoldenCase
from golden.values import freeze
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

CASES = [GoldenCase("key_updates", config) for config in ("simple_json", "simple_avro", "open")]
EXAMPLES, RECORDS = 3, 60
NOT_UTF8 = b"\xff\xfe"


def prefixes(whole):
    """What is left of bytes of which the end was lost."""
    return st.integers(0, len(whole) - 1).map(lambda end: whole[:end])


def cut_off(whole):
    """Bytes that lost their end, or are others altogether."""
    return prefixes(whole) | st.binary(max_size=200)


def overwritten(whole):
    """Bytes of which two are no text any more."""
    return st.integers(0, len(whole) - 2).map(lambda at: whole[:at] + NOT_UTF8 + whole[at + 2 :])


def broken(case):
    """Records of a case that no reader can take for what they were, nor for another message.

    Avro has room for bytes that are no text; a record of Open has several events, and one that is no text leaves the
    others.
    """

    def one(record):
        values = cut_off(record.value).map(lambda value: replace(record, value=value))
        if case.config == "simple_json":
            return values | overwritten(record.value).map(lambda value: replace(record, value=value))
        if case.protocol == "simple":
            return values
        return values | cut_off(record.key).map(lambda key: replace(record, key=key))

    return st.lists(st.sampled_from(case.records).flatmap(one), min_size=RECORDS, max_size=RECORDS)


def contents(warehouse):
    return {name: sorted(map(repr, map(plain, warehouse.current(name).rows))) for name in warehouse.current_names()}


def plain(row):
    return sorted((column, freeze(value)) for column, value in row.values.items())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fuzzed_bytes_are_dead_letters_and_never_stop_the_stream(case, running):
    sound = list(case.records)
    with running(case) as run:
        run.take(sound[: len(sound) // 2])
        expected, sent = contents(run.warehouse), []

        @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)
        @given(broken(case))
        def fuzzed(records):
            run.take(records)
            sent.extend((record.key, record.value) for record in records)
            letters = run.warehouse.own("dead_letters")
            found = sorted(((row["key"], row["value"]) for row in letters), key=repr)
            assert found == sorted(sent, key=repr)
            assert {row["status"] for row in letters} == {"open"}
            assert contents(run.warehouse) == expected
            assert not run.warehouse.own("held")
            assert not run.warehouse.own("quarantine")

        fuzzed()
        run.take(sound[len(sound) // 2 :])  # it goes on as if nothing had been there
        letters = run.warehouse.own("dead_letters")
        assert len(letters) == len(sent)
        assert contents(run.warehouse) != expected
