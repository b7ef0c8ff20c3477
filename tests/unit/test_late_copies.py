"""Rows that stand before a late copy of a statement about names (`ingest/by_offset/late_rows.py`), told in order."""

from pathlib import Path

import pytest
import yaml
from unit.batch_model import batch as model
from unit.batch_model import process
from unit.batch_model.history import NAMES, History

from pipeline.model.names import TableName
from pipeline.model.places import Partition
from pipeline.settings import parse
from pipeline.warehouse.pairs import State
from pipeline.warehouse.state import FORMER_NAMES

ALL = 1000
LATE = Partition("t_s_a", 1)


@pytest.fixture(autouse=True)
def sparkless(monkeypatch):
    for where, name, instead in model.replacements():
        monkeypatch.setattr(where, name, instead)


class Story(History):
    """A history of which each step is told: which partition stays behind, and where."""

    def __init__(self):
        super().__init__(NAMES)
        self.least_of_late = None
        self.a_batch_is_taken(limit=(ALL,), crash=None, others=(), fault=None)

    def plan(self, starts, _limit):
        ends = dict(self.source.broker.latest)
        if self.least_of_late is not None:
            ends[LATE] = self.least_of_late
        return ends if any(end > starts.get(at, 0) for at, end in ends.items()) else None

    def read(self, *, late_until=None):
        """One batch of everything; `late_until`: how far the late partition is read."""
        self.least_of_late = late_until
        self.a_batch_is_taken(limit=(ALL,), crash=None, others=(), fault=None)

    def ends(self):
        """How far the late partition reaches."""
        return self.source.broker.latest[LATE]

    def put(self, name, key):
        """A change; the model sends keys of odd numbers to partition 1."""
        self.source.put(self.source.tables[name], key)

    def pair(self, name):
        return self.process.context.tables.find(TableName("s", name))

    def remembered(self):
        return self.process.context.records.tables["ddl_history"].property_of(FORMER_NAMES) or ()


def test_rows_before_a_late_copy_of_a_rename_go_to_the_renamed_table():
    story = Story()
    own, before = story.pair("a").uuid, story.ends()
    story.put("a", 1)
    story.source.rename_table("a", "y")
    story.read(late_until=before)
    assert [one.name for one in story.remembered()] == [("s", "a")]
    story.read()
    assert story.pair("a") is None
    assert story.pair("y").uuid == own
    assert [row.key for row in story.pair("y").changes.content()] == [0, 1]
    story.put("y", 0)
    story.read()
    assert story.remembered() == (), "all copies are read: nothing is to be remembered"


def test_a_partition_that_has_nothing_unread_is_not_waited_for():
    """A topic may have more partitions than TiCDC uses (`partition-num` of the sink URI)."""
    story = Story()
    log = story.source.broker.logs[LATE]
    story.source.rename_table("a", "y")
    del log[-1]
    story.read()
    story.put("y", 0)
    story.read()
    assert story.remembered() == ()


@pytest.mark.parametrize("policy", ["keep", "drop"])
def test_a_dropped_pair_stays_until_no_row_of_it_may_come(policy, monkeypatch):
    written = {**process.WRITTEN, "warehouse": {**process.WRITTEN["warehouse"], "drop_table": policy}}
    settings = parse(yaml.safe_dump(written), Path("/model"))
    monkeypatch.setattr(process, "SETTINGS", dict.fromkeys(process.SETTINGS, settings))
    story = Story()
    own, before = story.pair("a").uuid, story.ends()
    story.put("a", 1)
    story.source.drop_table("a")
    story.source.create("a")
    story.put("a", 2)
    story.read(late_until=before)
    tables = story.process.context.tables
    assert tables.by_uuid(own).state is State.DROPPED
    assert story.pair("a").uuid != own
    story.read()
    kept = tables.by_uuid(own)
    assert (kept is None) == (policy == "drop")
    assert kept is None or [row.key for row in kept.changes.content()] == [0, 1]
    assert [row.key for row in story.pair("a").changes.content()] == [2]
