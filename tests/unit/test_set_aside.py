"""What is set aside of a table that the source drops: its status, and which rows that is."""

from types import SimpleNamespace

import pytest

from pipeline.model.names import TableName
from pipeline.warehouse.records import ASIDE, Records

ORDERS = TableName("shop", "orders")


@pytest.fixture
def said():
    """The statements that Spark was given, with their parameters."""
    return []


@pytest.fixture
def records(said):
    used = SimpleNamespace(head=lambda: 1, refresh=lambda: None)
    spark = SimpleNamespace(sql=lambda text, args: said.append((text, args)))
    return Records(spark, None, "file:/data", "shop", dict.fromkeys(ASIDE, used))


def statuses(said):
    return {text.split(" SET ")[0].rpartition("`.`")[2].rstrip("`"): args["status"] for text, args in said}


def test_with_its_table_a_row_is_superseded_and_a_held_record_dropped(records, said):
    records.mark_dropped(ORDERS)
    assert statuses(said) == {"dead_letters": "superseded", "quarantine": "superseded", "held": "dropped"}
    assert all("status = 'open' AND true" in text for text, _ in said)


def test_what_is_behind_the_drop_is_of_another_table_and_stays_open(records, said):
    records.mark_dropped(ORDERS, 77)
    for text, _ in said:
        behind = "NOT (status = 'open' AND (startswith(reason" if ".`held`" in text else "coalesce(commit_ts, 0) <= 77"
        assert behind in text


def test_nothing_is_deleted(records, said):
    records.mark_dropped(ORDERS)
    assert all(text.startswith("UPDATE ") for text, _ in said)
