"""A small bank told by Simple or Open, and its warehouse: for tests of the ordering by commit ts."""

import dataclasses
import json
import uuid
from contextlib import contextmanager
from decimal import Decimal

import yaml
from e2e import judging
from e2e.bank import ACCOUNT, NOTE, SCHEMA
from e2e.deaths import Death
from e2e.processes import spark_of
from golden.warehouse import Warehouse
from support.steps import watch

from pipeline.model.names import TableName
from pipeline.operations.redrive import Selection, redrive
from pipeline.operations.release import release
from pipeline.service import Pipeline
from pipeline.settings import load
from pipeline.simulate import SimulatedChangefeed
from pipeline.simulate.database import Database, RowEvent
from pipeline.simulate.ddl import SimulatedDdl

NAME = TableName(SCHEMA, ACCOUNT.name)
RENAME_TABLE, EXCHANGE_PARTITION = 14, 42


class Till:
    """A small bank told by Simple or Open, and its warehouse. Each opening reads the suites anew."""

    def __init__(self, stack, folder, protocol):
        self.folder = folder
        self.database = Database()
        prefix = f"till{uuid.uuid4().hex[:6]}"
        self.feed = SimulatedChangefeed(
            stack.bootstrap_servers, prefix=prefix, protocol=protocol, watermark_every=10**6
        )
        self.last_ts = 0
        self._tell(self.database.create_schema(SCHEMA))
        for table in (ACCOUNT, NOTE):
            self._tell(self.database.create_table(table))
        tree = {
            "name": "till",
            "source": {
                "kind": "kafka",
                "protocol": protocol,
                "bootstrap_servers": stack.bootstrap_servers,
                "topics": [f"{prefix}_cdc"],
            },
            "warehouse": {"path": "./warehouse", "table_threads": 2},
            "quality": {"suites": "./checks"},
            "checkpoint": "./checkpoint",
            "spark": spark_of(),
        }
        self.file = folder / "ticdc-warehouse.yaml"
        self.file.write_text(json.dumps(tree))
        (folder / "checks").mkdir()
        self.expect()

    def expect(self, *checks, table=str(NAME)):
        """Write the suite of the accounts, or of a table in its place."""
        text = yaml.safe_dump({"table": table, "checks": list(checks)})
        (self.folder / "checks" / "account.yaml").write_text(text)

    def set(self, section, **values):
        """Change settings of a section."""
        tree = json.loads(self.file.read_text())
        self.file.write_text(json.dumps({**tree, section: {**tree.get(section, {}), **values}}))

    def accounts(self, *rows):
        """Insert accounts (id, balance), a transaction each."""
        for number, balance in rows:
            row = {"id": number, "owner": f"o{number}", "balance": balance}
            self._commit(lambda writer, row=row: writer.insert(SCHEMA, "account", row))

    def note(self, code):
        self._commit(lambda writer: writer.insert(SCHEMA, "note", {"code": code, "text": "of no account"}))

    def change(self, number, **values):
        self._commit(lambda writer: writer.update(SCHEMA, "account", (number,), values))

    def row(self, table, before, after):
        """A row event of a transaction of its own, which the source does not carry out."""
        op = "insert" if before is None else "delete" if after is None else "update"
        moment = self.database.commit(self.database.begin()).commit_ts
        self.feed._sender.row(RowEvent(table, op, before, after, 1), moment)
        self.last_ts = moment

    def delete(self, number):
        self._commit(lambda writer: writer.delete(SCHEMA, "account", (number,)))

    def lost_version(self, *rows):
        """Insert accounts under a version of the table that nothing describes."""
        for number, balance in rows:
            moment = self.database.commit(self.database.begin()).commit_ts
            codec = self.feed._sender._codec(self.database.table(SCHEMA, ACCOUNT.name), moment)
            row = {"id": number, "owner": f"o{number}", "balance": Decimal(balance)}
            sent = json.loads(codec.value("insert", None, row, moment))
            value = json.dumps({**sent, "schemaVersion": sent["schemaVersion"] + 1}, separators=(",", ":"))
            self.feed._channel.send(f"{self.feed.prefix}_cdc", 0, None, value.encode())
            self.last_ts = moment

    def undescribed(self, table, number, sent_at=None):
        """Insert a row of a table that no message describes; gives its commit ts."""
        moment = sent_at or self.database.commit(self.database.begin()).commit_ts
        value = self.feed._sender._codec(table, moment).value("insert", None, {"id": number}, moment)
        self.feed._channel.send(f"{self.feed.prefix}_cdc", 0, None, value)
        self.last_ts = max(self.last_ts, moment)
        return moment

    def bootstrap(self, table, moment):
        """Describe a table."""
        self.feed._channel.send(f"{self.feed.prefix}_cdc", 0, None, self.feed._sender._codec(table, moment).bootstrap())

    def puzzle(self):
        """A statement that nobody can apply; it moves no row."""
        sql = "ALTER TABLE `bank`.`account` EXCHANGE PARTITION `p` WITH TABLE `bank`.`other`"
        self.say(sql, EXCHANGE_PARTITION, self.database.table(SCHEMA, ACCOUNT.name))

    def say(self, sql, action, before=None, after=None):
        """A statement about a table, or a database, which the source does not carry out; gives its commit ts."""
        moment = self.database.commit(self.database.begin()).commit_ts
        after = after or before
        self.feed._sender.ddl(SimulatedDdl(sql, action, SCHEMA, after.name if after else "", after, before), moment)
        self.last_ts = moment
        return moment

    def swap(self, *, backwards=False):
        """RENAME TABLE account TO account_old, note TO account: a message for each; gives both tables behind it.

        `backwards`: the last one first, as TiCDC may send them.
        """
        moment = self.database.commit(self.database.begin()).commit_ts
        account, note = (self.database.table(SCHEMA, table.name) for table in (ACCOUNT, NOTE))
        old = dataclasses.replace(account, name="account_old", version=98)
        new = dataclasses.replace(note, name="account", version=99)
        renamed = ((account, old), (note, new))
        for before, after in reversed(renamed) if backwards else renamed:
            sql = f"RENAME TABLE `bank`.`{before.name}` TO `bank`.`{after.name}`"
            self.feed._sender.ddl(SimulatedDdl(sql, RENAME_TABLE, SCHEMA, after.name, after, before), moment)
        self.last_ts = moment
        return old, new

    def sent(self):
        """All of it is in Kafka, and a watermark says so."""
        self.feed.checkpoint(self.last_ts)
        self.feed.flush()

    def run(self, metrics=None, dies_at=""):
        self.sent()
        with Pipeline.open(load(self.file), metrics=metrics) as pipeline:
            if dies_at:
                watch(pipeline, dying(dies_at))
            pipeline.run(available_now=True)

    def redrive(self, dies_at="", **selection):
        with Pipeline.open(load(self.file)) as pipeline:
            watch(pipeline, dying(dies_at))
            return redrive(pipeline.context, Selection(**selection))

    def release(self, dies_at="", name=NAME):
        with Pipeline.open(load(self.file)) as pipeline:
            watch(pipeline, dying(dies_at))
            return release(pipeline.context, name)

    @contextmanager
    def living(self):
        """A run that does operations between its batches: gives the pipeline and what lets it take what was sent."""
        with Pipeline.open(load(self.file)) as pipeline:

            def takes():
                self.sent()
                pipeline.run(available_now=True)

            yield pipeline, takes

    @property
    def warehouse(self):
        return Warehouse.at(self.folder / "warehouse")

    def own(self, name, **like):
        rows = self.warehouse.own(name)
        return [row for row in rows if all(row[column] == value for column, value in like.items())]

    def balances(self):
        return {row.values["id"]: row.values["balance"] for row in self.warehouse.current(str(NAME)).rows}

    def cut(self):
        """Level and reason of the newest cut."""
        newest = max(self.own("cuts"), key=lambda row: (row["batch_id"], row["cut_ts"], row["recorded_at"]))
        return newest["level"], newest["reason"]

    def assert_right(self, *, complete=True):
        """Nothing twice, nothing left over; `complete`: the tables are the source's."""
        if complete:
            for table in (ACCOUNT, NOTE):
                want = {row[table.primary_key[0]]: row for row in self.database.rows(SCHEMA, table.name)}
                found = self.warehouse.current(table.full_name)
                have = {row.values[table.primary_key[0]]: row.values for row in (found.rows if found else ())}
                assert have == want
        changes = [
            (name, *place) for name, rows in self.warehouse.changes().items() for place in map(judging.place, rows)
        ]
        held = [(row["topic"], row["kafka_partition"], row["offset"], row["key"]) for row in self.own("held")]
        assert len(set(changes)) == len(changes)
        assert len(set(held)) == len(held)
        for batch in self.own("batches"):
            counted = sum(batch[name] for name in ("inserts", "updates", "deletes", "quarantined", "dead_letters"))
            assert batch["rows_in"] >= counted, batch
        assert {name: found for name, found in self.warehouse.branches().items() if found - {"main"}} == {}

    def _commit(self, change):
        writer = self.database.begin()
        change(writer)
        self._tell(self.database.commit(writer))

    def _tell(self, transaction):
        self.feed.send(transaction)
        self.last_ts = transaction.commit_ts


def dying(wanted):
    """`wanted` as in `failpoints`: a step, or the time of one (`evolved@2`)."""
    name, _, times = wanted.partition("@")
    passed = []

    def step(one):
        passed.append(one)
        if one == name and passed.count(name) == int(times or "1"):
            raise Death

    return step
