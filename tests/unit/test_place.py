"""Where tables lie: which ways to write a place are the same one, and what is said where it is another."""

import json
import shutil
from contextlib import closing

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from unit.configuration import SMALL
from unit.test_report_cli import schema

from pipeline.cli.run import ACCEPTABLE
from pipeline.errors import Refused
from pipeline.runtime.lock import WriterLock
from pipeline.settings import parse
from pipeline.warehouse.locations import as_path
from pipeline.warehouse.place import (
    WAREHOUSE_COPIED,
    catalog_folder,
    check_catalog,
    check_copied,
    check_place,
    check_readable,
    elsewhere,
    lies_in,
    location_in,
)
from pipeline.warehouse.state import CATALOG_FOLDER


class TestSamePlace:
    @pytest.mark.parametrize(
        ("location", "folder"),
        [
            ("/lake/data/t-1", "/lake/data"),
            ("/lake/data/t-1/", "/lake/data/"),
            ("file:/lake/data/t-1", "/lake/data"),
            ("file:///lake/data/t-1", "/lake/data"),
            ("file://localhost/lake/data/t-1", "file:/lake/data"),
            ("/lake/data/t-1", "file:///lake/data"),
            ("FILE:///lake//data/t-1", "/lake/./x/../data"),
            ("file:///my%20lake/data/t-1", "/my lake/data"),
            ("file:///my%20lake/data/t-1", "/my%20lake/data"),
            ("/a:b/data/t#1?", "/a:b/data"),
            ("s3://lake/shop/data/t-1", "s3://lake/shop/data"),
            ("s3://lake/shop/data/t-1/", "s3a://lake/shop//data/"),
            ("s3n://lake/data/t", "S3://lake/data"),
            ("s3://lake/a#b/data/t", "s3://lake/a#b/data"),
            ("abfss://c@a.dfs.core.windows.net/data/t", "abfs://c@a.dfs.core.windows.net/data"),
            ("hdfs:///lake/data/t", "hdfs://node:8020/lake/data"),
            ("hdfs:/lake/data/t", "hdfs://node:8020/lake/data"),
        ],
    )
    def test_however_it_is_written(self, location, folder):
        assert lies_in(location, folder)

    @pytest.mark.parametrize(
        ("location", "folder"),
        [
            ("/lake1/data/t-1", "/lake/data"),
            ("/lake/data-2/t-1", "/lake/data"),
            ("/lake/data/../old/t-1", "/lake/data"),
            ("s3://lake/shop2/data/t", "s3://lake/shop/data"),
            ("s3://lake/data-2/t", "s3://lake/data"),
            ("s3://pond/data/t", "s3://lake/data"),
            ("gs://lake/data/t", "s3://lake/data"),
            ("/lake/data/t", "s3://lake/data"),
            ("s3://lake/data/t", "/lake/data"),
        ],
    )
    def test_another_is_another(self, location, folder):
        assert not lies_in(location, folder)

    def test_a_link_to_a_folder_is_that_folder_from_either_side(self, tmp_path):
        real, link = tmp_path / "real", tmp_path / "link"
        (real / "data" / "t").mkdir(parents=True)
        link.symlink_to(real)
        assert lies_in(str(real / "data" / "t"), str(link / "data"))
        assert lies_in(f"file:{link}/data/t", str(real / "data"))
        with WriterLock(real, "run"), pytest.raises(Refused, match="WAREHOUSE_IN_USE"), WriterLock(link, "run"):
            pass

    def test_a_path_in_a_store_is_none_of_this_machine(self):
        assert as_path("s3://lake/data") is None


class Shop:
    """A warehouse with the pipeline's own table `batches`, and the settings of a folder."""

    def __init__(self, folder):
        self.folder = folder

    def make(self):
        place = self.folder / "warehouse"
        place.mkdir(parents=True)
        with closing(SqlCatalog("warehouse", uri=f"sqlite:///{place}/catalog.db", warehouse=str(place))) as catalog:
            catalog.create_namespace("_pipeline")
            location = f"{place}/data/batches-1"
            catalog.create_table("_pipeline.batches", schema("batches"), location=location)
        return self

    @property
    def warehouse(self):
        return parse(SMALL, self.folder).warehouse


def refused(check, *about):
    with pytest.raises(Refused) as refusal:
        check(*about)
    assert refusal.value.code == "WAREHOUSE_ELSEWHERE"
    return refusal.value


class TestCatalog:
    @pytest.fixture
    def shop(self, tmp_path):
        return Shop(tmp_path / "d1").make()

    def test_one_that_is_where_it_was_made_is_in_order(self, shop):
        check_catalog(shop.warehouse)
        check_readable(shop.warehouse)

    def test_none_is_in_order_too_and_so_is_one_that_is_not_readable(self, tmp_path):
        check_catalog(Shop(tmp_path).warehouse)
        (tmp_path / "warehouse").mkdir()
        (tmp_path / "warehouse" / "catalog.db").write_bytes(b"nonsense" * 100)
        check_catalog(Shop(tmp_path).warehouse)

    def test_of_a_copy_both_places_are_named_and_it_can_be_looked_at(self, shop, tmp_path):
        shutil.copytree(tmp_path / "d1", tmp_path / "d2")
        refusal = refused(check_catalog, Shop(tmp_path / "d2").warehouse)
        assert refusal.message == (
            f"the catalog says that _pipeline.batches lie in {tmp_path}/d1/warehouse/data, "
            f"but the settings say {tmp_path}/d2/warehouse/data"
        )
        assert refusal.hint.startswith(f"to go on with those tables, set warehouse.path: {tmp_path}/d1/warehouse. ")
        check_readable(Shop(tmp_path / "d2").warehouse)
        check_catalog(shop.warehouse)

    def test_one_that_was_moved_cannot_be_looked_at_and_is_told_the_link(self, shop, tmp_path):
        shop.folder.rename(tmp_path / "d 2")
        moved = Shop(tmp_path / "d 2").warehouse
        for check in (check_catalog, check_readable):
            hint = refused(check, moved).hint
            link = f"mkdir -p {tmp_path}/d1 && ln -s '{tmp_path}/d 2/warehouse' {tmp_path}/d1/warehouse"
            assert hint.endswith(link)
        (tmp_path / "d1").mkdir()
        (tmp_path / "d1" / "warehouse").symlink_to(tmp_path / "d 2" / "warehouse")
        check_catalog(moved)
        check_readable(moved)

    def test_one_that_was_moved_and_whose_place_is_taken_is_told_so(self, shop, tmp_path):
        shop.folder.rename(tmp_path / "d2")
        (tmp_path / "d1" / "warehouse").mkdir(parents=True)
        assert "something else is at its old path" in refused(check_catalog, Shop(tmp_path / "d2").warehouse).hint

    def test_the_location_in_the_metadata_counts_not_where_its_file_lies(self, shop, tmp_path):
        (file,) = (tmp_path / "d1").rglob("*.metadata.json")
        metadata = json.loads(file.read_text())
        file.write_text(json.dumps({**metadata, "location": "/lake/data/batches-1"}))
        assert location_in(file) == "/lake/data/batches-1"
        assert "lie in /lake/data," in refused(check_catalog, shop.warehouse).message


class TestSettings:
    def settings(self, folder, catalog):
        return parse(
            SMALL.replace("{path: ./warehouse}", f"{{path: ./warehouse, catalog: {catalog}}}"), folder
        ).warehouse

    def test_in_a_store_the_catalogs_own_setting_is_named(self, tmp_path):
        lake = self.settings(tmp_path, '{type: jdbc, warehouse: "s3://lake/shop"}')
        check_place({"shop.t": "s3a://lake/shop/data/t-1"}, lake)
        refusal = refused(check_place, {"shop.t": "s3://pond/shop/data/t-1"}, lake)
        assert "lie in s3://pond/shop/data, but the settings say s3://lake/shop/data" in refusal.message
        assert "warehouse.catalog.warehouse: s3://pond/shop. " in refusal.hint

    def test_a_rest_catalog_places_tables_as_it_likes(self, tmp_path):
        rest = self.settings(tmp_path, '{type: rest, uri: "http://localhost:9", warehouse: lake}')
        assert elsewhere({"shop.t": "s3://lake/t-1"}, rest) == {}
        check_place({"shop.t": "s3://lake/t-1"}, rest)

    @pytest.mark.parametrize("lake", ["s3://lake/shop", "file:///lake"])
    def test_a_catalog_whose_tables_lie_elsewhere_says_where_it_is_and_its_copy_is_refused(self, tmp_path, lake):
        first, copy = (self.settings(tmp_path / name, f'{{type: jdbc, warehouse: "{lake}"}}') for name in ("a", "b"))
        said = CATALOG_FOLDER.entry(catalog_folder(first))
        check_copied({}, copy)
        check_copied(said, first)
        with pytest.raises(Refused) as refusal:
            check_copied(said, copy)
        assert refusal.value.code == WAREHOUSE_COPIED
        assert f"was in {tmp_path}/a/warehouse, and is in {tmp_path}/b/warehouse" in refusal.value.message
        assert f"run --accept {WAREHOUSE_COPIED}; otherwise go on there, with warehouse.path: " in refusal.value.hint
        assert WAREHOUSE_COPIED in ACCEPTABLE

    def test_the_same_catalog_by_another_path_is_no_copy(self, tmp_path):
        (tmp_path / "a" / "warehouse").mkdir(parents=True)
        (tmp_path / "b").symlink_to(tmp_path / "a")
        first, link = (self.settings(tmp_path / name, '{type: jdbc, warehouse: "s3://lake"}') for name in ("a", "b"))
        check_copied(CATALOG_FOLDER.entry(catalog_folder(first)), link)

    @pytest.mark.parametrize(
        "catalog", ["{type: jdbc}", '{type: jdbc, uri: "jdbc:postgresql://db/x"}', '{type: hive, uri: "thrift://h:1"}']
    )
    def test_where_the_tables_tell_it_or_the_catalog_is_a_server_nothing_is_noted(self, tmp_path, catalog):
        assert catalog_folder(self.settings(tmp_path, catalog)) is None

    def test_of_many_tables_a_few_are_named(self, tmp_path):
        plain = Shop(tmp_path).warehouse
        many = {f"shop.t{number}": f"/lake/data/t-{number}" for number in range(9)}
        assert "shop.t0, shop.t1, shop.t2 … lie in /lake/data," in refused(check_place, many, plain).message
