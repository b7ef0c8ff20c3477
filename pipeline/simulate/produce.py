"""A changefeed: sends the simulated database's transactions to Kafka and a registry, or into files, as TiCDC does."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pipeline.simulate.files import CanalCodec, CsvCodec
from pipeline.simulate.schemas import AvroOptions
from pipeline.simulate.senders import AvroSender, CanalSender, OpenSender, SimpleSender, StorageSender
from pipeline.simulate.topics import Topics
from registry.client import RegistryClient, RegistryConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pipeline.simulate.database import Transaction
    from pipeline.simulate.places import FilePlace
    from pipeline.simulate.senders import FileCodec, Sender

    Channel = Topics | FilePlace

Counts = dict[str, dict[str, int]]
SourceProtocol = Literal["avro", "simple", "open-protocol", "csv", "canal-json"]
_FILES: Mapping[str, tuple[FileCodec, str]] = {"csv": (CsvCodec, "csv"), "canal-json": (CanalCodec, "json")}
"""The encoder of rows in files, and the extension of these."""
_SENDERS: Mapping[str, Callable[[Topics, str, str], Sender]] = {
    "simple": SimpleSender,
    "open-protocol": OpenSender,
}
"""Of protocols that send everything to one topic."""


@dataclass
class SimulatedChangefeed:
    """Sends transactions; the fields are a changefeed's settings, named as in TiCDC's sink URI.

    A row's partition is a stable hash of its key, as with the index-value dispatcher: the two halves of a split
    key update may part. `rate` limits the row events per second. `client` are further properties of the Kafka
    clients.

    Avro: each table has its topic, `<prefix>_<schema>_<table>`. With `watermarks` DDL and, every `watermark_every`
    transactions, a checkpoint go to every partition of every topic used so far and of the default topic
    `<prefix>_cdc`. `registry` are further properties of the registry.

    Simple (in JSON), Open and Canal-JSON: everything goes to one topic, `topic` or `<prefix>_cdc`, always with DDL and
    watermarks, but for Canal-JSON without `extension`; `registry_url`, `registry` and the settings that are Avro's mean
    nothing.

    With a `place` CSV and Canal-JSON go into files below it; nothing of Kafka means anything then.
    """

    bootstrap_servers: str = ""
    registry_url: str = ""
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
    protocol: SourceProtocol = "avro"
    topic: str | None = None
    place: FilePlace | None = None

    def __post_init__(self) -> None:
        self._channel: Channel = self.place or Topics(self.bootstrap_servers, self.partitions, self.client)
        self._sender = self._made()
        self._watermarks = self.watermarks or self.protocol != "avro"
        self._counts: Counter[tuple[str, str]] = Counter()
        self._transactions = self._last_ts = 0
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

    def has_sent(self) -> bool:
        """Whether a changefeed of this prefix, or to this topic or place, has sent something before."""
        return self._channel.has_some(self.topic or f"{self.prefix}_")

    def has_sent_all(self) -> bool:
        """Whether it was then said that this was all: a process that dies on the way says nothing."""
        return self._channel.is_signed(self._end)

    def say_all_is_sent(self) -> None:
        """Leave a sign of it, when everything is there."""
        self._channel.sign(self._end)

    @property
    def _end(self) -> str:
        return f"sent-all-of-{self.topic or self.prefix}"

    def send(self, transaction: Transaction) -> None:
        """Queue a transaction's events in order; the broker has them after `flush`."""
        if transaction.ddl is not None:
            self._sender.ddl(transaction.ddl, transaction.commit_ts)
        for event in transaction.events:
            self._sender.row(event, transaction.commit_ts)
            self._counts[event.table.full_name, event.op] += 1
        self._transactions += 1
        self._last_ts = transaction.commit_ts
        if self._watermarks and self._transactions % self.watermark_every == 0:
            self.checkpoint(transaction.commit_ts)
        self._keep_pace()

    def checkpoint(self, commit_ts: int) -> None:
        """Send a watermark; TiCDC does so only when everything before it is acknowledged."""
        self._sender.checkpoint(commit_ts)

    def flush(self) -> Counts:
        """Wait until the broker has everything that was sent; return the counts."""
        self._sender.flush()
        return self.counts

    def close(self) -> None:
        """Flush, and close the registry's connections; readers by commit ts get a last watermark, to see it all."""
        if self.protocol != "avro" and self._transactions:
            self.checkpoint(self._last_ts)
        self._sender.flush()
        self._sender.close()

    def _made(self) -> Sender:
        match self._channel:
            case Topics() as topics if self.protocol == "avro":
                return self._avro(topics)
            case Topics() as topics:
                topic = self.topic or f"{self.prefix}_cdc"
                if self.protocol == "canal-json":
                    return CanalSender(topics, topic, self.timezone, extension=self.extension)
                return _SENDERS[self.protocol](topics, topic, self.timezone)
            case place:
                codec, extension = _FILES[self.protocol]
                return StorageSender(place.write, codec, extension, self.timezone)

    def _avro(self, topics: Topics) -> Sender:
        options = AvroOptions(self.extension, self.decimal, self.bigint_unsigned, self.deletes, timezone=self.timezone)
        registry = RegistryClient(self.registry or RegistryConfig(self.registry_url))
        return AvroSender(topics, registry, self.prefix, options, watermarks=self.watermarks)

    def _keep_pace(self) -> None:
        if self.rate:
            ahead = self.total / self.rate - (time.monotonic() - self._started)
            if ahead > 0:
                time.sleep(ahead)
