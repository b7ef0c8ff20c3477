"""TiCDC's own sums in Simple, found again: of all that it sent, and not of what was changed on the way."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from golden.corpus import GoldenCase
from spark.test_simple_decode import decoded, landing_of, protocol_of, raw_frame

from pipeline.model import change

pytestmark = pytest.mark.spark

CONFIG = "simple_json_checksum"
SCENARIOS = ["all_types", "ddl", "key_updates", "lifecycle"]


def verdicts(protocol, prepared, messages):
    """What is said of each row, by where it stands."""
    said = {}
    for table in messages.tables:
        frame = protocol.changes(prepared, table, landing_of(table))
        for row in frame.select(change.PARTITION, change.OFFSET, change.CHECKSUM).collect():
            said[row[0], row[1]] = row[2]
    return said


def sent(case):
    """The messages that have sums, by where they stand."""
    ends, found = Counter(), {}
    for record in case.records:
        message = json.loads(record.value)
        if message.get("checksum"):
            found[record.partition, ends[record.partition]] = message
        ends[record.partition] += 1
    return found


def has_sum(op, *, current, previous, corrupted, version):
    """Whether there is one to find again: a row with JSON that TiCDC calls corrupted is excused (docs/avro.md)."""
    del version
    return not corrupted and bool((op != "DELETE" and current) or (op != "INSERT" and previous))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_sum_that_ticdc_sent_is_that_of_its_row(spark, scenario):
    case = GoldenCase(scenario, CONFIG)
    said, messages = verdicts(*decoded(spark, case)), sent(case)
    wrong = [(at, messages[at]) for at, verdict in said.items() if verdict is False]
    assert wrong == []
    checked = [at for at, verdict in said.items() if verdict]
    summed = {at for at, message in messages.items() if has_sum(message["type"], **message["checksum"])}
    assert set(checked) == summed
    assert checked


@pytest.mark.parametrize("side", ["data", "old"])
def test_a_row_that_was_changed_on_the_way_is_found(spark, side):
    case = GoldenCase("lifecycle", CONFIG)
    messages = sent(case)
    at, message = next((at, m) for at, m in messages.items() if m["type"] == "UPDATE" and m["checksum"]["previous"])
    name = next(name for name, value in message[side].items() if isinstance(value, str) and value.isdigit())
    message[side][name] = str(int(message[side][name]) + 1)
    damaged, ends = [], Counter()
    for record in case.records:
        here = (record.partition, ends[record.partition])
        ends[record.partition] += 1
        damaged.append(replace(record, value=json.dumps(message).encode()) if here == at else record)
    protocol = protocol_of(case)
    prepared = protocol.prepare(raw_frame(spark, damaged)).cache()
    said = verdicts(protocol, prepared, protocol.read(prepared))
    assert [place for place, verdict in said.items() if verdict is False] == [at]


def test_where_no_sums_are_sent_nothing_is_said(spark):
    protocol, prepared, messages = decoded(spark, GoldenCase("key_updates", "simple_json"))
    assert set(verdicts(protocol, prepared, messages).values()) == {None}
    assert not any(seen.version.has_checksum for table in messages.tables for seen in table.versions)
