"""When a container that runs is well: not because its metrics answer, but because batches are committed."""

import subprocess
import sys
import time

import pytest
from prometheus_client import generate_latest

from pipeline.devstack import ports
from pipeline.observe import probe
from pipeline.observe.metrics import BatchDone, Metrics

NOW = 1_800_000_000.0


@pytest.fixture
def metrics():
    return Metrics("shop", "1")


def trouble(metrics, now=NOW):
    return probe.trouble(generate_latest(metrics.registry).decode(), now)


def test_a_run_that_has_not_opened_its_warehouse_is_not_well(metrics):
    assert trouble(metrics).startswith("the warehouse is not open")


def test_one_that_has_and_waits_for_records_is(metrics):
    metrics.begin([])
    assert trouble(metrics) == ""
    metrics.lag({"orders": 0})
    metrics.opened(7, NOW - 86_400, None)
    assert trouble(metrics) == ""


def test_records_that_wait_while_no_batch_is_committed_are_told(metrics):
    metrics.begin(["shop.orders"])
    metrics.lag({"orders": 1_200, "items": 34})
    assert trouble(metrics) == "1,234 records wait, and no batch was ever committed"
    metrics.batch(BatchDone(1, 10, 0.5, NOW))
    assert trouble(metrics, NOW + 99) == ""
    assert trouble(metrics, NOW + 101) == "1,234 records wait, and the newest batch was committed 101 s ago"


def test_a_kafka_that_does_not_answer_is_told_when_it_has_not_for_long(metrics):
    """What it has is not known meanwhile: neither the last number nor none is a reason to be well."""
    metrics.begin(["shop.orders"])
    metrics.answered(NOW)
    metrics.lag({"orders": 0})
    metrics.silent()
    assert trouble(metrics, NOW + 99) == ""
    assert trouble(metrics, NOW + 101) == "Kafka has not answered for 101 s"
    metrics.answered(NOW + 110)
    assert trouble(metrics, NOW + 111) == ""


def test_an_operation_is_work_and_after_it_there_is_time_for_a_batch(metrics):
    """A rebuild of an hour: no batch is taken meanwhile, and whoever ends the process ends the rebuild."""
    metrics.begin(["shop.orders"])
    metrics.answered(NOW)
    metrics.lag({"orders": 1_200})
    metrics.batch(BatchDone(1, 10, 0.5, NOW))
    metrics.operation("rebuild", NOW + 10)
    assert trouble(metrics, NOW + 3_600) == ""
    metrics.operation_done(NOW + 3_610)
    metrics.answered(NOW + 3_610)
    assert trouble(metrics, NOW + 3_710) == ""
    metrics.answered(NOW + 3_711)
    assert trouble(metrics, NOW + 3_711) == "1,200 records wait, and the newest batch was committed 3,711 s ago"


def test_the_command_says_so_and_ends_with_it(metrics):
    port = ports.free_port()
    line = [sys.executable, "-m", "pipeline.observe.probe", f"http://127.0.0.1:{port}/metrics"]

    def said():
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    assert said()[0] == 1
    server = metrics.serve("127.0.0.1", port)
    try:
        assert said() == (1, "the warehouse is not open: the run is starting, or was refused (its log says why)\n")
        metrics.begin([])
        assert said() == (0, "it works\n")
        metrics.lag({"orders": 1})
        metrics.batch(BatchDone(1, 10, 0.5, time.time() - 300))
        assert said()[0] == 1
        line.append("600")
        assert said() == (0, "it works\n")
    finally:
        server.shutdown()
