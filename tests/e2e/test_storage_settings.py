"""Settings of a storage source: which tables are read, what is deleted; and columns that a changefeed leaves out."""

import pytest
import yaml
from golden.checking import currents_differ
from golden.comparing import assert_none
from golden.corpus import GoldenCase
from golden.expected import tables_at_the_end
from golden.storage import Tree, taken
from golden.test_golden_storage import open_rows, rows_of
from support.slow import EVERY

from pipeline.operations.redrive import Selection, redrive
from pipeline.service import Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


def test_a_table_that_is_read_late_has_all_of_its_rows_and_then_its_files_go(tmp_path):
    case = GoldenCase("lifecycle", "storage_csv_day")
    tree = Tree.of(case, tmp_path)
    tree.show(tree.paths())
    tables = tables_at_the_end(case)
    late = next(name for name in tables if name.endswith(".t_uk"))
    first = taken(tree.settings(tmp_path, tables=["*.*", f"!{late}"]))
    wanted = [table for table in tables.values() if table.source != late]
    assert_none([*currents_differ(case, first, wanted)])
    assert late not in {f"{row['schema_name']}.{row['table_name']}" for row in rows_of(first, "tables")}
    (batch,) = rows_of(first, "batches")
    warehouse = taken(tree.settings(tmp_path))
    assert_none([*currents_differ(case, warehouse, tables.values())])
    assert {row["kind"] for row in rows_of(warehouse, "files")} >= {"ROWS", "LISTED"}
    assert rows_of(warehouse, "batches")[-1]["rows_in"] > 0 < batch["rows_in"]
    before = tree.paths()
    taken(tree.settings(tmp_path, cleanup="delete", full_listing="1 second"))
    left = {str(file.relative_to(tree.shown)) for file in tree.shown.rglob("*") if file.is_file()}
    gone = {path for path in before if path not in left}
    assert gone, "old files are deleted"
    assert "metadata" not in gone
    again = taken(tree.settings(tmp_path, full_listing="1 second"))
    assert_none([*currents_differ(case, again, tables.values())])
    assert open_rows(again, "dead_letters") == open_rows(again, "held") == []


def test_a_table_whose_lines_lack_a_column_is_held_and_the_others_are_right(tmp_path):
    """As with a column selector: the schema file lists what the lines do not have."""
    case = GoldenCase("key_updates", "storage_csv_none")
    tree = Tree.of(case, tmp_path)
    tree.show(tree.paths())
    table = "t_comp"
    for path in tree.rows():
        if f"/{table}/" in path:
            lines = (tree.whole / path).read_bytes().split(b"\r\n")
            tree.write(path, b"\r\n".join(line.rpartition(b",")[0] for line in lines))
    warehouse = taken(tree.settings(tmp_path))
    (held,) = {(row["table_name"], row["reason"]) for row in open_rows(warehouse, "held")}
    assert held[0] == table
    assert held[1].startswith(
        "COLUMNS_DIFFER: its rows have 2 columns, their version has 3: check whether the changefeed has a"
    )
    others = [expected for expected in tables_at_the_end(case).values() if not expected.source.endswith(table)]
    assert_none([*currents_differ(case, warehouse, others)])
    assert open_rows(warehouse, "dead_letters") == []


def test_rows_in_quarantine_come_back_though_their_files_are_gone(tmp_path):
    case = GoldenCase("key_updates", "storage_csv_none")
    tree = Tree.of(case, tmp_path)
    tree.show(tree.paths())
    (tmp_path / "checks").mkdir()
    check = {"expect_column_values_to_be_between": {"column": "v", "max_value": 2}, "severity": "quarantine"}
    suite = tmp_path / "checks" / "comp.yaml"
    suite.write_text(yaml.safe_dump({"table": "ku.t_comp", "checks": [{**check, "name": "small"}]}))
    settings = tree.settings(tmp_path, suites="./checks")
    set_aside = open_rows(taken(settings), "quarantine")
    assert {(row["table_name"], row["topic"]) for row in set_aside} <= {("t_comp", path) for path in tree.rows()}
    assert set_aside
    suite.write_text(yaml.safe_dump({"table": "ku.t_comp", "checks": []}))
    for path in tree.rows():
        (tree.shown / path).unlink()
    with Pipeline.open(settings) as pipeline:
        done = redrive(pipeline.context, Selection())
    assert done.redriven + done.superseded == len(set_aside)
    warehouse = taken(settings)
    assert_none([*currents_differ(case, warehouse, tables_at_the_end(case).values())])
    assert open_rows(warehouse, "quarantine") == []


@pytest.mark.skipif(not EVERY, reason="the same by another way of telling")
def test_a_header_that_names_other_columns(tmp_path):
    case = GoldenCase("key_updates", "storage_csv_day")
    tree = Tree.of(case, tmp_path)
    tree.show(tree.paths())
    path = next(path for path in tree.rows() if "/t_comp/" in path)
    content = (tree.whole / path).read_bytes()
    header, _, rest = content.partition(b"\r\n")
    tree.write(path, header.rpartition(b",")[0] + b",other\r\n" + rest)
    warehouse = taken(tree.settings(tmp_path))
    letters = open_rows(warehouse, "dead_letters")
    assert {(row["code"], row["topic"]) for row in letters} == {("COLUMNS_DIFFER", path)}
