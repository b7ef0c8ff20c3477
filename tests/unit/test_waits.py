"""What waits by itself is told with how much, since when and for what; what a held table keeps is another matter."""

import datetime as dt

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from unit.configuration import SMALL
from unit.test_report_cli import schema

from pipeline.lake.catalog import reader
from pipeline.lake.pending import pending_sentences
from pipeline.model.names import TableName
from pipeline.settings import parse

NOW = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
SCHEMA = "SCHEMA_PENDING: version 7 of shop.orders has not been described"
TAKEN = "TABLE_NAME_TAKEN: warehouse.shop.orders already belongs to the source table shop.Orders"
DDL = "DDL_PENDING: ALTER TABLE shop.items ADD COLUMN n INT"


def row(table, reason, minutes, status="open"):
    told = {
        "pipeline": "shop", "batch_id": 1, "recorded_at": NOW - dt.timedelta(minutes=minutes), "schema_name": "shop",
        "table_name": table, "reason": reason, "status": status, "topic": "t", "kafka_partition": 0, "offset": minutes,
    }  # fmt: skip
    return {**dict.fromkeys(schema("held").names), **told}


@pytest.fixture
def told(tmp_path):
    place = tmp_path / "warehouse"
    place.mkdir()
    catalog = SqlCatalog("warehouse", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")
    catalog.create_namespace("_pipeline")

    def tell(*rows):
        held = catalog.create_table("_pipeline.held", schema("held"))
        held.append(pa.Table.from_pylist(list(rows), schema("held")))
        return pending_sentences(reader(parse(SMALL, tmp_path)), [TableName("shop", "invoices")], NOW)

    yield tell
    catalog.close()


def test_each_table_and_reason_is_one_sentence_with_the_oldest_record(told):
    rows = [row("orders", SCHEMA, 90), row("orders", SCHEMA, 5), row("items", DDL, 1)]
    assert told(*rows) == [
        f"shop.items: 1 record waiting for 1.0 min ({DDL})",
        f"shop.orders: 2 records waiting for 1.5 h ({SCHEMA})",
    ]


def test_what_came_in_and_what_a_person_has_to_release_are_not_told(told):
    assert told(row("orders", SCHEMA, 9, "released"), row("invoices", "DDL_NOT_UNDERSTOOD: ?", 9)) == []


def test_a_table_that_has_no_place_in_the_warehouse_is_told(told):
    assert told(row("orders", TAKEN, 2)) == [f"shop.orders: 1 record waiting for 2.0 min ({TAKEN})"]


def test_a_warehouse_in_which_nothing_was_ever_held_has_nothing_to_tell(tmp_path):
    place = tmp_path / "warehouse"
    place.mkdir()
    catalog = SqlCatalog("warehouse", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")
    assert pending_sentences(reader(parse(SMALL, tmp_path))) == []
    catalog.close()
