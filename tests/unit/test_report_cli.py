"""The command `report`, on a warehouse that PyIceberg wrote."""

import json
from collections import Counter
from types import SimpleNamespace
from unittest import mock

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from unit import report_shop as shop
from unit.configuration import SMALL

from pipeline import cli
from pipeline.cli import report
from pipeline.lake import catalog, consistent_points
from pipeline.report import COLUMNS, assemble, document, ledger
from pipeline.settings import load
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


class TestHowMuchIsRead:
    """What is shown follows the window and what is open; the rest of the history is counted, and lies there."""

    @pytest.fixture
    def read(self, monkeypatch):
        """How many rows of each table were read."""
        found = Counter()
        scanned = catalog.batches

        def counting(catalog, name, *rest):
            table = scanned(catalog, name, *rest).read_all()
            found[name] += table.num_rows
            return table.to_reader()

        for module in (report, consistent_points):
            monkeypatch.setattr(module, "batches", counting)
        return found

    @pytest.fixture
    def told(self, folder, monkeypatch):
        """The report of the command; made when the shop's rows are."""
        monkeypatch.setattr(report, "datetime", SimpleNamespace(now=lambda _zone: shop.NOW))

        def tell():
            assert cli.main(["report", "--format", "json"]) == 0
            return json.loads((folder / "report.json").read_text())

        return tell

    @pytest.mark.parametrize("window", [1, 7, 12, 39, 40, 144])
    @pytest.mark.parametrize("scene", [shop.busy, shop.stopped, shop.quiet])
    def test_it_is_the_report_of_all_rows(self, warehouse, told, monkeypatch, scene, window):
        monkeypatch.setattr(ledger, "WINDOW", window)
        rows = {name: [{**row} for row in found] for name, found in scene().items()}
        plain = {name: [{k: printable(v) for k, v in row.items()} for row in found] for name, found in rows.items()}
        warehouse(rows)
        assert told() == json.loads(document(assemble(plain, "shop", shop.NOW)))

    def test_what_is_old_and_settled_is_not_read(self, warehouse, told, read, monkeypatch):
        monkeypatch.setattr(ledger, "WINDOW", 10)
        letters = [shop.aside(n, "", None, None, status="open" if n in (3, 199) else "redriven") for n in range(200)]
        held = [shop.row(n, "orders", reason="R", status="released") for n in range(200)]
        times = {n: {"cut_ts": shop.tso(n), "cut_time": shop.at(n), "level": "exact"} for n in range(200)}
        warehouse(
            {
                "batches": [shop.batch(number) for number in range(200)],
                "dead_letters": letters,
                "quarantine": [{**row, "rules": ["r"]} for row in letters],
                "held": held,
                "cuts": [shop.row(n, "orders", table_uuid="u", **times[n]) for n in range(200)],
                "tables": [shop.row(5, "orders", state="live")],
            }
        )
        found = told()
        assert found["batches"] == 200
        assert found["quarantine"]["settled"] == 2 * 198
        assert read["batches"] == 10
        assert (read["quarantine"], read["dead_letters"], read["held"]) == (11, 11, 0)

    def test_where_batches_of_others_stand_among_its_own_all_are_looked_at(self, warehouse, told, read, monkeypatch):
        monkeypatch.setattr(ledger, "WINDOW", 10)
        others = [{**shop.batch(number), "pipeline": "another"} for number in range(30, 60)]
        warehouse({"batches": [*(shop.batch(number) for number in range(30)), *others]})
        assert told()["batches"] == 30
        assert read["batches"] == 30

    def test_a_name_with_quotation_marks_is_a_name(self, warehouse):
        rows = [{**shop.batch(number), "pipeline": "the shop's"} for number in range(3)]
        warehouse({"batches": [*rows, shop.batch(9)]})
        shown = catalog.reader(load(None))
        assert catalog.extent(shown, "batches", "the shop's")[0] == 3
        assert catalog.extent(shown, "batches", "shop")[0] == 1


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
        assert "name the format with --format" in capsys.readouterr().err
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
