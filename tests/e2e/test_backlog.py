"""Since when records wait in Kafka, as a real broker answers for moments."""

import time
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from spark.sessions import SETTINGS

from pipeline.settings import parse
from pipeline.sources.kafka.backlog import KafkaBacklog
from pipeline.sources.kafka.cluster import Cluster
from pipeline.sources.source import Committed

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

HOUR, DAY = 3600, 86_400
AGES = [5 * DAY - HOUR * n for n in range(5 * 24)]


@pytest.fixture
def topic(stack):
    """Two partitions: a record an hour for five days, and one that has come just now."""
    name = f"backlog{uuid.uuid4().hex[:6]}"
    admin = AdminClient({"bootstrap.servers": stack.bootstrap_servers})
    admin.create_topics([NewTopic(name, 2)])[name].result(30)
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers})
    now = time.time()
    for age in AGES:
        producer.produce(name, b"x" * 100, partition=0, timestamp=int((now - age) * 1000))
    producer.produce(name, b"x", partition=1)
    assert producer.flush(30) == 0
    return name


def test_what_waits_is_as_old_as_the_first_record_that_no_batch_has_taken(spark, stack, topic, tmp_path):
    text = SETTINGS.format(folder=tmp_path).replace("localhost:1", stack.bootstrap_servers, 1)
    cluster = Cluster(spark, parse(text.replace("[none]", f"[{topic}]"), tmp_path / "ticdc-warehouse.yaml"))
    now, known = time.time(), cluster.topics()[topic].id

    def backlog(end):
        return KafkaBacklog(cluster, Committed({(known, 0): end}, {known: topic}))

    assert backlog(24).records() == {topic: 4 * 24 + 1}
    assert now - backlog(24).oldest(now)[topic] == pytest.approx(4 * DAY, abs=5 * DAY / 256 + 60)
    assert now - backlog(0).oldest(now)[topic] == pytest.approx(5 * DAY, abs=60)
    assert backlog(len(AGES)).oldest(now) == {}
    cluster.close()
