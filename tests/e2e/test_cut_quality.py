"""Suites at work in the cut regime: what is set aside or held makes cuts partial, and comes back where it belongs."""

import json
import uuid

import pytest
import yaml
from e2e import judging
from e2e.bank import ACCOUNT, NOTE, SCHEMA
from e2e.processes import spark_of
from golden.corpus import EVERY
from golden.warehouse import Warehouse

from pipeline.model.names import TableName
from pipeline.settings import load
from pipeline.simulate import Changefeed
from pipeline.simulate.database import Database
from pipeline.simulate.ddl import Ddl
from pipeline.streaming import Pipeline
from pipeline.streaming.redrive import Redriven, Selection, redrive
from pipeline.streaming.release import release

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

NAME = TableName(SCHEMA, ACCOUNT.name)
ALTER, EXCHANGE_PARTITION = 5, 42
"""Simple calls the second what it calls the first."""


def no_debt(severity, least=0):
    return {
        "expect_column_values_to_be_between": {"column": "balance", "min_value": least},
        "name": "no_debt",
        "severity": severity,
    }


class Death(BaseException):
    """The end of the process: nothing behind it is done."""


class Till:
    """A small bank told by Simple or Open, and its warehouse. Each opening reads the suites anew."""

    def __init__(self, stack, folder, protocol):
        self.folder = folder
        self.database = Database()
        prefix = f"till{uuid.uuid4().hex[:6]}"
        self.feed = Changefeed(stack.bootstrap_servers, prefix=prefix, protocol=protocol, watermark_every=10**6)
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

    def expect(self, *checks):
        """Write the suite of the accounts."""
        text = yaml.safe_dump({"table": str(NAME), "checks": list(checks)})
        (self.folder / "checks" / "account.yaml").write_text(text)

    def accounts(self, *rows):
        """Insert accounts (id, balance), a transaction each."""
        for number, balance in rows:
            row = {"id": number, "owner": f"o{number}", "balance": balance}
            self._commit(lambda writer, row=row: writer.insert(SCHEMA, "account", row))

    def note(self, code):
        self._commit(lambda writer: writer.insert(SCHEMA, "note", {"code": code, "text": "of no account"}))

    def change(self, number, **values):
        self._commit(lambda writer: writer.update(SCHEMA, "account", (number,), values))

    def delete(self, number):
        self._commit(lambda writer: writer.delete(SCHEMA, "account", (number,)))

    def puzzle(self):
        """A statement that nobody can obey; it moves no row."""
        moment = self.database.commit(self.database.begin()).commit_ts
        sql = "ALTER TABLE `bank`.`account` EXCHANGE PARTITION `p` WITH TABLE `bank`.`other`"
        table = next(table for table in self.database.tables() if table.name == ACCOUNT.name)
        action = ALTER if self.feed.protocol == "simple" else EXCHANGE_PARTITION
        self.feed._sender.ddl(Ddl(sql, action, SCHEMA, ACCOUNT.name, table, table), moment)
        self.last_ts = moment

    def run(self):
        self.feed.checkpoint(self.last_ts)
        self.feed.flush()
        with Pipeline.open(load(self.file)) as pipeline:
            pipeline.run(available_now=True)

    def redrive(self, dies_at="", **selection):
        with Pipeline.open(load(self.file)) as pipeline:
            pipeline.bench.step = dying(dies_at)
            return redrive(pipeline.bench, Selection(**selection))

    def release(self, dies_at=""):
        with Pipeline.open(load(self.file)) as pipeline:
            pipeline.bench.step = dying(dies_at)
            return release(pipeline.bench, NAME)

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
    def step(name):
        if name == wanted:
            raise Death

    return step


PROTOCOLS = ("simple", "open-protocol") if EVERY else ("simple",)
REDRIVE_STEPS = ("redrive-begun", "redrive-appended", "redrive-marked") if EVERY else ("redrive-appended",)
RELEASE_STEPS = (
    ("release-begun", "changes-appended", "published", "ledger-appended") if EVERY else ("changes-appended",)
)


@pytest.fixture(params=PROTOCOLS)
def till(request, stack, tmp_path):
    made = Till(stack, tmp_path, request.param)
    yield made
    made.feed.close()


@pytest.fixture
def simple(stack, tmp_path):
    made = Till(stack, tmp_path, "simple")
    yield made
    made.feed.close()


class TestQuarantine:
    def test_rows_come_back_when_the_suite_is_mended_and_until_then_cuts_are_partial(self, till):
        till.expect(no_debt("quarantine"))
        till.accounts((1, 500), (2, -500), (3, -90000))
        till.run()
        assert sorted(till.balances()) == [1]
        assert till.cut() == ("partial", "2 in quarantine")
        till.expect(no_debt("quarantine", least=-1000))
        assert till.redrive() == Redriven(redriven=1, open=1)
        assert sorted(till.balances()) == [1, 2]
        till.expect()
        assert till.redrive(rule="no_debt") == Redriven(redriven=1)
        till.assert_right()
        till.note("later")
        till.run()
        assert till.cut() == ("exact", "")
        till.assert_right()

    def test_what_is_older_than_its_key_is_superseded(self, till):
        till.accounts((1, 500), (2, 500), (3, 500), (4, 1))
        till.run()
        till.expect(no_debt("quarantine"))
        for number in (1, 2, 3, 4):
            till.change(number, balance=-number)
        till.run()
        assert till.balances() == {1: 500, 2: 500, 3: 500, 4: 1}
        till.delete(1)
        till.change(2, balance=7)
        till.change(3, id=30, balance=9)
        till.run()
        till.expect()
        assert till.redrive() == Redriven(redriven=1, superseded=3)
        till.assert_right()

    @pytest.mark.parametrize("step", REDRIVE_STEPS)
    def test_a_redrive_that_dies_is_ended_by_the_next_run(self, simple, step):
        simple.expect(no_debt("quarantine"))
        simple.accounts((1, -500), (2, 500), (3, -1))
        simple.run()
        simple.expect()
        with pytest.raises(Death):
            simple.redrive(dies_at=step)
        simple.run()
        simple.assert_right()
        assert [row["status"] for row in simple.own("quarantine")] == ["redriven"] * 2


class TestHold:
    def test_a_table_whose_rows_are_forbidden_waits_while_others_go_on_and_is_released_as_a_whole(self, till):
        till.accounts((1, 500))
        till.run()
        till.expect(no_debt("hold"))
        till.accounts((2, -500), (3, 100))
        till.note("second")
        till.run()
        assert till.balances() == {1: 500}
        assert len(till.warehouse.current("bank.note").rows) == 1
        assert till.cut() == ("partial", "held: bank.account")
        till.change(3, balance=4)
        till.delete(1)
        till.run()
        assert till.balances() == {1: 500}
        held = len(till.own("held", status="open"))
        assert till.release() == held > 0
        till.assert_right()
        assert {row["status"] for row in till.own("held")} == {"released"}
        till.run()
        till.note("third")
        till.expect()
        till.run()
        assert till.cut() == ("exact", "")
        till.assert_right()

    def test_a_statement_that_nobody_understands_holds_its_table_until_it_is_released(self, till):
        till.accounts((1, 500))
        till.puzzle()
        till.accounts((2, 500))
        till.note("first")
        till.run()
        (table,) = till.own("tables", table_name="account")
        assert table["state"] == "held"
        till.release()
        till.assert_right()
        till.accounts((3, 1))
        till.run()
        till.assert_right()

    @pytest.mark.parametrize("step", RELEASE_STEPS)
    def test_a_release_that_dies_is_ended_by_the_next_one_or_the_next_run(self, simple, step):
        simple.accounts((1, 500))
        simple.run()
        simple.expect(no_debt("hold"))
        simple.accounts((2, -500), (3, 100))
        simple.change(3, balance=5)
        simple.run()
        with pytest.raises(Death):
            simple.release(dies_at=step)
        simple.accounts((4, 100))
        simple.run()
        simple.assert_right()
        assert {row["status"] for row in simple.own("held")} == {"released"}
