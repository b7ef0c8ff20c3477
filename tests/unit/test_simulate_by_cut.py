"""Simple and Open changefeeds: what they send, decoded again, is the database that it came from."""

import base64
import json
from collections import defaultdict

import pytest
from golden.decode_open import unquoted
from unit.simulate_golden import value_from

from pipeline.simulate import Shop, SimulatedChangefeed, produce
from pipeline.simulate.shop import SCHEMA

TRANSACTIONS, PARTITIONS = 600, 3
TOPIC = "tidb_cdc"


class Broker:
    """Stands in for Kafka: keeps what it is sent, in order, per topic and partition."""

    def __init__(self, _servers, partitions, _client):
        self.log, self.count = defaultdict(list), partitions

    def partitions(self, _topic):
        return self.count

    def send(self, topic, partition, key, value):
        self.log[topic, partition].append((key, value))

    def broadcast(self, topic, value):
        for partition in range(self.count):
            self.send(topic, partition, None, value)

    def flush(self):
        pass


@pytest.fixture
def sent(monkeypatch):
    monkeypatch.setattr(produce, "Topics", Broker)

    def send(protocol):
        shop, changefeed = Shop(seed=7), SimulatedChangefeed("broker:9092", protocol=protocol, partitions=PARTITIONS)
        for transaction in shop.transactions(TRANSACTIONS):
            changefeed.send(transaction)
        changefeed.close()
        assert {topic for topic, _ in changefeed._channel.log} == {TOPIC}
        log = {partition: messages for (_, partition), messages in changefeed._channel.log.items()}
        return shop, changefeed, {number: list(READ[protocol](log[number])) for number in range(PARTITIONS)}

    return send


def simple(messages):
    """(kind, ts, table, what was told, before, after) of each message."""
    for key, value in messages:
        told = json.loads(value)
        assert key is None
        kind = {"WATERMARK": "watermark", "BOOTSTRAP": "schema", "CREATE": "ddl", "ALTER": "ddl", "QUERY": "ddl"}
        name = told.get("table") or told.get("tableSchema", {}).get("table")
        yield kind.get(told["type"], "row"), told["commitTs"], name, told, told.get("old"), told.get("data")


def open_protocol(messages):
    for key, value in messages:
        told = list(map(json.loads, parts(key[8:])))
        assert len(told) <= 16
        for one, body in zip(told, parts(value), strict=True):
            kind = {1: "row", 2: "ddl", 3: "watermark"}[one["t"]]
            row = json.loads(body) if body else {}
            before, after = row.get("p", row.get("d")), row.get("u")
            yield kind, one["ts"], one.get("tbl"), one | row, before, after


READ = {"simple": simple, "open-protocol": open_protocol}


def parts(data):
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "big")
        yield data[at + 8 : at + 8 + size]
        at += 8 + size


def row(table, image):
    added = {"channel": "web"} if table.name == "orders" else {}
    return added | {name: cell(table.column(name), value) for name, value in image.items()}


def cell(column, sent):
    """A value as either protocol shows it: TIMESTAMP and all of Open's are objects."""
    kind, shown = column.parsed, isinstance(sent, dict) and "t" in sent
    value = sent["v"] if shown else sent["value"] if isinstance(sent, dict) else sent
    if value is not None and shown and kind.name == "varbinary":
        value = unquoted(value)
    elif value is not None and (kind.is_binary or (shown and kind.name == "text")):
        value = base64.b64decode(value)
        value = value if kind.is_binary else value.decode()
    return value_from(column, value)


@pytest.mark.parametrize("protocol", READ)
def test_a_watermark_never_precedes_a_row_that_it_covers_and_the_last_covers_all(sent, protocol):
    _, _, log = sent(protocol)
    newest = max(ts for events in log.values() for kind, ts, *_ in events if kind == "row")
    for events in log.values():
        closed = 0
        for kind, ts, *_ in events:
            if kind == "watermark":
                assert ts >= closed
                closed = ts
            elif kind == "row":
                assert ts > closed
        assert closed >= newest


@pytest.mark.parametrize("protocol", READ)
def test_every_partition_has_every_statement_and_the_counts_are_those_of_the_rows(sent, protocol):
    _, changefeed, log = sent(protocol)
    statements = [[ts for kind, ts, *_ in events if kind == "ddl"] for events in log.values()]
    assert len(statements[0]) == 7
    assert statements[0] == statements[1] == statements[2] == sorted(statements[0])
    assert changefeed.total == sum(kind == "row" for events in log.values() for kind, *_ in events)
    assert all(any(kind == "row" for kind, *_ in events) for events in log.values())


def test_the_rows_of_simple_come_behind_a_schema_of_their_version(sent):
    _, _, log = sent("simple")
    for events in log.values():
        known = set()
        for kind, _, name, told, *_ in events:
            if "tableSchema" in told:
                known.add((name, told["tableSchema"]["version"]))
            assert kind != "row" or (name, told["schemaVersion"]) in known
        assert {name for kind, _, name, *_ in events if kind == "schema"} == {name for name, _ in known}


@pytest.mark.parametrize("protocol", READ)
def test_applied_in_the_order_of_their_commit_ts_the_rows_give_the_database(sent, protocol):
    shop, _, log = sent(protocol)
    tables = {table.name: table for table in shop.database.tables()}
    changes = [event for events in log.values() for event in events if event[0] == "row"]
    current = defaultdict(dict)
    for _, _, name, _, before, after in sorted(changes, key=lambda event: (event[1], event[5] is not None)):
        table = tables[name]
        if before is not None:
            current[name].pop(table.key_of(row(table, before)))
        if after is not None:
            current[name][table.key_of(row(table, after))] = row(table, after)
    for table in tables.values():
        truth = {table.key_of(one): one for one in shop.database.rows(SCHEMA, table.name)}
        assert current[table.name] == truth
