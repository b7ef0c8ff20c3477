"""What is listed of a changefeed's files, what is left out of it, and what may be deleted."""

import time
from types import SimpleNamespace
from unittest.mock import ANY

import pytest
from unit.storage_model import MemoryLog, MemoryStore

from pipeline.model.columns import LOGICAL_BITS
from pipeline.settings.sections import ChangefeedSettings, SourceSection
from pipeline.simulate.files import schema_file
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable
from pipeline.sources.storage.batches import BatchPlans
from pipeline.sources.storage.cleanup import Removable, delete, written_before
from pipeline.sources.storage.inventory import Inventory
from pipeline.sources.storage.layout import FileLayout, denied
from pipeline.sources.storage.paths import DataFile, VersionPath, read_path
from pipeline.sources.storage.plan_log import Listed
from pipeline.sources.storage.planner import Checkpoint

COLUMNS = (SimulatedColumn("id", "int"),)


class Place:
    """A changefeed's files in memory, and a reader of them."""

    def __init__(self, **source):
        self.store, self.log = MemoryStore(), MemoryLog()
        self.source(**source)

    def source(self, **source):
        section = SourceSection(kind="storage", protocol="csv", path="/changefeed", **source)
        self.inventory = Inventory(self.store, self.log, section, lambda last: last.endswith(b"\r\n"))

    def describe(self, table, version):
        path, content = schema_file("s", SimulatedTable("s", table, COLUMNS), version, None)
        self.store.write(path, content)
        return path

    def rows(self, *paths):
        for path in paths:
            self.store.write(path, b'"I","t","s",1,1\r\n')

    def take(self):
        """Everything that is found is planned."""
        listing = self.inventory.found()
        rows = [rows for files in listing.new.lanes.values() for rows in files]
        files = [*listing.schemas, *map(self.inventory.planned, rows)]
        noted = self.inventory.listed()
        self.log.add([*files, noted] if noted and files else files)
        return sorted(rows.entry.path for rows in rows)


def test_files_of_tables_that_are_left_out_do_not_wait_and_are_found_when_the_settings_want_them():
    place = Place(tables=["*.*", "!s.log"])
    place.describe("t", 10)
    place.describe("log", 11)
    place.rows("s/t/10/CDC000001.csv", "s/log/11/CDC000001.csv", "s/log/11/CDC000002.csv")
    assert place.take() == ["s/t/10/CDC000001.csv"]
    assert place.inventory.waiting() == []
    place.rows("s/log/11/CDC000003.csv")
    assert place.take() == []
    place.source(tables=["*.*"])
    assert place.inventory.is_due
    assert place.take() == [f"s/log/11/CDC00000{number}.csv" for number in (1, 2, 3)]


def test_a_run_that_begins_soon_after_a_listing_of_everything_looks_where_new_files_come():
    place = Place()
    place.describe("t", 10)
    place.rows("s/t/10/2026-01-01/CDC000001.csv", "s/t/10/2026-01-02/CDC000001.csv")
    place.take()
    place.source()
    place.rows("s/t/10/2026-01-01/CDC000002.csv", "s/t/10/2026-01-02/CDC000002.csv")
    assert place.take() == ["s/t/10/2026-01-02/CDC000002.csv"]
    place.log.listed = Listed(time.time() - 3601, "*.*")
    place.source()
    assert place.take() == ["s/t/10/2026-01-01/CDC000002.csv"]


def test_it_lists_everything_if_the_last_run_has_left_something():
    place = Place()
    place.describe("t", 10)
    place.rows("s/t/10/CDC000001.csv", "s/u/10/CDC000001.csv")  # nothing describes the second one
    listing = place.inventory.found()
    (rows,) = (rows for files in listing.new.lanes.values() for rows in files if rows.described)
    place.log.add([*listing.schemas, place.inventory.planned(rows)])
    assert place.inventory.listed() is None, "the log does not say that everything was taken"
    place.source()
    assert place.inventory.is_due


def test_numbers_of_files_that_were_taken_and_are_deleted_are_no_hole():
    place = Place()
    place.describe("t", 10)
    place.rows(*(f"s/t/10/{day}/CDC000001.csv" for day in ("2026-01-01", "2026-01-02")))
    place.take()
    place.store.delete("s/t/10/2026-01-01/CDC000001.csv")
    place.rows("s/t/10/2026-01-01/CDC000002.csv")
    place.inventory._listed_at = 0.0
    listing = place.inventory.found()
    assert [(lane.folder, number) for lane, number in listing.new.taken_up_to.items() if lane in listing.new.lanes] == [
        ("s/t/10/2026-01-01", 1)
    ]


@pytest.mark.parametrize(("age", "settled"), [(0.0, False), (9.0, False), (11.0, True)])
def test_metadata_that_has_stayed_for_ten_seconds_is_settled(monkeypatch, age, settled):
    place = Place()
    place.store.write("metadata", b'{"checkpoint-ts":5}')
    written = place.store.entry("metadata").modified
    monkeypatch.setattr(time, "time", lambda: written + age)
    assert place.inventory.checkpoint() == Checkpoint(5, settled)


@pytest.mark.parametrize(("age", "said"), [(50.0, 0), (70.0, 1)])
def test_a_version_that_has_waited_for_its_schema_file_for_a_minute_is_named_once(monkeypatch, caplog, age, said):
    place = Place()
    place.rows("s/t/10/CDC000001.csv", "s/t/10/CDC000002.csv")
    listing, plans = place.inventory.found(), SimpleNamespace(_said=set())
    written = place.store.entry("s/t/10/CDC000001.csv").modified
    monkeypatch.setattr(time, "time", lambda: written + age)
    for _ in range(2):
        BatchPlans._say_what_waits(plans, listing)
    assert [record.msg for record in caplog.records if "SCHEMA_PENDING: s/t/10" in str(record.msg)] == [ANY] * said


@pytest.mark.parametrize("table", ["meta", "2024", "t-1.x"])
def test_a_table_may_have_a_name_that_is_also_a_folders(table):
    place = Place()
    place.describe(table, 10)
    place.rows(f"s/{table}/10/2026-01-01/CDC000001.csv")
    assert place.take() == [f"s/{table}/10/2026-01-01/CDC000001.csv"]
    assert [file.table_name for file in place.log.schemas] == [table]


def test_what_may_be_deleted():
    place = Place()
    old, used, newest = place.describe("t", 10), place.describe("t", 20), place.describe("t", 30)
    place.rows("s/t/20/2026-01-01/CDC000001.csv", "s/t/20/2026-01-01/CDC000002.csv", "s/t/20/2026-01-02/CDC000001.csv")
    place.store.write("s/t/20/2026-01-01/meta/CDC.index", b"CDC000002.csv\n")
    place.store.write("s/t/20/2026-01-02/meta/CDC.index", b"CDC000001.csv\n")
    place.store.write("metadata", b'{"checkpoint-ts":1}')
    place.store.write("notes.txt", b"of a user")
    place.take()
    place.rows("s/t/20/2026-01-01/CDC000003.csv")  # nobody has taken it
    removable = Removable(place.log, 60.0, place.inventory.described)
    for entry in place.store.everything():
        removable.offer(entry)
    gone = {
        old, "s/t/20/2026-01-01/CDC000001.csv", "s/t/20/2026-01-01/CDC000002.csv", "s/t/20/2026-01-01/meta/CDC.index",
    }  # fmt: skip
    assert {entry.path for entry in removable.files} == gone
    delete(place.store, removable)
    assert {old, used, newest} & place.store.files.keys() == {used, newest}
    assert "s/t/20/2026-01-02/CDC000001.csv" in place.store.files


def test_nothing_is_deleted_that_is_young_or_has_rows_above_the_consistent_point():
    now = time.time()
    commit_ts = int((now - 1000) * 1000) << LOGICAL_BITS
    assert written_before(commit_ts, keep_for=0) == pytest.approx(now - 1060, abs=5)
    assert written_before(commit_ts, keep_for=7200) == pytest.approx(now - 7200, abs=5)
    assert written_before(0, keep_for=0) < 0


@pytest.mark.parametrize(
    ("path", "layout"),
    [
        ("s/t/10/CDC000001.csv", FileLayout("none", partition=False, dispatcher=False, digits=6)),
        ("s/t/10/7/CDC00000000000000000001.csv", FileLayout("none", partition=True, dispatcher=False, digits=20)),
        ("s/t/10/2026/CDC000001.csv", FileLayout("year", partition=False, dispatcher=False, digits=6)),
        ("s/t/10/2026-01/CDC000001.csv", FileLayout("month", partition=False, dispatcher=False, digits=6)),
        ("s/t/10/7/2026-01-02/CDC000001.csv", FileLayout("day", partition=True, dispatcher=False, digits=6)),
        ("s/t/10/7/2026/CDC000001.csv", FileLayout("year", partition=True, dispatcher=False, digits=6)),
        ("s/t/10/CDC_1a-2b_000001.csv", FileLayout("none", partition=False, dispatcher=True, digits=6)),
    ],
)
def test_the_layout_of_a_file(path, layout):
    file = read_path(path)
    assert isinstance(file, DataFile)
    assert FileLayout.of(path, file, VersionPath("s/t", 10)) == layout


def test_what_the_settings_say_of_the_changefeed_and_its_files_do_not():
    layout = FileLayout("day", partition=False, dispatcher=False, digits=20)
    shown = {"csv.include-commit-ts": True, "csv.output-old-value": False}
    told = {"date-separator": "month", "csv": {"include-commit-ts": True, "output-old-value": True}}
    assert list(denied(ChangefeedSettings(**told), layout, lambda: shown)) == [
        "changefeed.date-separator is month, but the files say day; they are read as written",
        "changefeed.csv.output-old-value is true, but the files say false; they are read as written",
    ]
    assert list(denied(ChangefeedSettings(), layout, lambda: pytest.fail("nobody has asked"))) == []
