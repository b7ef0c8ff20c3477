"""The command `report`, on a warehouse that PyIceberg wrote."""

import json
from unittest import mock

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from unit import report_shop as shop
from unit.configuration import SMALL

from pipeline import cli
from pipeline.report import COLUMNS
from pipeline.warehouse.records import DEFINITIONS

KINDS = {
    "STRING": pa.string(), "BIGINT": pa.int64(), "INT": pa.int32(), "BOOLEAN": pa.bool_(), "DOUBLE": pa.float64(),
    "BINARY": pa.binary(), "TIMESTAMP": pa.timestamp("us", tz="UTC"), "ARRAY<STRING>": pa.list_(pa.string()),
}  # fmt: skip
SHARED = "pipeline STRING, batch_id BIGINT, recorded_at TIMESTAMP"


def schema(name):
    fields = f"{SHARED}, {DEFINITIONS[name]}".split(", ")
    return pa.schema([(column, KINDS[kind]) for column, kind in (field.split(" ") for field in fields)])


def printable(value):
    """Parquet holds no lone surrogate."""
    return value.replace("\ud800", "") if isinstance(value, str) else value


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ticdc-warehouse.yaml").write_text(SMALL)
    return tmp_path


@pytest.fixture
def warehouse(folder):
    place = folder / "warehouse"
    place.mkdir()
    catalog = SqlCatalog("warehouse", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")
    catalog.create_namespace("_pipeline")

    def write(rows):
        for name, found in rows.items():
            columns = schema(name)
            plain = [{column: printable(one.get(column)) for column in columns.names} for one in found]
            catalog.create_table(f"_pipeline.{name}", columns).append(pa.Table.from_pylist(plain, columns))

    yield write
    catalog.destroy_tables()
    catalog.close()


class TestReading:
    def test_it_reads_columns_that_there_are_and_no_bytes(self):
        assert COLUMNS.keys() == DEFINITIONS.keys()
        for name, columns in COLUMNS.items():
            assert set(columns) <= set(schema(name).names), name
            assert pa.binary() not in {schema(name).field(column).type for column in columns}

    def test_a_page_lies_in_this_folder(self, folder, warehouse, capsys):
        warehouse(shop.busy())
        assert cli.main(["report"]) == 0
        said = capsys.readouterr().out
        assert said.startswith("shop.payments waits for a decision.\n")
        assert said.endswith(f"the report is in {folder.resolve() / 'report.html'}\n")
        text = (folder / "report.html").read_text()
        assert "14 changes of shop.orders break total_not_negative" in text
        assert [path.name for path in folder.glob("*report*")] == ["report.html"]

    def test_tables_that_are_not_there_are_empty(self, folder, warehouse):
        warehouse({"batches": shop.quiet()["batches"]})
        assert cli.main(["report", "--to", "deep/r.json"]) == 0
        assert json.loads((folder / "deep/r.json").read_text())["verdict"]["standing"] == "right"

    def test_results_older_than_the_window_are_not_read(self, folder, warehouse):
        warehouse(
            {
                "batches": [shop.batch(number) for number in range(1, 301)],
                "quality_results": [shop.result(n, "orders", "r", success=n > 99, unexpected=1) for n in (9, 300)],
            }
        )
        cli.main(["report", "--format", "json"])
        assert json.loads((folder / "report.json").read_text())["timeline"]["checks"]["items"][0]["judged"] == 1


class TestOptions:
    def test_before_the_first_run_it_says_so(self, folder, capsys):
        assert cli.main(["report", "--output", "json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["standing"], said["path"], said["format"]) == ("nothing", "report.html", "html")
        assert "Nothing has run yet." in (folder / "report.html").read_text()

    def test_people_are_told_where_it_is_also_before_the_first_run(self, folder, capsys):
        assert cli.main(["report"]) == 0
        first, *_, last = capsys.readouterr().out.splitlines()
        assert (first, last) == ("Nothing has run yet.", f"the report is in {folder.resolve() / 'report.html'}")

    @pytest.mark.parametrize(
        ("options", "name", "begin"),
        [
            (["--to", "r.md"], "r.md", "# "),
            (["--to", "r.JSON"], "r.JSON", "{"),
            (["--to", "r.htm"], "r.htm", "<!DOCTYPE html>"),
            (["--format", "markdown"], "report.md", "# "),
            (["--to", "r.txt", "--format", "json"], "r.txt", "{"),
        ],
    )
    def test_the_format_is_what_is_asked_for_or_what_the_name_says(self, folder, options, name, begin):
        assert cli.main(["report", *options]) == 0
        assert (folder / name).read_text().startswith(begin)

    def test_a_name_that_says_nothing_is_wrong_usage(self, folder, capsys):
        assert cli.main(["report", "--to", "report.docx"]) == 2
        assert "say --format" in capsys.readouterr().err
        assert not list(folder.glob("report*"))

    def test_a_place_that_can_not_be_written_is_named(self, folder, capsys):
        (folder / "file").write_text("")
        assert cli.main(["report", "--to", "file/report.html"]) == 1
        assert "REPORT_UNWRITABLE" in capsys.readouterr().err

    def test_a_write_that_fails_leaves_the_old_report(self, folder):
        (folder / "report.html").write_text("old")
        with mock.patch("pathlib.Path.replace", side_effect=OSError(28, "No space left on device")):
            assert cli.main(["report"]) == 1
        assert [path.read_text() for path in folder.glob("*report*")] == ["old"]
