"""A real Apache Kafka broker (KRaft, one node that is its own controller) as a child process."""

from __future__ import annotations

import base64
import logging
import subprocess
import uuid
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from pipeline.devstack import ports
from pipeline.devstack.service import StackService
from pipeline.errors import EnvironmentFault
from pipeline.runtime.jars.artefacts import jars
from pipeline.runtime.java import find_java

if TYPE_CHECKING:
    from pathlib import Path

_JVM = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_LOGGING = "-Dorg.apache.logging.log4j.level=INFO"
_FOREVER = 2**63 - 1
_MESSAGE_BYTES = 64 * 1024 * 1024

_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "broker.session.timeout.ms": 3000,  # after a kill, a restart waits this long (9 s by default)
    "broker.heartbeat.interval.ms": 500,
    "auto.create.topics.enable": "false",  # a topic that nobody made is a mistake in a test
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "message.max.bytes": _MESSAGE_BYTES,
    "replica.fetch.max.bytes": _MESSAGE_BYTES,
    "socket.request.max.bytes": 2 * _MESSAGE_BYTES,
    "log.retention.ms": -1,
    "log.retention.bytes": -1,
    "log.message.timestamp.type": "CreateTime",  # as the producer says, however old or far ahead
    "log.message.timestamp.before.max.ms": _FOREVER,
    "log.message.timestamp.after.max.ms": _FOREVER,
    "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,  # 128 MB of heap by default
    "num.network.threads": 2,
    "num.io.threads": 4,
}


class Broker(StackService):
    """A broker; its topics survive `stop`, `kill` and another `start` in its folder, on any port."""

    NAME = "broker"

    @property
    def bootstrap_servers(self) -> str:
        """What a Kafka client wants to know."""
        return f"{ports.HOST}:{self.port}"

    def launch(self) -> None:
        """Start without waiting; the folder is formatted the first time."""
        ports.require_free(self.port, "broker", "--kafka-port")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._properties_file.write_text(_text(self._properties()))
        if not (self._data / "meta.properties").exists():
            self._format()
        self._service.spawn([*_java(), "kafka.Kafka", str(self._properties_file)], detached=self.detached)

    def is_ready(self) -> bool:
        """Whether the broker answers a metadata request and counts itself as alive."""
        if ports.is_free(self.port):
            return False
        client = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0}, logger=_SILENT)
        try:
            return bool(client.list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _properties_file(self) -> Path:
        return self.folder / "server.properties"

    def _properties(self) -> dict[str, object]:
        controller = f"{ports.HOST}:{ports.free_port()}"
        return _PROPERTIES | {
            "listeners": f"PLAINTEXT://{self.bootstrap_servers},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "controller.quorum.voters": f"1@{controller}",  # static: the port may change
            "log.dirs": self._data,
        }

    def _format(self) -> None:
        tool = ["kafka.tools.StorageTool", "format", "--ignore-formatted", "--cluster-id", _cluster_id()]
        command = [*_java(), *tool, "--config", str(self._properties_file)]
        outcome = subprocess.run(  # noqa: S603 - this package's own command
            command, capture_output=True, text=True, check=False
        )
        if outcome.returncode != 0:
            raise EnvironmentFault(
                "BROKER_FAILED",
                f"Kafka could not format {self._data}: {(outcome.stdout + outcome.stderr).strip()}",
                f"Check that {self.folder} can be written to and has room.",
            )


_SILENT = logging.getLogger("pipeline.devstack.probe")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


def _java() -> list[str]:
    class_path = ":".join(map(str, jars("broker")))
    return [str(find_java().executable), *_JVM, _LOGGING, "-cp", class_path]


def _text(properties: dict[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def _cluster_id() -> str:
    """Return a UUID in Kafka's spelling: 22 characters; a leading `-` would read as an option."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A", 1)
