"""The shop workload: deterministic, with every kind of change, equal to its truth."""

from collections import Counter, defaultdict

import pytest

from pipeline.simulate import Shop
from pipeline.simulate.shop import SCHEMA, TABLES

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
    orders = sum(e.table.name == "orders" and e.op == "insert" for e in events(dirty.transactions(TRANSACTIONS)))
    assert 0.1 * orders < faults(dirty) < 0.3 * orders
    assert faults(run[0]) == 0


def test_a_shop_with_a_bound_never_has_more_and_goes_on_selling():
    shop = Shop(most=20)
    placed = set()
    for transaction in shop.transactions(3_000):
        placed |= {e.after["order_id"] for e in transaction.events if e.table.name == "orders" and e.op == "insert"}
        bounded = [t for t in shop.database.tables() if t.name in {"orders", "customers", "products"}]
        assert all(len(shop.database.rows(t.schema, t.name)) <= 20 for t in bounded)
    assert len(placed) > 200
