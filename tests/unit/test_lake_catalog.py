"""Catalogs as the commands that look find them: nothing is made in them, and what is missing is named."""

import json
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ForbiddenError, UnauthorizedError
from unit.configuration import SMALL

from pipeline import cli
from pipeline.errors import EnvironmentFault, Refused
from pipeline.lake import catalog
from pipeline.model.names import WarehouseName
from pipeline.settings import parse

ORDERS = WarehouseName("shop", "orders")


def settings_of(tmp_path, catalog):
    return parse(SMALL.replace("{path: ./warehouse}", f"{{path: ./warehouse, catalog: {catalog}}}"), tmp_path)


def tables_of(file):
    with closing(sqlite3.connect(file)) as database:
        return database.execute("SELECT name FROM sqlite_master").fetchall()


class TestADatabase:
    def test_an_empty_one_stays_empty(self, tmp_path):
        file = tmp_path / "elsewhere.db"
        sqlite3.connect(file).close()
        file.touch()
        with pytest.raises(Refused) as refusal:
            catalog.reader(settings_of(tmp_path, f"{{type: jdbc, uri: 'jdbc:sqlite:{file}'}}"))
        assert refusal.value.code == "NO_WAREHOUSE"
        assert tables_of(file) == []

    @pytest.mark.parametrize("url", ["jdbc:sqlite:{}", "jdbc:sqlite:file:{}?busy_timeout=1"])
    def test_a_file_that_is_not_there_is_not_made(self, tmp_path, url):
        file = tmp_path / "elsewhere.db"
        with pytest.raises(Refused) as refusal:
            catalog.reader(settings_of(tmp_path, f"{{type: jdbc, uri: '{url.format(file)}'}}"))
        assert refusal.value.code == "NO_WAREHOUSE"
        assert not file.exists()

    def test_its_tables_are_read_and_their_metadata_files_named(self, tmp_path):
        file = tmp_path / "else where.db"
        made = SqlCatalog("warehouse", uri=f"sqlite:///{file}", warehouse=f"file://{tmp_path}/warehouse")
        made.create_namespace("shop")
        table = made.create_table("shop.orders", pa.schema([("id", pa.int64())]))
        made.close()
        reader = catalog.reader(settings_of(tmp_path, f"{{type: jdbc, uri: 'jdbc:sqlite:{file}'}}"))
        assert reader.names() == [ORDERS]
        assert reader.metadata_file(ORDERS) == table.metadata_location

    def test_without_python_s_driver_for_postgresql_the_package_is_named(self, tmp_path, monkeypatch):
        monkeypatch.setattr(catalog, "find_spec", lambda name: None if name == "psycopg2" else SimpleNamespace())
        with pytest.raises(EnvironmentFault) as refusal:
            catalog.reader(settings_of(tmp_path, "{type: jdbc, uri: 'jdbc:postgresql://localhost:1/x'}"))
        assert refusal.value.code == "CATALOG_UNREADABLE"
        assert "pip install psycopg2-binary" in refusal.value.hint
        assert "sqlite" not in str(refusal.value)


class TestACatalogThatSaysNo:
    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (UnauthorizedError("NotAuthorizedException: token expired"), "CATALOG_NOT_AUTHORISED"),
            (ForbiddenError("ForbiddenException: not for you"), "CATALOG_FORBIDS"),
            (ValueError("what nobody has foreseen"), "CATALOG_UNREADABLE"),
        ],
    )
    def test_it_is_explained_when_it_is_opened_and_when_it_is_asked(self, tmp_path, monkeypatch, error, code):
        def refuse(*_):
            raise error

        settings = settings_of(tmp_path, "{type: rest, uri: 'http://localhost:1'}")
        monkeypatch.setattr(catalog, "_load", refuse)
        with pytest.raises(EnvironmentFault) as refusal:
            catalog.reader(settings)
        assert refusal.value.code == code
        monkeypatch.setattr(catalog, "_load", lambda _: SimpleNamespace(list_namespaces=refuse, load_table=refuse))
        reader = catalog.reader(settings)
        for ask in (reader.names, lambda: reader.metadata(ORDERS)):
            with pytest.raises(EnvironmentFault) as refusal:
                ask()
            assert refusal.value.code == code

    def test_a_catalog_that_is_down_is_told_by_the_commands_that_look(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        catalog = "{path: ./warehouse, catalog: {type: rest, uri: 'http://127.0.0.1:1'}}"
        (tmp_path / "ticdc-warehouse.yaml").write_text(SMALL.replace("{path: ./warehouse}", catalog))
        assert cli.main(["tables", "list", "--output", "json"]) == 1
        assert json.loads(capsys.readouterr().err)["code"] == "CATALOG_UNREACHABLE"


class TestUsage:
    @pytest.mark.parametrize(
        ("words", "said"),
        [(("tables", "describe"), "NAME"), (("nope",), "nope"), (("tables", "describe", "a", "--nope"), "--nope")],
    )
    def test_what_is_wrong_with_the_words_is_said_to_programs_too(self, capsys, words, said):
        assert cli.main([*words, "--output", "json"]) == 2
        told = json.loads(capsys.readouterr().err)
        assert told["code"] == "USAGE"
        assert said in told["message"]
