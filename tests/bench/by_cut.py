"""The bench's rows as Simple (JSON), Open and Canal-JSON send them: those of `order_line`'s Avro, in the same order.

The bytes are put together from pieces that the simulator's encoders have made; a row's image is kept, as the
next change of the row shows it as the old one. tests/unit/test_simulate_bench_by_cut.py decodes the messages and
encodes them again.

Each partition begins with the statement that makes the table; a watermark follows each block of rows, which are
2.5 s by the rows' own clock (TiCDC: about one), and one that covers every partition's rows stands at the end.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import lz4.frame
import pyarrow as pa
from order_line import (
    BASE_MS,
    BLOCK,
    DELETE,
    EVENTS_PER_TRANSACTION,
    INSERT,
    STATUSES,
    UPDATE,
    Ids,
    Stream,
    created,
    order_line,
    pieces,
)

from pipeline.simulate import canal, open_protocol, simple
from pipeline.simulate.ddl import create_table
from pipeline.simulate.files import CanalCodec
from pipeline.simulate.open_protocol import OpenCodec
from pipeline.simulate.simple import Identity, SimpleCodec
from pipeline.simulate.tables import value_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.simulate.tables import Value

Record = tuple[bytes | None, bytes]

MADE = BASE_MS - 1_000 << 18
"""Commit ts of CREATE TABLE."""
VERSION = MADE - (20 << 18)
LAST_MS = 1_000
"""How far the last watermark is beyond the last row."""
BATCH = 16
"""Rows in a record of Open at most."""
SMALLEST = 1e-4
"""From here on `repr` of a float below 1 has no exponent."""


class Event(NamedTuple):
    """A change of the row with that key, and its images."""

    op: str
    key: bytes
    before: bytes
    after: bytes


class Codec(Protocol):
    """What encodes single values of a row."""

    def member(self, column: str, value: Value) -> str:
        """A column's value as an image has it, maybe with its name."""
        ...


class Members:
    """The columns of an image, each with what is behind it (`end`); `around` is what stands beside a value's digits."""

    def __init__(self, codec: Codec, end: bytes = b",") -> None:
        self._codec, self._end = codec, end
        told = pieces()
        kinds = {column.name: column.parsed for column in order_line().columns}
        times = [value_of(kinds["ol_delivery_d"], f"{time}+00:00") for time in told.times]
        places = [(w, d) for w in range(1, 101) for d in range(1, 11)]
        self.amount = self._around("ol_amount", Decimal("7.77"), "7.77")
        self.created = self._around("ol_created", "TIME", "TIME")
        self.districts = [self._piece("ol_d_id", d) for _, d in places]
        self.deliveries = [self._piece("ol_delivery_d", time) for time in times + [None] * len(times)]
        self.discounts = [self._piece("ol_discount", Decimal(n) / 10_000) for n in range(5_001)]
        self.info = self._around("ol_dist_info", "INFO", "INFO")
        self.items = [self._piece("ol_i_id", n) for n in range(1, 20_001)]
        self.id = self._around("ol_id", 777, "777")
        self.metas = [self._piece("ol_meta", meta) for meta in told.meta_texts]
        self.quantities = [self._piece("ol_qty", n) for n in range(11)]
        self.rate = self._around("ol_rate", 0.777, "0.777")
        self.statuses = [self._piece("ol_status", status) for status in STATUSES]
        self.warehouses = [self._piece("ol_w_id", w) for w, _ in places]

    def small_rate(self, rate: float) -> bytes:
        """A rate whose digits the encoder has to find."""
        return self._piece("ol_rate", rate)

    def _piece(self, column: str, value: Value) -> bytes:
        return self._codec.member(column, value).encode() + self._end

    def _around(self, column: str, value: Value, shown: str) -> tuple[bytes, bytes]:
        start, _, end = self._piece(column, value).partition(shown.encode())
        return start, end


@cache
def _simple() -> tuple[SimpleCodec, Members]:
    codec = SimpleCodec(order_line(), Identity(100, VERSION))
    return codec, Members(codec)


@cache
def _open() -> tuple[OpenCodec, Members]:
    codec = OpenCodec(order_line())
    return codec, Members(codec)


class CutStream(Stream):
    """The records of one partition. A protocol says how it begins, ends, and writes what happens in between."""

    def __init__(self, members: Members, seed: str, first: int, step: int) -> None:
        super().__init__(Ids(0, 0), seed, first, step)
        self._members = members
        self._images: list[bytes] = []

    def blocks(self, count: int) -> Iterator[list[Record]]:
        """Yield the records of `count` rows, a block at a time; `truth` is complete at the end."""
        yield [*self._opening(), self._watermark(MADE)]
        for start in range(0, count, BLOCK):
            records = list(self._records(min(BLOCK, count - start)))
            yield [*records, self._watermark(self._closed())]
        yield [self._watermark(self._closed() + (LAST_MS << 18))]
        self._close()

    def _closed(self) -> int:
        """A ts behind the last row, and before the next transaction."""
        return BASE_MS + -(-self._done // EVENTS_PER_TRANSACTION) << 18

    def _next(self) -> Event:
        if self._done % EVENTS_PER_TRANSACTION == 0:
            transaction = self._done // EVENTS_PER_TRANSACTION
            start, end = self._members.created
            self._created = start + created(BASE_MS + transaction).encode() + end
            self._begin(self._commit_ts(transaction))
            self._rows.begin()
        self._done += 1
        op, row = self._rows.next_event()
        self.truth.events[op] += 1
        key = b"%d" % (self._first + row * self._step)
        if op is INSERT:
            after = self._image(row, key)
            self._images.append(after)
            return Event(op, key, b"", after)
        before = self._images[row]
        after = self._images[row] = b"" if op is DELETE else self._image(row, key)
        return Event(op, key, before, after)

    def _image(self, row: int, key: bytes) -> bytes:
        m = self._members
        cents, qty, noise, place, item, discount, status, meta, delivery, rate = self._drawn(row)
        rated = m.rate[0] + repr(rate).encode() + m.rate[1] if rate >= SMALLEST else m.small_rate(rate)
        return b"".join((
            b"{", m.amount[0], b"%d.%02d" % divmod(cents, 100), m.amount[1], self._created, m.districts[place],
            m.deliveries[delivery], m.discounts[discount], m.info[0], self._pieces.noise[noise : noise + 24],
            m.info[1], m.items[item], m.id[0], key, m.id[1], m.metas[meta], m.quantities[qty], rated,
            m.statuses[status], m.warehouses[place][:-1], b"}",
        ))  # fmt: skip

    def in_order(self, row: int, key: bytes) -> list[bytes]:
        """The columns of an image in the order of the table."""
        m = self._members
        cents, qty, noise, place, item, discount, status, meta, delivery, rate = self._drawn(row)
        rated = m.rate[0] + repr(rate).encode() + m.rate[1] if rate >= SMALLEST else m.small_rate(rate)
        return [
            m.id[0] + key + m.id[1], m.warehouses[place], m.districts[place], m.items[item],
            m.amount[0] + b"%d.%02d" % divmod(cents, 100) + m.amount[1], m.discounts[discount], m.quantities[qty],
            m.statuses[status], m.info[0] + self._pieces.noise[noise : noise + 24] + m.info[1], m.metas[meta],
            self._created, m.deliveries[delivery], rated,
        ]  # fmt: skip

    def _opening(self) -> list[Record]:
        raise NotImplementedError

    def _watermark(self, commit_ts: int) -> Record:
        raise NotImplementedError

    def _begin(self, commit_ts: int) -> None:
        """Another transaction."""
        raise NotImplementedError

    def _records(self, rows: int) -> Iterator[Record]:
        raise NotImplementedError


class SimpleStream(CutStream):
    """A record for each row."""

    def __init__(self, seed: str, first: int = 1, step: int = 1) -> None:
        self._codec, members = _simple()
        super().__init__(members, seed, first, step)

    def _opening(self) -> list[Record]:
        statement = simple.ddl_message(create_table(order_line()), self._codec, None, MADE)
        return [(None, statement), (None, self._codec.bootstrap())]

    def _watermark(self, commit_ts: int) -> Record:
        return None, simple.watermark(commit_ts)

    def _begin(self, commit_ts: int) -> None:
        self._heads = {op: self._codec.value(op, None, None, commit_ts)[:-1] for op in (INSERT, UPDATE, DELETE)}

    def _records(self, rows: int) -> Iterator[Record]:
        for _ in range(rows):
            op, _, before, after = self._next()
            data = (b',"data":', after) if after else ()
            old = (b',"old":', before) if before else ()
            yield None, b"".join((self._heads[op], *data, *old, b"}"))


class OpenStream(CutStream):
    """A record for up to `BATCH` rows."""

    def __init__(self, seed: str, first: int = 1, step: int = 1) -> None:
        self._codec, members = _open()
        super().__init__(members, seed, first, step)

    def _opening(self) -> list[Record]:
        made = create_table(order_line())
        return [open_protocol.ddl_message(made.query, made.action, made.schema, made.table, MADE)]

    def _watermark(self, commit_ts: int) -> Record:
        return open_protocol.resolved(commit_ts)

    def _begin(self, commit_ts: int) -> None:
        self._key, _, self._end = self._codec.key({"ol_id": 777}, commit_ts).rpartition(b"777")

    def _records(self, rows: int) -> Iterator[Record]:
        for start in range(0, rows, BATCH):
            yield open_protocol.record([self._row() for _ in range(min(BATCH, rows - start))])

    def _row(self) -> tuple[bytes, bytes]:
        op, key, before, after = self._next()
        if op is DELETE:
            value = b'{"d":%b}' % before
        else:
            value = b'{"u":%b,"p":%b}' % (after, before) if before else b'{"u":%b}' % after
        return self._key + key + self._end, value


class CanalStream(CutStream):
    """A record for each row, with `enable-tidb-extension`; statements stand in partition 0 alone."""

    def __init__(self, seed: str, first: int = 1, step: int = 1) -> None:
        super().__init__(_canal(), seed, first, step)
        self._is_first = first == 1
        row: dict[str, Value] = dict.fromkeys(column.name for column in order_line().sent_columns)
        line = CanalCodec(order_line()).lines("insert", None, row, 1 << 18).encode()
        self._head, _, rest = line.partition(b'"type":"INSERT"')
        self._kinds = rest[rest.index(b'"sql":""') : rest.index(b'"old":null')]

    def _opening(self) -> list[Record]:
        return [(None, canal.ddl_message(create_table(order_line()), MADE))] if self._is_first else []

    def _image(self, row: int, key: bytes) -> bytes:
        return b"{" + b",".join(self.in_order(row, key)) + b"}"

    def _watermark(self, commit_ts: int) -> Record:
        return None, canal.watermark(commit_ts)

    def _begin(self, commit_ts: int) -> None:
        self._ts = commit_ts

    def _records(self, rows: int) -> Iterator[Record]:
        for _ in range(rows):
            op, _, before, after = self._next()
            ms, old = self._ts >> 18, b"[" + before + b"]" if op is UPDATE else b"null"
            yield None, b'%b"type":"%b","es":%d,"ts":%d,%b"old":%b,"data":[%b],"_tidb":{"commitTs":%d}}' % (
                self._head, op.upper().encode(), ms, ms, self._kinds, old, after or before, self._ts,
            )  # fmt: skip


@cache
def _canal() -> Members:
    return Members(CanalCodec(order_line()), end=b"")


class Lz4Stream(CanalStream):
    """The same, each message compressed inside (`large-message-handle-compression`)."""

    def blocks(self, count: int) -> Iterator[list[Record]]:
        """See `CutStream.blocks`."""
        for block in super().blocks(count):
            yield [(key, self.packed(value)) for key, value in block]

    def packed(self, value: bytes) -> bytes:
        """A message as TiCDC compresses it."""
        return lz4.frame.compress(value)


class SnappyStream(Lz4Stream):
    """The same by Snappy's block format."""

    def packed(self, value: bytes) -> bytes:
        """See `Lz4Stream.packed`."""
        return bytes(pa.compress(value, codec="snappy", asbytes=True))


BY_CUT: dict[str, type[SimpleStream | OpenStream | CanalStream]] = {
    "simple": SimpleStream,
    "open-protocol": OpenStream,
    "canal-json": CanalStream,
    "canal-json-lz4": Lz4Stream,
    "canal-json-snappy": SnappyStream,
}
