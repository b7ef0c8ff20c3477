"""Trying to write where tables lie: by Iceberg's own FileIO, and nothing is left."""

import pytest
from py4j.protocol import Py4JJavaError
from spark.sessions import settings_in

from pipeline.cli.checkup import whole
from pipeline.cli.checkup.findings import Mark
from pipeline.runtime.session import session
from pipeline.settings.sections import CatalogSettings as Section
from pipeline.warehouse.iceberg import Catalog
from pipeline.warehouse.write_probe import try_writing

pytestmark = pytest.mark.spark


def of(settings, **catalog):
    """The same settings with another catalog."""
    warehouse = settings.warehouse.model_copy(update={"catalog": Section(**catalog)})
    return settings.model_copy(update={"warehouse": warehouse})


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_nothing_is_left_and_the_embedded_catalog_is_not_made(tmp_path):
    settings = settings_in(tmp_path)
    try_writing(session(settings), settings.warehouse, f"file:{tmp_path}/store/doctor")
    assert files(tmp_path) == []
    assert not settings.warehouse.path.exists()


def test_a_catalog_elsewhere_is_not_made_and_has_no_table(tmp_path):
    uri, place = f"jdbc:sqlite:{tmp_path}/elsewhere.db", f"file:{tmp_path}/store"
    settings = of(settings_in(tmp_path), type="jdbc", uri=uri, warehouse=place, **{"jdbc.schema-version": "V1"})
    spark = session(settings)
    try_writing(spark, settings.warehouse, f"{place}/doctor")
    assert files(tmp_path) == []
    assert list(Catalog(spark).names()) == []


def test_a_place_that_cannot_be_written_is_told_with_the_reason(tmp_path):
    settings = settings_in(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(Py4JJavaError):
        try_writing(session(settings), settings.warehouse, f"file:{tmp_path}/file/doctor")
    settings = of(settings, type="jdbc", warehouse="nostore://bucket/place")
    (found,) = whole._store(settings, session(settings))
    assert found.mark is Mark.WRONG
    assert found.sentence.startswith("doctor could not write nostore://bucket/place/data as a run would: ")
    assert 'No FileSystem for scheme "nostore"' in found.sentence
    assert "warehouse.catalog" in found.todo
