"""What is set aside of a table that the source drops: its status, and which rows that is."""

from types import SimpleNamespace

import pytest

from pipeline.ingest.set_aside import dead_letters
from pipeline.model.messages import Undecodable
from pipeline.model.names import TableName
from pipeline.warehouse.records import SET_ASIDE, Records

ORDERS = TableName("shop", "orders")


@pytest.fixture
def said():
    """The statements that Spark was given, with their parameters."""
    return []


@pytest.fixture
def records(said):
    used = SimpleNamespace(head=lambda: 1, refresh=lambda: None)
    spark = SimpleNamespace(sql=lambda text, args: said.append((text, args)))
    return Records(spark, None, "file:/data", "shop", dict.fromkeys(SET_ASIDE, used))


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


def refused(**tables):
    rows = {TableName("shop", name): count for name, count in tables.items()}
    return Undecodable("CODE", "why", None, sum(rows.values()) or 1, None, rows)


def test_letters_are_counted_by_table_as_they_were_read_and_the_others_are_of_none():
    several = [refused(orders=3, items=1), refused(Orders=2), refused()]
    assert dead_letters._by_table(several, 7) == {"shop.orders": 5, "shop.items": 1, "": 1}


def test_of_letters_that_an_earlier_try_has_put_into_a_table_none_is_of_no_table():
    assert dead_letters._by_table([refused(orders=3)], 2)[""] == 0
