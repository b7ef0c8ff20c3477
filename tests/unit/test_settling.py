"""Behind an ALTER the first row of the new version tells how its columns are, and no row from before it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from unit.test_evolution import BASE, KEEP, column, version

from pipeline.ddl import ModifyColumn
from pipeline.ingest.by_commit_ts.table_ordering import TableByCommitTs
from pipeline.ingest.by_offset.table_ordering import TableByOffset
from pipeline.ingest.table_work import EvolvedLayout
from pipeline.model import types
from pipeline.model.messages import SeenVersion
from pipeline.model.places import Partition
from pipeline.warehouse.evolution import apply_actions
from pipeline.warehouse.layout import LayoutByOffset

AT = Partition("t", 0)
ALTERED_AT = 100
ALTERED = replace(
    apply_actions(BASE, (ModifyColumn("c", column("c", types.BIGINT)),), ALTERED_AT, KEEP)[0],
    by_offset=LayoutByOffset(((AT.stream, 0),)),
)
CONTEXT = SimpleNamespace(protocol=SimpleNamespace(is_newest=lambda _seen: False), policy=KEEP)
OLD, NEW = version(1, c=types.INT), version(2, c=types.BIGINT)


def by_offset(layout, seen, **more):
    return TableByOffset(CONTEXT, **more)._met(layout, seen, ())[0]


def by_commit_ts(layout, seen):
    return TableByCommitTs(CONTEXT)._met(EvolvedLayout(layout), seen).layout


def seen(one, since):
    return SeenVersion(one, {AT: 7}, {AT: 7}, 1, since=since, until=since)


@pytest.mark.parametrize("met", [by_offset, by_commit_ts])
def test_the_new_version_settles_it(met):
    assert not ALTERED.settled
    layout = met(ALTERED, seen(NEW, ALTERED_AT + 1))
    assert (layout.settled, layout.version(2).number) == (True, ALTERED.head)


@pytest.mark.parametrize(
    ("met", "more"), [(by_offset, {"settles": False}), (by_commit_ts, {})], ids=["redriven", "re-sent by cut"]
)
def test_a_row_from_before_it_does_not(met, more):
    assert met(ALTERED, seen(OLD, ALTERED_AT - 1), **more) == ALTERED


@pytest.mark.parametrize("met", [by_offset, by_commit_ts])
def test_an_old_version_whose_rows_come_behind_it_does(met):
    """A statement that changes nothing of how rows are sent makes no version."""
    assert met(ALTERED, seen(OLD, ALTERED_AT + 1)).settled
