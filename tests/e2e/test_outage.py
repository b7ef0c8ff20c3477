"""Kafka or Spark goes while a run goes on: it waits, or it ends and says why, and the next one takes what came."""

import json
import os
import signal
import time
import urllib.request
from collections import Counter
from pathlib import Path
from threading import Timer

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from e2e import judging
from e2e.bank import ACCOUNT, Bank
from e2e.processes import Process, spark_of
from golden.warehouse import Warehouse
from prometheus_client.parser import text_string_to_metric_families
from spark.open_events import record

from pipeline.devstack import Devstack
from pipeline.devstack.ports import free_port
from pipeline.errors import EnvironmentFault
from pipeline.observe.metrics import PREFIX
from pipeline.runtime.session import session
from pipeline.settings import load
from pipeline.sources.kafka.cluster import OUTAGE, START, Cluster

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

IMPATIENT = {"kafka.default.api.timeout.ms": "3000", "kafka.request.timeout.ms": "2000", "fetchOffset.numRetries": "1"}
AWAY = START + 5
"""Seconds: longer than is waited at a start."""


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_run_outlives_a_broker_that_comes_back(tmp_path):
    with Devstack.start(tmp_path / "devstack") as stack:
        bank = Bank(stack, 3, (ACCOUNT,))
        bank.open()
        bank.rounds(1)
        port = free_port()
        run = Process.command(bank.settings(tmp_path, metrics={"port": port}), "run")
        committed(tmp_path)
        until(lambda: "consumer_lag_records" in told(port))
        assert told(port)["kafka_reachable"] == 1
        stack.broker.kill()
        time.sleep(AWAY)
        until(lambda: told(port)["kafka_reachable"] == 0)
        assert "consumer_lag_records" not in told(port)
        stack.broker.start()
        bank.rounds(1)
        warehouse = Warehouse.at(tmp_path / "warehouse")
        until(lambda: not [*judging.untrue(bank, warehouse)])
        until(lambda: (told(port)["kafka_reachable"], told(port)["consumer_lag_records"]) == (1, 0))
        os.kill(run.pid, signal.SIGTERM)
        assert run.ended() == 0, run.complaint()
        assert list(judging.placed_twice(warehouse)) == []
        bank.close()


@pytest.mark.slow
def test_a_batch_waits_longer_than_who_has_just_begun_and_the_settings_say_more(tmp_path):
    with Devstack.start(tmp_path / "devstack") as stack:
        bank = Bank(stack, 3, (ACCOUNT,))
        bank.open()
        bank.rounds(1)  # behind it the broker knows every topic, which it need not when their making was answered
        cluster, hasty = (
            Cluster(session(settings), settings)
            for settings in (
                load(bank.settings(tmp_path)),
                load(bank.settings(tmp_path, source={"options": IMPATIENT})),
            )
        )
        topics = cluster.topics()
        stack.broker.kill()
        assert seconds_of(hasty.within(OUTAGE)) < START
        assert START <= seconds_of(cluster) < OUTAGE / 2
        Timer(START + 3, stack.broker.start).start()
        assert cluster.within(OUTAGE).topics() == topics
        bank.close()


def seconds_of(cluster):
    """How long it waits until it gives up."""
    begun = time.monotonic()
    with pytest.raises(EnvironmentFault, match="KAFKA_UNREACHABLE"):
        cluster.topics()
    return time.monotonic() - begun


@pytest.mark.slow
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


@pytest.mark.slow
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


def told(port):
    """The metrics of a run, added up over their labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = [*text_string_to_metric_families(answer.read().decode())]
    samples = [sample for family in families for sample in family.samples]
    numbers = Counter()
    for sample in samples:
        numbers[sample.name.removeprefix(f"{PREFIX}_")] += sample.value
    return numbers


def jvm_of(pid):
    """The process of Spark that a run has started, below the script that starts it."""
    below = [child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    (java,) = [int(child) for child in below if "SparkSubmit" in Path(f"/proc/{child}/cmdline").read_text()]
    return java


def until(holds, seconds=120):
    """Wait for something; what fails meanwhile is asked again."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if holds():
                return
        except Exception:  # noqa: BLE001 - a warehouse that is written meanwhile
            assert time.monotonic() < deadline
        assert time.monotonic() < deadline
        time.sleep(0.5)


def committed(folder, seconds=120):
    """Wait for the first batch."""
    until(lambda: Warehouse.at(folder / "warehouse").own("batches"), seconds)
