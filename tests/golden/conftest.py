"""Fixtures of the golden tests: a case in the stack, a pipeline on it, the record of what was compared."""

import zlib
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from golden.loading import load
from golden.warehouse import Warehouse
from support import both_ways
from support.slow import EVERY

from pipeline.ingest import reading
from pipeline.service import Pipeline
from pipeline.warehouse import small_batch


@pytest.fixture(autouse=True)
def driver_and_spark(request, monkeypatch):
    """A sixth of the tests compares what the driver makes of small batches with Spark's, a third leaves it to Spark.

    Where every case runs all are compared.
    """
    way = 0 if EVERY else zlib.crc32(request.node.nodeid.encode()) % 6
    if way == 0:
        both_ways.compared(monkeypatch)
    elif way in {1, 2}:
        monkeypatch.setattr(reading, "MOST_EVENTS", -1)
        monkeypatch.setattr(small_batch, "MOST_EVENTS", -1)


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
