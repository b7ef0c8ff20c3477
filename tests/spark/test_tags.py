"""The tag of a cut: read by Spark as the table was then, kept by an expiry, passed over by a sweep."""

import time

import pytest
from spark.test_current import Stream

from pipeline.errors import Refused
from pipeline.service.dispatch import tagged
from pipeline.warehouse.retention import Retention

pytestmark = pytest.mark.spark

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def stream(warehouse):
    """A table whose first state is named: (its stream, all tables, what was named)."""
    made = Stream(warehouse, ["bigint"])
    made.take(("insert", 1, 10), ("insert", 2, 20))
    return made, warehouse[1], made.table.current.head()


def read(stream, version):
    query = f"SELECT k0, v FROM {stream.table.name.sql} VERSION AS OF {version}"  # noqa: S608 - of ours
    return sorted(map(tuple, stream.spark.sql(query).collect()))


def expire(stream):
    """As the maintainer does, with nothing worth keeping but the head."""
    stream.table.current.expire(Retention(1, int(time.time() * 1000) + 1))


def test_a_tagged_snapshot_outlives_expiry_and_is_read_with_its_columns(stream):
    made, tables, first = stream
    assert tagged(tables, ["cut_7", str(DAY_MS), made.table.uuid, str(first)]) == {"tagged": 1}
    assert tagged(tables, ["cut_7", str(DAY_MS), made.table.uuid, str(first)]) == {"tagged": 0}
    made.take(("update", 1, 11), ("delete", 2, None))
    untagged = made.table.current.head()
    made.take(("insert", 3, 30))
    made.spark.sql(f"ALTER TABLE {made.table.name.sql} RENAME COLUMN v TO w")
    assert made.table.current.branches() == ["main"]
    tables.sweep()
    expire(made)
    made.spark.catalog.refreshTable(made.table.name.sql)
    assert read(made, "'cut_7'") == [(1, 10), (2, 20)]
    assert not made.table.current.has(untagged)


def test_a_tag_whose_time_is_over_goes_and_counts_from_its_making(stream):
    made, tables, first = stream
    made.take(("insert", 3, 30))
    time.sleep(2.1)  # the snapshot is older than the tag may become: Iceberg alone would drop the tag at once
    tagged(tables, ["brief", "2000", made.table.uuid, str(first)])
    assert made.table.current.head("brief") == first
    expire(made)
    kept = made.table.current.head("brief")
    time.sleep(2.1)
    expire(made)
    assert (kept, made.table.current.head("brief"), made.table.current.has(first)) == (first, None, False)


def test_a_name_that_is_taken_and_a_snapshot_that_is_gone_are_refused(stream):
    made, tables, first = stream
    made.take(("insert", 3, 30))
    tagged(tables, ["x", str(DAY_MS), made.table.uuid, str(first)])
    for snapshot, code in ((made.table.current.head(), "TAG_TAKEN"), (17, "TAG_TAKEN")):
        with pytest.raises(Refused, match=code):
            tagged(tables, ["x", str(DAY_MS), made.table.uuid, str(snapshot)])
    with pytest.raises(Refused, match="CUT_EXPIRED"):
        tagged(tables, ["y", str(DAY_MS), made.table.uuid, "17"])
