"""Each test here has a warehouse of its own."""

import pytest
from spark.sessions import settings_in

from pipeline.runtime.session import session
from pipeline.warehouse.iceberg import Catalog
from pipeline.warehouse.tables import Tables


@pytest.fixture
def warehouse(tmp_path):
    """(session, tables, folder) of an empty warehouse."""
    settings = settings_in(tmp_path)
    settings.warehouse.path.mkdir()  # the writer's lock does so, where there is one
    fresh = session(settings)
    tables = Tables(Catalog(fresh), settings.warehouse.data, namespace="{schema}", with_current=True)
    tables.load()
    return fresh, tables, settings.warehouse.path
