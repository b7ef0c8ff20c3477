"""The changefeed: what it sends, decoded again, is the database that it came from."""

import io
import json
from collections import defaultdict
from datetime import UTC, datetime
from functools import cache
from types import SimpleNamespace
from typing import ClassVar

import fastavro
import pytest

from pipeline.simulate import Shop, SimulatedChangefeed, produce
from pipeline.simulate.shop import SCHEMA
from pipeline.simulate.tables import value_of

TRANSACTIONS = 600


class Broker:
    """Stands in for Kafka: keeps what it is sent, in order, per topic and partition."""

    def __init__(self, _servers, partitions, _client):
        self.log, self.count, self.flushed = defaultdict(list), partitions, 0

    def known(self):
        return list(dict.fromkeys(topic for topic, _ in self.log))

    def partitions(self, topic):
        self.log[topic, 0] += []
        return self.count

    def send(self, topic, partition, key, value):
        self.log[topic, partition].append((key, value))

    def broadcast(self, topic, value):
        for partition in range(self.partitions(topic)):
            self.send(topic, partition, None, value)

    def flush(self):
        self.flushed = sum(map(len, self.log.values()))


class Registry:
    """Stands in for the registry: one id per text."""

    texts: ClassVar = {}  # emptied by the fixture
    subjects: ClassVar = defaultdict(list)

    def __init__(self, _config):
        pass

    def register(self, subject, text):
        self.subjects[subject].append(text)
        return self.texts.setdefault(text, len(self.texts) + 1)


@pytest.fixture
def fakes(monkeypatch):
    monkeypatch.setattr(produce, "Topics", Broker)
    monkeypatch.setattr(produce, "RegistryClient", Registry)
    Registry.texts, Registry.subjects = {}, defaultdict(list)


def sent(**settings):
    shop, changefeed = Shop(seed=7), SimulatedChangefeed("broker:9092", "http://registry", **settings)
    for transaction in shop.transactions(TRANSACTIONS):
        changefeed.send(transaction)
    changefeed.flush()
    return shop, changefeed, changefeed._channel.log


def decoded(message):
    texts = {number: text for text, number in Registry.texts.items()}
    return fastavro.schemaless_reader(io.BytesIO(message[5:]), parsed(texts[int.from_bytes(message[1:5], "big")]))


@cache
def parsed(text):
    return fastavro.parse_schema(json.loads(text))


def as_value(column, value, zone):
    kind = column.parsed
    if kind.name == "bigint":
        return int(value) % (1 << 64)
    if kind.name == "bit":
        return int.from_bytes(value, "big")
    found = value_of(kind, value) if isinstance(value, str) else value
    return found.replace(tzinfo=zone) if kind.name == "timestamp" else found


def consumed(log, tables, zone=UTC):
    """Current tables as a consumer would build them: partition by partition, the last word per key."""
    current = defaultdict(dict)
    for (topic, _), messages in log.items():
        for key, value in messages:
            table = tables.get(topic.split("_", 2)[-1])
            if table is None or key is None:
                continue
            fields = decoded(key)
            identity = tuple(as_value(table.column(name), fields[name], zone) for name in table.handle)
            if value is None or value[0] == 3:
                current[table.name].pop(identity, None)
            else:
                row = {"channel": "web"} | decoded(value)
                current[table.name][identity] = {
                    c.name: None if row[c.name] is None else as_value(c, row[c.name], zone) for c in table.columns
                }
    return current


@pytest.mark.usefixtures("fakes")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"partitions": 5, "prefix": "other", "decimal": "string", "bigint_unsigned": "string"},
        {"extension": False},
        {"watermarks": True, "deletes": "commit-ts"},
    ],
)
def test_the_last_message_of_each_key_gives_the_rows_of_the_database(settings):
    shop, _, log = sent(**settings)
    tables = {table.name: table for table in shop.database.tables()}
    current = consumed(log, tables)
    for table in tables.values():
        truth = {table.key_of(row): row for row in shop.database.rows(SCHEMA, table.name)}
        assert current[table.name] == truth


@pytest.mark.usefixtures("fakes")
def test_timestamps_are_in_the_changefeeds_zone_and_datetimes_are_not_moved():
    _, _, utc = sent()
    _, _, tokyo = sent(timezone="Asia/Tokyo")
    here, there = (decoded(next(v for _, v in log["tidb_shop_customers", 0] if v)) for log in (utc, tokyo))
    hours = datetime.fromisoformat(there["updated_at"]) - datetime.fromisoformat(here["updated_at"])
    assert (hours.total_seconds(), here["created_at"]) == (9 * 3600, there["created_at"])


@pytest.mark.usefixtures("fakes")
def test_all_messages_of_a_key_are_in_one_partition():
    _, _, log = sent(partitions=4)
    places = defaultdict(set)
    for (topic, partition), messages in log.items():
        for key, _ in messages:
            places[topic, key].add(partition)
    assert {len(found) for found in places.values()} == {1}
    assert len({partition for topic, partition in log if topic.endswith("orders")}) == 4


@pytest.mark.usefixtures("fakes")
def test_a_new_value_schema_is_registered_when_the_table_changes_and_the_key_keeps_its_id():
    sent()
    assert len(set(Registry.subjects["tidb_shop_orders-value"])) == 2
    assert len(set(Registry.subjects["tidb_shop_orders-key"])) == 1
    assert len(Registry.subjects["tidb_shop_customers-value"]) == 1


@pytest.mark.usefixtures("fakes")
def test_the_counts_are_those_of_the_messages():
    _, changefeed, log = sent()
    assert changefeed.total == sum(map(len, log.values()))
    deletes = sum(value is None for messages in log.values() for _, value in messages)
    assert deletes == sum(ops.get("delete", 0) for ops in changefeed.counts.values())
    assert changefeed.counts["shop.orders"]["insert"] > 0


@pytest.mark.usefixtures("fakes")
def test_a_watermark_never_precedes_a_row_that_it_covers_in_any_partition():
    _, _, log = sent(watermarks=True, partitions=3)
    for messages in log.values():
        closed = 0
        for key, value in messages:
            if key is None and value[0] == 2:
                assert int.from_bytes(value[1:], "big") > closed
                closed = int.from_bytes(value[1:], "big")
            elif value is not None and value[0] == 0:
                assert decoded(value)["_tidb_commit_ts"] > closed


@pytest.mark.usefixtures("fakes")
def test_ddl_goes_to_every_partition_of_its_table_before_the_first_row_of_the_new_schema():
    _, _, log = sent(watermarks=True, partitions=2)
    assert log["tidb_cdc", 0][0][1].startswith(b'\x01{"query":"CREATE DATABASE `shop`","type":1,')
    for partition in range(2):
        values = [value for _, value in log["tidb_shop_orders", partition] if value]
        at = next(n for n, value in enumerate(values) if b"ADD COLUMN `channel`" in value)
        assert json.loads(values[at][1:])["type"] == 5
        rows = [(n, decoded(value)) for n, value in enumerate(values) if value[0] == 0]
        assert all(("channel" in row) == (n > at) for n, row in rows)


@pytest.mark.usefixtures("fakes")
def test_without_watermarks_nothing_but_rows_is_sent():
    _, _, log = sent()
    assert all(key is not None for messages in log.values() for key, _ in messages)
    assert ("tidb_cdc", 0) not in log


@pytest.mark.usefixtures("fakes")
def test_a_rate_makes_the_changefeed_wait(monkeypatch):
    now, waits = [1000.0], []

    def sleep(seconds):
        waits.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(produce, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    _, changefeed, _ = sent(rate=100)
    assert sum(waits) == pytest.approx(changefeed.total / 100)
