"""Kafka as a changefeed uses it: topics made on first use, messages in order, errors that are not lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pipeline.errors import EnvironmentFault

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECONDS = 120.0  # a broker that is started again on a busy machine takes more than 30
_ADMIN_SECONDS = 10.0


class Topics:
    """Sends messages to topics, which it makes with `partitions` partitions where they do not exist yet."""

    def __init__(self, bootstrap_servers: str, partitions: int, client: Mapping[str, str]) -> None:
        self._servers = bootstrap_servers
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "error_cb": self._noticed,
            "log_level": 0,  # what it would print at each of its retries is in the error that we raise
            **client,
        }
        self._admin = AdminClient(dict(settings))
        self._producer = Producer({"enable.idempotence": True, "linger.ms": 5, **settings})
        self._wanted = partitions
        self._partitions: dict[str, int] = {}
        self._error: KafkaError | None = None
        self._trouble = ""

    def known(self) -> list[str]:
        """Return the topics used so far."""
        return list(self._partitions)

    def listed(self) -> list[str]:
        """Return the topics that the broker has, whoever they are of."""
        try:
            return list(self._admin.list_topics(timeout=_ADMIN_SECONDS).topics)
        except KafkaException as error:
            raise self._unreachable(f"topics could not be listed: {error.args[0].str()}") from None

    def has_some(self, beginning: str) -> bool:
        """Whether there are topics whose names begin so."""
        return any(name.startswith(beginning) for name in self.listed())

    def is_signed(self, sign: str) -> bool:
        """Whether an earlier changefeed has left this sign."""
        return sign in self.listed()

    def sign(self, sign: str) -> None:
        """Leave a sign: a topic without messages."""
        self.partitions(sign)

    def partitions(self, topic: str) -> int:
        """Return the topic's number of partitions; the topic is made at the first question."""
        if topic not in self._partitions:
            self._partitions[topic] = self._make(topic)
        return self._partitions[topic]

    def send(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        """Queue a message; a full queue is waited for."""
        while True:
            try:
                self._producer.produce(topic, value, key, partition, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.5)
            else:
                break
        self._producer.poll(0)
        self._raise_failure()

    def broadcast(self, topic: str, value: bytes) -> None:
        """Queue a message without key for every partition of the topic."""
        for partition in range(self.partitions(topic)):
            self.send(topic, partition, None, value)

    def flush(self) -> None:
        """Wait until every message is acknowledged, or raise `BROKER_UNREACHABLE` or `PRODUCE_FAILED`."""
        left = self._producer.flush(_SECONDS)
        self._raise_failure()
        if left:
            raise self._unreachable(f"{left} messages were not acknowledged within {_SECONDS:.0f} s")

    def _make(self, topic: str) -> int:
        try:
            self._admin.create_topics([NewTopic(topic, self._wanted, 1)])[topic].result(_ADMIN_SECONDS)
        except TimeoutError:
            fact = f"topic {topic} could not be made within {_ADMIN_SECONDS:.0f} s"
            raise self._unreachable(fact) from None
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._unreachable(f"topic {topic} could not be made: {error.args[0].str()}") from None
            return len(self._admin.list_topics(topic, _ADMIN_SECONDS).topics[topic].partitions)
        return self._wanted

    def _noticed(self, error: KafkaError) -> None:
        self._trouble = f" ({error.str()})"

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._error = self._error or error

    def _raise_failure(self) -> None:
        if self._error is not None:
            raise EnvironmentFault("PRODUCE_FAILED", f"Kafka refused a message: {self._error.str()}")

    def _unreachable(self, fact: str) -> EnvironmentFault:
        self._admin.poll(0)
        hint = "`ticdc-warehouse devstack status` shows whether the embedded broker runs"
        return EnvironmentFault("BROKER_UNREACHABLE", f"{fact} at {self._servers}{self._trouble}", hint)
