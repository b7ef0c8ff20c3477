"""What a run tells while its own thread is busy: a look of its own, whatever batches and operations do."""

import time
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from support.memory_source import MemorySource

from pipeline.errors import Refused
from pipeline.ingest.run_state import Ledger
from pipeline.model.names import TableName
from pipeline.model.places import Partition
from pipeline.observe.metrics import PREFIX, Metrics
from pipeline.service import pipeline, telemetry
from pipeline.service.telemetry import Telemetry
from pipeline.warehouse.pairs import State

AT = Partition("cdc", 0)
REBUILD = ("rebuild", ("shop", "orders"))


class Growing(MemorySource):
    """One stream with one partition, of which a record more is there each time that it is asked."""

    def backlog(self, committed):
        self.logs[AT].append("a record")
        return super().backlog(committed)


@pytest.fixture
def metrics():
    return Metrics("shop", "1.2.3")


@pytest.fixture
def context(tmp_path):
    ours, source = SimpleNamespace(properties={}), Growing(list)
    source.add(AT.stream)
    warehouse = SimpleNamespace(path=tmp_path, maintenance=None)
    return SimpleNamespace(
        spark=None, step=None, source=source,
        settings=SimpleNamespace(warehouse=warehouse, checkpoint=tmp_path),
        tables=[SimpleNamespace(source=TableName("shop", "orders"), state=State.LIVE)],
        records=SimpleNamespace(tables={"ddl_history": ours}, counted={}),
        run=SimpleNamespace(ledger=Ledger(), is_due=lambda *_: False),
    )  # fmt: skip


@pytest.fixture
def opened(context, metrics, monkeypatch):
    """A pipeline whose query runs until its first operation is done."""
    monkeypatch.setattr(telemetry, "_LAG_SECONDS", 0.01)
    made = pipeline.Pipeline(context, ExitStack(), lambda *_: None, Telemetry(metrics))
    feed = SimpleNamespace(runs=True, wait=lambda _seconds: None, error=lambda: None, stop=lambda: None)

    def take(operation):
        operation(*REBUILD)
        feed.runs = False

    monkeypatch.setattr(context.source, "feed", lambda *_, **__: feed)
    monkeypatch.setattr(made._inbox, "take", take)
    return made


def told(metrics, name):
    """By label's value."""
    samples = [sample for family in metrics.registry.collect() for sample in family.samples]
    return {"".join(s.labels.values()): s.value for s in samples if s.name == f"{PREFIX}_{name}"}


def comes(wanted):
    deadline = time.monotonic() + 10
    while not wanted() and time.monotonic() < deadline:
        time.sleep(0.01)
    return wanted()


def test_what_waits_is_told_while_an_operation_is_under_way_and_so_is_the_operation(opened, metrics, monkeypatch):
    seen = []

    def operation(*_asked):
        before = told(metrics, "consumer_lag_records").get("cdc", 0)
        seen.append(comes(lambda: told(metrics, "consumer_lag_records").get("cdc", 0) > before))
        seen.append(set(told(metrics, "operation_started_timestamp_seconds")))
        return {}

    monkeypatch.setattr(pipeline, "operation", operation)
    began = time.time()
    opened.run()
    assert seen == [True, {"rebuild"}]
    assert told(metrics, "operation_started_timestamp_seconds") == {}
    assert told(metrics, "last_operation_timestamp_seconds")[""] >= began


def test_an_operation_that_is_refused_is_under_way_no_longer(opened, metrics):
    with pytest.raises(Refused):
        opened.operation("what nobody knows", ())
    assert told(metrics, "operation_started_timestamp_seconds") == {}


def test_the_looks_end_with_the_run(opened, context, monkeypatch):
    monkeypatch.setattr(pipeline, "operation", lambda *_: {})
    opened.run()
    asked = len(context.source.logs[AT])
    time.sleep(0.05)
    assert len(context.source.logs[AT]) == asked


def test_what_nobody_has_foreseen_of_a_look_ends_the_run(opened, context, monkeypatch):
    def broken(committed):
        if len(context.source.logs[AT]) > 1:
            raise ZeroDivisionError
        return Growing.backlog(context.source, committed)

    monkeypatch.setattr(context.source, "backlog", broken)
    monkeypatch.setattr(opened._inbox, "take", lambda _operation: None)
    with pytest.raises(ZeroDivisionError):
        opened.run()
