"""Which files a batch takes, and how far the tables are complete with it."""

from types import SimpleNamespace

import pytest

from pipeline.errors import Refused
from pipeline.model.frontier import NEVER, after_ddl, closed_by_watermark
from pipeline.protocols.described.head import MessageKind
from pipeline.sources.storage import batches
from pipeline.sources.storage.batches import BatchPlans
from pipeline.sources.storage.lanes import Lane
from pipeline.sources.storage.losses import Losses
from pipeline.sources.storage.paths import VersionPath, path_of, read_path
from pipeline.sources.storage.plan_log import PlannedFile, WentBack
from pipeline.sources.storage.planner import Checkpoint, Hole, New, RowsFile, plan
from pipeline.sources.storage.store import StoredFile

SETTLED, FRESH = Checkpoint(100, settled=True), Checkpoint(100, settled=False)


def rows(path, size=10, modified=0.0, *, described=True, whole=True):
    return RowsFile(StoredFile(path, size, "", modified), read_path(path), described, whole)


def number(n, folder="s/t/5", **more):
    return rows(f"{folder}/CDC{n:06}.csv", **more)


def lanes(files):
    made = {}
    for file in sorted(files, key=lambda file: file.file.number):
        made.setdefault(Lane(file.file.folder, file.file.dispatcher), []).append(file)
    return made


def planned(files, most=1000, firsts=None, before=NEVER, checkpoint=SETTLED, **more):
    asked, taken, given_up = [], more.get("taken"), more.get("given_up", lambda _: False)

    def first_commit_ts(file):
        asked.append(file.path)
        return (firsts or {}).get(file.path, 0)

    taken_up_to = {Lane(folder, ""): last for folder, last in (taken or {}).items()}
    made = plan(New(checkpoint, lanes(files), taken_up_to), most, first_commit_ts, before, given_up)
    return [file.entry.path for file in made.rows], made.progress, asked


def test_everything_is_taken_and_complete_up_to_what_metadata_says():
    files = [number(2), number(1)]
    assert planned(files) == (["s/t/5/CDC000001.csv", "s/t/5/CDC000002.csv"], after_ddl(100), [])
    assert planned([]) == ([], after_ddl(100), [])


def test_a_ddl_event_of_just_that_commit_ts_may_still_come():
    assert planned([], checkpoint=FRESH)[1] == closed_by_watermark(99) < after_ddl(99)


def test_what_is_left_is_newer_than_the_tables():
    files = [number(n, modified=float(n)) for n in (1, 2, 3)]
    taken, progress, asked = planned(files, most=25, firsts={"s/t/5/CDC000003.csv": 70})
    assert (len(taken), progress) == (2, after_ddl(69))
    assert asked == ["s/t/5/CDC000003.csv"]


def test_one_file_is_taken_however_large_it_is():
    taken, progress, _ = planned([number(1), number(2, modified=1.0)], most=1, firsts={"s/t/5/CDC000002.csv": 50})
    assert (taken, progress) == (["s/t/5/CDC000001.csv"], after_ddl(49))


def test_of_each_lane_only_the_first_file_left_is_asked():
    files = [number(n, folder, modified=1.0 + n) for folder in ("s/t/5", "s/u/6") for n in (1, 2, 3)]
    firsts = {"s/t/5/CDC000001.csv": 80, "s/u/6/CDC000001.csv": 60}
    _, progress, asked = planned([number(1, "s/a/4"), *files], most=1, firsts=firsts)
    assert (progress, sorted(asked)) == (after_ddl(59), sorted(firsts))


def test_a_file_without_a_whole_row_does_not_hide_the_one_behind_it():
    files = [number(1, "s/a/4"), number(1, modified=1.0), number(2, modified=1.0)]
    assert planned(files, most=1, firsts={"s/t/5/CDC000002.csv": 60})[1] == after_ddl(59)


def test_a_lane_is_taken_in_the_order_of_its_numbers_whatever_the_clock_of_its_writer():
    files = [number(1, modified=9.0), number(2, modified=1.0), number(1, "s/u/6", modified=5.0)]
    assert planned(files)[0] == ["s/u/6/CDC000001.csv", "s/t/5/CDC000001.csv", "s/t/5/CDC000002.csv"]


def test_files_of_a_version_that_nothing_describes_wait_and_hold_the_tables_back():
    waiting = number(1, "s/new/9", described=False)
    taken, progress, _ = planned([number(1), waiting], firsts={waiting.entry.path: 90})
    assert (taken, progress) == (["s/t/5/CDC000001.csv"], after_ddl(89))


def test_a_newest_file_that_ends_within_a_record_waits():
    unfinished = number(2, whole=False)
    taken, progress, _ = planned([number(1), unfinished], firsts={unfinished.entry.path: 101})
    assert (taken, progress) == (["s/t/5/CDC000001.csv"], after_ddl(100))
    assert planned([unfinished], taken={"s/t/5": 1})[1] == after_ddl(100)  # it is empty: nothing up to 100 is in it


def test_what_is_behind_a_hole_waits_and_nothing_more_is_complete():
    files = [number(4), number(6), number(1, "s/u/6")]
    taken, progress, _ = planned(files, taken={"s/t/5": 3}, before=after_ddl(80))
    assert (taken, progress) == (["s/t/5/CDC000004.csv", "s/u/6/CDC000001.csv"], after_ddl(80))
    asked = []
    taken, progress, _ = planned(files, taken={"s/t/5": 3}, given_up=lambda hole: asked.append(hole) or True)
    assert (len(taken), progress) == (3, after_ddl(100))
    assert asked == [Hole(Lane("s/t/5", ""), 5, 5, files[1])]
    assert path_of(asked[0].behind.entry.path, 5) == "s/t/5/CDC000005.csv"


def test_a_file_that_was_written_anew_or_comes_late_is_taken_whatever_its_number():
    assert planned([number(2), number(9)], taken={"s/t/5": 8})[0] == ["s/t/5/CDC000002.csv", "s/t/5/CDC000009.csv"]


def test_it_never_goes_back():
    left = number(2, modified=1.0)
    redelivered = planned([number(1), left], most=1, firsts={left.entry.path: 30}, before=after_ddl(80))
    assert redelivered[1] == after_ddl(80)
    assert planned([number(1)], checkpoint=None, before=after_ddl(80))[1] == after_ddl(80)
    assert planned([number(1)], checkpoint=None)[0] == ["s/t/5/CDC000001.csv"]


NOW = 1_800_000_000.0


def hole(first, last, *, age=0.0):
    return Hole(Lane("s/t/5", ""), first, last, number(last + 1, modified=NOW - age))


@pytest.fixture
def losses(monkeypatch):
    monkeypatch.setattr("pipeline.sources.storage.losses.time.time", lambda: NOW)

    def judge(*accepted, begins=False, there=()):
        return Losses(accepted, lambda: begins, {*there}.__contains__, lambda _: "shop.t")

    return judge


class TestLosses:
    def test_a_missing_file_is_waited_for_and_then_refused(self, losses):
        judge = losses(there=["s/t/5/CDC000003.csv"])
        assert not judge.given_up(hole(4, 5, age=599))
        judge.refuse()
        assert not judge.given_up(hole(4, 5, age=601))
        with pytest.raises(Refused, match=r"FILE_MISSING: .*: 4 to 5 of s/t/5 \(shop.t\)\n.*--accept FILE_MISSING"):
            judge.refuse()
        assert losses("FILE_MISSING", there=["s/t/5/CDC000003.csv"]).given_up(hole(4, 5, age=601))

    def test_where_the_one_before_is_gone_too_a_cleanup_has_been_there(self, losses):
        judge = losses("FILE_MISSING")
        assert [judge.given_up(one) for one in [hole(4, 4), *[hole(1, 4)] * 11]] == [False] * 12
        many = r"FILES_EXPIRED: .*: 4 of s/t/5 \(shop.t\); 1 to 4 of .*; and of 1 more folders\n"
        with pytest.raises(Refused, match=many):
            judge.refuse()

    def test_what_was_accepted_is_said_and_later_losses_are_refused_again(self, losses, caplog):
        judge = losses("FILES_EXPIRED")
        assert judge.given_up(hole(1, 4))
        assert judge.given_up(hole(7, 7))
        judge.refuse()
        assert "FILES_EXPIRED was accepted; a run goes on without these files: 1 to 4 of s/t/5" in caplog.text
        assert not judge.given_up(hole(9, 9))
        with pytest.raises(Refused, match="FILES_EXPIRED"):
            judge.refuse()

    def test_a_new_warehouse_begins_with_what_is_there(self, losses):
        assert losses(begins=True).given_up(hole(1, 4))
        assert not losses(begins=True).given_up(hole(3, 4))

    def test_a_checkpoint_that_goes_back_is_another_changefeeds(self, losses):
        with pytest.raises(Refused, match="CHECKPOINT_WENT_BACK"):
            losses().judge(SETTLED, 101, at_once=True)
        assert not losses().judge(SETTLED, 100, at_once=True)
        assert losses("CHECKPOINT_WENT_BACK").judge(SETTLED, 101, at_once=True)

    def test_what_was_accepted_once_need_not_be_accepted_again(self, losses):
        assert not losses().judge(SETTLED, 101, WentBack(SETTLED.commit_ts, 101), at_once=True)
        for no_more in (WentBack(SETTLED.commit_ts + 1, 101), WentBack(SETTLED.commit_ts, 100)):
            with pytest.raises(Refused, match="CHECKPOINT_WENT_BACK"):
                losses().judge(SETTLED, 101, no_more, at_once=True)

    def test_for_a_moment_two_servers_may_write_metadata(self, losses, monkeypatch):
        clock = [1.0]
        monkeypatch.setattr("pipeline.sources.storage.losses.time.monotonic", lambda: clock[0])
        judge = losses()
        judge.judge(SETTLED, 101, at_once=False)
        clock[0] += 59
        judge.judge(SETTLED, 101, at_once=False)
        judge.judge(SETTLED, 100, at_once=False)
        clock[0] += 59
        judge.judge(SETTLED, 101, at_once=False)
        clock[0] += 61
        with pytest.raises(Refused, match="CHECKPOINT_WENT_BACK"):
            judge.judge(SETTLED, 101, at_once=False)


OF_ITS_OWN, OF_ANOTHER = "s/t/meta/schema_5_0000000001.json", "s/u/meta/schema_5_0000000001.json"


@pytest.mark.parametrize(
    ("schema", "kind", "folders", "size", "waits"),
    [
        (OF_ITS_OWN, MessageKind.DDL, ["s/t/5"], batches._MUCH, True),
        (OF_ITS_OWN, MessageKind.DDL, ["s/t/5"], batches._MUCH - 1, False),
        (OF_ITS_OWN, MessageKind.BOOTSTRAP, ["s/t/5"], batches._MUCH, False),
        (OF_ANOTHER, MessageKind.DDL, ["s/t/5"], batches._MUCH, False),
        (OF_ITS_OWN, MessageKind.DDL, ["s/t/5", "s/u/5"], batches._MUCH, False),
    ],
)
def test_much_of_one_version_waits_for_the_statement_that_makes_it(schema, kind, folders, size, waits):
    described = {VersionPath("s/t", 5), VersionPath("s/u", 5)}
    rows = {Lane(folder, ""): (number(1, folder, size=size),) for folder in folders}
    statement = PlannedFile(0, schema, 1, 9, "e", 0.0, str(kind), "s", "t", 5)
    listing = SimpleNamespace(new=New(SETTLED, rows, {}), schemas=(statement,))
    plans = SimpleNamespace(inventory=SimpleNamespace(described=described))
    assert BatchPlans._waits_for_its_table(plans, listing) is waits
