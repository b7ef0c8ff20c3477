"""The Kafka cluster: what is asked of it besides the records.

The admin client is the Java one that Spark's connector brings, so that every `kafka.*` property of the settings
means the same here and there.
"""

from __future__ import annotations

import re
from copy import copy
from typing import TYPE_CHECKING, Any, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException

from pipeline import causes
from pipeline.errors import EnvironmentFault, PipelineError, SettingsError, reason
from pipeline.model.places import Partition
from pipeline.settings.redaction import clean
from pipeline.sources.kafka import ports
from pipeline.sources.kafka.identities import given, identified, is_by_name, is_missing
from pipeline.sources.source import Stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from pipeline.settings import Settings

START = 15
"""Seconds that a command waits for an answer at its start, where a person should soon hear that something is wrong."""
OUTAGE = 120
"""Seconds that a batch waits, for a broker that comes back: about as long as Spark's own reader does."""

_PREFIX = "kafka."
_PROTOCOL, _PLAIN = "kafka.security.protocol", "PLAINTEXT"
_API_TIMEOUT, _REQUEST_TIMEOUT = "default.api.timeout.ms", "request.timeout.ms"
_INTERNAL = "__"
"""How topics begin that Kafka and its tools keep for themselves."""
_LISTING = re.compile(r"\(name=([\w.-]+), topicId=([\w-]*),")
_OFFSET = re.compile(r"([\w.-]+)-(\d+)=ListOffsetsResultInfo\(offset=(-?\d+), timestamp=(-?\d+),")
"""How Kafka's `TopicListing` prints itself; a topic's name has no other characters."""


class Cluster:
    """The few things asked of Kafka besides the records.

    How long an answer is waited for: `START`, `within` another time, or what `source.options` say
    (`kafka.default.api.timeout.ms`).
    """

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._jvm: Any = cast("Any", spark)._jvm
        self._settings = settings
        self._matching = _matching(self._jvm, settings)
        self._identities: dict[str, str] = {}
        """By topic: shared by all that `within` gives, so that none changes within a run because of who answers."""
        options = settings.source.options.items()
        given = {key.removeprefix(_PREFIX): value for key, value in options if key.startswith(_PREFIX)}
        self._patience_ms = None if _API_TIMEOUT in given else START * 1000
        if self._patience_ms is not None:
            given.setdefault(_REQUEST_TIMEOUT, str(START * 1000))
        properties = self._jvm.java.util.HashMap()
        for key, value in given.items():
            properties.put(key, value)
        properties.put("bootstrap.servers", settings.source.bootstrap_servers)
        properties.put("client.id", f"ticdc-warehouse-{settings.name}")
        try:
            self._admin = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        except Py4JJavaError as error:
            raise causes.explained(error) or EnvironmentFault(
                causes.KAFKA_OPTIONS,
                f"Kafka's client cannot be created with these settings: {clean(reason(error))}",
                "check source.bootstrap_servers and source.options (kafka.security.protocol, kafka.ssl.…, sasl.…)",
            ) from error

    def within(self, seconds: int) -> Cluster:
        """The same, asked with another patience, unless `source.options` say how long."""
        other = copy(self)
        if self._patience_ms is not None:
            other._patience_ms = seconds * 1000
        return other

    def _options(self, call: str) -> Any:
        """Java's options of a call of the admin client."""
        options = getattr(self._jvm.org.apache.kafka.clients.admin, f"{call}Options")()
        return options if self._patience_ms is None else options.timeoutMs(self._patience_ms)

    def topics(self) -> dict[str, Stream]:
        """The topics that the settings ask for and that exist."""
        try:
            wanted = sorted(self.topic_ids())
            answer = self._admin.describeTopics(self._list(wanted), self._options("DescribeTopics"))
            described = answer.allTopicNames().get()
        except Py4JJavaError as error:
            raise self._unreachable(error) from error
        topics = {name: described.get(name) for name in wanted}
        ids = self._identified([(name, str(topic.topicId().toString())) for name, topic in topics.items()])
        return {name: Stream(name, ids[name], _partitions(topic)) for name, topic in topics.items()}

    def topic_ids(self) -> dict[str, str]:
        """Name → identity (`Stream.id`) of every topic that the settings ask for."""
        ids = self._identified(self._listed())
        return {name: ids[name] for name in sorted(self.wanted(ids))}

    def without_ids(self) -> list[str]:
        """Those of these topics to which the broker gives no id of their own."""
        listed = self._listed()
        return sorted(self.wanted({name for name, _ in listed} - {*given(listed)}))

    def recall(self, topics: Mapping[str, str]) -> None:
        """Say which topics were read before, name by id: one keeps its id where the broker gives none any more."""
        self._identities |= {
            name: identity
            for identity, name in topics.items()
            if not is_missing(identity) and not is_by_name(identity)
        }  # fmt: skip

    def _identified(self, listed: Iterable[tuple[str, str]]) -> dict[str, str]:
        """The same with identities, which are remembered."""
        identities = identified(listed, self._identities)
        self._identities |= identities
        return identities

    def names(self) -> frozenset[str]:
        """Every topic that this user may see, whoever it is of."""
        return frozenset(name for name, _ in self._listed())

    def _listed(self) -> list[tuple[str, str]]:
        """Name and id of all topics, brought over as one text."""
        try:
            listed = str(self._admin.listTopics(self._options("ListTopics")).listings().get().toString())
        except Py4JJavaError as error:
            raise self._unreachable(error) from error
        return _LISTING.findall(listed)

    def operations(self, topics: Iterable[str]) -> dict[str, frozenset[str]]:
        """What this user may do with topics that it sees, as ACLs name it (`READ`); none where the broker is silent."""
        options = self._options("DescribeTopics").includeAuthorizedOperations(True)
        try:
            described = self._admin.describeTopics(self._list(sorted(topics)), options).allTopicNames().get()
        except Py4JJavaError:
            return {}  # an old broker; if the broker is gone, the next question fails
        operations = {name: described.get(name).authorizedOperations() for name in topics}
        return {name: frozenset(str(one) for one in may) for name, may in operations.items() if may is not None}

    def hidden(self, topics: Iterable[str]) -> list[str]:
        """Which of these topics this user may not even see: whether they are there Kafka does not say."""
        answers = self._admin.describeTopics(self._list(sorted(topics)), self._options("DescribeTopics"))
        unseen = []
        for name in sorted(topics):
            try:
                answers.topicNameValues().get(name).get()
            except Py4JJavaError as error:
                if "TopicAuthorizationException" in str(error.java_exception.toString()):
                    unseen.append(name)
        return unseen

    def wanted(self, names: Iterable[str]) -> frozenset[str]:
        """Which of these topics the settings ask for. A pattern is matched by Java, as Spark's reader does it."""
        if self._matching is None:
            return frozenset(names) & frozenset(self._settings.source.topics)
        java = self._jvm.java.util  # in a few calls, however many topics there are; their names have no comma
        matched = java.Collections.list(java.StringTokenizer(",".join(names), ","))
        matched.removeIf(getattr(java.function.Predicate, "not")(self._matching.asMatchPredicate()))
        return frozenset(filter(None, str(matched.toString()).strip("[]").split(", ")))

    def earliest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The first offset that each partition still has."""
        return self._offsets(partitions, self._jvm.org.apache.kafka.clients.admin.OffsetSpec.earliest())

    def latest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The offset that each partition's next record will get."""
        return self._offsets(partitions, self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest())

    def since(self, moments: Mapping[Partition, int]) -> dict[Partition, tuple[int, int]]:
        """Offset and time of each partition's first record since a moment, in milliseconds; (-1, -1): there is none."""
        spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
        return self._listed_offsets({partition: spec.forTimestamp(moment) for partition, moment in moments.items()})

    def _offsets(self, partitions: Iterable[Partition], spec: Any) -> dict[Partition, int]:
        offsets = self._listed_offsets(dict.fromkeys(partitions, spec))
        return {partition: offset for partition, (offset, _) in offsets.items()}

    def _listed_offsets(self, specs: Mapping[Partition, Any]) -> dict[Partition, tuple[int, int]]:
        """Offset and time of the record that is asked for, in each partition; brought over as one text."""
        java_partition = self._jvm.org.apache.kafka.common.TopicPartition
        wanted = self._jvm.java.util.HashMap()
        for partition, spec in specs.items():
            wanted.put(java_partition(partition.stream, partition.number), spec)
        try:
            answer = str(self._admin.listOffsets(wanted, self._options("ListOffsets")).all().get().toString())
        except Py4JJavaError as error:
            raise self._unreachable(error) from error
        listed = {Partition(topic, int(n)): (int(offset), int(ms)) for topic, n, offset, ms in _OFFSET.findall(answer)}
        return {partition: listed[partition] for partition in specs}

    def cleanup_policies(self, topics: Iterable[str]) -> dict[str, str]:
        """The `cleanup.policy` of each topic; none where the broker does not tell."""
        resource = self._jvm.org.apache.kafka.common.config.ConfigResource
        kind = getattr(self._jvm.org.apache.kafka.common.config, "ConfigResource$Type").TOPIC
        asked = {topic: resource(kind, topic) for topic in topics}
        try:
            options = self._options("DescribeConfigs")
            configs = self._admin.describeConfigs(self._list(list(asked.values())), options).all().get()
        except Py4JJavaError:
            return {}  # DESCRIBE_CONFIGS is a permission of its own, and a run needs no such
        return {topic: str(configs.get(java).get("cleanup.policy").value()) for topic, java in asked.items()}

    def _list(self, names: list[Any]) -> Any:
        java = self._jvm.java.util.ArrayList()
        for name in names:
            java.add(name)
        return java

    def _unreachable(self, error: Py4JJavaError) -> PipelineError:
        explained = causes.explained(error)
        if explained is not None and explained.code != causes.KAFKA_UNREACHABLE:
            return explained
        return self.unreachable(str(error.java_exception.getMessage()))

    def unreachable(self, reason: str) -> EnvironmentFault:
        """What to raise where Kafka does not answer: with what a look at its port says, where that says anything."""
        servers = self._settings.source.bootstrap_servers
        protocol = self._settings.source.options.get(_PROTOCOL, _PLAIN)
        seen = ports.seen(servers, protocol)
        return EnvironmentFault(
            causes.KAFKA_UNREACHABLE,
            f"Kafka at {servers} did not answer: {reason}" + (f"; {seen.clause}" if seen else ""),
            seen.todo
            if seen
            else "check source.bootstrap_servers and source.options (kafka.security.protocol …), "
            "that the broker runs, and that this machine reaches the addresses that it advertises",
        )

    def close(self) -> None:
        """Let the connections go."""
        self._admin.close()


def _matching(jvm: Any, settings: Settings) -> Any:
    """Java's compiled `topic_pattern`; None without one. Raises `SettingsError`: no other engine could judge it."""
    expression = pattern_of(settings)
    if expression is None:
        return None
    try:
        return jvm.java.util.regex.Pattern.compile(expression)
    except (Py4JJavaError, IllegalArgumentException) as error:  # PySpark makes the latter of Java's
        why = clean((causes.chain(error)[-1].splitlines() or [""])[0].rpartition("Exception: ")[2])
        why = why.partition(" near index ")[0]  # counted in what Spark's reader gets, which begins otherwise
        raise SettingsError(
            "SETTINGS_INVALID",
            f"source.topic_pattern: Java refuses the regular expression {settings.source.topic_pattern}: {why}",
            "write it as Java has it (java.util.regex.Pattern), which Spark's reader uses: a named group is (?<name>…)",
        ) from error


def pattern_of(settings: Settings) -> str | None:
    """The pattern as Spark's reader gets it."""
    pattern = settings.source.topic_pattern
    return None if pattern is None else f"(?!{_INTERNAL})(?:{pattern})"


def _partitions(described: Any) -> tuple[int, ...]:
    return tuple(range(int(described.partitions().size())))  # Kafka numbers them from 0 on
