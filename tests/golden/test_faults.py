"""Small inputs that once lost, mixed or held data: what each gives now."""

import pytest
from golden.faults import FaultCase

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


def rows(warehouse, name):
    """The rows of a current table, as tuples of its columns, in order."""
    return sorted((tuple(row.values.values()) for row in warehouse.current(name).rows), key=repr)


def test_tables_that_were_created_at_one_commit_ts_stay_apart(running):
    with running(FaultCase("b10_created_at_one_ts")) as run:
        run.take()
        assert rows(run.warehouse, "br.customers") == [(1, "ann"), (2, "bob")]
        assert rows(run.warehouse, "br.invoices") == [(1, 100), (3, 300)]


def test_renames_of_one_commit_ts_are_one_step_whatever_their_order(running):
    with running(FaultCase("c13_rename_order", "simple", "json")) as run:
        run.take()
        assert rows(run.warehouse, "nw.orders_backup") == [(1, "old")]
        assert rows(run.warehouse, "nw.orders") == [(1, "new"), (2, "new")]
        assert {row["state"] for row in run.warehouse.own("tables")} == {"live"}


def test_tables_of_two_keyspaces_stay_apart(running):
    with running(FaultCase("a05_two_keyspaces")) as run:
        run.take()
        other = f"bank.accounts@{run.loaded.prefix}_tidb_pa_ks2_bank_accounts"
        assert rows(run.warehouse, "bank.accounts") == [(1, "of ks1")]
        assert rows(run.warehouse, other) == [(1, "of ks2")]


def test_tables_of_one_sanitised_name_stay_apart(running):
    with running(FaultCase("a06_sanitised_alike")) as run:
        for part in (run.loaded.case.records[:1], run.loaded.case.records[1:]):
            run.take(part)
        other = f"shop.order_items@{run.loaded.prefix}_tidb_pa_shop_order_items"
        assert rows(run.warehouse, "shop.order_items") == [(1, "of order-items"), (2, "of order-items")]
        assert rows(run.warehouse, other) == [(1, 77)]
        assert list(run.warehouse.current(other).types) == ["id", "qty"]
