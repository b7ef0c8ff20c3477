"""Behind an ALTER the first row of the new version tells how its columns are, and no row from before it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from unit.test_evolution import BASE, KEEP, NAME, column, version

from pipeline.ddl import ModifyColumn
from pipeline.model import types
from pipeline.model.messages import SeenVersion, TableMessages
from pipeline.model.places import Partition
from pipeline.streaming.commit_ts_writer import CommitTsTableWriter
from pipeline.streaming.table_writer import TableWriter
from pipeline.warehouse.evolution import apply_actions

AT = Partition("t", 0)
ALTERED_AT = 100
ALTERED = replace(
    apply_actions(BASE, (ModifyColumn("c", column("c", types.BIGINT)),), ALTERED_AT, KEEP)[0],
    altered_in=((AT.stream, 0),),
)
OLD, NEW = version(1, c=types.INT), version(2, c=types.BIGINT)


def writer(kind, **more):
    protocol = SimpleNamespace(is_newest=lambda _seen: False)
    context = SimpleNamespace(protocol=protocol, policy=KEEP)
    return kind(context, None, 1, TableMessages(NAME, ()), {}, [], None, **more)


def seen(one, since):
    return SeenVersion(one, {AT: 7}, {AT: 7}, 1, since=since, until=since)


@pytest.mark.parametrize("kind", [TableWriter, CommitTsTableWriter])
def test_the_new_version_settles_it(kind):
    assert not ALTERED.settled
    layout = writer(kind)._met(ALTERED, seen(NEW, ALTERED_AT + 1))
    assert (layout.settled, layout.version(2).number) == (True, ALTERED.head)


@pytest.mark.parametrize(
    ("kind", "more"), [(TableWriter, {"settles": False}), (CommitTsTableWriter, {})], ids=["redriven", "re-sent by cut"]
)
def test_a_row_from_before_it_does_not(kind, more):
    assert writer(kind, **more)._met(ALTERED, seen(OLD, ALTERED_AT - 1)) == ALTERED


@pytest.mark.parametrize("kind", [TableWriter, CommitTsTableWriter])
def test_an_old_version_whose_rows_come_behind_it_does(kind):
    """A statement that changes nothing of how rows are sent makes no version."""
    assert writer(kind)._met(ALTERED, seen(OLD, ALTERED_AT + 1)).settled
