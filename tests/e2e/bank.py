"""A small bank and its changefeed in watermark mode: every kind of change in a handful of records a round."""

from __future__ import annotations

import json
import random
import uuid
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Message, TopicPartition
from e2e.processes import spark_of

from pipeline.simulate import SimulatedChangefeed
from pipeline.simulate.avro import ddl_message
from pipeline.simulate.database import Database
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pipeline.devstack import Devstack
    from pipeline.simulate.database import Transacting

SCHEMA = "bank"
ACCOUNT = SimulatedTable(
    SCHEMA,
    "account",
    (
        SimulatedColumn("id", "bigint", nullable=False),
        SimulatedColumn("owner", "varchar(60)", nullable=False),
        SimulatedColumn("balance", "decimal(12,2)", nullable=False, default="0"),
    ),
    primary_key=("id",),
    unique=(("owner",),),
)
ENTRY = SimulatedTable(
    SCHEMA,
    "entry",
    (
        SimulatedColumn("account", "bigint", nullable=False),
        SimulatedColumn("line", "int", nullable=False),
        SimulatedColumn("amount", "decimal(12,2)", nullable=False),
        SimulatedColumn("booked", "datetime(3)"),
    ),
    primary_key=("account", "line"),
)
NOTE = SimulatedTable(
    SCHEMA,
    "note",
    (SimulatedColumn("code", "varchar(20)", nullable=False), SimulatedColumn("text", "varchar(200)")),
    primary_key=("code",),
    clustered=False,
)
TABLES = (ACCOUNT, ENTRY, NOTE)
_CONTROL = (1, 2)
_PATIENCE = 30


class Bank:
    """The source: a database whose rows are the truth, and what Kafka was told of it."""

    def __init__(
        self,
        stack: Devstack,
        seed: int,
        tables: tuple[SimulatedTable, ...] = TABLES,
        *,
        watermarks: bool = True,
        prefix: str | None = None,
    ) -> None:
        self.stack, self.tables, self.watermarks = stack, tables, watermarks
        self.prefix = prefix or f"bank{uuid.uuid4().hex[:6]}"
        self.database = Database()
        self.feed = SimulatedChangefeed(
            stack.bootstrap_servers, stack.registry_url, prefix=self.prefix, watermarks=watermarks
        )
        self._dice = random.Random(seed)  # noqa: S311 - no secret
        self._next = 1
        self.last_ts = 0

    def topic(self, table: SimulatedTable) -> str:
        """The table's topic."""
        return f"{self.prefix}_{table.schema}_{table.name}"

    def open(self) -> None:
        """CREATE DATABASE and the tables, as the stream tells it."""
        self.feed.send(self.database.create_schema(SCHEMA))
        for table in self.tables:
            self.feed.send(self.database.create_table(table))

    def rounds(self, count: int) -> None:
        """So many rounds: inserts, updates, deletes and changed keys in every table, then a watermark."""
        for _ in range(count):
            for change in (self._insert, self._insert, self._update, self._move, self._delete):
                self._commit(change)
            self.checkpoint()
        self.feed.flush()

    def checkpoint(self) -> None:
        """Tell every partition that everything until now has been sent."""
        if self.watermarks:
            self.feed.checkpoint(self.last_ts)
        self.feed.flush()

    def many(self, count: int) -> None:
        """So many new accounts, in one transaction."""
        self._commit(lambda writer: [self._account(writer) for _ in range(count)])
        self.feed.flush()

    def add_column(self, name: str = "branch") -> None:
        """ADD COLUMN with a default: rows that are there show it from now on."""
        column = SimulatedColumn(name, "varchar(20)", nullable=False, default="main street")
        self.feed.send(self.database.add_column(SCHEMA, ACCOUNT.name, column))

    def truncate(self, table: SimulatedTable) -> None:
        """TRUNCATE: TiCDC sends the statement and no row."""
        writer = self.database.begin()
        for row in self.database.rows(table.schema, table.name):
            writer.delete(table.schema, table.name, table.key_of(row))
        self._say(table, f"TRUNCATE TABLE `{table.schema}`.`{table.name}`", 11, self.database.commit(writer).commit_ts)

    def puzzle(self, table: SimulatedTable) -> None:
        """Send a statement that nobody can apply: rows come and go unsent. Here none does, so the truth stays."""
        moment = self.database.commit(self.database.begin()).commit_ts
        sql = f"ALTER TABLE `{table.schema}`.`{table.name}` EXCHANGE PARTITION `p` WITH TABLE `{table.schema}`.`other`"
        self._say(table, sql, 42, moment)

    def rubbish(self, table: SimulatedTable = ENTRY) -> None:
        """Write something that is no Avro at the end of each partition."""
        for partition in range(self.feed.partitions):
            self.feed._channel.send(self.topic(table), partition, b"who", b"no Avro at all")
        self.feed.flush()

    def poison(self, table: SimulatedTable = ENTRY) -> None:
        """Write what begins as a watermark or a delete does, and has no ts behind it; with the key of a row."""
        key = next(message.key() for message in self._consumed([self.topic(table)]) if message.key())
        for value in (b"\x02" + b"\xff" * 8, b"\x03" + b"\x80" + bytes(7), b"\x03", b"\x02" + bytes(7)):
            self.feed._channel.send(self.topic(table), 0, key, value)
        self.feed.flush()

    def torn(self, table: SimulatedTable = ENTRY) -> None:
        """Write a row that ends in the middle."""
        values = [message.value() for message in self._consumed([self.topic(table)]) if message.key()]
        whole = next(value for value in values if value and value[0] == 0)
        self.feed._channel.send(self.topic(table), 0, b"torn", whole[:-3])
        self.feed.flush()

    def settings(self, folder: Path, java: str = "", **changes: object) -> Path:
        """The configuration file of a warehouse in this folder; `changes` are merged into sections."""
        tree: dict[str, dict[str, object] | str] = {
            "name": "bank",
            "source": {
                "kind": "kafka",
                "protocol": "avro",
                "bootstrap_servers": self.stack.bootstrap_servers,
                "topic_pattern": f"{self.prefix}_.*",
            },
            "registry": {"url": self.stack.registry_url},
            "changefeed": {"avro-enable-watermark": self.watermarks},
            "warehouse": {"path": "./warehouse", "table_threads": 2},
            "checkpoint": "./checkpoint",
            "trigger": "1 second",
            "spark": spark_of(java),
        }
        for section, more in changes.items():
            known = tree.get(section)
            tree[section] = {**known, **more} if isinstance(known, dict) and isinstance(more, dict) else more  # type: ignore[assignment]
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "ticdc-warehouse.yaml"
        file.write_text(json.dumps(tree))  # JSON is YAML
        return file

    def records(self) -> list[tuple[str, int, int, bool]]:
        """Every record in Kafka as (topic, partition, offset, whether it is a control message)."""
        found = []
        for message in self._consumed(self.topics()):
            value = message.value()
            control = not message.key() and bool(value) and value[0] in _CONTROL
            found.append((message.topic(), message.partition(), message.offset(), control))
        return sorted(found)

    def topics(self) -> list[str]:
        """Every topic of the changefeed."""
        return self.feed._channel.known()

    def truth(self, table: SimulatedTable) -> list[dict[str, object]]:
        """The table's rows, as SELECT * would."""
        return self.database.rows(table.schema, table.name)

    def close(self) -> None:
        """Let the connections go."""
        self.feed.close()

    def _say(self, table: SimulatedTable, sql: str, action: int, commit_ts: int) -> None:
        message = ddl_message(sql, action, table.schema, table.name, commit_ts)
        self.feed._channel.broadcast(self.topic(table), message)

    def _commit(self, change: Callable[[Transacting], None]) -> None:
        writer = self.database.begin()
        change(writer)
        transaction = self.database.commit(writer)
        self.feed.send(transaction)
        self.last_ts = transaction.commit_ts

    def _insert(self, writer: Transacting) -> None:
        number = self._account(writer)
        for line in (1, 2) if ENTRY in self.tables else ():
            writer.insert(SCHEMA, "entry", {"account": number, "line": line, "amount": self._dice.randrange(10**6)})
        if NOTE in self.tables:
            writer.insert(SCHEMA, "note", {"code": f"n{number}", "text": f"№{number}"})

    def _account(self, writer: Transacting) -> int:
        number = self._next
        self._next += 1
        row = {"id": number, "owner": f"Zoë {number}", "balance": self._dice.randrange(10**6)}
        writer.insert(SCHEMA, "account", row)
        return number

    def _update(self, writer: Transacting) -> None:
        for table, change in ((ACCOUNT, "balance"), (ENTRY, "amount")):
            if key := self._some(table):
                writer.update(SCHEMA, table.name, key, {change: self._dice.randrange(10**6)})
        if key := self._some(NOTE):
            writer.update(SCHEMA, "note", key, {"text": self._dice.choice((None, "changed"))})

    def _move(self, writer: Transacting) -> None:
        """Change keys: a clustered one, a unique one, one that is not clustered."""
        self._next += 1
        if key := self._some(ENTRY):
            writer.update(SCHEMA, "entry", key, {"line": 100 + self._next})
        if key := self._some(ACCOUNT):
            writer.update(SCHEMA, "account", key, {"owner": f"Åsa {self._next}"})
        if key := self._some(NOTE):
            writer.update(SCHEMA, "note", key, {"code": f"m{self._next}"})

    def _delete(self, writer: Transacting) -> None:
        for table in self.tables:
            if key := self._some(table):
                writer.delete(SCHEMA, table.name, key)

    def _some(self, table: SimulatedTable) -> tuple[object, ...] | None:
        rows = self.truth(table) if table in self.tables else []
        return table.key_of(self._dice.choice(rows)) if rows else None  # type: ignore[arg-type, return-value]

    def _consumed(self, topics: Iterable[str]) -> Iterator[Message]:
        """Every record that the topics have now, partition by partition in order."""
        settings = {"bootstrap.servers": self.stack.bootstrap_servers, "group.id": uuid.uuid4().hex}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        try:
            left, starts = {}, []
            for at in [TopicPartition(topic, number) for topic in topics for number in range(self.feed.partitions)]:
                low, high = consumer.get_watermark_offsets(at, _PATIENCE)
                if low < high:
                    left[at.topic, at.partition] = high
                    starts.append(TopicPartition(at.topic, at.partition, low))
            consumer.assign(starts)
            while left:
                message = consumer.poll(_PATIENCE)
                assert message is not None
                assert message.error() is None, message.error()
                place = (message.topic(), message.partition())
                if message.offset() + 1 >= left.get(place, 0):
                    left.pop(place, None)
                yield message
        finally:
            consumer.close()
