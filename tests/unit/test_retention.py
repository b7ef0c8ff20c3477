"""What an expiry would take, counted from metadata: what is neither new, young, tagged nor says how far it has come."""

import time

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from pipeline.lake import table_metadata
from pipeline.model.names import TableName
from pipeline.settings.sections import Maintenance
from pipeline.warehouse.retention import CARRYING, Retention
from pipeline.warehouse.state import BACKFILLED, CALLED, ENDS
from pipeline.warehouse.stored import SourceNames

ROWS = pa.table({"n": [1]})
A_YEAR = 365 * 86_400
NOW = int((time.time() + A_YEAR) * 1000)
"""Every snapshot of these tests is old by then, however long the suite has run before them."""


@pytest.fixture
def table(tmp_path):
    catalog = SqlCatalog("warehouse", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    yield catalog.create_table("shop.orders", ROWS.schema)
    catalog.close()


def append(table, count, **said):
    for _ in range(count):
        table.append(ROWS, snapshot_properties=said)


def expirable(table, keep=1, older_than=NOW, carrying=()):
    return Retention(keep, older_than, carrying).expirable(table.metadata, NOW)


def test_an_empty_table_has_nothing_to_expire(table):
    assert expirable(table) == 0


def test_the_newest_stay_and_so_do_the_young(table):
    append(table, 5)
    assert [expirable(table, keep) for keep in (1, 3, 9)] == [4, 2, 0]
    third = table.metadata.snapshots[2].timestamp_ms
    assert expirable(table, older_than=third) == sum(s.timestamp_ms < third for s in table.metadata.snapshots)
    assert expirable(table, older_than=0) == 0


def test_what_says_how_far_it_has_come_stays_with_all_that_came_after_it(table):
    append(table, 2)
    append(table, 1, **ENDS.entry({}))
    append(table, 3)
    assert expirable(table, carrying=(ENDS.name, BACKFILLED.name)) == 2
    assert expirable(table) == 5
    assert expirable(table, keep=5, carrying=(ENDS.name,)) == 1


def test_what_the_source_calls_tables_stays(table):
    append(table, 1, **CALLED.entry(SourceNames(0, {}, {("s", "a_b"): TableName("s", "a-b")})))
    append(table, 3)
    assert expirable(table, carrying=CARRYING) == 0


def test_only_the_newest_that_says_it_counts(table):
    append(table, 3, **BACKFILLED.entry(frozenset({"1:0"})))
    assert expirable(table, carrying=(ENDS.name, BACKFILLED.name)) == 2


def test_where_nothing_says_it_the_newest_are_kept(table):
    append(table, 4)
    assert expirable(table, keep=2, carrying=(ENDS.name,)) == 2


def test_a_tag_keeps_its_snapshot_until_its_time_is_over(table):
    append(table, 4)
    first, second = (snapshot.snapshot_id for snapshot in table.metadata.snapshots[:2])
    with table.manage_snapshots() as manage:
        manage.create_tag(first, "kept").create_tag(second, "over", max_ref_age_ms=1000)
    assert expirable(table) == 2


def test_a_branch_keeps_its_newest(table):
    append(table, 4)
    with table.manage_snapshots() as manage:
        manage.create_branch(table.metadata.snapshots[1].snapshot_id, "staged")
    assert expirable(table) == 2


def test_a_dry_run_counts_by_the_settings(table):
    append(table, 1, **ENDS.entry({}))
    append(table, 4)
    thresholds = Maintenance(keep_snapshots=2, keep_for="500 milliseconds")
    retention = Retention.of(thresholds, NOW / 1000)
    assert retention == Retention(2, NOW - 500, CARRYING)
    told = dict(zip(table_metadata.BURDEN, table_metadata.burden(table.metadata, retention, NOW), strict=True))
    assert (told["snapshots"], told["expirable"], told["data files"]) == (5, 0, 5)
    append(table, 1, **ENDS.entry({}))
    append(table, 1)
    told = dict(zip(table_metadata.BURDEN, table_metadata.burden(table.metadata, retention, NOW), strict=True))
    assert (told["snapshots"], told["expirable"]) == (7, 5)


def test_summaries_are_read_as_far_as_needed():
    def summaries():
        yield {"a": "1"}
        yield ENDS.entry({})
        raise AssertionError("read too far")

    assert Retention(1, 0, (ENDS.name,)).depth(summaries()) == 2
