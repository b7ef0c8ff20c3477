"""The bench's data and the peers' column code: right bytes, right mix, right truth."""

import importlib.util
import io
import json
import sys
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

from pipeline.simulate.avro import TableCodec
from pipeline.simulate.schemas import AvroOptions

BENCH = Path(__file__).parents[1] / "bench"
COUNT = 20_000


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = found
    spec.loader.exec_module(found)
    return found


workload = module(BENCH / "order_line.py")
CODEC = TableCodec(workload.order_line(), AvroOptions())
KEY, VALUE = (fastavro.parse_schema(json.loads(text)) for text in (CODEC.key_schema, CODEC.value_schema))
IDS = workload.Ids(11, 12)


def messages(stream, count=COUNT):
    return [message for block in stream.blocks(count) for message in block]


def read(message, schema):
    body = io.BytesIO(message[5:])
    fields = fastavro.schemaless_reader(body, schema)
    assert not body.read()
    return fields


def replayed(found):
    """What a consumer arrives at, as the fields of a Truth."""
    live, events, all_qty, all_cents = {}, defaultdict(int), 0, 0
    for key, value in found:
        if value is None:
            events["delete"] += 1
            del live[key]
            continue
        row = read(value, VALUE)
        op = {"c": "insert", "u": "update"}[row["_tidb_op"]]
        assert (key in live) == (op == "update")
        events[op] += 1
        live[key] = (row["ol_id"], row["ol_qty"], int(row["ol_amount"] * 100))
        all_qty += row["ol_qty"]
        all_cents += int(row["ol_amount"] * 100)
    ids, qtys, cents = zip(*live.values(), strict=True)
    total = sum(number % workload.MODULUS for number in ids)
    return workload.Truth(len(live), sum(qtys), sum(cents), total, all_qty, all_cents, dict(events))


@pytest.fixture(scope="module")
def stream():
    stream = workload.Stream(IDS, "7/0", first=2, step=4)
    return stream, messages(stream)


def test_the_bytes_are_those_of_the_simulators_encoder(stream):
    for key, value in stream[1][:2_000]:
        assert CODEC.key({"ol_id": read(key, KEY)["ol_id"]}, IDS.key) == key
        if value is not None:
            row = read(value, VALUE)
            assert CODEC.value(row, IDS.value, row["_tidb_op"], row["_tidb_commit_ts"]) == value
            assert row["_tidb_commit_physical_time"] == row["_tidb_commit_ts"] >> 18


def test_the_truth_is_what_replaying_the_messages_gives(stream):
    assert replayed(stream[1]) == stream[0].truth


def test_seven_in_ten_events_insert_and_one_in_twenty_deletes(stream):
    events = stream[0].truth.events
    assert sum(events.values()) == COUNT
    assert events["insert"] == pytest.approx(0.70 * COUNT, rel=0.03)
    assert events["update"] == pytest.approx(0.25 * COUNT, rel=0.03)
    assert events["delete"] == pytest.approx(0.05 * COUNT, rel=0.1)


def test_updates_go_to_earlier_rows_of_any_age(stream):
    keys = [read(key, KEY)["ol_id"] for key, value in stream[1] if value and read(value, VALUE)["_tidb_op"] == "u"]
    assert min(keys[-500:]) < 0.1 * max(keys)


def test_commit_timestamps_never_fall_and_a_transaction_has_some_events(stream):
    stamps = [read(value, VALUE)["_tidb_commit_ts"] for _, value in stream[1] if value]
    assert stamps == sorted(stamps)
    assert len(set(stamps)) == pytest.approx(COUNT / workload.EVENTS_PER_TRANSACTION, rel=0.01)


def test_the_same_seed_gives_the_same_messages_and_another_seed_others(stream):
    assert messages(workload.Stream(IDS, "7/0", first=2, step=4)) == stream[1]
    assert messages(workload.Stream(IDS, "8/0", first=2, step=4)) != stream[1]


def test_partitions_share_no_key():
    keys = [{key for key, _ in messages(workload.Stream(IDS, f"7/{n}", 1 + n, 4), 2_000)} for n in range(4)]
    assert sum(map(len, keys)) == len(set.union(*keys))


def test_a_small_tables_keys_come_from_its_range_and_its_truth_holds_too():
    stream = workload.Stream(IDS, "7/t", key_range=500)
    found = messages(stream, 3_000)
    assert {read(key, KEY)["ol_id"] for key, _ in found} <= set(range(1, 501))
    assert replayed(found) == stream.truth
    assert stream.truth.events["delete"] > 0


def test_truths_of_partitions_add_up():
    one, other = (workload.Truth(1, 2, 3, 4, 5, 6, {"insert": 2, "update": 0, "delete": 1}) for _ in range(2))
    both = workload.Truth(2, 4, 6, 8, 10, 12, {"insert": 4, "update": 0, "delete": 2})
    assert one + other == both


def test_the_peers_columns_hold_what_the_messages_say(stream):
    peer = module(BENCH / "peers" / "fastavro_parquet.py")
    schemas = {IDS.key: CODEC.key_schema, IDS.value: CODEC.value_schema}

    class Decoder(peer.Decoder):
        def __init__(self):
            self._schemas, self._client = {}, self

        def get_schema(self, number):
            self.schema_str = schemas[number]
            return self

    class Message:
        def __init__(self, offset, pair):
            self.pair, self.at = pair, offset

        def key(self):
            return self.pair[0]

        def value(self):
            return self.pair[1]

        def partition(self):
            return 3

        def offset(self):
            return self.at

    found = stream[1][:1_000]
    table = peer.table_of([Message(n, pair) for n, pair in enumerate(found)], Decoder())
    assert table.schema == peer.SCHEMA
    for (key, value), row in zip(found, table.to_pylist(), strict=True):
        want = read(key, KEY) if value is None else read(value, VALUE)
        assert row["ol_id"] == want["ol_id"]
        assert row["_op"] == {"c": "insert", "u": "update", None: "delete"}[want.get("_tidb_op")]
        assert [row[name] for name in ("ol_amount", "ol_discount", "ol_qty", "ol_meta", "ol_rate")] == [
            want.get(name) for name in ("ol_amount", "ol_discount", "ol_qty", "ol_meta", "ol_rate")
        ]
        if value is not None:
            assert f"{row['ol_created']:%Y-%m-%d %H:%M:%S.%f}"[:23] == want["ol_created"]
    negative = peer.decimals([b"\xff", b"\x00", None], pa.decimal128(12, 2)).to_pylist()
    assert negative == [Decimal("-0.01"), Decimal("0.00"), None]
