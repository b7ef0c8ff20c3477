"""What a layout notes of rows that went with their partition: what decides on them, and no other partition."""

import json
from itertools import pairwise

import pytest
from unit.test_evolution import met, version

from pipeline import ddl
from pipeline.ddl.partitions import from_json, partitioning, predicate
from pipeline.model import types
from pipeline.model.names import TableName
from pipeline.warehouse.layout import Layout, LayoutByCommitTs, Removal
from pipeline.warehouse.removals import apply_to_rows, defined

NAME = TableName("shop", "events")
COLUMNS = {f"c{number}": types.INT for number in range(30)}


def partitioned(days, layout=None):
    """A table of 30 columns with a partition for each of these days."""
    listed = ", ".join(f"PARTITION p{day} VALUES LESS THAN ({day + 1})" for day in days)
    scheme = partitioning(f"CREATE TABLE t (c7 INT) PARTITION BY RANGE (C7) ({listed})")
    return defined(layout or met(version(1, **COLUMNS)), scheme)


def removal(layout, action, at=7):
    layout, why = apply_to_rows(layout, action, at)
    assert not why
    return layout.by_commit_ts.removals[-1]


@pytest.mark.parametrize("days", [3, 1000])
def test_a_removal_is_as_large_as_what_went_and_not_as_the_table(days):
    noted = removal(partitioned(range(days)), ddl.DropPartitions(NAME, ("P1",)))
    assert [one["name"] for one in noted.scheme["partitions"]] == ["p0", "p1"]
    assert [name for name, _, _ in noted.columns] == ["c7"]
    assert len(Layout(by_commit_ts=LayoutByCommitTs(removals=(noted,))).to_json()) - len(Layout().to_json()) < 400


def test_it_tells_the_same_rows_as_one_that_an_earlier_version_has_noted():
    layout = partitioned(range(9))
    every = tuple((column.source, column.id, column.tidb_type) for column in layout.columns)
    older = Removal(7, ("p3",), layout.partitions, every)
    kinds = {name: kind for name, _, kind in older.columns}
    new = removal(layout, ddl.TruncatePartitions(NAME, ("p3",)))
    (read,) = Layout.from_json(
        json.dumps(json.loads(Layout(by_commit_ts=LayoutByCommitTs(removals=(older,))).to_json()))
    ).by_commit_ts.removals
    assert read == older
    for one in (read, new):
        found = predicate(from_json(dict(one.scheme)), one.names, kinds)
        assert [(span.low.values, span.high.values) for span in found.spans] == [((3,), (4,))]


def test_where_all_rows_go_nothing_decides():
    for action in (ddl.TruncatePartitions(NAME, None), ddl.TruncateTable(NAME)):
        noted = removal(partitioned(range(9)), action)
        assert noted == Removal(7, None, None, ())


def test_a_partition_that_is_dropped_every_day_leaves_as_much_each_day():
    layout, sizes = partitioned(range(100, 200)), []
    for day in range(101, 191):
        layout, _ = apply_to_rows(layout, ddl.DropPartitions(NAME, (f"p{day}",)), day)
        sizes.append(len(layout.to_json()))
    steps = {after - before for before, after in pairwise(sizes)}
    assert max(steps) < 400


def test_an_exchange_that_nobody_carries_out_lets_no_rows_go():
    layout = partitioned(range(3))
    action = ddl.ExchangePartition(NAME, "p1", TableName("shop", "other"))
    assert apply_to_rows(layout, action, 7) == (layout, "")
    (noted,) = apply_to_rows(layout, action, 7, "uuid")[0].by_commit_ts.removals
    assert (noted.names, noted.other) == (("p1",), "uuid")
