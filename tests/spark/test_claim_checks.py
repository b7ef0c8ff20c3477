"""Rows whose messages lie in external storage are read as if the messages had come through Kafka."""

import base64
import json
import random
import re
import sys
from contextlib import ExitStack
from threading import Barrier

import pytest
from golden.corpus import GoldenCase
from golden.objects import unpacked, written_as
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import functions as F
from spark.open_events import Memory, golden_frame, protocol, raw_frame, record, rows_of
from support.slow import few

from pipeline.model.large_rows import Message
from pipeline.model.places import POSITION
from pipeline.protocols.canal.protocol import CanalProtocol
from pipeline.protocols.large.claim_checks import ClaimChecks, pattern_of
from pipeline.protocols.large.completion import Completion
from pipeline.protocols.reading import prepared_and_read
from pipeline.protocols.simple import simple_protocol
from pipeline.sources.storage.stores import store_at

pytestmark = pytest.mark.spark
register_pickle_by_value(sys.modules[__name__])  # workers of Spark do not have the tests

CASES = {
    "canal_json_claim_check_lz4": "canal_json_large_none_none",
    "canal_json_claim_check_raw_none": "canal_json_large_none_none",
    "open_claim_check_lz4": "open_large_none_none",
    "simple_avro_claim_check_raw_none": "simple_avro_large_none_none",
    "simple_json_claim_check_none": "simple_json_large_none_none",
}
"""Configurations and those with the same rows inside the messages."""
TS = 450000000000000001
PLACE = "/claims"


def made(config):
    if config.startswith("open"):
        return protocol(Memory())
    if config.startswith("canal"):
        return CanalProtocol("UTC", {}, Memory())
    return simple_protocol("avro" if "avro" in config else "json", "UTC", {}, Memory())


@pytest.fixture
def resources():
    with ExitStack() as stack:
        yield stack


class Objects:
    """Objects in memory."""

    def __init__(self, **content):
        self.content = {f"{name}.json": value for name, value in content.items()}

    def read(self, path, start=0, size=None):
        if path not in self.content:
            raise FileNotFoundError(path)
        if self.content[path] is None:
            raise PermissionError(13, "the store says AccessDenied", path)
        return self.content[path][start:][:size]


def events_of(prepared, head):
    """What a prepared frame has, without the moment at which TiCDC made each message, and where it stands."""
    rows = rows_of(prepared.orderBy("partition", POSITION, "index"))
    for row in rows:
        row[head] = {name: unordered(one) for name, one in row[head].items() if name != "location"}
        del row[POSITION], row["index"]
        row["key"] = row["key"] and row["key"][8:]
        row["value"] = said(row["value"])
    return rows


def unordered(value):
    """A map has no order."""
    return dict(value) if isinstance(value, list) else value


def said(value):
    """A message without that moment; of Simple in Avro, which has it somewhere in the bytes, its length."""
    if not value.startswith(b"{"):
        return len(value)
    return {name: one for name, one in json.loads(value).items() if name not in ("ts", "buildTs")}


@pytest.mark.parametrize("config", few(*CASES))
def test_golden_rows_are_those_of_a_changefeed_without_a_limit(spark, config, tmp_path, resources):
    case, whole = GoldenCase("large_rows", config), GoldenCase("large_rows", CASES[config])
    objects = store_at(str(unpacked(case, tmp_path)), {})
    completion = Completion(ClaimChecks(written_as(case), objects))
    subject, other = made(config), made(config)
    prepared, messages = prepared_and_read(subject, golden_frame(spark, case.records), completion, resources)
    plain, expected = prepared_and_read(other, golden_frame(spark, whole.records), Completion(), resources)
    assert messages.refused == expected.refused == ()
    assert {(table.table, table.rows) for table in messages.tables} == {
        (table.table, table.rows) for table in expected.tables
    }
    head = subject.large_rows().head
    assert events_of(prepared, head) == events_of(plain, head)


def canal(location=None, **changes):
    """A row of Canal-JSON, or the message that says where it lies."""
    row = {
        "id": 0, "database": "s", "table": "a", "pkNames": ["id"], "isDdl": False, "type": "INSERT", "es": 1, "ts": 2,
        "sql": "", "sqlType": {"id": 4, "t": 12}, "mysqlType": {"id": "int", "t": "varchar"}, "old": None,
        "data": [{"id": "1", "t": "x"}], "_tidb": {"commitTs": TS},
    } | changes  # fmt: skip
    if location is not None:
        row |= {"sqlType": {"id": 4}, "mysqlType": {"id": "int"}, "data": [{"id": "1"}]}
        row["_tidb"] = {**row["_tidb"], "claimCheckLocation": location}
    return json.dumps(row).encode()


def wrapped(value, key=None):
    return json.dumps({"key": key and base64.b64encode(key).decode(), "value": base64.b64encode(value).decode()})


def refused_codes(prepared, messages, place):
    events = ((event, one.code) for one in messages.refused for event in prepared.where(one.where).collect())
    return {event[place]: code for event, code in events}


def test_what_is_not_the_row_is_a_dead_letter_with_the_bytes_that_were_sent(spark, resources):
    objects = {
        "row": canal(), "wrapped": wrapped(canal()).encode(), "other": canal(table="b"), "later": canal(
            _tidb={"commitTs": TS + 1}), "again": canal("/claims/row.json"), "junk": b"no message", "empty": b"",
        "cut": wrapped(canal()).encode()[:-9], "odd": b'{"key":null,"value":7}', "rows": canal(
            data=[{"id": "1", "t": "x"}, {"id": "2", "t": "y"}]),
    }  # fmt: skip
    locations = [f"/claims/{name}.json" for name in objects]
    locations += ["/claims/gone.json", "/elsewhere/row.json", "/claims/../claims/row.json", "s3://claims/row.json"]
    messages = [(None, canal(location)) for location in locations]
    subject = made("canal")
    completion = Completion(ClaimChecks(PLACE, Objects(**objects)))
    prepared, read = prepared_and_read(subject, raw_frame(spark, messages), completion, resources)
    codes = refused_codes(prepared, read, POSITION)
    unreadable = dict.fromkeys(range(2, 10), "CLAIM_CHECK_UNREADABLE")
    missing, outside = {10: "CLAIM_CHECK_MISSING"}, dict.fromkeys(range(11, 14), "CLAIM_CHECK_OUTSIDE")
    assert codes == {**unreadable, **missing, **outside}
    assert [(str(table.table), table.rows) for table in read.tables] == [("s.a", 2)]
    kept = {row[POSITION]: bytes(row.value) for row in prepared.collect() if row[POSITION] in codes}
    assert kept == {number: messages[number][1] for number in kept}
    assert {one.code: dict(one.tables) for one in read.refused}["CLAIM_CHECK_MISSING"]


def mutated(dice, content):
    """An object with some octets changed, gone or more, or cut off."""
    octets = bytearray(content)
    for _ in range(dice.randrange(1, 5)):
        at = dice.randrange(len(octets) + 1)
        octets[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
    return bytes(octets[: dice.choice([len(octets), len(octets), dice.randrange(len(octets) + 1)])])


@pytest.mark.parametrize("name", ["canal", "open"])
def test_of_damaged_objects_each_row_is_read_or_is_a_dead_letter(spark, resources, name):
    dice, number = random.Random(30), 2_000  # noqa: S311 - no secret
    if name == "canal":
        objects = [canal(), wrapped(canal()).encode()]
        sent = [(None, canal(f"/claims/x{at}.json")) for at in range(number)]
    else:
        key, value = f'{{"ts":{TS},"scm":"s","tbl":"a","t":1', '{"u":{"id":{"t":3,"h":true,"f":11,"v":1}}}'
        stored = record((f"{key}}}", value))
        objects = [wrapped(stored[1], stored[0]).encode()]
        large = [f'{key},"ohk":true,"ccl":"file:///claims/x{at}.json"}}' for at in range(number)]
        sent = [record((one, value)) for one in large]
    content = {f"x{at}": mutated(dice, dice.choice(objects)) for at in range(number)}
    completion = Completion(ClaimChecks(PLACE, Objects(**content)))
    prepared, read = prepared_and_read(made(name), raw_frame(spark, sent), completion, resources)
    refused = sum(one.rows for one in read.refused)
    assert read.events == number == refused + sum(table.rows for table in read.tables)
    assert number // 2 < refused < number
    (unreadable,) = (one for one in read.refused if one.code == "CLAIM_CHECK_UNREADABLE")
    assert unreadable.rows > 0.9 * refused  # the others are whole messages, with types that TiDB has not
    kept = {row[POSITION]: bytes(row.value) for row in prepared.where(unreadable.where).collect()}
    assert kept == {at: sent[at][1] for at in kept}


def test_a_row_of_open_keeps_its_number_among_those_of_its_record(spark, resources):
    row = '{"u":{"id":{"t":3,"h":true,"f":11,"v":%d}}}'
    key = f'{{"ts":{TS},"scm":"s","tbl":"a","t":1'
    large = (f'{key},"ohk":true,"ccl":"file:///claims/{name}.json"}}' for name in ("row", "gone", "two", "x"))
    messages = [record(*((one, row % number) for number, one in enumerate([f"{key}}}", *large])))]
    one, two = ([(f"{key}}}", row % number) for number in numbers] for numbers in ([1], [1, 2]))
    stored = {name: record(*events) for name, events in (("row", one), ("two", two))}
    objects = {name: wrapped(value, key).encode() for name, (key, value) in stored.items()}
    completion = Completion(ClaimChecks(PLACE, Objects(**objects, x=b"raw")))
    prepared, read = prepared_and_read(made("open"), raw_frame(spark, messages), completion, resources)
    assert refused_codes(prepared, read, "index") == {
        2: "CLAIM_CHECK_MISSING", 3: "CLAIM_CHECK_UNREADABLE", 4: "CLAIM_CHECK_UNREADABLE"
    }  # fmt: skip
    rows = {event["index"]: bytes(event.value)[8:].decode() for event in prepared.collect()}
    assert rows == {number: row % number for number in range(5)}
    assert sum(table.rows for table in read.tables) == 2


def test_without_the_right_to_read_an_object_the_batch_fails_and_says_so(spark, resources):
    completion = Completion(ClaimChecks(PLACE, Objects(row=None)))
    frame = raw_frame(spark, [(None, canal("/claims/row.json"))])
    with pytest.raises(Exception, match=r"STORE_FORBIDDEN.*source\.claim_check\.path"):
        prepared_and_read(made("canal"), frame, completion, resources)


INSIDE = {
    ("/claims", "file:///claims/a.json"): "a.json",
    ("/claims", "/claims/a.json"): "a.json",
    ("/claims", "local:///claims//b/a.json"): "b/a.json",
    ("s3://b/p", "s3://b/p/a.json"): "a.json",
    ("s3://b/p", "S3:/b/p/a.json"): "a.json",
    ("s3://b", "s3a://b/p/a.json"): "p/a.json",
    ("gs://b/p", "gcs://b/p/a.json"): "a.json",
    ("s3://b/p.q", "s3://b/p.q/ä b.json"): "ä b.json",
}
OUTSIDE = [
    ("/claims", "/claims"), ("/claims", "/claims/"), ("/claims", "/claims2/a.json"), ("/claims", "/claims/../a.json"),
    ("/claims", "/claims/b/../../a.json"), ("/claims", "/claims/."), ("/claims", "file:///etc/passwd"),
    ("/claims", "s3://claims/a.json"), ("/claims", "claims/a.json"), ("/claims", "/claims/a.json?x=1"),
    ("/claims", "/claims/a%2e.json"), ("/claims", "/claims/a\n.json"), ("/claims", "/claims/a.json\n"),
    ("s3://b/p", "s3://b/q/a.json"), ("s3://b/p", "s3://b2/p/a.json"), ("s3://b/p.q", "s3://b/pxq/a.json"),
    ("s3://b/p", "gs://b/p/a.json"), ("s3://b/p", "/b/p/a.json"), ("s3://b/p", "s3://b/p/..\\a.json"),
]  # fmt: skip


def test_a_location_lies_below_the_path_or_is_never_asked_for(spark):
    cases = {**INSIDE, **dict.fromkeys(OUTSIDE, "")}
    for place in {place for place, _ in cases}:
        mine = [(location, path) for (of, location), path in cases.items() if of == place]
        claims = ClaimChecks(place, Objects())
        shown = spark.createDataFrame(mine, "location string, path string").withColumn(
            "got", claims.path(F.col("location"))
        )
        assert [(row.location, row.got) for row in shown.collect()] == mine
        groups = [(location, re.search(pattern_of(place).replace(r"\z", r"\Z"), location)) for location, _ in mine]
        assert [(location, match[1] if match else "") for location, match in groups] == mine


def test_objects_are_read_several_at_a_time_and_come_in_their_order():
    together = Barrier(4, timeout=10)

    class Slow(Objects):
        def read(self, path, start=0, size=None):
            together.wait()
            return super().read(path, start, size)

    claims = ClaimChecks(PLACE, Slow(**{f"o{number}": b"%d" % number for number in range(8)}))
    asked = [(Message(None, b"sent"), f"o{number}.json") for number in range(8)]
    whole = claims.messages(asked, made("canal").large_rows())
    assert [message.value for message in whole] == [b"%d" % number for number in range(8)]


def test_a_batch_holds_no_more_memory_than_three_times_the_bytes_of_its_large_rows(spark, resources):
    whole = canal(data=[{"id": "1", "t": "ä" * (1 << 19)}])
    count = 8
    messages = [(None, canal("/claims/row.json"))] * count
    completion = Completion(ClaimChecks(PLACE, Objects(row=whole)))
    before = kept_bytes(spark)
    prepared, found = prepared_and_read(made("canal"), raw_frame(spark, messages), completion, resources)
    assert found.tables[0].rows == prepared.count() == count
    assert count * len(whole) <= kept_bytes(spark) - before <= 3 * count * len(whole)


def kept_bytes(spark):
    """What Spark keeps of frames, in memory and on disk."""
    infos = spark.sparkContext._jsc.sc().getRDDStorageInfo()
    return sum(info.memSize() + info.diskSize() for info in infos)
