"""What the commands that look say while the pipeline's own tables are not there, in either kind of catalog."""

import json

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from unit.configuration import SMALL
from unit.test_report_cli import schema

from pipeline import cli

LOOKING = [
    ["quarantine", "list"],
    ["quarantine", "list", "--dead-letters"],
    ["quarantine", "show", "--all"],
    ["tables", "as-of", "--look"],
    ["tables", "as-of"],
]


@pytest.fixture
def ask(capsys):
    def call(*words):
        code = cli.main([*words, "--output", "json"])
        out, err = capsys.readouterr()
        return code, json.loads(err or out)

    return call


@pytest.fixture(params=["embedded", "external"])
def catalog(request, tmp_path, monkeypatch):
    """A catalog of a warehouse in which no run has made a table."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "warehouse").mkdir()
    file = tmp_path / ("warehouse/catalog.db" if request.param == "embedded" else "elsewhere.db")
    external = f"warehouse: {{path: ./warehouse, catalog: {{type: jdbc, uri: 'jdbc:sqlite:{file}'}}}}"
    config = SMALL if request.param == "embedded" else SMALL.replace("warehouse: {path: ./warehouse}", external)
    (tmp_path / "ticdc-warehouse.yaml").write_text(config)
    made = SqlCatalog("warehouse", uri=f"sqlite:///{file}", warehouse=f"file://{tmp_path}/warehouse")
    yield made
    made.close()


@pytest.mark.usefixtures("catalog")
class TestWithoutTables:
    @pytest.mark.parametrize("words", LOOKING, ids=" ".join)
    def test_it_is_refused_as_before_the_first_run(self, ask, words):
        code, said = ask(*words)
        assert (code, said["code"]) == (1, "NO_WAREHOUSE")
        assert said["hint"].endswith("ticdc-warehouse run --available-now")

    def test_the_list_and_the_report_have_nothing_to_tell(self, ask):
        assert ask("tables", "list") == (0, {"tables": [], "waiting": [], "elsewhere": []})
        assert ask("report")[1]["standing"] == "nothing"


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_without_any_catalog_it_is_the_same_refusal(tmp_path, monkeypatch, ask, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ticdc-warehouse.yaml").write_text(SMALL)
    code, said = ask(*words)
    assert (code, said["code"]) == (1, "NO_WAREHOUSE")


class TestWithTablesThatAreEmpty:
    @pytest.fixture(autouse=True)
    def _made(self, catalog):
        catalog.create_namespace("_pipeline")
        for name in ("quarantine", "dead_letters", "cuts", "ddl_history"):
            catalog.create_table(f"_pipeline.{name}", schema(name))

    @pytest.mark.parametrize("words", LOOKING[:3], ids=" ".join)
    def test_nothing_waits_in_quarantine(self, ask, words):
        code, said = ask(*words)
        assert (code, said["records"]) == (0, 0)

    def test_there_is_no_cut(self, ask):
        assert ask("tables", "as-of")[1]["code"] == "NO_CUT"
