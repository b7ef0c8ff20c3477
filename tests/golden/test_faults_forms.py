"""Forms that TiCDC or a registry writes, which once were called damaged or read as another type."""

import pytest
from golden.faults import FaultCase

from pipeline.cli.checkup import whole
from pipeline.cli.inspection import inspected
from pipeline.protocols.compressed import MESSAGE_COMPRESSED, SETTING

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
    ("case", "letters", "table"),
    [
        (FaultCase("d03_snappy_json", "simple", "json"), 7, (None, None)),
        (FaultCase("e07_lz4", "open-protocol"), 3, ("cz", "t")),
    ],
    ids=str,
)
def test_messages_that_are_compressed_inside_are_named_everywhere_with_the_setting(running, case, letters, table):
    with running(case) as run:
        run.take()
        found = run.warehouse.own("dead_letters")
        assert {(one["code"], one["schema_name"], one["table_name"]) for one in found} == {(MESSAGE_COMPRESSED, *table)}
        assert len(found) == letters
        assert all(SETTING in one["message"] for one in found)
        topic = run.loaded.topic(case.records[0])
        shown = inspected(run.settings, topic, 0, 0)
        assert {code for code, _ in shown.refusals} == {MESSAGE_COMPRESSED}
        assert SETTING in shown.facts["looks like"]
        said = [
            finding for finding in whole.examined(run.settings, able=True) if MESSAGE_COMPRESSED in finding.sentence
        ]
        assert [SETTING in finding.todo for finding in said] == [True]
