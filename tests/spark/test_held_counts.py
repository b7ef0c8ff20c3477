"""What `_pipeline.held` has open, counted by table and by what it waits for."""

import pytest

from pipeline.warehouse.records import counts_in

pytestmark = pytest.mark.spark

ROWS = """SELECT * FROM VALUES
  ('shop', 'orders', 'open', 'TABLE_NAME_TAKEN: shop.orders already belongs to another'),
  ('shop', 'orders', 'open', 'TABLE_NAME_TAKEN: shop.orders already belongs to another'),
  ('shop', 'orders', 'released', 'NO_HANDLE_KEY'),
  ('shop', 'items', 'open', 'DDL_PENDING: ALTER TABLE items ADD COLUMN n INT'),
  ('shop', 'items', 'open', 'RELEASED: by a person'),
  ('shop', 'bills', 'open', 'SCHEMA_PENDING: version 7'),
  ('shop', 'bills', 'dropped', 'CHECK_FAILED: no_debt')
AS held (schema_name, table_name, status, reason)"""


def test_open_records_are_counted_by_table_and_by_what_they_wait_for(spark):
    found = {(row["table_name"], row["code"]): row["count"] for row in counts_in(spark.sql(ROWS)).collect()}
    assert found == {
        ("orders", ""): 2,
        ("items", "DDL_PENDING"): 1,
        ("items", "RELEASED"): 1,
        ("bills", "SCHEMA_PENDING"): 1,
    }
