"""TiCDC's own sums in Simple, found again: of all that it sent, and not of what was changed on the way.

It sent them in JSON. In Avro the same rows have these sums, in the messages that it sent of them there.
"""

import json
from collections import Counter
from dataclasses import replace

import pytest
from golden import simple_avro
from golden.corpus import GoldenCase
from golden.decode_simple import message as read
from spark.test_simple_decode import mapping_of, protocol_of, raw_frame
from support.slow import few

from pipeline.model import change

pytestmark = pytest.mark.spark

SCENARIOS = few("all_types", "key_updates", "lifecycle", "ddl")
ENCODINGS = ["json", "avro"]
SIDES = ["data", "old"]
NOT_SUMMED = "types.t_zero_part"
"""TiCDC fails on partial zero dates when it computes checksums: those statements were skipped."""


def case_of(scenario, encoding):
    return GoldenCase(scenario, f"simple_{encoding}")


def records_of(scenario, encoding):
    """All records of a scenario with sums."""
    in_json = GoldenCase(scenario, "simple_json_checksum").records
    if encoding == "json":
        return list(in_json)
    sent = (read("json", record.value) for record in in_json if record.kind == "row")
    records = [r for r in case_of(scenario, "avro").records if r.kind != "row" or r.table != NOT_SUMMED]
    return [with_sum(record, next(sent)) if record.kind == "row" else record for record in records]


def with_sum(record, summed):
    """The record in Avro with the sums of the same row in JSON."""
    one, other = (
        [message["database"], message["table"], message["type"], *(sorted(message.get(side) or ()) for side in SIDES)]
        for message in (read("avro", record.value), summed)
    )
    assert one == other
    return replace(record, value=simple_avro.with_told(record.value, checksum=summed.get("checksum")))


def verdicts(spark, scenario, encoding, records):
    """What is said of each row, by where it stands."""
    protocol = protocol_of(case_of(scenario, encoding))
    prepared = protocol.prepare(raw_frame(spark, records)).cache()
    messages, said = protocol.read(prepared), {}
    assert (messages.refused, messages.unknown) == ((), ())
    for table in messages.tables:
        frame = protocol.recipe(table, mapping_of(table)).of(prepared.where(protocol.where(table)))
        for row in frame.select(change.PARTITION, change.OFFSET, change.CHECKSUM).collect():
            said[row[0], row[1]] = row[2]
    prepared.unpersist()
    return said, messages


def sent(encoding, records):
    """The messages that have sums, by where they stand."""
    found = {at: read(encoding, record.value) for at, record in placed(records).items()}
    return {at: message for at, message in found.items() if message.get("checksum")}


def placed(records):
    """Records by where they stand."""
    ends, found = Counter(), {}
    for record in records:
        found[record.partition, ends[record.partition]] = record
        ends[record.partition] += 1
    return found


def has_sum(op, *, current, previous, corrupted, version):
    """Whether there is one to find again: a row with JSON that TiCDC calls corrupted is excused.

    Source: docs/reference/protocols/avro.md.
    """
    del version
    return not corrupted and bool((op != "DELETE" and current) or (op != "INSERT" and previous))


@pytest.mark.parametrize("encoding", few(*ENCODINGS))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_sum_that_ticdc_sent_is_that_of_its_row(spark, scenario, encoding):
    records = records_of(scenario, encoding)
    said, _ = verdicts(spark, scenario, encoding, records)
    messages = sent(encoding, records)
    wrong = [(at, messages[at]) for at, verdict in said.items() if verdict is False]
    assert wrong == []
    checked = [at for at, verdict in said.items() if verdict]
    summed = {at for at, message in messages.items() if has_sum(message["type"], **message["checksum"])}
    assert set(checked) == summed
    assert checked


@pytest.mark.parametrize("side", SIDES)
def test_a_row_that_was_changed_on_the_way_is_found(spark, side):
    records = records_of("lifecycle", "json")
    at, message = an_update("json", records)
    name = next(name for name, value in message[side].items() if isinstance(value, str) and value.isdigit())
    message = {**message, side: {**message[side], name: str(int(message[side][name]) + 1)}}
    assert_found(spark, "json", records, at, json.dumps(message).encode())


def test_a_text_whose_bytes_ticdc_has_replaced_is_no_false_alarm(spark):
    records = records_of("lifecycle", "json")
    at, message = an_update("json", records)
    name = next(name for name, value in message["data"].items() if isinstance(value, str) and value.isalpha())
    value = json.dumps({**message, "data": {**message["data"], name: "M\ufffdller"}}).encode()
    sent = [replace(record, value=value) if here == at else record for here, record in placed(records).items()]
    said, _ = verdicts(spark, "lifecycle", "json", sent)
    assert [place for place, verdict in said.items() if verdict is False] == []


@pytest.mark.parametrize("side", few("current", "previous"))
def test_a_sum_that_was_changed_on_the_way_is_found_in_avro(spark, side):
    records = records_of("lifecycle", "avro")
    at, message = an_update("avro", records)
    plain = next(r for r in case_of("lifecycle", "avro").records if r.seq == placed(records)[at].seq)
    other = {**message["checksum"], side: message["checksum"][side] ^ 1}
    assert_found(spark, "avro", records, at, simple_avro.with_told(plain.value, checksum=other))


def an_update(encoding, records):
    """Where an update stands that has both sums."""
    return next(
        (at, message)
        for at, message in sent(encoding, records).items()
        if message["type"] == "UPDATE" and message["checksum"]["previous"]
    )


def assert_found(spark, encoding, records, at, value):
    """With this value at this place, its row is the only one that is wrong."""
    damaged = [replace(record, value=value) if here == at else record for here, record in placed(records).items()]
    said, _ = verdicts(spark, "lifecycle", encoding, damaged)
    assert [place for place, verdict in said.items() if verdict is False] == [at]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_where_no_sums_are_sent_nothing_is_said(spark, encoding):
    said, messages = verdicts(spark, "key_updates", encoding, case_of("key_updates", encoding).records)
    assert set(said.values()) == {None}
    assert not any(seen.version.has_checksum for table in messages.tables for seen in table.versions)
