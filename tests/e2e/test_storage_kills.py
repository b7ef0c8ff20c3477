"""A changefeed's files, and a process that dies behind every durable step: the tables come out as TiDB's."""

import random

import pytest
import yaml
from e2e.deaths import die_here, do_here
from golden.checking import currents_differ, tables_are_those_of_tidb
from golden.comparing import assert_none
from golden.corpus import GoldenCase
from golden.expected import tables_at_the_end
from golden.storage import Tree
from golden.warehouse import Warehouse
from support.slow import EVERY

from pipeline.sources.storage import batches

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

RUN = ("run", "--available-now")
STEPS = ("changes-appended@2", "ledger-appended")
MORE = (
    "read",
    "published@2", "pending-held",
    "ddl-applied@3", "evolved", "changes-appended@4", "linked@2", "staged", "cuts-appended", "schemas-appended",
    "pending-released", "partitions-removed", "before-spark-commit", "read@2",
)  # fmt: skip


def differences(case, warehouse):
    return [
        *currents_differ(case, warehouse, tables_at_the_end(case).values()),
        *tables_are_those_of_tidb(case, warehouse),
    ]


def test_a_run_that_dies_anywhere_takes_the_same_files_again(tmp_path):
    """Each time with some files more, in any order, also of older versions, and `metadata` of a moment in between."""
    case = GoldenCase("ddl", "new_storage_csv_across")
    tree, dice = Tree.of(case, tmp_path), random.Random(3)  # noqa: S311 - a reproducible order
    file = tmp_path / "ticdc-warehouse.yaml"
    settings = tree.settings(tmp_path, max_bytes_per_trigger="12 KiB", full_listing="1 second").model_dump(
        mode="json", by_alias=True, exclude_defaults=True
    )
    file.write_text(yaml.safe_dump(settings))
    steps = [*STEPS, *(MORE if EVERY else ())]
    rows = tree.rows()
    dice.shuffle(rows)
    tree.show([path for path in tree.paths() if path not in rows], checkpoint_ts=1)
    dumped = [step["commit_ts"] for step in case.steps if "tables" in step]
    died = []
    for number, step in enumerate(steps):
        share = rows[number * len(rows) // (len(steps) + 1) : (number + 1) * len(rows) // (len(steps) + 1)]
        in_order = sorted(share)
        tree.show(in_order, checkpoint_ts=1)
        died.append(die_here(file, RUN, {}, step))
    tree.show(rows, checkpoint_ts=dumped[len(dumped) // 2])
    do_here(file, RUN)
    tree.say()
    do_here(file, RUN)
    assert any(died)
    assert_none(differences(case, Warehouse.at(tmp_path / "warehouse")))


@pytest.mark.skipif(not EVERY, reason="TICDC_WAREHOUSE_GOLDEN=all runs it: the files of the history above, counted")
def test_each_file_is_planned_once_whatever_dies(tmp_path):
    case = GoldenCase("key_updates", "storage_canal_day")
    tree = Tree.of(case, tmp_path)
    file = tmp_path / "ticdc-warehouse.yaml"
    settings = tree.settings(tmp_path).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    file.write_text(yaml.safe_dump(settings))
    tree.show(tree.paths())
    assert die_here(file, RUN, {}, "read")
    assert die_here(file, RUN, {}, "changes-appended@3")
    do_here(file, RUN)
    warehouse = Warehouse.at(tmp_path / "warehouse")
    files = warehouse.catalog.load_table(("_pipeline", "files")).scan().to_arrow().to_pylist()
    assert sorted(row["ordinal"] for row in files) == list(range(1, len({row["path"] for row in files}) + 1))
    assert_none(differences(case, warehouse))


@pytest.mark.skipif(not EVERY, reason="TICDC_WAREHOUSE_GOLDEN=all runs it: the first rows of a table, read once")
@pytest.mark.parametrize("step", ["ddl-applied", "ledger-appended", "speculated", "changes-appended", "published"])
def test_a_run_that_dies_with_a_tables_first_rows(step, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "_MUCH", 1)
    case = GoldenCase("key_updates", "storage_csv_day")
    tree = Tree.of(case, tmp_path)
    tree.show(tree.paths())
    file = tmp_path / "ticdc-warehouse.yaml"
    settings = tree.settings(tmp_path, tables=["ku.t_pk"]).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    file.write_text(yaml.safe_dump(settings))
    assert die_here(file, RUN, {}, step)
    do_here(file, RUN)
    wanted = [table for table in tables_at_the_end(case).values() if table.source == "ku.t_pk"]
    warehouse = Warehouse.at(tmp_path / "warehouse")
    assert_none([*currents_differ(case, warehouse, wanted)])
    changes = warehouse.table("ku.t_pk__changes").scan().to_arrow().to_pylist()
    assert len({(row["_topic"], row["_offset"], row["_index"]) for row in changes}) == len(changes)
