"""A changefeed: sends the simulated database's transactions to Kafka and a registry as TiCDC does."""

from __future__ import annotations

import time
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pipeline.simulate.avro import TableCodec, checkpoint_message, ddl_message
from pipeline.simulate.schemas import AvroOptions, subject_of, topic_of
from pipeline.simulate.topics import Topics
from registry.client import RegistryClient, RegistryConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.simulate.database import RowEvent, Transaction
    from pipeline.simulate.tables import Table

Counts = dict[str, dict[str, int]]
_OPS = {"insert": "c", "update": "u"}


@dataclass(frozen=True, slots=True)
class _Route:
    """Where a table version's rows go, and as what."""

    topic: str
    partitions: int
    codec: TableCodec
    key_id: int
    value_id: int


@dataclass
class Changefeed:
    """Sends transactions; the fields are a changefeed's settings, named as in TiCDC's sink URI.

    Each table has its topic, `<prefix>_<schema>_<table>`. A row's partition is a stable hash of its key, as
    with the index-value dispatcher: the two halves of a split key update may part. With `watermarks` DDL and,
    every `watermark_every` transactions, a checkpoint go to every partition of every topic used so far and of
    the default topic `<prefix>_cdc`. `rate` limits the row events per second. `client` and `registry` are
    further properties of the Kafka clients and of the registry.
    """

    bootstrap_servers: str
    registry_url: str
    prefix: str = "tidb"
    partitions: int = 2
    extension: bool = True
    watermarks: bool = False
    watermark_every: int = 5
    decimal: Literal["precise", "string"] = "precise"
    bigint_unsigned: Literal["long", "string"] = "long"
    deletes: Literal["null", "commit-ts"] = "null"
    timezone: str = "UTC"
    rate: float | None = None
    client: Mapping[str, str] = field(default_factory=dict)
    registry: RegistryConfig | None = None

    def __post_init__(self) -> None:
        self._options = AvroOptions(
            self.extension, self.decimal, self.bigint_unsigned, self.deletes, timezone=self.timezone
        )
        self._topics = Topics(self.bootstrap_servers, self.partitions, self.client)
        self._registry = RegistryClient(self.registry or RegistryConfig(self.registry_url))
        self._routes: dict[tuple[str, int], _Route] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._transactions = 0
        self._started = time.monotonic()

    @property
    def counts(self) -> Counts:
        """Row events queued so far: table → kind (insert, update, delete) → number."""
        counts: Counts = {}
        for (table, op), number in sorted(self._counts.items()):
            counts.setdefault(table, {})[op] = number
        return counts

    @property
    def total(self) -> int:
        """Row events queued so far."""
        return self._counts.total()

    def send(self, transaction: Transaction) -> None:
        """Queue a transaction's events in order; the broker has them after `flush`."""
        if transaction.ddl is not None:
            self._send_ddl(transaction)
        for event in transaction.events:
            self._send_row(event, transaction.commit_ts)
        self._transactions += 1
        if self.watermarks and self._transactions % self.watermark_every == 0:
            self.checkpoint(transaction.commit_ts)
        self._keep_pace()

    def checkpoint(self, commit_ts: int) -> None:
        """Send a watermark; TiCDC does so only when everything before it is acknowledged."""
        self._topics.flush()
        for topic in dict.fromkeys((*self._topics.known(), self._default_topic)):
            self._topics.broadcast(topic, checkpoint_message(commit_ts))

    def flush(self) -> Counts:
        """Wait until the broker has everything that was sent; return the counts."""
        self._topics.flush()
        return self.counts

    def close(self) -> None:
        """Flush, and close the registry's connections."""
        self._topics.flush()
        self._registry.close()

    @property
    def _default_topic(self) -> str:
        return f"{self.prefix}_cdc"

    def _send_ddl(self, transaction: Transaction) -> None:
        """Avro carries DDL in watermark mode only; a database's goes to the default topic."""
        ddl = transaction.ddl
        if ddl is None or not self.watermarks:
            return
        topic = topic_of(self.prefix, ddl.schema, ddl.table) if ddl.table else self._default_topic
        message = ddl_message(ddl.query, ddl.action, ddl.schema, ddl.table, transaction.commit_ts)
        self._topics.broadcast(topic, message)

    def _send_row(self, event: RowEvent, commit_ts: int) -> None:
        route = self._route(event.table)
        codec = route.codec
        key = codec.key(event.image, route.key_id)
        if event.after is None:
            value = codec.delete(commit_ts)
        else:
            value = codec.value(event.after, route.value_id, _OPS[event.op], commit_ts)
        self._topics.send(route.topic, zlib.crc32(key[5:]) % route.partitions, key, value)
        self._counts[event.table.full_name, event.op] += 1

    def _route(self, table: Table) -> _Route:
        """Return the route of a table version; its schemas are registered at its first row."""
        route = self._routes.get((table.full_name, table.version))
        if route is None:
            route = self._routes[table.full_name, table.version] = self._open(table)
        return route

    def _open(self, table: Table) -> _Route:
        codec = TableCodec(table, self._options)
        topic = topic_of(self.prefix, table.schema, table.name)
        key_id = self._registry.register(subject_of(topic, "key"), codec.key_schema)
        value_id = self._registry.register(subject_of(topic, "value"), codec.value_schema)
        return _Route(topic, self._topics.partitions(topic), codec, key_id, value_id)

    def _keep_pace(self) -> None:
        if self.rate:
            ahead = self.total / self.rate - (time.monotonic() - self._started)
            if ahead > 0:
                time.sleep(ahead)
