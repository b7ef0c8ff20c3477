"""One Spark session for all tests here, with the product's own settings; each warehouse is a test's alone."""

import pytest

from pipeline.settings import parse
from pipeline.streaming.session import session
from pipeline.warehouse.iceberg import Catalog
from pipeline.warehouse.tables import Tables

SETTINGS = """
name: spark-tests
source: {{kind: kafka, protocol: avro, bootstrap_servers: "localhost:1", topics: [none]}}
registry: {{url: "http://localhost:1"}}
warehouse: {{path: {folder}/warehouse}}
checkpoint: {folder}/checkpoint
"""


def settings_in(folder):
    return parse(SETTINGS.format(folder=folder), folder / "ticdc-warehouse.yaml")


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    return session(settings_in(tmp_path_factory.mktemp("spark")))


@pytest.fixture
def warehouse(tmp_path):
    """(session, tables, folder) of an empty warehouse."""
    settings = settings_in(tmp_path)
    settings.warehouse.path.mkdir()  # the writer's lock does so, where there is one
    fresh = session(settings)
    tables = Tables(Catalog(fresh), settings.warehouse.data, namespace="{schema}", with_current=True)
    tables.load()
    return fresh, tables, settings.warehouse.path
