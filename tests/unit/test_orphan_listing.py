"""How the files are listed among which orphans are looked for: by the store itself, where it can."""

from types import SimpleNamespace

import pytest

from pipeline.model.names import WarehouseName
from pipeline.warehouse.iceberg import Table


class Catalog:
    """Keeps the statement that it is asked to run."""

    def __init__(self, *, by_prefix):
        self.by_prefix = by_prefix
        self.statement = ""

    def lists_by_prefix(self, _java):
        return self.by_prefix

    def sql(self, statement):
        self.statement = statement
        return SimpleNamespace(collect=lambda: [("b",), ("a",)])


def called(location, *, by_prefix=True, remove=False):
    catalog = Catalog(by_prefix=by_prefix)
    table = Table(WarehouseName("shop", "o'rders"), SimpleNamespace(location=lambda: location), catalog)
    assert table.orphans(86_400, remove=remove) == ["a", "b"]
    return catalog.statement


@pytest.mark.parametrize("location", ["s3://lake/shop/data/t", "gs://lake/t", "abfss://c@a.dfs.core.windows.net/t"])
def test_a_store_that_can_lists_its_own_files(location):
    assert called(location).endswith(", prefix_listing => true)")


@pytest.mark.parametrize("location", ["/srv/shop/data/t", "file:/srv/shop/data/t", "file:///srv/shop/data/t"])
def test_folders_of_this_machine_are_listed_side_by_side(location):
    assert "prefix_listing" not in called(location)


def test_a_store_that_cannot_is_listed_as_hadoop_does():
    assert "prefix_listing" not in called("s3a://lake/t", by_prefix=False)


@pytest.mark.parametrize("remove", [True, False])
def test_nothing_is_removed_unless_wanted(remove):
    assert f"dry_run => {str(not remove).lower()}, " in called("s3://lake/t", remove=remove)
