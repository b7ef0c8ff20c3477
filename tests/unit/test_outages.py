"""Kafka or Spark goes while a run goes on: how long an answer is waited for, and what is said of a JVM that is gone."""

from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from pipeline.runtime import session
from pipeline.runtime.session import SPARK_ENDED, spark_ended
from pipeline.sources.kafka.cluster import OUTAGE, START, Cluster

NO_MEMORY = 52


class Options:
    """What Java's admin client is told of a call."""

    def __init__(self):
        self.timeout = None

    def timeoutMs(self, milliseconds):  # noqa: N802 - Java's name
        self.timeout = milliseconds
        return self


@pytest.fixture
def cluster():
    """As one is made where the settings say nothing of time."""
    made = object.__new__(Cluster)
    clients = SimpleNamespace(ListTopicsOptions=Options)
    made._jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(kafka=SimpleNamespace(
        clients=SimpleNamespace(admin=clients)
    ))))  # fmt: skip
    made._patience_ms = START * 1000
    return made


def test_a_batch_waits_longer_than_who_has_just_begun(cluster):
    assert cluster._options("ListTopics").timeout == START * 1000
    assert cluster.within(OUTAGE)._options("ListTopics").timeout == OUTAGE * 1000 > START * 1000
    assert cluster._options("ListTopics").timeout == START * 1000, "the first asks as it did"


def test_what_the_settings_say_of_time_counts_for_both(cluster):
    cluster._patience_ms = None
    assert cluster._options("ListTopics").timeout is None
    assert cluster.within(OUTAGE)._options("ListTopics").timeout is None


def ended(monkeypatch, code):
    process = SimpleNamespace(wait=lambda _seconds: code)
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    monkeypatch.setattr(session, "_DYING", 0.0)
    return spark_ended(ConnectionRefusedError("the JVM does not answer"))


@pytest.mark.parametrize(
    ("code", "said"),
    [(-9, "Spark's process was killed by signal 9"), (3, "Spark's process ended with exit code 3"),
     (NO_MEMORY, "Spark ran out of memory")],
)  # fmt: skip
def test_a_jvm_that_has_ended_is_named_with_what_goes_on(monkeypatch, code, said):
    error = ended(monkeypatch, code)
    assert (error.code, error.message.partition(";")[0]) == (SPARK_ENDED, said)
    assert "what was committed stays, and the next run takes the rest" in error.message


def test_memory_that_is_too_small_is_told_with_the_setting_also_by_a_jvm_that_lives(monkeypatch):
    monkeypatch.setattr(SparkContext, "_gateway", None)
    error = spark_ended(RuntimeError("java.lang.OutOfMemoryError: Java heap space"))
    assert "spark.driver.memory" in error.hint
    assert spark_ended(RuntimeError("anything else")) is None
