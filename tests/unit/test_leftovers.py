"""Folders of no table: what a torn CREATE TABLE leaves goes, what was ever committed stays."""

import json
import os
import time

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from pipeline import cli
from pipeline.warehouse.leftovers import Leftover, leftovers

OLD = time.time() - 10 * 86_400
BEFORE = time.time() - 3 * 86_400
NO_SNAPSHOT = {"current-snapshot-id": -1, "snapshots": []}
CONFIG = """
name: shop
source: {kind: kafka, protocol: simple, bootstrap_servers: "localhost:1", topics: [none]}
warehouse: {path: ./warehouse}
checkpoint: ./checkpoint
"""


def lay(data, folder, files, age=OLD):
    """A folder with files (path → content), all of one age."""
    place = data / folder
    place.mkdir(parents=True)
    for path, content in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(content if isinstance(content, str) else json.dumps(content))
    aged(place, age)
    return place


def aged(place, age=OLD):
    for path in (*place.rglob("*"), place):
        os.utime(path, (age, age))


TORN = {"metadata/00000-a.metadata.json": '{"format-ver'}
UNCOMMITTED = {
    "no metadata": {},
    "torn metadata": TORN,
    "a table that never had a row": {
        "metadata/00000-a.metadata.json": NO_SNAPSHOT,
        "metadata/.00000-a.metadata.json.crc": "x",
    },
    "properties were set": {
        "metadata/00000-a.metadata.json": NO_SNAPSHOT,
        "metadata/00001-b.metadata.json": NO_SNAPSHOT,
    },
}
COMMITTED = {
    "a snapshot": {"metadata/00001-a.metadata.json": {"current-snapshot-id": 7, "snapshots": [{}]}},
    "an earlier snapshot": {
        "metadata/00001-a.metadata.json": {"current-snapshot-id": 7, "snapshots": [{}]},
        "metadata/00002-a.metadata.json": NO_SNAPSHOT,
    },
    "snapshots on a branch alone": {"metadata/00001-a.metadata.json": {"current-snapshot-id": -1, "snapshots": [{}]}},
    "a data file": {**TORN, "data/a.parquet": "rows"},
    "a manifest": {**TORN, "metadata/snap-1.avro": "manifest"},
    "torn metadata that others come before": {"metadata/00004-a.metadata.json": "{"},
    "something of somebody": {"notes.txt": "keep"},
}


@pytest.mark.parametrize("files", UNCOMMITTED.values(), ids=UNCOMMITTED)
def test_what_a_torn_create_leaves_is_empty(tmp_path, files):
    folder = lay(tmp_path, "shop-orders-1", files)
    assert leftovers(tmp_path, [], BEFORE) == [Leftover(folder, is_empty=True)]


@pytest.mark.parametrize("files", COMMITTED.values(), ids=COMMITTED)
def test_what_may_have_been_committed_is_not_empty(tmp_path, files):
    folder = lay(tmp_path, "shop-orders-1", files)
    assert leftovers(tmp_path, [], BEFORE) == [Leftover(folder, is_empty=False)]


def test_a_folder_with_anything_young_in_it_may_be_a_table_that_is_being_made(tmp_path):
    folder = lay(tmp_path, "shop-orders-1", TORN)
    young = folder / "metadata" / "00000-a.metadata.json"
    os.utime(young)
    assert leftovers(tmp_path, [], BEFORE) == []


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "{}/", "{}/below"])
def test_a_folder_of_a_table_is_none_however_its_place_is_written(tmp_path, form):
    folder = lay(tmp_path, "shop-a#b %41-1", TORN)
    assert leftovers(tmp_path, [form.format(folder)], BEFORE) == []
    assert leftovers(tmp_path, [str(tmp_path)], BEFORE) == []


def test_a_folder_that_tables_reach_by_a_link_is_theirs(tmp_path):
    lay(tmp_path / "moved", "shop-orders-1", TORN)
    (tmp_path / "data").symlink_to(tmp_path / "moved")
    assert leftovers(tmp_path / "moved", [f"{tmp_path}/data/shop-orders-1"], BEFORE) == []
    assert leftovers(tmp_path / "data", [f"{tmp_path}/moved/shop-orders-1"], BEFORE) == []


def test_files_beside_the_folders_and_a_warehouse_without_data_are_nothing(tmp_path):
    (tmp_path / "file").touch()
    assert leftovers(tmp_path, [], time.time() + 9) == leftovers(tmp_path / "none", [], BEFORE) == []


class TestCommand:
    @pytest.fixture
    def data(self, tmp_path, monkeypatch):
        """A warehouse with one table, a torn one, and one that the catalog has lost; Spark has nothing to do."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "ticdc-warehouse.yaml").write_text(CONFIG)
        data = tmp_path / "warehouse" / "data"
        data.mkdir(parents=True)
        catalog = SqlCatalog("warehouse", uri=f"sqlite:///{tmp_path}/warehouse/catalog.db", warehouse=f"file://{data}")
        catalog.create_namespace("shop")
        rows = pa.table({"n": [1]})
        for name in ("orders", "items"):
            catalog.create_table(f"shop.{name}", rows.schema, location=f"file://{data}/shop-{name}-1").append(rows)
        catalog.create_table("shop.empty", rows.schema, location=f"file://{data}/shop-empty-1")
        catalog.drop_table("shop.items")
        catalog.close()
        lay(data, "shop-orders-0", TORN)
        aged(data)
        monkeypatch.setattr("pipeline.cli.tables._orphans", lambda *_args, **_options: {})
        monkeypatch.setattr("pipeline.cli.tables.fetch", lambda: None)
        monkeypatch.setattr("pipeline.service.client.maintain", lambda *_args: None)
        return data

    def said(self, capsys, *words):
        assert cli.main(["tables", "maintain", "--orphans", "--output", "json", *words]) == 0
        told = json.loads(capsys.readouterr().out)
        return {row["folder"].rpartition("/")[2]: row["what"] for row in told["folders_of_no_table"]}

    def test_a_dry_run_names_the_folders_of_no_table_and_leaves_them(self, data, capsys):
        kept = "left: something was committed in it"
        assert self.said(capsys, "--dry-run") == {"shop-items-1": kept, "shop-orders-0": "would be removed"}
        assert (data / "shop-orders-0").exists()

    def test_only_folders_in_which_nothing_was_committed_go(self, data, capsys):
        assert self.said(capsys)["shop-orders-0"] == "removed"
        assert sorted(path.name for path in data.iterdir()) == ["shop-empty-1", "shop-items-1", "shop-orders-1"]
