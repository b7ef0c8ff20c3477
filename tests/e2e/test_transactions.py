"""A transaction is never seen half: at every cut all tables are the source's of that moment, however rows arrived.

Records of several partitions are delivered at random, as far as TiCDC lets one run ahead of another, into batches that
end anywhere.
"""

from __future__ import annotations

import json
import os
from decimal import Decimal

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from golden.corpus import Record
from golden.delivery import boundaries, dice_of, uneven
from golden.warehouse import Warehouse
from support.slow import EVERY, few

from pipeline.cli import main
from pipeline.service import Pipeline
from pipeline.settings import load
from pipeline.simulate.database import Database
from pipeline.simulate.senders import OpenSender, SimpleSender
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable
from pipeline.simulate.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

PARTITIONS = 3
ACCOUNTS = 12
START = Decimal("100.00")
TRANSFERS = 150
PIECES = 7
BATCHES = 12
SENDERS = {"simple": SimpleSender, "open-protocol": OpenSender}
SEEDS = os.environ.get("TICDC_WAREHOUSE_SEEDS", "0 1 2" if EVERY else "0").split()
"""Any words: each throws the dice anew."""
ACCOUNT = SimulatedTable(
    "bank",
    "account",
    (
        SimulatedColumn("id", "bigint", nullable=False),
        SimulatedColumn("balance", "decimal(12,2)", nullable=False),
        SimulatedColumn("state", "enum('open','frozen')", nullable=False, default="open"),
    ),
    primary_key=("id",),
)
ENTRY = SimulatedTable(
    "bank",
    "entry",
    (SimulatedColumn("n", "bigint", nullable=False), SimulatedColumn("amount", "decimal(12,2)", nullable=False)),
    primary_key=("n",),
)


class Shelf:
    """Takes records in place of Kafka's topics, to deliver them later; `kind` is what is being sent."""

    def __init__(self):
        self.kind, self.commit_ts, self.records = "", 0, []

    def partitions(self, topic):
        del topic
        return PARTITIONS

    def send(self, topic, partition, key, value):
        self._keep(topic, partition, key, value, self.kind)

    def broadcast(self, topic, value):
        for partition in range(PARTITIONS):
            self._keep(topic, partition, None, value, "bootstrap" if self.kind == "row" else self.kind)

    def flush(self):
        """Nothing waits here."""

    def _keep(self, topic, partition, key, value, kind):
        seq = len(self.records)
        self.records.append(Record(seq, seq, topic, partition, key, value, self.commit_ts, kind, ""))


class History:
    """Transfers between accounts: what a changefeed says of them, and the tables behind each commit ts."""

    def __init__(self, protocol, seed, topic):
        self.dice = dice_of("transfers", protocol, seed)
        self.shelf = Shelf()
        self.sender = SENDERS[protocol](self.shelf, topic, "UTC")
        self.database = Database()
        self.states = {0: {}}
        self.next = ACCOUNTS + 1

    def happen(self):
        """Everything, with watermarks between."""
        for made in (self.database.create_schema("bank"), *map(self.database.create_table, (ACCOUNT, ENTRY))):
            self._told(made)
        self._do(lambda writer: [self._open(writer, number) for number in range(1, ACCOUNTS + 1)])
        for number in range(TRANSFERS):
            self._do(self.dice.choice((self._transfer, self._transfer, self._transfer, self._renumber, self._close)))
            if number == TRANSFERS // 2:
                column = SimulatedColumn("branch", "varchar(20)", nullable=False, default="main")
                self._told(self.database.add_column("bank", "account", column))
            if self.dice.random() < 0.25:
                self._watermark()
        self._watermark()

    def at(self, commit_ts):
        """The tables at a moment."""
        return self.states[max(ts for ts in self.states if ts <= commit_ts)]

    def _do(self, change):
        writer = self.database.begin()
        change(writer)
        self._told(self.database.commit(writer))

    def _told(self, transaction):
        ts = transaction.commit_ts
        if transaction.ddl is not None:
            self._about_to_send("ddl", ts)
            self.sender.ddl(transaction.ddl, ts)
        self._about_to_send("row", ts)
        for event in transaction.events:
            self.sender.row(event, ts)
        self.states[ts] = {
            f"bank.{table.name}": self.database.rows("bank", table.name) for table in self.database.tables()
        }

    def _watermark(self):
        ts = max(self.states)
        self._about_to_send("resolved", ts)
        self.sender.checkpoint(ts)

    def _about_to_send(self, kind, commit_ts):
        if kind != "row":
            self.sender.flush()  # rows that wait for a full record
        self.shelf.kind, self.shelf.commit_ts = kind, commit_ts

    def _ids(self, count):
        return self.dice.sample([row["id"] for row in self.database.rows("bank", "account")], count)

    def _open(self, writer, number, balance=START):
        writer.insert("bank", "account", {"id": number, "balance": balance})

    def _book(self, writer, number, amount):
        row = writer.read("bank", "account", (number,))
        writer.update("bank", "account", (number,), {"balance": row["balance"] + amount})

    def _transfer(self, writer):
        one, other = self._ids(2)
        amount = Decimal(self.dice.randint(1, 5000)) / 100
        self._book(writer, one, -amount)
        self._book(writer, other, amount)
        self.next += 1
        writer.insert("bank", "entry", {"n": self.next, "amount": amount})

    def _renumber(self, writer):
        (one,) = self._ids(1)
        self.next += 1
        writer.update("bank", "account", (one,), {"id": self.next, "state": "frozen"})

    def _close(self, writer):
        """An account goes, what it has goes to another one; a new one opens with some of that."""
        one, other = self._ids(2)
        balance = writer.read("bank", "account", (one,))["balance"]
        writer.delete("bank", "account", (one,))
        self._book(writer, other, balance - START)
        self.next += 1
        self._open(writer, self.next)


def delivered(stack, settings, topic, records, dice):
    """Deliver the records in pieces and take each when it is there."""
    admin = AdminClient({"bootstrap.servers": stack.bootstrap_servers})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS)]).values():
        made.result(30)
    kafka = Topics(stack.bootstrap_servers, PARTITIONS, {})
    with Pipeline.open(settings) as pipeline:
        for piece in uneven(records, boundaries(records, PIECES, dice), dice):
            for record in piece:
                kafka.send(topic, record.partition, record.key, record.value)
            kafka.flush()
            pipeline.run(available_now=True)
    return Warehouse.at(settings.warehouse.path)


def shown(warehouse):
    """For each cut, in order: its commit ts, and the tables as their snapshots have them."""
    names, rows = warehouse.by_uuid(), warehouse.own("cuts")
    newest = {}
    for batch, ts in sorted({(row["batch_id"], row["cut_ts"]) for row in rows}):
        newest |= {row["table_uuid"]: row for row in rows if (row["batch_id"], row["cut_ts"]) == (batch, ts)}
        found = {names[uuid]: warehouse.current(names[uuid], row["snapshot_id"]).rows for uuid, row in newest.items()}
        yield ts, {name: [row.values for row in rows] for name, rows in found.items()}


def by_key(tables):
    """Tables as something that can be compared; one that has no rows is as one that is not there."""
    return {name: sorted(map(repr, map(sorted, map(dict.items, rows)))) for name, rows in tables.items() if rows}


def asked_for(file, ts, capsys, *words):
    """What `tables as-of` names at a moment: its document, and the rows that its PyIceberg expressions read."""
    capsys.readouterr()
    assert main(["tables", "as-of", str(ts), *words, "--output", "json", "-c", str(file)]) == 0
    told = json.loads(capsys.readouterr().out)
    catalog = Warehouse.at(file.parent / "warehouse").catalog
    read = {uuid: eval(said, {"catalog": catalog}) for uuid, said in told["pyiceberg"].items()}  # noqa: S307 - its own
    return told, by_source(told, {uuid: rows.to_pylist() for uuid, rows in read.items()})


def by_source(told, found):
    """Rows by uuid as the source's, by the names that tables had at that moment."""
    names = {row["uuid"]: row["source"] for row in told["tables"]}
    return {
        names[uuid]: [{name: value for name, value in row.items() if name[0] != "_"} for row in rows]
        for uuid, rows in found.items()
    }


def queried(file, told):
    """The rows that the Spark SQL of `tables as-of` reads."""
    with Pipeline.open(load(file)) as pipeline:
        found = {uuid: pipeline.context.spark.sql(query).collect() for uuid, query in told["spark_sql"].items()}
    return by_source(told, {uuid: [row.asDict() for row in rows] for uuid, rows in found.items()})


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("protocol", few("open-protocol", "simple"))
@pytest.mark.slow
def test_at_every_cut_each_transaction_is_there_whole_or_not_at_all(protocol, seed, stack, tmp_path, capsys):
    topic = f"transfers-{protocol}-{seed}"
    history = History(protocol, seed, topic)
    history.happen()
    tree = {
        "name": "transfers",
        "source": {
            "kind": "kafka",
            "protocol": protocol,
            "bootstrap_servers": stack.bootstrap_servers,
            "topics": [topic],
            "max_offsets_per_trigger": len(history.shelf.records) // BATCHES,
        },
        "warehouse": {"path": "./warehouse"},
        "checkpoint": "./checkpoint",
        "spark": {"master": "local[2]", "conf": {"spark.sql.shuffle.partitions": "2"}},
    }
    file = tmp_path / "ticdc-warehouse.yaml"
    file.write_text(json.dumps(tree))
    warehouse = delivered(stack, load(file), topic, history.shelf.records, history.dice)
    cuts = list(shown(warehouse))
    assert len({ts for ts, _ in cuts}) >= PIECES
    for ts, tables in cuts:
        money = sum(row["balance"] for row in tables.get("bank.account", ()))
        assert money in (0, ACCOUNTS * START), f"at {ts} a part of a transfer shows"
        assert by_key(tables) == by_key(history.at(ts)), f"at {ts}"
    assert cuts[-1][0] == max(history.states)
    assert {row["level"] for row in warehouse.own("cuts")} == {"exact"}
    stamps = sorted({ts for ts, _ in cuts})
    for wanted in (stamps[len(stamps) // 2], stamps[-2] + 1, stamps[-1]):
        told, rows = asked_for(file, wanted, capsys, "--look")
        assert (told["cut_ts"], told["level"]) == (max(ts for ts in stamps if ts <= wanted), "exact")
        assert by_key(rows) == by_key(history.at(told["cut_ts"])), f"asked for {wanted}"
    told, _ = asked_for(file, stamps[len(stamps) // 2], capsys)
    assert told["tag"] == f"cut_{told['cut_ts']}"
    assert all(query.endswith(f"VERSION AS OF '{told['tag']}'") for query in told["spark_sql"].values())
    assert by_key(queried(file, told)) == by_key(history.at(told["cut_ts"]))
