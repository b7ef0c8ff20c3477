"""TiCDC's own files of CSV and Canal-JSON: whichever way they come, the tables are TiDB's.

A few trees by default; TICDC_WAREHOUSE_GOLDEN=all runs every one.
"""

import random
import re
import time
from collections import Counter

import pytest
from golden.checking import currents_differ, tables_are_those_of_tidb
from golden.comparing import assert_none
from golden.corpus import GoldenCase
from golden.expected import tables_after, tables_at_the_end
from golden.storage import Tree, storage_cases, taken
from golden.warehouse import Warehouse
from support.slow import EVERY, few
from support.steps import watch

from pipeline.service import Pipeline
from pipeline.sources.storage import batches, source

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

OLD_VALUES_MISSING = {
    ("lifecycle", "storage_csv_none"): {"life.t_nokey", "life.t_uk", "life.t_uk_null"},
    ("lifecycle", "new_storage_csv_none"): {"life.t_nokey", "life.t_uk", "life.t_uk_null"},
    ("key_updates", "storage_csv_none"): set(),
}
"""Tables without a primary key whose updates do not carry the row as it was: they are held."""
DEFAULT = ("all_types-storage_canal_day",)
CASES = [case for case in storage_cases() if EVERY or str(case) in DEFAULT]


def rows_of(warehouse, name):
    return warehouse.catalog.load_table(("_pipeline", name)).scan().to_arrow().to_pylist()


def newest_level(warehouse):
    return max(rows_of(warehouse, "batches"), key=lambda row: row["batch_id"])["level"]


def open_rows(warehouse, name):
    return [row for row in rows_of(warehouse, name) if row["status"] == "open"]


def differences(case, warehouse, tables, held=()):
    comparable = [table for table in tables.values() if table.source not in held]
    return [*currents_differ(case, warehouse, comparable), *tables_are_those_of_tidb(case, warehouse)]


def changes_of(warehouse):
    """How many changes there are, by commit ts; each place stands there once."""
    changes = [row for rows in warehouse.changes().values() for row in rows]
    assert len({(row["_topic"], row["_offset"]) for row in changes}) == len(changes)
    return Counter(row["_commit_ts"] for row in changes)


def assert_accounts(tree, warehouse):
    """Of each file every event is a change or held."""
    changes = Counter(row["_topic"] for rows in warehouse.changes().values() for row in rows)
    held = Counter(row["topic"] for row in rows_of(warehouse, "held") if row["topic"] in tree.rows())
    assert changes + held == Counter({path: tree.events_of(path).total() for path in tree.rows()})


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_whole_tree_is_tidbs_tables(case, tmp_path):
    tree = Tree.of(case, tmp_path)
    tree.show(tree.paths())
    warehouse = taken(tree.settings(tmp_path))
    held = OLD_VALUES_MISSING.get((case.scenario, case.config), set())
    assert_none(differences(case, warehouse, tables_at_the_end(case), held))
    assert {f"{row['schema_name']}.{row['table_name']}" for row in open_rows(warehouse, "held")} == held
    assert open_rows(warehouse, "dead_letters") == open_rows(warehouse, "quarantine") == []
    assert_accounts(tree, warehouse)
    if not held:
        assert changes_of(warehouse) == tree.events()
    assert [row["level"] for row in rows_of(warehouse, "batches")] == ["partial" if held else "exact"]
    planned = {row["path"] for row in rows_of(warehouse, "files")}
    assert planned >= {*tree.rows()}
    assert len(rows_of(warehouse, "files")) == len(planned)


def test_files_that_come_in_any_order_in_many_batches_with_each_row_twice(tmp_path):
    case = GoldenCase("lifecycle", "storage_csv_day")
    tree, dice = Tree.of(case, tmp_path), random.Random(7)  # noqa: S311 - a reproducible order
    settings = tree.settings(tmp_path, max_bytes_per_trigger="6 KiB")
    schemas = [path for path in tree.paths() if path not in tree.rows()]
    rows = tree.rows()
    dice.shuffle(rows)
    tree.show([*schemas, *rows[: len(rows) // 2]], checkpoint_ts=1)
    first = taken(settings)
    assert {row["level"] for row in rows_of(first, "batches")} <= {"none", "exact", "partial"}
    for path in rows[:10]:
        tree.copy_under_another_number(path)
    tree.show(rows[len(rows) // 2 :])
    warehouse = taken(settings)
    assert_none(differences(case, warehouse, tables_at_the_end(case)))
    assert newest_level(warehouse) in ("exact", "none")
    assert open_rows(warehouse, "held") == open_rows(warehouse, "dead_letters") == []
    files = rows_of(warehouse, "files")
    assert sorted(row["ordinal"] for row in files) == list(range(1, len(files) + 1))


@pytest.mark.slow
def test_a_tree_as_ticdc_6_5_lays_it_out(tmp_path):
    """The schema file stands in the folder of its version, its name has no checksum, and there is no index."""
    case = GoldenCase("key_updates", "storage_csv_none")
    tree = Tree.of(case, tmp_path)
    for path in tree.paths():
        schema = re.fullmatch(r"(.*)/meta/schema_([0-9]+)_[0-9]+\.json", path)
        if not path.endswith(".index"):
            to = f"{schema[1]}/{schema[2]}/schema.json" if schema else path
            tree.write(to, (tree.whole / path).read_bytes())
    tree.say()
    assert not [*tree.shown.rglob("meta")]
    warehouse = taken(tree.settings(tmp_path))
    assert_none(differences(case, warehouse, tables_at_the_end(case)))
    assert open_rows(warehouse, "held") == open_rows(warehouse, "dead_letters") == []


def test_nothing_beyond_what_metadata_says_is_shown(tmp_path):
    case = GoldenCase("key_updates", "storage_csv_day")
    tree = Tree.of(case, tmp_path)
    dumped = [step for step in case.steps if "tables" in step]
    middle = dumped[len(dumped) // 2]
    settings = tree.settings(tmp_path)
    tree.show(tree.paths(), checkpoint_ts=middle["commit_ts"])
    warehouse = taken(settings)
    assert_none([*currents_differ(case, warehouse, tables_after(case, middle["step"]).values())])
    tree.say()
    warehouse = taken(settings)
    assert_none(differences(case, warehouse, tables_at_the_end(case)))
    assert changes_of(warehouse) == tree.events()


@pytest.mark.slow
@pytest.mark.parametrize("case", storage_cases(), ids=str)
def test_at_steps_at_which_tidb_was_asked_the_tables_are_tidbs(case, tmp_path):
    tree, held = Tree.of(case, tmp_path), OLD_VALUES_MISSING.get((case.scenario, case.config), set())
    settings = tree.settings(tmp_path)
    tree.show(tree.paths(), checkpoint_ts=1)
    dumped = [step for step in case.steps if "tables" in step and step["commit_ts"]]  # CREATE SEQUENCE has none
    dice = random.Random(str(case))  # noqa: S311 - a reproducible choice
    for step in sorted(dice.sample(dumped, min(8, len(dumped))), key=lambda step: step["step"]):
        tree.say(step["commit_ts"])
        wanted = [table for table in tables_after(case, step["step"]).values() if table.source not in held]
        assert_none([*currents_differ(case, taken(settings), wanted)])


@pytest.mark.slow
@pytest.mark.parametrize("case", [GoldenCase("key_updates", "storage_canal_none")], ids=str)
def test_files_that_come_one_by_one_each_twice_under_another_number(case, tmp_path):
    tree = Tree.of(case, tmp_path)
    settings = tree.settings(tmp_path)
    tree.show([path for path in tree.paths() if path not in tree.rows()], checkpoint_ts=1)
    for path in tree.rows():
        tree.show([path], checkpoint_ts=1)
        taken(settings)
        tree.copy_under_another_number(path)
        taken(settings)
    tree.say()
    warehouse = taken(settings)
    assert_none(differences(case, warehouse, tables_at_the_end(case)))
    assert open_rows(warehouse, "held") == open_rows(warehouse, "dead_letters") == []


@pytest.mark.parametrize("configuration", few("storage_csv_day", "storage_canal_none"))
def test_a_file_that_ends_within_a_record(tmp_path, configuration):
    case = GoldenCase("key_updates", configuration)
    tree = Tree.of(case, tmp_path)
    tree.show(tree.paths())
    path = max(tree.rows(), key=lambda path: (tree.whole / path).stat().st_size)
    content = (tree.whole / path).read_bytes()
    cut_off = content[: content.rindex(b"\r\n", 0, -2) + 10]
    settings = tree.settings(tmp_path)
    tree.write(path, cut_off, modified=time.time())  # behind the checkpoint: it may still grow
    warehouse = taken(settings)
    assert path not in {row["path"] for row in rows_of(warehouse, "files")}, (
        "the newest one of its folder is waited for"
    )
    newest_row = content[content.rindex(b"\r\n", 0, -2) + 2 :]
    tree.copy_under_another_number(path, newest_row)  # the file is not the newest any more, and begins no second time
    warehouse = taken(settings)
    (letter,) = open_rows(warehouse, "dead_letters")
    assert (letter["code"], letter["topic"], letter["kafka_partition"]) == ("FILE_TRUNCATED", path, 0)
    assert letter["value"] == cut_off[cut_off.rindex(b"\r\n") + 2 :]
    assert newest_level(warehouse) == "partial"
    tree.copy_under_another_number(path)
    warehouse = taken(settings)
    assert [row["status"] for row in rows_of(warehouse, "dead_letters")] == ["superseded"]
    assert newest_level(warehouse) == "exact"
    assert_none(differences(case, warehouse, tables_at_the_end(case)))


def test_a_torn_file_and_its_rows_again_in_one_batch(tmp_path):
    case = GoldenCase("key_updates", "storage_csv_day")
    tree = Tree.of(case, tmp_path)
    tree.show(tree.paths())
    path = max(tree.rows(), key=lambda path: (tree.whole / path).stat().st_size)
    tree.write(path, (tree.whole / path).read_bytes()[:-10])
    tree.copy_under_another_number(path)
    warehouse = taken(tree.settings(tmp_path))
    assert [(row["code"], row["status"]) for row in rows_of(warehouse, "dead_letters")] == [
        ("FILE_TRUNCATED", "superseded")
    ]
    assert [row["level"] for row in rows_of(warehouse, "batches")] == ["exact"]
    assert_none(differences(case, warehouse, tables_at_the_end(case)))


def test_a_file_that_is_written_anew_is_read_again(tmp_path):
    case = GoldenCase("key_updates", "storage_csv_day")
    tree = Tree.of(case, tmp_path)
    path = max(tree.rows(), key=lambda path: (tree.whole / path).stat().st_size)
    content = (tree.whole / path).read_bytes()
    half = content[: content.index(b"\r\n", len(content) // 2) + 2]
    settings = tree.settings(tmp_path)
    tree.show(tree.paths(), checkpoint_ts=1)
    tree.write(path, half)
    taken(settings)
    tree.show([path])
    warehouse = taken(settings)
    assert_none(differences(case, warehouse, tables_at_the_end(case)))
    incarnations = [row["incarnation"] for row in rows_of(warehouse, "files") if row["path"] == path]
    assert sorted(incarnations) == [1, 2]


def steps_of(settings, monkeypatch):
    """Take a tree of one table, as if it were large; the steps that the run went through."""
    monkeypatch.setattr(batches, "_MUCH", 1)
    steps = Counter()
    with Pipeline.open(settings) as pipeline:
        watch(pipeline, lambda step: steps.update([step]))
        pipeline.run(available_now=True)
    return steps


@pytest.mark.parametrize("table", few("ku.t_pk", "ku.t_bin", "ku.t_ci", "ku.t_comp", "ku.t_dec", "ku.t_uk"))
@pytest.mark.parametrize("configuration", few("storage_csv_day", "storage_canal_day"))
def test_much_of_one_version_is_read_once(configuration, table, tmp_path, monkeypatch):
    case = GoldenCase("key_updates", configuration)
    tree = Tree.of(case, tmp_path)
    tree.show(tree.paths())
    settings = tree.settings(tmp_path, tables=[table])
    steps = steps_of(settings, monkeypatch)
    assert (steps["speculated"], steps["ledger-appended"]) == (1, 2)
    wanted = [one for one in tables_at_the_end(case).values() if one.source == table]
    assert_none([*currents_differ(case, Warehouse.at(settings.warehouse.path), wanted)])


def test_rows_with_other_columns_are_held_though_their_table_is_new(tmp_path, monkeypatch):
    tree = Tree.of(GoldenCase("key_updates", "storage_csv_day"), tmp_path)
    tree.show(tree.paths())
    for path in tree.rows():
        if "/t_pk/" in path:
            tree.write(path, (tree.whole / path).read_bytes().replace(b"\r\n", b",1\r\n"))
    settings = tree.settings(tmp_path, tables=["ku.t_pk"])
    steps = steps_of(settings, monkeypatch)
    assert steps["speculated"] == 1
    warehouse = Warehouse.at(settings.warehouse.path)
    assert {row["reason"].partition(":")[0] for row in open_rows(warehouse, "held")} == {"COLUMNS_DIFFER"}
    assert open_rows(warehouse, "dead_letters") == []


def test_a_file_that_is_replaced_between_the_listing_and_the_reading_is_read_again(tmp_path, monkeypatch):
    case = GoldenCase("key_updates", "storage_csv_day")
    tree = Tree.of(case, tmp_path)
    path = max(tree.rows(), key=lambda path: (tree.whole / path).stat().st_size)
    content = (tree.whole / path).read_bytes()
    middle = content.index(b"\r\n", len(content) // 3) + 2
    tree.show(tree.paths(), checkpoint_ts=1)
    tree.write(path, content[:middle])
    listed = source.raw_frame

    def replaced(*given):
        if (tree.shown / path).read_bytes() == content[:middle]:
            tree.write(path, content[middle:])
            tree.copy_under_another_number(path, content[:middle])
        return listed(*given)

    settings = tree.settings(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(source, "raw_frame", replaced)
        warehouse = taken(settings)
    assert {row["incarnation"] for row in rows_of(warehouse, "files") if row["path"] == path} == {1, 2}
    tree.say()
    warehouse = taken(settings)
    assert_none(differences(case, warehouse, tables_at_the_end(case)))
    assert open_rows(warehouse, "dead_letters") == []
