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
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pipeline.simulate import SimulatedTable, Transaction
    from pipeline.simulate.tables import Value

SEED = 7
PREFIX = "tidb"
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
    much.
    """

    def __init__(self, feed: SimulatedChangefeed, spoil: Callable[[], int]) -> None:
        self.parts: list[Stretch] = []
        self.send_unreadable = spoil
        self._now = 0
        self._shop = Shop(SEED, self._tick, DIRTY)
        self._feed = feed

    def repeat(self, parts: Sequence[Stretch]) -> None:
        """Do again what an earlier demo did, without sending it."""
        for part in parts:
            for _ in self._work(part):
                pass

    def send(self, *, adds_column: bool) -> int:
        """Send the next part, with a watermark after it; how many row events that were."""
        before, last = self._feed.total, None
        for last in self._work(Stretch(TRANSACTIONS, adds_column, wall_clock())):
            if last.ddl is None or adds_column:  # the changefeed begins after CREATE TABLE
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
        topic = topic_of(PREFIX, "shop", "orders")
        with RegistryClient(RegistryConfig(registry_url)) as registry:
            schema_id = registry.latest(subject_of(topic, "value")).schema_id
        values = (b"no Avro at all", _header(_UNKNOWN_SCHEMA) + b"\x02", _header(schema_id) + b"\x02")
        producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        for value in values:
            producer.produce(topic, value, key=b"somebody else's", partition=0)
        producer.flush(_FLUSH_SECONDS)
        return len(values)

    return DemoSource(feed, spoil)


def from_files(folder: Path) -> DemoSource:
    """The shop behind a changefeed that writes files of CSV into a folder."""
    place = FolderPlace(folder)
    feed = SimulatedChangefeed(protocol="csv", place=place, watermark_every=TRANSACTIONS)

    def spoil() -> int:
        """Write into a file of `shop.orders` what is no row: no CSV, too few fields, a number that is none."""
        newest = max(folder.glob("shop/orders/*/*/CDC*.csv"))
        last = newest.read_bytes().decode().rstrip("\r\n").rpartition("\r\n")[2].split(",")
        few, no_number = last[:7], [*last[:5], "a number", *last[6:]]
        lines = ["no CSV at all", ",".join(few), ",".join(no_number)]
        content = newest.read_bytes() + "".join(f"{line}\r\n" for line in lines).encode()
        place.write(str(newest.relative_to(folder)), content)
        return len(lines)

    return DemoSource(feed, spoil)


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
            f"the last demo in {file.parent} did not end, so nobody knows what it sent",
            "to begin anew: ticdc-warehouse demo",
        )
    return [Stretch(**part) for part in state["parts"]]


def _header(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")
