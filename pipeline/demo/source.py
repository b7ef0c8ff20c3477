"""The demo's source: a shop's changes in parts, as TiCDC sends them, and a few messages that cannot be decoded.

Some of the shop's orders have a fault that a check finds: a negative total, an unknown currency, a time far ahead.

The shop is seeded and its clock is written down, so that a later demo in the same folder (`--keep`) can
repeat in memory what was sent before, and go on from there.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from pipeline.errors import PipelineError
from pipeline.simulate import Shop, SimulatedChangefeed, wall_clock
from pipeline.simulate.places import FolderPlace
from pipeline.simulate.schemas import subject_of, topic_of
from registry import RegistryClient, RegistryConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pipeline.simulate import SimulatedTable, Transaction
    from pipeline.simulate.produce import SourceProtocol
    from pipeline.simulate.tables import Value

SEED = 7
PREFIX = "tidb"
TOPIC = f"{PREFIX}_cdc"
"""To which everything goes but for Avro."""
SENT: Mapping[str, tuple[SourceProtocol, ...]] = {
    "kafka": ("avro", "simple", "open-protocol", "canal-json"),
    "storage": ("csv", "canal-json"),
}
"""By kind of source the protocols that the demo can send, the one first that it sends if none is named."""
SAYS_TYPES_IN_DDL = ("open-protocol", "canal-json")
"""Protocols whose rows do not say the members of ENUM and the digits of DECIMAL."""
TRANSACTIONS = 1_500
STEP_MILLISECONDS = 2
DIRTY = 0.06
"""The share of new orders with a fault: some dozens in two parts."""
_FLUSH_SECONDS = 30.0
_UNKNOWN_SCHEMA = 999_999


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of the workload: so many transactions from that moment on, after ADD COLUMN or not."""

    transactions: int
    adds_column: bool
    began: int


class DemoSource:
    """A shop in the middle of its work; `parts` is what it has sent so far, also in earlier demos.

    `feed` sends its changes. `spoil` sends what nobody can read, as if by another producer's mistake, and gives how
    much. `creates`: whether CREATE TABLE is sent; else the changefeed begins after it.
    """

    def __init__(self, feed: SimulatedChangefeed, spoil: Callable[[], int], *, creates: bool = False) -> None:
        self.parts: list[Stretch] = []
        self.send_unreadable = spoil
        self._now = 0
        self._shop = Shop(SEED, self._tick, DIRTY)
        self._feed = feed
        self._creates = creates

    def repeat(self, parts: Sequence[Stretch]) -> None:
        """Do again what an earlier demo did, without sending it."""
        for part in parts:
            for _ in self._work(part):
                pass

    def send(self, *, adds_column: bool) -> int:
        """Send the next part, with a watermark after it; how many row events that were."""
        before, last = self._feed.total, None
        for last in self._work(Stretch(TRANSACTIONS, adds_column, wall_clock())):
            if last.ddl is None or adds_column or self._creates:
                self._feed.send(last)
        if last is not None:
            self._feed.checkpoint(last.commit_ts)
        self._feed.flush()
        return self._feed.total - before

    def truth(self) -> Iterator[tuple[SimulatedTable, list[dict[str, Value]]]]:
        """Give what SELECT * gives in the simulated database, table by table."""
        database = self._shop.database
        for table in database.tables():
            yield table, database.rows(table.schema, table.name)

    def close(self) -> None:
        """Let the connections go."""
        self._feed.close()

    def _work(self, part: Stretch) -> Iterator[Transaction]:
        self._now = max(self._now, part.began)
        if part.adds_column:
            yield self._shop.add_channel()
        yield from self._shop.transactions(part.transactions, add_column=False)
        self.parts.append(part)

    def _tick(self) -> int:
        self._now += STEP_MILLISECONDS
        return self._now


def from_kafka(bootstrap_servers: str, registry_url: str) -> DemoSource:
    """The shop behind a changefeed to Kafka, in Avro with watermarks."""
    feed = SimulatedChangefeed(
        bootstrap_servers, registry_url, prefix=PREFIX, watermarks=True, watermark_every=TRANSACTIONS
    )

    def spoil() -> int:
        """Send to `shop.orders` what a broken producer might: no Avro, an unknown schema, half a row."""
        with RegistryClient(RegistryConfig(registry_url)) as registry:
            schema_id = registry.latest(subject_of(topic_of(PREFIX, "shop", "orders"), "value")).schema_id
        values = (b"no Avro at all", _header(_UNKNOWN_SCHEMA) + b"\x02", _header(schema_id) + b"\x02")
        return _produce(bootstrap_servers, topic_of(PREFIX, "shop", "orders"), values)

    return DemoSource(feed, spoil)


def from_topic(bootstrap_servers: str, protocol: SourceProtocol) -> DemoSource:
    """The shop behind a changefeed that sends all to one topic, in Simple (JSON), Open or Canal-JSON."""
    feed = SimulatedChangefeed(bootstrap_servers, prefix=PREFIX, protocol=protocol, watermark_every=TRANSACTIONS)

    def spoil() -> int:
        """Send what a broken producer might: no JSON, the half of a message, an object that says nothing."""
        return _produce(bootstrap_servers, TOPIC, (b"no JSON at all", b'{"id":0,"type":"INS', b"{}"))

    return DemoSource(feed, spoil, creates=protocol in SAYS_TYPES_IN_DDL)


def from_files(folder: Path, protocol: SourceProtocol) -> DemoSource:
    """The shop behind a changefeed that writes files of CSV or Canal-JSON into a folder."""
    place = FolderPlace(folder)
    feed = SimulatedChangefeed(protocol=protocol, place=place, watermark_every=TRANSACTIONS)
    spoiled, end = _SPOILED[protocol]

    def spoil() -> int:
        """Write into a file of `shop.orders` what is no row: no record, too few columns, a number that is none."""
        newest = max(folder.glob("shop/orders/*/*/CDC*.*"))
        lines = spoiled(newest.read_bytes().decode().removesuffix(end).rpartition(end)[2])
        content = newest.read_bytes() + "".join(f"{line}{end}" for line in lines).encode()
        place.write(str(newest.relative_to(folder)), content)
        return len(lines)

    return DemoSource(feed, spoil, creates=protocol in SAYS_TYPES_IN_DDL)


def _spoiled_csv(line: str) -> tuple[str, ...]:
    fields = line.split(",")
    return "no CSV at all", ",".join(fields[:7]), ",".join([*fields[:5], "a number", *fields[6:]])


def _spoiled_canal(line: str) -> tuple[str, ...]:
    message = json.loads(line)
    (row,), types = message["data"], message["sqlType"]
    fewer = [{name: value for name, value in columns.items() if name != "total"} for columns in (row, types)]
    few = {**message, "data": fewer[:1], "sqlType": fewer[1]}
    no_number = {**message, "data": [{**row, "customer_id": "a number"}]}
    return "no JSON at all", json.dumps(few), json.dumps(no_number)


_SPOILED: Mapping[str, tuple[Callable[[str], tuple[str, ...]], str]] = {
    "csv": (_spoiled_csv, "\r\n"),
    "canal-json": (_spoiled_canal, "\n"),
}
"""What is made of a line of a file, and how lines end there."""


def _produce(bootstrap_servers: str, topic: str, values: Sequence[bytes]) -> int:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for value in values:
        producer.produce(topic, value, key=b"somebody else's", partition=0)
    producer.flush(_FLUSH_SECONDS)
    return len(values)


def remember(file: Path, parts: Sequence[Stretch], *, finished: bool) -> None:
    """Write down what was sent, for the next demo in this folder."""
    file.write_text(json.dumps({"finished": finished, "parts": [asdict(part) for part in parts]}))


def recall(file: Path) -> list[Stretch]:
    """Read what the last demo in this folder sent. Raises `DEMO_UNFINISHED` if that is not known."""
    try:
        state = json.loads(file.read_text())
    except FileNotFoundError:
        return []
    if not state["finished"]:
        raise PipelineError(
            "DEMO_UNFINISHED",
            f"the last demo in {file.parent} did not end, so what it sent is not known",
            "to begin anew: ticdc-warehouse demo",
        )
    return [Stretch(**part) for part in state["parts"]]


def _header(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")
