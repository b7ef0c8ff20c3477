"""Which files a batch takes, and how far the tables are complete with it."""

from pipeline.model.frontier import NEVER, after_ddl, closed_by_watermark
from pipeline.sources.storage.inventory import Found
from pipeline.sources.storage.paths import VersionPath, read_path
from pipeline.sources.storage.planner import Checkpoint, RowsFile, plan
from pipeline.sources.storage.store import StoredFile

SETTLED, FRESH = Checkpoint(100, settled=True), Checkpoint(100, settled=False)


def rows(path, size=10, modified=0.0, *, described=True):
    return RowsFile(StoredFile(path, size, "", modified), read_path(path), described)


def number(n, folder="s/t/5", **more):
    return rows(f"{folder}/CDC{n:06}.csv", **more)


def planned(files, most=1000, firsts=None, before=NEVER, checkpoint=SETTLED, **more):
    unfinished, damaged = more.get("unfinished", ()), more.get("damaged", ())
    new = Found(checkpoint, (), tuple(files), tuple(unfinished), dict.fromkeys(damaged, "why"))
    asked = []

    def first_commit_ts(file):
        asked.append(file.path)
        return (firsts or {}).get(file.path, 0)

    taken, progress = plan(new, most, first_commit_ts, before)
    return [file.entry.path for file in taken], progress, asked


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


def test_of_each_folder_only_the_first_one_left_is_asked():
    files = [number(n, folder, modified=1.0 + n) for folder in ("s/t/5", "s/u/6") for n in (1, 2, 3)]
    firsts = {"s/t/5/CDC000001.csv": 80, "s/u/6/CDC000001.csv": 60}
    _, progress, asked = planned([number(1, "s/a/4"), *files], most=1, firsts=firsts)
    assert (progress, sorted(asked)) == (after_ddl(59), sorted(firsts))


def test_files_of_a_version_that_nothing_describes_wait_and_hold_the_tables_back():
    waiting = number(1, "s/new/9", described=False)
    taken, progress, _ = planned([number(1), waiting], firsts={waiting.entry.path: 90})
    assert (taken, progress) == (["s/t/5/CDC000001.csv"], after_ddl(89))


def test_a_newest_file_that_ends_within_a_record_waits():
    unfinished = number(2)
    taken, progress, _ = planned([number(1)], firsts={unfinished.entry.path: 101}, unfinished=[unfinished])
    assert (taken, progress) == (["s/t/5/CDC000001.csv"], after_ddl(100))
    assert planned([], unfinished=[unfinished])[1] == after_ddl(100)  # it is empty: nothing up to 100 is in it


def test_nothing_is_complete_beyond_a_schema_file_that_is_damaged():
    assert planned([], damaged=[VersionPath("s/t", 40)])[1] == after_ddl(39)


def test_it_never_goes_back():
    left = number(2, modified=1.0)
    redelivered = planned([number(1), left], most=1, firsts={left.entry.path: 30}, before=after_ddl(80))
    assert redelivered[1] == after_ddl(80)
    assert planned([number(1)], checkpoint=None, before=after_ddl(80))[1] == after_ddl(80)
    assert planned([number(1)], checkpoint=None)[0] == ["s/t/5/CDC000001.csv"]
