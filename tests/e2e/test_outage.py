"""Kafka or Spark goes while a run goes on: it ends, says why, and the next one takes what came meanwhile."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from e2e import judging
from e2e.bank import ACCOUNT, Bank
from e2e.processes import Process, spark_of
from golden.warehouse import Warehouse
from spark.open_events import record

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


def test_a_jvm_that_is_killed_is_named_and_the_next_run_goes_on(stack, tmp_path):
    bank = Bank(stack, 5, (ACCOUNT,))
    bank.open()
    bank.rounds(1)
    file = bank.settings(tmp_path)
    run = Process.command(file, "run")
    committed(tmp_path)
    os.kill(jvm_of(run.pid), signal.SIGKILL)
    assert run.ended() == 1, run.complaint()
    assert "error SPARK_ENDED: Spark's process was killed by signal 9" in run.complaint()
    bank.rounds(1)
    assert Process.command(file, "run", "--available-now").ended() == 0
    warehouse = Warehouse.at(tmp_path / "warehouse")
    assert [*judging.untrue(bank, warehouse), *judging.placed_twice(warehouse)] == []
    bank.close()


def test_memory_that_is_too_small_for_a_message_is_told_and_more_of_it_lets_it_in(stack, tmp_path):
    topic = f"large{time.time_ns()}"
    large = {"max.message.bytes": "30000000"}
    admin = AdminClient({"bootstrap.servers": stack.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, config=large)])[topic].result(30)
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers, "message.max.bytes": 30_000_000})
    row = {"id": {"t": 3, "h": True, "f": 11, "v": 1}, "text": {"t": 15, "f": 64, "v": "x" * 19_000_000}}
    at = {"ts": 450_000_000_000_000_001, "scm": "shop", "tbl": "paper"}
    for key, value in (({**at, "t": 1}, json.dumps({"u": row})), ({"ts": at["ts"] + 1, "t": 3}, "")):
        message = record((json.dumps(key), value))
        producer.produce(topic, key=message[0], value=message[1])
    assert producer.flush(30) == 0
    spark = spark_of()
    tree = {
        "name": "large",
        "source": {"kind": "kafka", "protocol": "open-protocol", "bootstrap_servers": stack.bootstrap_servers,
                   "topics": [topic]},
        "warehouse": {"path": "./warehouse"},
        "checkpoint": "./checkpoint",
        "spark": {**spark, "conf": {**spark["conf"], "spark.driver.memory": "512m"}},
    }  # fmt: skip
    file = tmp_path / "ticdc-warehouse.yaml"
    file.write_text(json.dumps(tree))
    run = Process.command(file, "run", "--available-now")
    assert run.ended() == 1, run.complaint()
    assert "error SPARK_ENDED: Spark ran out of memory" in run.complaint()
    tree["spark"]["conf"]["spark.driver.memory"] = "2g"
    file.write_text(json.dumps(tree))
    run = Process.command(file, "run", "--available-now")
    assert run.ended() == 0, run.complaint()
    (kept,) = Warehouse.at(tmp_path / "warehouse").changes()["shop.paper"]
    assert len(kept["text"]) == 19_000_000


def jvm_of(pid):
    """The process of Spark that a run has started, below the script that starts it."""
    below = [child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    (java,) = [int(child) for child in below if "SparkSubmit" in Path(f"/proc/{child}/cmdline").read_text()]
    return java


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
