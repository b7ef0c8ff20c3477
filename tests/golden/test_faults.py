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
