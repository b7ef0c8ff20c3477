"""Kafka goes while a run goes on: it ends, says why, and the next one takes what came meanwhile."""

import time

import pytest
from e2e import judging
from e2e.bank import ACCOUNT, Bank
from e2e.processes import Process
from golden.warehouse import Warehouse

from pipeline.devstack import Devstack

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

IMPATIENT = {"kafka.default.api.timeout.ms": "3000", "kafka.request.timeout.ms": "2000", "fetchOffset.numRetries": "1"}


def test_a_run_ends_with_the_reason_and_the_next_one_goes_on(tmp_path):
    with Devstack.start(tmp_path / "devstack") as stack:
        bank = Bank(stack, 3, (ACCOUNT,))
        bank.open()
        bank.rounds(1)
        file = bank.settings(tmp_path, source={"options": IMPATIENT})
        run = Process.command(file, "run")
        committed(tmp_path)
        stack.broker.kill()
        assert run.ended() == 1, run.complaint()
        assert "KAFKA_UNREACHABLE" in run.complaint()
        stack.broker.start()
        bank.rounds(1)
        assert Process.command(file, "run", "--available-now").ended() == 0
        warehouse = Warehouse.at(tmp_path / "warehouse")
        assert [*judging.untrue(bank, warehouse), *judging.placed_twice(warehouse)] == []
        bank.close()


def committed(folder, seconds=120):
    """Wait for the first batch."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if Warehouse.at(folder / "warehouse").own("batches"):
                return
        except Exception:  # noqa: BLE001 - there is no warehouse yet, or half of one
            assert time.monotonic() < deadline
        time.sleep(0.5)
