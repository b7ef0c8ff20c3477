"""What a compaction rewrites: small files and what is mostly deleted, and nothing that is large and sound."""

import pytest

from pipeline.model.names import WarehouseName
from pipeline.settings.sections import Maintenance
from pipeline.warehouse import maintenance
from pipeline.warehouse.iceberg import Catalog
from pipeline.warehouse.maintenance import Maintainer
from pipeline.warehouse.tables import PROPERTIES

pytestmark = pytest.mark.spark

FILES, ROWS = 6, 2000
SIZE = "write.target-file-size-bytes"
LARGE = "10000000"


@pytest.fixture
def table(warehouse):
    """(session, table): six files, as large as they should be, each with a row deleted; and a small one."""
    spark, _, folder = warehouse
    made = Catalog(spark).create(WarehouseName("s", "t"), [("k", "bigint")], f"{folder}/t", PROPERTIES)
    for first, last in ((-1, 0), *((number * ROWS, (number + 1) * ROWS) for number in range(FILES))):
        spark.range(first, last, 1, 1).withColumnRenamed("id", "k").writeTo(made.name.sql).append()
    made.refresh()
    made.set_properties({SIZE: str(made.totals()["files-size"] // FILES)})
    delete(spark, made, f"k % {ROWS} = 7")
    return spark, made


def delete(spark, table, condition):
    spark.sql(f"DELETE FROM {table.name.sql} WHERE {condition}")  # noqa: S608 - of ours
    table.refresh()


def contents(spark, table):
    spark.catalog.refreshTable(table.name.sql)
    return sorted(tuple(row) for row in spark.table(table.name.sql).collect())


def compacted(spark, table, **thresholds):
    """The data files before and after, when a batch has written the table."""
    maintainer = Maintainer(spark, Maintenance(**thresholds), lambda _: None)
    before = files(spark, table)
    rows = contents(spark, table)
    maintainer._look_after(table)
    assert contents(spark, table) == rows
    return before, files(spark, table)


def files(spark, table):
    spark.catalog.refreshTable(table.name.sql)
    found = spark.sql(f"SELECT file_path FROM {table.name.sql}.data_files")  # noqa: S608 - of ours
    return {row[0] for row in found.collect()}


def test_large_files_with_few_deletes_stay(table):
    before, after = compacted(*table, compact_deletes=1, compact_files=1)
    assert before == after


def test_a_large_file_of_which_much_is_deleted_is_rewritten_and_no_other(table):
    spark, made = table
    delete(spark, made, f"k BETWEEN 0 AND {ROWS // 2}")
    before, after = compacted(spark, made, compact_deletes=1)
    assert len(before - after) == 2  # that one and the small one
    assert len(before & after) == FILES - 1


def test_small_files_become_one(table):
    spark, made = table
    made.set_properties({SIZE: LARGE})
    before, after = compacted(spark, made, compact_files=FILES)
    assert len(before) == FILES + 1
    assert len(after) == 1


def test_many_deletes_are_a_reason_by_themselves(table, monkeypatch):
    spark, made = table
    delete(spark, made, "k % 2 = 0")
    before, after = compacted(spark, made, compact_deletes=1000, compact_files=1000)
    assert before == after  # so few rows are many for a small table only
    monkeypatch.setattr(maintenance, "_FEW_DELETED", FILES)
    before, after = compacted(spark, made, compact_deletes=1000, compact_files=1000)
    assert not before & after


def test_deletes_of_files_that_are_gone_go(table):
    spark, made = table
    made.set_properties({SIZE: LARGE})
    compacted(spark, made, compact_deletes=1)
    assert made.totals()["delete-files"] == 0
    assert made.totals()["records"] == FILES * (ROWS - 1) + 1
