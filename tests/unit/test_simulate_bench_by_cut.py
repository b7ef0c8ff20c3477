"""The bench's rows in Simple and Open: those of its Avro, in the bytes of the simulator's encoders."""

import importlib.util
import io
import json
import re
import struct
import sys
from collections import Counter
from pathlib import Path

import fastavro
import pytest
from unit.simulate_golden import value_from

from pipeline.simulate import open_protocol, simple
from pipeline.simulate.avro import TableCodec
from pipeline.simulate.schemas import AvroOptions

BENCH = Path(__file__).parents[1] / "bench"
COUNT = 22_001


def module(name):
    spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    spec.loader.exec_module(found)
    return found


order_line, by_cut = module("order_line"), module("by_cut")
TABLE = order_line.order_line()
SEED = ("7/1", 2, 4)


def streamed(stream):
    return [record for block in stream.blocks(COUNT) for record in block], stream.truth


@pytest.fixture(scope="module")
def avro():
    """(op, commit ts, row) of each upsert and (op, None, key) of each delete, and the truth."""
    stream = order_line.Stream(order_line.Ids(11, 12), *SEED)
    codec = TableCodec(TABLE, AvroOptions())
    key, value = (fastavro.parse_schema(json.loads(text)) for text in (codec.key_schema, codec.value_schema))
    found = []
    for block in stream.blocks(COUNT):
        for one, body in block:
            if body is None:
                found.append(("delete", None, fastavro.schemaless_reader(io.BytesIO(one[5:]), key)))
                continue
            row = fastavro.schemaless_reader(io.BytesIO(body[5:]), value)
            op = {"c": "insert", "u": "update"}[row.pop("_tidb_op")]
            row.pop("_tidb_commit_physical_time")
            found.append((op, row.pop("_tidb_commit_ts"), row))
    return found, stream.truth


@pytest.fixture(scope="module", params=["simple", "open-protocol"])
def by_protocol(request):
    """(kind, op, ts, before, after, bytes) of everything that is sent, each image as it is sent; and the truth."""
    records, truth = streamed(by_cut.BY_CUT[request.param](*SEED))
    read = {"simple": read_simple, "open-protocol": read_open}[request.param]
    return request.param, [event for record in records for event in read(*record)], truth


def read_simple(key, value):
    told = json.loads(value)
    assert key is None
    kind = {"WATERMARK": "watermark", "BOOTSTRAP": "schema", "CREATE": "ddl"}.get(told["type"], "row")
    yield kind, told["type"].lower(), told["commitTs"], told.get("old"), told.get("data"), (key, value)


def read_open(key, value):
    assert key.startswith(struct.pack(">Q", 1))
    told = list(zip(parts(key[8:]), parts(value), strict=True))
    assert len(told) <= by_cut.BATCH
    for one, body in told:
        head, row = json.loads(one), json.loads(body) if body else {}
        op = "delete" if "d" in row else "update" if "p" in row else "insert"
        kind = {1: "row", 2: "ddl", 3: "watermark"}[head["t"]]
        yield kind, op, head["ts"], row.get("p", row.get("d")), row.get("u"), (one, body)


def parts(data):
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "big")
        yield data[at + 8 : at + 8 + size]
        at += 8 + size


def image(sent):
    """An image as values; TIMESTAMP of Simple and all of Open are objects."""
    if not sent:
        return None
    shown = {name: v.get("value", v.get("v")) if isinstance(v, dict) else v for name, v in sent.items()}
    return {name: value_from(TABLE.column(name), value) for name, value in shown.items()}


def of_avro(row):
    """Avro shows most values as texts or numbers already; ENUM by name."""
    column = TABLE.column
    return {n: v if n == "ol_status" or v is None else value_from(column(n), v) for n, v in row.items()}


def test_the_rows_are_those_of_avro_in_the_same_order_with_the_same_truth(avro, by_protocol):
    expected, truth = avro
    _, events, found = by_protocol
    rows = [event for event in events if event[0] == "row"]
    assert found == truth
    for (op, ts, row), (_, told, commit_ts, before, after, _) in zip(expected, rows, strict=True):
        assert told == op
        assert ts in (None, commit_ts)
        want = of_avro(row)
        got = image(before if op == "delete" else after)
        assert {name: got[name] for name in want} == want


def test_the_old_image_is_the_row_as_it_was_sent_before(by_protocol):
    _, events, _ = by_protocol
    living = {}
    for kind, op, _, before, after, _ in events:
        if kind != "row":
            continue
        key = json.dumps((after or before)["ol_id"])
        assert living.pop(key, None) == before, op
        if after is not None:
            living[key] = after
    assert Counter(op for kind, op, *_ in events if kind == "row")["update"] > 1_000


def test_the_bytes_are_those_of_the_simulators_encoders(by_protocol, monkeypatch):
    protocol, events, _ = by_protocol
    monkeypatch.setattr(simple, "build_ts", lambda: 1)
    codec = {"simple": by_cut._simple, "open-protocol": by_cut._open}[protocol]()[0]
    rows = [event for event in events if event[0] == "row"]
    for _, op, ts, before, after, sent in rows[:1_500]:
        old, new = image(before), image(after)
        if protocol == "simple":
            body = re.sub(rb'"buildTs":\d+', b'"buildTs":1', sent[1])
            assert body == codec.value(op, old, new, ts)
        else:
            assert sent == (codec.key(new or old, ts), codec.value(old, new))


def test_a_rate_too_small_for_plain_digits_is_written_as_the_protocol_writes_it():
    assert by_cut._simple()[1].small_rate(2.5e-7) == b'"ol_rate":"0.00000025",'
    assert by_cut._open()[1].small_rate(2.5e-7).endswith(b'"v":2.5e-7},')


def test_it_begins_with_the_table_and_ends_with_a_watermark_beyond_every_partitions_last_row(by_protocol):
    protocol, events, _ = by_protocol
    start = {"simple": ["ddl", "schema", "watermark"], "open-protocol": ["ddl", "watermark"]}[protocol]
    assert [kind for kind, *_ in events[: len(start)]] == start
    closed = 0
    for kind, _, ts, *_ in events:
        if kind == "watermark":
            assert ts >= closed
            closed = ts
        elif kind == "row":
            assert ts > closed
    longer = order_line.BASE_MS + (COUNT + 100) // order_line.EVENTS_PER_TRANSACTION << 18
    assert events[-1][0] == "watermark"
    assert closed > longer


def test_a_record_of_open_is_what_the_encoder_frames():
    records, _ = streamed(by_cut.OpenStream(*SEED))
    sizes = Counter()
    for key, value in records:
        rows = list(zip(parts(key[8:]), parts(value), strict=True))
        assert open_protocol.record(rows) == (key, value)
        sizes[len(rows)] += 1
    assert sizes[by_cut.BATCH] == COUNT // by_cut.BATCH
