"""`source.tables` from Kafka: rows of tables that are left out are passed over, and accounting holds without them."""

import pytest
from e2e.till import Till

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


def test_tables_that_are_left_out_are_not_made_and_what_is_left_adds_up(stack, tmp_path):
    till = Till(stack, tmp_path, "simple")
    till.set("source", tables=["bank.*", "!bank.note"])
    till.accounts((1, 500), (2, 7))
    till.note("left out")
    till.run()
    till.note("alone in its batch")
    till.run()
    assert {row["table_name"] for row in till.own("tables")} == {"account"}
    assert sorted(row.values["id"] for row in till.warehouse.current("bank.account").rows) == [1, 2]
    batches = sorted(till.own("batches"), key=lambda row: row["batch_id"])
    assert [row["inserts"] for row in batches] == [2, 0]
    assert [row["level"] for row in batches] == ["exact", "exact"]
    till.set("source", tables=["bank.*"])
    till.note("read from here on")
    till.run()
    assert [row.values["code"] for row in till.warehouse.current("bank.note").rows] == ["read from here on"]
    till.feed.close()
