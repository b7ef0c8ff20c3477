"""The shop workload and the changefeed: deterministic, with every kind of change, equal to its truth."""

import io
import json
from collections import Counter, defaultdict
from datetime import UTC, datetime
from functools import cache
from typing import ClassVar

import fastavro
import pytest

from pipeline.simulate import Changefeed, Shop, produce
from pipeline.simulate.shop import SCHEMA, TABLES
from pipeline.simulate.tables import value_of

TRANSACTIONS = 600


@pytest.fixture(scope="module")
def run():
    shop = Shop(seed=7)
    return shop, list(shop.transactions(TRANSACTIONS))


def events(transactions):
    return [event for transaction in transactions for event in transaction.events]


def replayed(transactions):
    """What the events alone say: table → key → row."""
    tables = defaultdict(dict)
    for event in events(transactions):
        rows, key = tables[event.table.name], event.table.key_of(event.image)
        if event.after is None:
            del rows[key]
        else:
            rows[key] = event.after
    return tables


def test_the_same_seed_gives_the_same_transactions_and_another_seed_others(run):
    assert list(Shop(seed=7).transactions(TRANSACTIONS)) == run[1]
    assert list(Shop(seed=8).transactions(TRANSACTIONS)) != run[1]


def test_as_many_transactions_come_as_were_asked_for_and_none_is_empty(run):
    assert sum(transaction.ddl is None for transaction in run[1]) == TRANSACTIONS
    assert all(transaction.events or transaction.ddl for transaction in run[1])


def test_the_events_replayed_give_the_rows_of_the_database(run):
    shop, transactions = run
    replay = replayed(transactions)
    for table in TABLES:
        rows = {table.key_of(row): row for row in shop.database.rows(SCHEMA, table.name)}
        assert replay[table.name].keys() == rows.keys()
        for key, row in replay[table.name].items():
            assert {"channel": "web", **row} == {"channel": "web", **rows[key]}


def test_every_table_sees_inserts_and_updates_or_splits_and_deletes(run):
    kinds = Counter((event.table.name, event.op) for event in events(run[1]))
    assert {(table.name, op) for table in TABLES for op in ("insert",)} <= kinds.keys()
    assert {("customers", "update"), ("orders", "update"), ("products", "update")} <= kinds.keys()
    assert {("customers", "delete"), ("orders", "delete"), ("order_items", "delete")} <= kinds.keys()


def test_unique_clustered_and_non_clustered_keys_change_within_a_transaction(run):
    split = set()
    for transaction in run[1]:
        deleted = {event.table.name for event in transaction.events if event.op == "delete"}
        split |= deleted & {event.table.name for event in transaction.events if event.op == "insert"}
    assert split == {"customers", "order_items", "payments"}


def test_some_keys_lie_above_what_a_signed_long_holds(run):
    assert any(row["id"] >= 1 << 63 for row in run[0].database.rows(SCHEMA, "customers"))


def test_the_column_appears_half_way_and_older_rows_show_its_default(run):
    shop, transactions = run
    at = next(n for n, t in enumerate(transactions) if t.ddl and "ADD COLUMN" in t.ddl.query)
    before, after = transactions[:at], transactions[at:]
    assert sum(t.ddl is None for t in before) == TRANSACTIONS // 2
    assert not any("channel" in (event.after or {}) for event in events(before))
    channels = Counter(row["channel"] for row in shop.database.rows(SCHEMA, "orders"))
    assert channels["web"] > channels["app"] > 0
    orders = [event for event in events(after) if event.table.name == "orders"]
    assert {event.table.version for event in orders} == {2}


def test_a_shop_goes_on_where_it_stopped():
    shop = Shop(seed=3)
    first, second = list(shop.transactions(40)), list(shop.transactions(40))
    assert sum(t.ddl is not None for t in first) == 1 + len(TABLES) + 1
    assert not any(t.ddl for t in second)
    assert second[0].commit_ts > first[-1].commit_ts


def test_a_dirty_shop_has_faults_for_checks_to_find_and_a_clean_one_has_none(run):
    def faults(shop):
        now = shop.database.now.replace(tzinfo=None)
        rows = shop.database.rows(SCHEMA, "orders")
        return sum(r["total"] < 0 or r["currency"] == "???" or r["placed_at"] > now for r in rows)

    dirty = Shop(seed=7, dirty=0.2)
    orders = sum(
        e.table.name == "orders" and e.op == "insert" for e in events(dirty.transactions(TRANSACTIONS))
    )
    assert 0.1 * orders < faults(dirty) < 0.3 * orders
    assert faults(run[0]) == 0


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
    shop, changefeed = Shop(seed=7), Changefeed("broker:9092", "http://registry", **settings)
    for transaction in shop.transactions(TRANSACTIONS):
        changefeed.send(transaction)
    changefeed.flush()
    return shop, changefeed, changefeed._topics.log


def decoded(message):
    texts = {number: text for text, number in Registry.texts.items()}
    return fastavro.schemaless_reader(
        io.BytesIO(message[5:]), parsed(texts[int.from_bytes(message[1:5], "big")])
    )


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
                    c.name: None if row[c.name] is None else as_value(c, row[c.name], zone)
                    for c in table.columns
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

    monkeypatch.setattr(produce.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(produce.time, "sleep", sleep)
    _, changefeed, _ = sent(rate=100)
    assert sum(waits) == pytest.approx(changefeed.total / 100)
