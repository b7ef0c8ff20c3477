"""Fixtures of the golden tests: a case in the stack, a pipeline on it, the record of what was compared."""

import zlib
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from golden.loading import load
from golden.warehouse import Warehouse
from support import both_ways
from support.slow import EVERY

from pipeline.service import Pipeline
from pipeline.warehouse import small_batch
from pipeline.warehouse.clone import publish

COMPARED = (
    "all_types-simple_json",
    "key_updates-open_updated_only",
    "key_updates-new_avro_before",
    "ddl_nokey-simple_json",
)
"""Cases that are made both ways by default, when they are read in one batch."""
BY_SPARK = (
    "key_updates-avro_ext_precise_long_raw",
    "orders_small-avro_ext_precise_long_p3",
    "key_updates-simple_avro_raw",
    "orders_small-simple_json",
    "ddl-simple_avro",
)
"""Cases whose small batches are left to Spark by default."""
EXCERPTED = ("all_types-simple_json", "key_updates-open_raw")
"""Cases whose current tables get excerpts of files, and no links. Their changes tables have what Spark has written."""


@pytest.fixture(autouse=True)
def links_and_excerpts(request, monkeypatch):
    """In the tests of `EXCERPTED` write the rows that show as files of their own, as if few rows of a file showed."""
    if any(f"[{case}]" in request.node.name for case in EXCERPTED):
        monkeypatch.setattr(publish, "EXCERPT_OF", 1)


@pytest.fixture(autouse=True)
def driver_and_spark(request, monkeypatch):
    """Compare what the driver makes of small batches with Spark's in `COMPARED`, and everywhere if every case runs."""
    name = request.node.name
    by_default = any(name.endswith(f"_in_one_batch_gives_tidbs_tables[{case}]") for case in COMPARED)
    tables = []
    if EVERY or by_default:
        tables = both_ways.compared(monkeypatch)
    elif any(name.endswith(f"[{case}]") for case in BY_SPARK):
        monkeypatch.setattr(small_batch, "MOST_EVENTS", -1)
    yield
    assert tables or not by_default, "the driver has made no table"


@dataclass
class Running:
    """A case with an open pipeline on it."""

    loaded: object
    settings: object
    pipeline: object

    def take(self, records=None):
        """Produce these records (all of them, unless given) and take everything that is there."""
        self.loaded.produce(self.loaded.case.records if records is None else records)
        self.pipeline.run(available_now=True)

    def restart(self):
        """Close the pipeline and open another one on what the first has left."""
        self.pipeline.close()
        self.pipeline = Pipeline.open(self.settings)

    @property
    def warehouse(self):
        """The warehouse as it is now, read without the JVM."""
        return Warehouse.at(self.settings.warehouse.path)


@pytest.fixture
def running(stack, tmp_path, request):
    """Open a pipeline for a case: `with running(case) as run`. Topics and folder are this test's alone."""

    @contextmanager
    def opened(case, partitions=None, **changes):
        prefix = f"g{zlib.crc32(request.node.nodeid.encode()):08x}"
        loaded = load(case, stack, prefix, partitions)
        settings = loaded.settings(tmp_path, **changes)
        run = Running(loaded, settings, Pipeline.open(settings))
        try:
            yield run
        finally:
            run.pipeline.close()

    return opened


@pytest.fixture(scope="session")
def compared():
    """What this session compared: case → source tables."""
    return {}
