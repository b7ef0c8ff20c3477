"""Forms that TiCDC or a registry writes, which once were called damaged or read as another type."""

import pytest
from golden.faults import FaultCase

from pipeline.cli.checkup import whole
from pipeline.cli.inspection import inspected

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


@pytest.mark.parametrize(("name", "table"), [("n01_full_name", "s1.t"), ("n02_wrapped_primitives", "s2.t")])
def test_rows_of_schemas_that_a_registry_has_printed_anew_are_there(running, name, table):
    with running(FaultCase(name)) as run:
        run.take()
        rows = [row.values for row in run.warehouse.current(table).rows]
        assert sorted((row["id"], row["v"]) for row in rows) == [(0, "v0"), (1, "v1"), (2, "v2")]


def test_rows_whose_flags_are_not_there_yet_land_in_the_columns_that_the_statement_defined(running):
    with running(FaultCase("s06_stale_flags_in_range", "open-protocol")) as run:
        run.take()
        rows = {row.values["id"]: row.values for row in run.warehouse.current("on.sg").rows}
        assert not any("__v" in name for name in rows[1])
        for number in (2, 3):
            row = rows[number]
            assert (row["b"], row["u"], row["vb"], row["tx"]) == (b"\xff\x00", 5, b"\xff\x00", "plain")


def test_an_index_of_a_new_sort_holds_no_table(running):
    with running(FaultCase("s03_index_types", "open-protocol")) as run:
        run.take()
        assert run.warehouse.own("held") == []
        assert {row["state"] for row in run.warehouse.own("tables") if row["table_name"] == "ix"} == {"live"}
        indexed = [row for row in run.warehouse.own("ddl_history") if "FULLTEXT" in row["sql"]]
        assert [row["status"] for row in indexed] == ["applied"]


@pytest.mark.parametrize(
    "case", [FaultCase("d03_snappy_json", "simple", "json"), FaultCase("e07_lz4", "open-protocol")], ids=str
)
def test_messages_that_are_compressed_inside_are_read_everywhere(running, case):
    with running(case) as run:
        run.take()
        assert run.warehouse.own("dead_letters") == run.warehouse.own("held") == []
        assert any(table.rows for table in map(run.warehouse.current, run.warehouse.current_names()))
        shown = inspected(run.settings, run.loaded.topic(case.records[0]), 0, 0)
        assert shown.refusals == []
        assert "inside the message" in shown.facts["looks like"]
        findings = [*whole.examined(run.settings, able=True)]
        assert [one for one in findings if "MESSAGE_COMPRESSED" in one.sentence] == []
