"""The bench's data: TiCDC Avro records of an order-line table, fast, seeded, with the truth as a checksum.

`produce` fills one topic: 70 % inserts, 25 % updates of random earlier rows, 5 % deletes. Each partition is a
stream of its own with keys of its own (a key's records are all in one partition, in order), so that processes can
share the work and the data do not depend on how many there are. `many_tables` fills many topics of the same layout
with few rows each, for keys drawn from a given range.

The bytes are put together from pre-encoded pieces, 6 times as fast as fastavro; tests/unit/test_simulate_bench.py
decodes them and encodes them again with the simulator's encoder, byte for byte.

    python tests/bench/workload.py --bootstrap HOST:PORT --registry URL --rows 1000000
"""

from __future__ import annotations

import argparse
import json
import struct
import time
from array import array
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from multiprocessing import get_context
from random import Random
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pipeline.simulate.avro import TableCodec
from pipeline.simulate.schemas import AvroOptions, subject_of, topic_of
from pipeline.simulate.tables import Column, Table
from registry.client import RegistryClient, RegistryConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULUS = 1_000_003
PARTITIONS = 4
BASE_MS = 1_716_613_769_000
BLOCK = 10_000
NOISE = 1 << 16
EVENTS_PER_TRANSACTION = 4
STATUSES = ("new", "picked", "packed", "shipped", "delivered", "returned")
INSERT, UPDATE, DELETE = "insert", "update", "delete"
Message = tuple[bytes, bytes | None]
pack_double = struct.Struct("<d").pack


def order_line(schema: str = "bench", name: str = "order_line") -> Table:
    """The table: 13 columns of 11 types."""
    members = ",".join(f"'{status}'" for status in STATUSES)
    columns = (
        Column("ol_id", "bigint unsigned", nullable=False),
        Column("ol_w_id", "int", nullable=False),
        Column("ol_d_id", "int", nullable=False),
        Column("ol_i_id", "bigint", nullable=False),
        Column("ol_amount", "decimal(12,2)", nullable=False),
        Column("ol_discount", "decimal(5,4)", nullable=False),
        Column("ol_qty", "int", nullable=False),
        Column("ol_status", f"enum({members})", nullable=False),
        Column("ol_dist_info", "char(24)", nullable=False),
        Column("ol_meta", "json", nullable=False),
        Column("ol_created", "datetime(3)", nullable=False),
        Column("ol_delivery_d", "timestamp"),
        Column("ol_rate", "double", nullable=False),
    )
    return Table(schema, name, columns, primary_key=("ol_id",))


@dataclass
class Truth:
    """What a consumer must arrive at. `rows`, `qty`, `cents` and `ids` are over the rows that live at the end,
    `ids` being the sum of ol_id mod 1000003; `all_qty` and `all_cents` over the images of all upserts."""

    rows: int = 0
    qty: int = 0
    cents: int = 0
    ids: int = 0
    all_qty: int = 0
    all_cents: int = 0
    events: dict[str, int] = field(default_factory=lambda: {INSERT: 0, UPDATE: 0, DELETE: 0})

    def __add__(self, other: Truth) -> Truth:
        numbers = {name: value + getattr(other, name) for name, value in asdict(self).items() if name != "events"}
        return Truth(**numbers, events=dict(Counter(self.events) + Counter(other.events)))


@dataclass(frozen=True)
class Ids:
    """Schema ids of a topic."""

    key: int
    value: int


# --- pieces of Avro -----------------------------------------------------------------------------------------------


def zigzag(number: int) -> bytes:
    """An Avro int or long."""
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def text(value: str) -> bytes:
    """An Avro string."""
    data = value.encode()
    return zigzag(len(data)) + data


def decimal(unscaled: int) -> bytes:
    """An Avro decimal: length and the fewest two's complement bytes."""
    size = unscaled.bit_length() // 8 + 1
    return zigzag(size) + unscaled.to_bytes(size, "big", signed=True)


class Pieces:
    """Pre-encoded values. Two tables of 14-bit halves make the varint of a key with two look-ups."""

    def __init__(self) -> None:
        self.more = [bytes((n & 0x7F | 0x80, n >> 7 | 0x80)) for n in range(1 << 14)]
        self.last = [zigzag(n >> 1 if n % 2 == 0 else -(n >> 1) - 1) for n in range(1 << 14)]
        self.places = [zigzag(w) + zigzag(d) for w in range(1, 101) for d in range(1, 11)]
        self.items = [zigzag(n) for n in range(1, 20_001)]
        self.discounts = [decimal(n) for n in range(5_001)]
        self.small = [zigzag(n) for n in range(11)]
        self.statuses = [text(status) for status in STATUSES]
        dice = Random(1)  # noqa: S311 - data, not secrets; the pools are the same for every seed
        self.noise = "".join(dice.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=NOISE + 24)).encode()
        self.metas = [text(self._meta(dice)) for _ in range(20_000)]
        times = [f"2024-06-{day:02d} {hour:02d}:30:00" for day in range(1, 31) for hour in range(24)]
        self.deliveries = [b"\x02" + text(time) for time in times] + [b"\x00"] * len(times)  # half are NULL

    @staticmethod
    def _meta(dice: Random) -> str:
        tags = dice.sample(("a", "b", "fragile", "gift"), 2)
        return json.dumps({"batch": dice.randrange(10**6), "gift": dice.random() < 0.1, "tags": tags})

    def key(self, number: int) -> bytes:
        """The varint of a key below 2^27."""
        zig = number << 1
        return self.last[zig] if zig < 1 << 14 else self.more[zig & 0x3FFF] + self.last[zig >> 14]


@cache
def pieces() -> Pieces:
    """Made once per process."""
    return Pieces()


# --- a stream of events ---------------------------------------------------------------------------------------------


class Rows:
    """The rows of a stream by number: what lives, and its quantity and cents. 9 bytes a row."""

    def __init__(self, dice: Random) -> None:
        self.qty, self.cents = array("b"), array("i")
        self.alive: array[int] = array("i")
        self._random = dice.random

    def next_event(self) -> tuple[str, int]:
        """Choose what happens next and to which row, by the mix of 70, 25 and 5 %."""
        alive, throw = self.alive, self._random()
        if throw < 0.7 or not alive:  # noqa: PLR2004
            row = len(self.qty)
            self.qty.append(0)
            self.cents.append(0)
            alive.append(row)
            return INSERT, row
        at = int(self._random() * len(alive))
        row = alive[at]
        if throw < 0.95:  # noqa: PLR2004
            return UPDATE, row
        alive[at] = alive[-1]
        alive.pop()
        return DELETE, row

    def living(self) -> array[int]:
        """The rows that live."""
        return self.alive


class RowsInRange:
    """Rows whose keys are drawn from a range: a key that lives is updated, or deleted in 5 % of the cases."""

    def __init__(self, dice: Random, size: int) -> None:
        self.qty, self.cents = array("b", bytes(size)), array("i", bytes(4 * size))
        self._random = dice.random

    def next_event(self) -> tuple[str, int]:
        """Choose a key of the range; what happens follows from whether it lives."""
        row = int(self._random() * len(self.qty))
        if not self.qty[row]:
            return INSERT, row
        if self._random() < 0.95:  # noqa: PLR2004
            return UPDATE, row
        self.qty[row] = 0
        return DELETE, row

    def living(self) -> list[int]:
        """The rows that live: their quantity is not zero."""
        return [row for row, qty in enumerate(self.qty) if qty]


class Stream:
    """The messages of one partition, or of one small table, and their truth.

    The key of row n is `first + n * step`.
    """

    def __init__(self, ids: Ids, seed: str, first: int = 1, step: int = 1, key_range: int = 0) -> None:
        dice = Random(seed)  # noqa: S311 - data, not secrets
        self.truth = Truth()
        self._pieces = pieces()
        self._random = dice.random
        self._rows = RowsInRange(dice, key_range) if key_range else Rows(dice)
        self._headers = tuple(struct.pack(">BI", 0, number) for number in (ids.key, ids.value))
        self._first, self._step, self._done = first, step, 0

    def blocks(self, count: int) -> Iterator[list[Message]]:
        """Yield `count` messages, a block at a time; `truth` is complete at the end."""
        for start in range(0, count, BLOCK):
            yield [self._message() for _ in range(min(BLOCK, count - start))]
        self._close()

    def _message(self) -> Message:
        if self._done % EVENTS_PER_TRANSACTION == 0:
            self._created, self._extension = self._moment(self._done // EVENTS_PER_TRANSACTION)
        self._done += 1
        op, row = self._rows.next_event()
        self.truth.events[op] += 1
        key = self._pieces.key(self._first + row * self._step)
        return self._headers[0] + key, None if op is DELETE else self._value(op, row, key)

    def _value(self, op: str, row: int, key: bytes) -> bytes:
        p, rand, truth, rows = self._pieces, self._random, self.truth, self._rows
        cents = 32_768 + int(rand() * 8_355_840)  # always three bytes of two's complement
        qty = 1 + int(rand() * 10)
        rows.qty[row], rows.cents[row] = qty, cents
        truth.all_qty += qty
        truth.all_cents += cents
        at = int(rand() * NOISE)
        return b"".join((
            self._headers[1], key, p.places[int(rand() * 1_000)], p.items[int(rand() * 20_000)],
            b"\x06", cents.to_bytes(3, "big"), p.discounts[int(rand() * 5_001)], p.small[qty],
            p.statuses[int(rand() * 6)], b"\x30", p.noise[at : at + 24], p.metas[int(rand() * 20_000)],
            self._created, p.deliveries[int(rand() * 1_440)], pack_double(rand()), self._extension[op],
        ))  # fmt: skip

    def _moment(self, transaction: int) -> tuple[bytes, dict[str, bytes]]:
        """The creation time and the extension fields of a transaction: one in each millisecond."""
        ms = BASE_MS + transaction
        stamp = zigzag(ms << 18 | self._first) + zigzag(ms)
        created = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        return text(f"{created}.{ms % 1000:03d}"), {INSERT: b"\x02c" + stamp, UPDATE: b"\x02u" + stamp}

    def _close(self) -> None:
        living, truth, rows = self._rows.living(), self.truth, self._rows
        truth.rows = len(living)
        truth.qty = sum(rows.qty[row] for row in living)
        truth.cents = sum(rows.cents[row] for row in living)
        truth.ids = sum((self._first + row * self._step) % MODULUS for row in living)


# --- into Kafka -------------------------------------------------------------------------------------------------------


def _send(servers: str, topic: str, partition: int, stream: Stream, count: int) -> Truth:
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "queue.buffering.max.messages": 1_000_000,
            "linger.ms": 20,
            "batch.size": 1 << 20,
            "log_level": 0,
        }
    )
    for block in stream.blocks(count):
        for key, value in block:
            producer.produce(topic, value, key, partition)
        if len(producer) > 10 * BLOCK:
            producer.flush()
    if producer.flush(60):
        raise RuntimeError(f"{topic}: not everything was acknowledged")
    return stream.truth


def _work(job: tuple[str, str, int, Ids, str, int, int, int, int]) -> Truth:
    servers, topic, partition, ids, seed, first, step, key_range, count = job
    return _send(servers, topic, partition, Stream(ids, seed, first, step, key_range), count)


def _open(servers: str, registry: RegistryClient, tables: list[Table], prefix: str, partitions: int) -> list[Ids]:
    """Make the tables' topics and register their schemas."""
    topics = [topic_of(prefix, table.schema, table.name) for table in tables]
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
        made.result(60)
    found = []
    for topic, table in zip(topics, tables, strict=True):
        codec = TableCodec(table, AvroOptions())
        key = registry.register(subject_of(topic, "key"), codec.key_schema)
        found.append(Ids(key, registry.register(subject_of(topic, "value"), codec.value_schema)))
    return found


def produce(  # noqa: PLR0913
    servers: str,
    registry_url: str,
    rows: int,
    *,
    prefix: str = "tidb",
    seed: int = 7,
    processes: int = 2,
    partitions: int = PARTITIONS,
) -> tuple[str, Truth]:
    """Fill the topic `<prefix>_bench_order_line` with `rows` records; return its name and the truth."""
    table = order_line()
    topic = topic_of(prefix, table.schema, table.name)
    with RegistryClient(RegistryConfig(registry_url)) as registry:
        (ids,) = _open(servers, registry, [table], prefix, partitions)
    jobs = [
        (servers, topic, n, ids, f"{seed}/{n}", 1 + n, partitions, 0, rows * (n + 1) // partitions - rows * n // partitions)
        for n in range(partitions)
    ]
    with get_context("spawn").Pool(processes) as pool:
        return topic, sum(pool.map(_work, jobs, chunksize=1), Truth())


def many_tables(  # noqa: PLR0913
    servers: str,
    registry_url: str,
    count: int,
    rows: int,
    *,
    key_range: int = 10_000,
    prefix: str = "tidb",
    seed: int = 7,
    processes: int = 2,
) -> dict[str, Truth]:
    """Fill `count` topics of one partition with `rows` records each, keys drawn from 1 to `key_range`.

    Returns the truth by topic. Called again with another seed the same topics get more records; then the truths
    of the calls are about one table, and only the sums over all upserts add up.
    """
    tables = [order_line("bench", f"t{n:03d}") for n in range(count)]
    with RegistryClient(RegistryConfig(registry_url)) as registry:
        ids = _open(servers, registry, tables, prefix, 1)
    topics = [topic_of(prefix, table.schema, table.name) for table in tables]
    jobs = [
        (servers, topic, 0, one, f"{seed}/{topic}", 1, 1, key_range, rows)
        for topic, one in zip(topics, ids, strict=True)
    ]
    with get_context("spawn").Pool(processes) as pool:
        return dict(zip(topics, pool.map(_work, jobs), strict=True))


def main() -> None:
    """Fill a topic, or with --tables many, and print the truth as JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--registry", required=True)
    parser.add_argument("--rows", type=int, default=1_000_000, help="records, of each table")
    parser.add_argument("--tables", type=int, default=0)
    parser.add_argument("--key-range", type=int, default=10_000)
    parser.add_argument("--prefix", default="tidb")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    started = time.monotonic()
    common = {"prefix": given.prefix, "seed": given.seed}
    if given.tables:
        truths = many_tables(
            given.bootstrap, given.registry, given.tables, given.rows, key_range=given.key_range, **common
        )
    else:
        truths = dict([produce(given.bootstrap, given.registry, given.rows, **common)])
    seconds = round(time.monotonic() - started, 2)
    print(json.dumps({"seconds": seconds, "truth": {topic: asdict(truth) for topic, truth in truths.items()}}))  # noqa: T201


if __name__ == "__main__":
    main()
