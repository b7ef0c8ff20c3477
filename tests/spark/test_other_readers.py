"""What engines need that read less than Iceberg v2 gives them, or that are strict about locations."""

import os
import time
from pathlib import Path

import pytest
from spark.test_current import FEW, MANY, Stream

from pipeline.model.names import WarehouseName
from pipeline.warehouse.locations import as_path
from pipeline.warehouse.orphans import lost_tables

pytestmark = pytest.mark.spark

COPY_ON_WRITE = {"write.delete.mode": "copy-on-write", "write.merge.mode": "copy-on-write"}
"""As docs/how-to/read-tables.md tells users of engines that read no position deletes."""


@pytest.mark.parametrize("rows", [FEW, MANY])
def test_a_table_that_is_set_to_copy_on_write_has_no_delete_files_and_the_right_rows(warehouse, rows):
    spark, _, _ = warehouse
    stream = Stream(warehouse, ["bigint"])
    current = stream.table.current
    setting = ", ".join(f"'{key}' = '{value}'" for key, value in COPY_ON_WRITE.items())
    spark.sql(f"ALTER TABLE warehouse.s.t SET TBLPROPERTIES ({setting})")
    stream.take(*(("upsert", n, n) for n in range(rows)))
    stream.take(*(("upsert", n, n + 1) for n in range(0, rows, 2)), ("delete", 1, None))
    current.refresh()
    assert current.totals()["delete-files"] == 0
    assert current.properties["write.delete.mode"] == "copy-on-write"
    expected = {n: n + 1 if n % 2 == 0 else n for n in range(rows) if n != 1}
    assert {row.k0: row.v for row in spark.table("warehouse.s.t").collect()} == expected


class TestLocations:
    def test_a_new_table_lies_at_a_url(self, warehouse):
        stream = Stream(warehouse, ["bigint"])
        stream.take(("upsert", 1, 1))
        data = warehouse[2] / "data"
        for table in (stream.table.changes, stream.table.current):
            assert table.location.startswith(f"file://{data}/")
            assert as_path(table.location).parent == data

    def test_one_of_an_earlier_version_goes_on_without_a_scheme(self, warehouse, monkeypatch):
        spark, tables, folder = warehouse
        monkeypatch.setattr("pipeline.warehouse.iceberg.as_url", lambda location: location)
        stream = Stream(warehouse, ["bigint"])
        stream.take(("upsert", 1, 1), ("upsert", 2, 2))
        monkeypatch.undo()
        assert stream.table.current.location.startswith("/")
        stream.take(("upsert", 1, 3), ("delete", 2, None))
        assert [(row.k0, row.v) for row in spark.table("warehouse.s.t").collect()] == [(1, 3)]
        assert lost_tables(tables.catalog, folder / "data") == {}

    @pytest.mark.parametrize("scheme", [True, False], ids=["of today", "of an earlier version"])
    def test_files_of_no_snapshot_are_found_and_no_others(self, warehouse, monkeypatch, scheme):
        if not scheme:
            monkeypatch.setattr("pipeline.warehouse.iceberg.as_url", lambda location: location)
        stream = Stream(warehouse, ["bigint"])
        stream.take(("upsert", 1, 1))
        monkeypatch.undo()
        stream.take(("upsert", 1, 2))
        current = stream.table.current
        left = as_path(current.location) / "data" / "left.parquet"
        left.write_bytes(b"of a run that was killed")
        for file in as_path(current.location).rglob("*.*"):  # Iceberg leaves what is younger than a day
            os.utime(file, (time.time() - 4 * 86_400,) * 2)
        assert [Path(file).name for file in current.orphans(2 * 86_400, remove=False)] == [left.name]

    def test_a_table_that_the_catalog_has_lost_is_registered_at_a_url_and_goes_on(self, warehouse):
        spark, tables, folder = warehouse
        stream = Stream(warehouse, ["bigint"])
        stream.take(("upsert", 1, 1))
        name = WarehouseName("s", "t")
        tables.catalog._java.dropTable(tables.catalog._identifier(name), False)
        ((_, (lost, metadata)),) = lost_tables(tables.catalog, folder / "data").items()
        tables.catalog.register(lost, str(metadata))
        assert lost_tables(tables.catalog, folder / "data") == {}
        stream.take(("upsert", 1, 2))
        assert [(row.k0, row.v) for row in spark.table("warehouse.s.t").collect()] == [(1, 2)]
