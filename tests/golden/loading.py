"""Golden cases in the real broker and registry: records where they belong, Avro's with the registry's own ids.

Many cases share one stack: each has topics of its own, `<prefix>_tidb_…`, and their subjects follow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from golden import cut_events, decode
from golden.corpus import subject_of

from pipeline.settings import Settings, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from golden.corpus import GoldenCase, Record
    from golden.cut_events import CutEvent
    from golden.decode import Event

    from pipeline.devstack import Devstack

_PATIENCE = 60
_SCHEMA_MESSAGE = 0
_DELETE_MESSAGE = 3
_HEADER = 5


@dataclass(slots=True)
class LoadedCase:
    """A case in the stack. `sent` is what was produced so far; its settings read this case's topics alone."""

    case: GoldenCase
    stack: Devstack
    prefix: str
    ids: dict[tuple[str, int], int]
    partitions: int = 1
    sent: list[Record] = field(default_factory=list)
    _topics: set[str] = field(default_factory=set)

    def produce(self, records: Iterable[Record]) -> None:
        """Send these records, in order, each to its partition; a topic comes with its first record."""
        records = list(records)
        self._create_topics({record.topic for record in records})
        deliveries: list[tuple[tuple[str, int, int], Any]] = []
        producer = Producer({"bootstrap.servers": self.stack.bootstrap_servers, "enable.idempotence": True})
        for record, offset in zip(records, self._offsets(records), strict=True):
            place = (self.topic(record), record.partition, offset)
            producer.produce(
                place[0],
                partition=record.partition,
                key=self._rewritten(record, record.key, "key"),
                value=self._rewritten(record, record.value, "value"),
                on_delivery=partial(_delivered, deliveries, place),
            )
        assert producer.flush(_PATIENCE) == 0
        assert len(deliveries) == len(records)
        assert [place for place, got in deliveries if got != place] == []
        self.sent += records

    def produce_all(self) -> None:
        """Send the whole case."""
        self.produce(self.case.records)

    def topic(self, record: Record) -> str:
        """The topic that a record has in the stack."""
        return f"{self.prefix}_{record.topic}"

    def schema_id(self, event: Event) -> int:
        """The id that the registry gave to the event's schema."""
        part = "key" if event.op == "delete" and event.before is None else "value"
        return self.ids[subject_of(event.record.topic, part), event.schema_id]

    def events(self) -> list[Event]:
        """The row events of what was produced, at the offsets where they stand (Avro)."""
        return decode.events(self.case, self.sent)

    def cut_events(self) -> list[CutEvent]:
        """As `events`, for the protocols of the ordering by commit ts."""
        return cut_events.events(self.case, self.sent)

    def settings(self, folder: Path, **changes: dict[str, Any]) -> Settings:
        """Settings of a pipeline that reads this case into `folder`; `changes` are merged into sections."""
        return parse(yaml.safe_dump(self.settings_tree(folder, **changes), allow_unicode=True), folder)

    def settings_tree(self, folder: Path, **changes: dict[str, Any]) -> dict[str, Any]:
        """The settings as they stand in the file."""
        tree: dict[str, Any] = {
            "name": "golden",
            "source": {
                "kind": "kafka",
                "bootstrap_servers": self.stack.bootstrap_servers,
                "topic_pattern": f"{self.prefix}_tidb_.*",
                **_protocol(self.case),
            },
            **({"registry": {"url": self.stack.registry_url}} if self.case.protocol == "avro" else {}),
            "changefeed": _changefeed(self.case),
            "warehouse": {"path": str(folder / "warehouse")},
            "checkpoint": str(folder / "checkpoint"),
            "spark": {"master": "local[2]", "conf": {"spark.sql.shuffle.partitions": "2"}},
        }
        for section, more in changes.items():
            tree[section] = {**tree.get(section, {}), **more}
        return tree

    def _offsets(self, records: Iterable[Record]) -> Iterator[int]:
        """Where each record will stand, counted from what was sent: topics are new, so they begin at 0."""
        ends: dict[tuple[str, int], int] = {}
        for record in self.sent:
            ends[record.topic, record.partition] = ends.get((record.topic, record.partition), 0) + 1
        for record in records:
            offset = ends.get((record.topic, record.partition), 0)
            ends[record.topic, record.partition] = offset + 1
            yield offset

    def _create_topics(self, names: set[str]) -> None:
        wanted = sorted(f"{self.prefix}_{name}" for name in names - self._topics)
        if not wanted:
            return
        admin = AdminClient({"bootstrap.servers": self.stack.bootstrap_servers})
        for created in admin.create_topics([NewTopic(name, self.partitions) for name in wanted]).values():
            created.result(_PATIENCE)
        self._topics |= names

    def _rewritten(self, record: Record, message: bytes | None, part: str) -> bytes | None:
        if message is None or record.kind != "row" or self.case.protocol != "avro" or message[0] == _DELETE_MESSAGE:
            return message
        assert message[0] == _SCHEMA_MESSAGE
        number = self.ids[subject_of(record.topic, part), int.from_bytes(message[1:_HEADER], "big")]
        return message[:1] + number.to_bytes(4, "big") + message[_HEADER:]


def load(case: GoldenCase, stack: Devstack, prefix: str, partitions: int | None = None) -> LoadedCase:
    """Register the case's schemas under its own subjects. Nothing is produced yet.

    `partitions`: how many each topic gets, where it is not what TiCDC had.
    """
    with SchemaRegistryClient({"url": stack.registry_url}) as registry:
        ids = {
            (entry.subject, entry.id): registry.register_schema(
                f"{prefix}_{entry.subject}", Schema(entry.schema, "AVRO")
            )
            for entry in case.schemas
        }
    return LoadedCase(case, stack, prefix, ids, partitions or case.partitions)


def slices(records: Sequence[Record], cuts: Iterable[int]) -> Iterator[Sequence[Record]]:
    """The records in pieces that end before each of these positions, and the rest."""
    start = 0
    for end in (*sorted(cuts), len(records)):
        if start < end:
            yield records[start:end]
        start = end


def _protocol(case: GoldenCase) -> dict[str, Any]:
    return {"protocol": case.protocol, **({"encoding": case.encoding} if case.encoding else {})}


def _changefeed(case: GoldenCase) -> dict[str, Any]:
    if case.protocol != "avro":
        return {"protocol": case.protocol}
    return {
        "enable-tidb-extension": case.has_extension,
        "avro-decimal-handling-mode": "string" if case.decimals_as_text else "precise",
        "avro-bigint-unsigned-handling-mode": "string" if case.decimals_as_text else "long",
        "avro-enable-watermark": case.has_ddl,
    }


def _delivered(deliveries: list[tuple[tuple[str, int, int], Any]], place: Any, error: Any, message: Any) -> None:
    deliveries.append((place, error or (message.topic(), message.partition(), message.offset())))
