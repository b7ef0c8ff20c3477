"""The bench's rows: an order-line table, its TiCDC Avro messages as seeded streams, and their truth.

The bytes are put together from pre-encoded pieces, which takes 5 µs a record, choosing the values included;
tests/unit/test_simulate_bench.py decodes them and encodes them again with the simulator's encoder (12 µs),
byte for byte.
"""

from __future__ import annotations

import json
import struct
from array import array
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from pipeline.simulate.tables import SimulatedColumn, SimulatedTable

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULUS = 1_000_003
BASE_MS = 1_716_613_769_000
BLOCK = 10_000
NOISE = 1 << 16
EVENTS_PER_TRANSACTION = 4
STATUSES = ("new", "picked", "packed", "shipped", "delivered", "returned")
INSERT, UPDATE, DELETE = "insert", "update", "delete"
Message = tuple[bytes, bytes | None]
pack_double = struct.Struct("<d").pack


def order_line(schema: str = "bench", name: str = "order_line") -> SimulatedTable:
    """The table: 13 columns of 11 types."""
    members = ",".join(f"'{status}'" for status in STATUSES)
    columns = (
        SimulatedColumn("ol_id", "bigint unsigned", nullable=False),
        SimulatedColumn("ol_w_id", "int", nullable=False),
        SimulatedColumn("ol_d_id", "int", nullable=False),
        SimulatedColumn("ol_i_id", "bigint", nullable=False),
        SimulatedColumn("ol_amount", "decimal(12,2)", nullable=False),
        SimulatedColumn("ol_discount", "decimal(5,4)", nullable=False),
        SimulatedColumn("ol_qty", "int", nullable=False),
        SimulatedColumn("ol_status", f"enum({members})", nullable=False),
        SimulatedColumn("ol_dist_info", "char(24)", nullable=False),
        SimulatedColumn("ol_meta", "json", nullable=False),
        SimulatedColumn("ol_created", "datetime(3)", nullable=False),
        SimulatedColumn("ol_delivery_d", "timestamp"),
        SimulatedColumn("ol_rate", "double", nullable=False),
    )
    return SimulatedTable(schema, name, columns, primary_key=("ol_id",))


@dataclass
class Truth:
    """What a consumer must arrive at.

    `rows`, `qty`, `cents` and `ids` are over the rows that live at the end, `ids` being the sum of
    ol_id mod 1000003; `all_qty` and `all_cents` are over the images of all upserts.
    """

    rows: int = 0
    qty: int = 0
    cents: int = 0
    ids: int = 0
    all_qty: int = 0
    all_cents: int = 0
    events: dict[str, int] = field(default_factory=lambda: {INSERT: 0, UPDATE: 0, DELETE: 0})

    def __add__(self, other: Truth) -> Truth:
        mine, theirs = asdict(self), asdict(other)
        events = {op: number + theirs["events"][op] for op, number in mine["events"].items()}
        return Truth(**{name: mine[name] + theirs[name] for name in mine.keys() - {"events"}}, events=events)


class Ids(NamedTuple):
    """Schema ids of a topic."""

    key: int
    value: int


# --- pieces of Avro --------------------------------------------------------------------------------------


def zigzag(number: int) -> bytes:
    """An Avro int or long."""
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
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


def created(ms: int) -> str:
    """A DATETIME(3)."""
    seconds = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{seconds}.{ms % 1000:03d}"


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
        dice = Random(1)  # noqa: S311 - data, not secrets
        self.noise = "".join(dice.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=NOISE + 24)).encode()
        self.meta_texts = [self._meta(dice) for _ in range(20_000)]
        self.metas = [text(meta) for meta in self.meta_texts]
        self.times = [f"2024-06-{day:02d} {hour:02d}:30:00" for day in range(1, 31) for hour in range(24)]
        self.deliveries = [b"\x02" + text(time) for time in self.times] + [b"\x00"] * len(self.times)  # half are NULL

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


# --- a stream of events ----------------------------------------------------------------------------------


class Rows:
    """The rows of a stream by number: what lives, and its quantity and cents. 9 bytes a row."""

    def __init__(self, dice: Random) -> None:
        self.qty, self.cents = array("b"), array("i")
        self.alive: array[int] = array("i")
        self._random = dice.random
        self._touched: set[int] = set()

    def begin(self) -> None:
        """Another transaction begins."""
        self._touched.clear()

    def next_event(self) -> tuple[str, int]:
        """Choose what happens next and to which row, by the mix of 70, 25 and 5 %; to a row once in a transaction."""
        alive, throw = self.alive, self._random()
        at = int(self._random() * len(alive)) if throw >= 0.7 and alive else -1
        if at < 0 or alive[at] in self._touched:
            return INSERT, self._new()
        row = alive[at]
        self._touched.add(row)
        if throw < 0.95:
            return UPDATE, row
        alive[at] = alive[-1]
        alive.pop()
        return DELETE, row

    def _new(self) -> int:
        row = len(self.qty)
        self.qty.append(0)
        self.cents.append(0)
        self.alive.append(row)
        self._touched.add(row)
        return row

    def living(self) -> array[int]:
        """The rows that live."""
        return self.alive


class RowsInRange:
    """Rows whose keys are drawn from a range: a key that lives is updated, or deleted in 5 % of the cases."""

    def __init__(self, dice: Random, size: int) -> None:
        self.qty, self.cents = array("b", bytes(size)), array("i", bytes(4 * size))
        self._random = dice.random

    def begin(self) -> None:
        """Another transaction begins; these tables are read in the order of the stream alone."""

    def next_event(self) -> tuple[str, int]:
        """Choose a key of the range; what happens follows from whether it lives."""
        row = int(self._random() * len(self.qty))
        if not self.qty[row]:
            return INSERT, row
        if self._random() < 0.95:
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
            self._rows.begin()
        self._done += 1
        op, row = self._rows.next_event()
        self.truth.events[op] += 1
        key = self._pieces.key(self._first + row * self._step)
        return self._headers[0] + key, None if op is DELETE else self._value(op, row, key)

    def _value(self, op: str, row: int, key: bytes) -> bytes:
        p = self._pieces
        cents, qty, noise, place, item, discount, status, meta, delivery, rate = self._drawn(row)
        return b"".join((
            self._headers[1], key, p.places[place], p.items[item],
            b"\x06", cents.to_bytes(3, "big"), p.discounts[discount], p.small[qty],
            p.statuses[status], b"\x30", p.noise[noise : noise + 24], p.metas[meta],
            self._created, p.deliveries[delivery], pack_double(rate), self._extension[op],
        ))  # fmt: skip

    def _drawn(self, row: int) -> tuple[int, int, int, int, int, int, int, int, int, float]:
        """The next image of a row: cents, quantity, where each other value stands among the pieces, and the rate."""
        rand, truth, rows = self._random, self.truth, self._rows
        cents = 32_768 + int(rand() * 8_355_840)  # always three bytes of two's complement
        qty = 1 + int(rand() * 10)
        rows.qty[row], rows.cents[row] = qty, cents
        truth.all_qty += qty
        truth.all_cents += cents
        return (
            cents, qty, int(rand() * NOISE), int(rand() * 1_000), int(rand() * 20_000), int(rand() * 5_001),
            int(rand() * 6), int(rand() * 20_000), int(rand() * 1_440), rand(),
        )  # fmt: skip

    def _moment(self, transaction: int) -> tuple[bytes, dict[str, bytes]]:
        """The creation time and the extension fields of a transaction."""
        ms = BASE_MS + transaction
        stamp = zigzag(self._commit_ts(transaction)) + zigzag(ms)
        return text(created(ms)), {INSERT: b"\x02c" + stamp, UPDATE: b"\x02u" + stamp}

    def _commit_ts(self, transaction: int) -> int:
        """One in each millisecond; those of streams with other keys differ."""
        return BASE_MS + transaction << 18 | self._first

    def _close(self) -> None:
        living, truth, rows = self._rows.living(), self.truth, self._rows
        truth.rows = len(living)
        truth.qty = sum(rows.qty[row] for row in living)
        truth.cents = sum(rows.cents[row] for row in living)
        truth.ids = sum((self._first + row * self._step) % MODULUS for row in living)
