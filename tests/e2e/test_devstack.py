"""The devstack for real: broker, registry, Ivy, the command line."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from typer.testing import CliRunner

from pipeline.cli.devstack import app
from pipeline.devstack import Broker, Devstack, RegistryService, ports
from pipeline.errors import EnvironmentFault
from pipeline.runtime.jars import ivy

pytestmark = pytest.mark.e2e

# As TiCDC registers them: its own property order, no spaces, connect.parameters, default before name.
VALUE = (
    '{"type":"record","name":"orders","namespace":"default.shop","fields":[{"name":"id","type":{"type":"long",'
    '"connect.parameters":{"tidb_type":"BIGINT"}}},{"default":null,"name":"note","type":["null",{"type":"string",'
    '"connect.parameters":{"tidb_type":"TEXT"}}]}]}'
)
BLOB = VALUE.replace('"type":"string"', '"type":"bytes"').replace("TEXT", "BLOB")  # not compatible in any direction


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with Devstack.start(tmp_path_factory.mktemp("devstack")) as stack:
        yield stack


@pytest.fixture
def topic(stack):
    name = f"t-{uuid.uuid4().hex[:8]}"
    create(stack, name)
    return name


def create(stack, name):
    admin = AdminClient({"bootstrap.servers": stack.bootstrap_servers})
    admin.create_topics([NewTopic(name, 2)])[name].result(30)


def produce(stack, topic, value, **more):
    failures = []
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers, "message.max.bytes": 64_000_000})
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _: failures.append(error), **more)
    assert producer.flush(30) == 0
    assert failures == [None]


def consume(stack, topic, count):
    consumer = Consumer({"bootstrap.servers": stack.bootstrap_servers, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return consumer.consume(count, timeout=30)
    finally:
        consumer.close()


def client(stack):
    return SchemaRegistryClient({"url": stack.registry_url})


def subject():
    return f"s-{uuid.uuid4().hex[:8]}-value"


def until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def dead(pid):
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_the_broker_keeps_bytes_and_any_timestamp(stack, topic):
    ages = [1, 1_700_000_000_000, 4_000_000_000_000]  # 1970, 2023, 2096
    for age in ages:
        produce(stack, topic, b"\x00\xff", key=b"k", timestamp=age)
    records = consume(stack, topic, 3)
    assert [(r.key(), r.value(), r.timestamp()[1]) for r in records] == [(b"k", b"\x00\xff", age) for age in ages]


def test_the_broker_takes_large_messages(stack, topic):
    produce(stack, topic, b"x" * 20_000_000)
    assert len(consume(stack, topic, 1)[0].value()) == 20_000_000


def test_no_topic_comes_into_being_by_itself(stack):
    admin = AdminClient({"bootstrap.servers": stack.bootstrap_servers})
    assert admin.list_topics("nobody-made-this", timeout=10).topics["nobody-made-this"].error is not None
    assert "nobody-made-this" not in admin.list_topics(timeout=10).topics


def test_a_killed_broker_comes_back_on_its_port_with_its_records(stack, topic):
    produce(stack, topic, b"before")
    stack.broker.kill()
    assert stack.broker.pid is None
    stack.broker.start()
    produce(stack, topic, b"after")
    assert [record.value() for record in consume(stack, topic, 2)] == [b"before", b"after"]


def test_a_schema_comes_back_byte_for_byte(stack):
    name = subject()
    number = client(stack).register_schema(name, Schema(VALUE, "AVRO"))
    fresh = client(stack)
    assert fresh.get_schema(number).schema_str == VALUE
    latest = fresh.get_latest_version(name)
    assert (latest.schema_id, latest.version, latest.schema.schema_str) == (number, 1, VALUE)


def test_a_text_has_one_id_under_every_subject(stack):
    first, second = subject(), subject()
    number = client(stack).register_schema(first, Schema(VALUE, "AVRO"))
    assert client(stack).register_schema(second, Schema(VALUE, "AVRO")) == number
    assert client(stack).register_schema(first, Schema(VALUE, "AVRO")) == number
    assert client(stack).get_versions(first) == [1]


def test_no_compatibility_is_asked_for(stack):
    name = subject()
    numbers = [client(stack).register_schema(name, Schema(text, "AVRO")) for text in (VALUE, BLOB)]
    assert client(stack).get_versions(name) == [1, 2]
    assert len(set(numbers)) == 2


@pytest.mark.slow
def test_new_texts_get_consecutive_ids(tmp_path):
    """Bytes recorded against another registry keep their ids when a fresh one gets its schemas in order."""
    registry = RegistryService(tmp_path, ports.free_port())
    registry.start()
    try:
        texts = [VALUE.replace("orders", f"orders{n}") for n in range(5)]
        address = SchemaRegistryClient({"url": registry.url})
        assert [address.register_schema(f"{n}", Schema(text, "AVRO")) for n, text in enumerate(texts)] == [
            1,
            2,
            3,
            4,
            5,
        ]
        registry.kill()
        registry.start()
        fresh = SchemaRegistryClient({"url": registry.url})
        assert [fresh.get_schema(n + 1).schema_str for n in range(5)] == texts
    finally:
        registry.stop()


def test_a_second_stack_in_the_folder_is_refused(stack):
    with pytest.raises(EnvironmentFault) as caught:
        Devstack.start(stack.folder)
    assert caught.value.code == "DEVSTACK_RUNNING"
    assert stack.broker.is_ready()
    assert stack.registry.is_ready()


def test_a_taken_port_is_refused_before_anything_starts(stack, tmp_path):
    with pytest.raises(EnvironmentFault, match=f"Port {stack.broker.port}") as caught:
        Devstack.start(tmp_path, kafka_port=stack.broker.port)
    assert caught.value.code == "PORT_TAKEN"
    assert not Devstack.at(tmp_path).is_running


def test_a_broker_that_cannot_start_shows_why(tmp_path):
    broker = Broker(tmp_path, ports.free_port())
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.properties").write_text("version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=7\n")
    with pytest.raises(EnvironmentFault, match="node id 7") as caught:
        broker.start()
    assert caught.value.code == "BROKER_FAILED"
    assert str(broker.log) in caught.value.hint


PARENT = """
import sys, time
from pathlib import Path
from pipeline.devstack import Devstack
with Devstack.start(Path(sys.argv[1])) as stack:
    print(stack.broker.pid, stack.registry.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent is gone")
@pytest.mark.slow
def test_both_die_with_a_parent_that_is_killed_and_the_folder_can_be_used_again(tmp_path):
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        parent.send_signal(signal.SIGKILL)
    assert until(lambda: all(map(dead, pids)))
    with Devstack.start(tmp_path) as stack:
        assert stack.registry.is_ready()


def run(*arguments):
    result = CliRunner().invoke(app, [*arguments, "--output", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_up_status_down_and_up_again(tmp_path):
    folder = ("--folder", str(tmp_path / ".devstack"))
    assert run("status", *folder) == {"folder": folder[1], "running": False}
    try:
        up = run("up", *folder, "--kafka-port", str(ports.free_port()), "--registry-port", str(ports.free_port()))
        assert up["running"]
        assert run("up", *folder) == up, "a second up changes nothing"
        assert run("status", *folder) == up
        there = Devstack.at(Path(folder[1]))
        create(there, "kept")
        number = client(there).register_schema("kept-value", Schema(VALUE, "AVRO"))
        assert run("down", *folder) == {"folder": folder[1], "running": False}
        assert dead(up["broker"]["pid"])
        assert dead(up["registry"]["pid"])

        again = run("up", *folder)
        assert again["bootstrap_servers"] == up["bootstrap_servers"]
        assert again["registry_url"] == up["registry_url"]
        admin = AdminClient({"bootstrap.servers": again["bootstrap_servers"]})
        assert "kept" in admin.list_topics(timeout=10).topics
        assert client(there).get_schema(number).schema_str == VALUE
        text = CliRunner().invoke(app, ["status", *folder]).stdout
        assert again["bootstrap_servers"] in text
        assert again["registry_url"] in text
        os.kill(again["registry"]["pid"], signal.SIGKILL)
        assert until(lambda: there.registry.pid is None)
        assert "registry has died" in CliRunner().invoke(app, ["status", *folder]).stdout
        assert not run("status", *folder)["running"]
        assert run("up", *folder)["running"], "up repairs"
    finally:
        run("down", *folder)


def test_a_mirror_that_cannot_be_reached_is_told_in_ivys_words(tmp_path, monkeypatch):
    settings = tmp_path / "settings.xml"
    mirror = (
        f'<ibiblio name="mirror" m2compatible="true" usepoms="false" root="http://127.0.0.1:{ports.free_port()}/"/>'
    )
    settings.write_text(
        f'<ivysettings><settings defaultResolver="mirror"/><resolvers>{mirror}</resolvers></ivysettings>'
    )
    monkeypatch.setenv(ivy.SETTINGS_ENV, str(settings))
    with pytest.raises(EnvironmentFault) as caught:
        ivy.retrieve(tmp_path / "out", tmp_path / "cache", lambda _: None)
    assert caught.value.code == "ARTEFACTS_UNAVAILABLE"
    assert "refused" in caught.value.message.lower() or "not found" in caught.value.message.lower()
    assert ivy.SETTINGS_ENV in caught.value.hint


def simulate(stack, prefix, *words):
    line = [sys.executable, "-m", "pipeline", "simulate", "--once", "--prefix", prefix, "--output", "json", *words]
    where = ["--bootstrap-servers", stack.bootstrap_servers, "--registry-url", stack.registry_url]
    return subprocess.Popen([*line, *where], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def listed(stack):
    return set(AdminClient({"bootstrap.servers": stack.bootstrap_servers}).list_topics(timeout=10).topics)


def test_once_tells_a_shop_that_was_sent_from_one_that_was_sent_in_part(stack):
    part, whole = (f"shop{uuid.uuid4().hex[:6]}" for _ in range(2))
    killed = simulate(stack, part, "--transactions", "3000", "--rate", "20")
    assert until(lambda: any(name.startswith(f"{part}_shop_") for name in listed(stack)), 60)
    killed.kill()
    killed.communicate()
    refused = simulate(stack, part, "--transactions", "30")
    assert json.loads(refused.communicate()[1])["code"] == "SENT_IN_PART"
    assert refused.returncode == 1
    for transactions in (30, 0):
        done = simulate(stack, whole, "--transactions", "30")
        assert json.loads(done.communicate()[0])["transactions"] == transactions
        assert done.returncode == 0
