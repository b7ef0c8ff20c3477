"""Names that change hands, and topics that come late with a history of their own (by commit ts)."""

import dataclasses
import json
import shutil
from contextlib import suppress
from decimal import Decimal

import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient
from e2e.bank import ACCOUNT
from e2e.till import Death, Till
from support.slow import EVERY, few
from support.steps import watch

from pipeline.cli import main
from pipeline.model.names import TableName
from pipeline.operations.redrive import Redriven
from pipeline.simulate import SimulatedChangefeed, ddl
from pipeline.simulate.database import Database, RowEvent
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

PROTOCOLS = ("simple", "open-protocol") if EVERY else ("open-protocol",)


@pytest.fixture(params=PROTOCOLS)
def till(request, stack, tmp_path):
    made = Till(stack, tmp_path, request.param)
    yield made
    made.feed.close()


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "backwards"), few(("drop", True), ("drop", False), ("keep", False)))
def test_a_name_that_one_statement_gives_away_and_gives_anew_drops_nothing(till, policy, backwards):
    """As online schema changes end: the old table goes aside, and the new one takes its name.

    The DDL event by which it takes it may come first.
    """
    till.set("warehouse", drop_table=policy)
    till.accounts((1, 500), (2, 7))
    till.note("new")
    till.run()
    till.accounts((3, 9))
    till.swap(backwards=backwards)
    till.run()
    old, new = (till.warehouse.current(f"bank.{name}").rows for name in ("account_old", "account"))
    assert sorted(row.values["id"] for row in old) == [1, 2, 3]
    assert [row.values["code"] for row in new] == ["new"]
    assert {row["table_name"]: row["state"] for row in till.own("tables")} == {"account_old": "live", "account": "live"}


@pytest.mark.slow
def test_an_older_checkpoint_repeats_nothing(till):
    """Also no statement."""
    till.accounts((1, 500))
    till.run()
    checkpoint, older = till.folder / "checkpoint", till.folder / "older"
    shutil.copytree(checkpoint, older)
    till._tell(till.database.add_column("bank", "account", SimulatedColumn("branch", "varchar(20)")))
    till.change(1, balance=Decimal(7))
    till.run()
    till._tell(till.database.add_column("bank", "account", SimulatedColumn("place", "varchar(20)")))
    till.accounts((2, 9))
    till.run()
    before = till.own("ddl_history"), till.own("cuts")
    shutil.rmtree(checkpoint)
    shutil.copytree(older, checkpoint)
    till.run()
    assert (till.own("ddl_history"), till.own("cuts")) == before
    till.accounts((3, 1))
    till.run()
    till.assert_right()
    assert till.cut() == ("exact", "")


def as_of(till, capsys, ts=None):
    """What `tables as-of` finds: its document, and what its PyIceberg expressions read, by source."""
    capsys.readouterr()
    moment = [] if ts is None else [str(ts)]
    assert main(["tables", "as-of", *moment, "--look", "--output", "json", "-c", str(till.file)]) == 0
    told, catalog = json.loads(capsys.readouterr().out), till.warehouse.catalog
    names = {row["uuid"]: row["source"] for row in told["tables"]}
    return told, {names[uuid]: eval(said, {"catalog": catalog}) for uuid, said in told["pyiceberg"].items()}  # noqa: S307 - its own


def test_after_an_online_schema_change_in_a_living_run_each_cut_has_its_names_and_no_ghost(till, capsys):
    till.set("warehouse", drop_table="drop")
    with till.living() as (_, takes):
        till.accounts((1, 500))
        till.note("new")
        takes()
        before = till.last_ts
        old, new = till.swap()
        till.row(new, None, {"code": "later", "text": ""})
        takes()
        swapped = till.last_ts
        till.row(old, None, {"id": 2, "owner": "o2", "balance": Decimal(7)})
        till.say("DROP TABLE `bank`.`account_old`", DROP_TABLE, old)
        till.row(new, None, {"code": "last", "text": ""})
        found, rows = as_of(till, capsys, before)
        assert (found["level"], {name: table.num_rows for name, table in rows.items()}) == (
            "exact", {"bank.account": 1, "bank.note": 1},
        )  # fmt: skip
        found, rows = as_of(till, capsys, swapped)
        assert (found["level"], {name: table.num_rows for name, table in rows.items()}) == (
            "exact", {"bank.account_old": 1, "bank.account": 2},
        )  # fmt: skip
        takes()
    found, rows = as_of(till, capsys)
    assert (found["level"], found["cut_ts"]) == ("exact", till.last_ts)
    assert {name: table.num_rows for name, table in rows.items()} == {"bank.account": 3}


def failing(wanted):
    def step(name):
        if name == wanted:
            raise RuntimeError(wanted)

    return step


@pytest.mark.slow
@pytest.mark.parametrize("dies_at", few("results-appended", ""))
def test_a_cut_has_the_columns_of_its_time_and_tables_without_rows(till, capsys, dies_at):
    account = till.database.table("bank", "account")
    with till.living() as (_, takes):
        till.accounts((1, 500))
        takes()
        before = till.last_ts
    assert as_of(till, capsys)[1]["bank.note"].num_rows == 0
    with suppress(RuntimeError), till.living() as (pipeline, takes):
        takes()
        columns = tuple(dataclasses.replace(c, name="holder") if c.name == "owner" else c for c in account.columns)
        after = dataclasses.replace(account, columns=columns)
        sql = "ALTER TABLE `bank`.`account` RENAME COLUMN `owner` TO `holder`"
        renamed = till.say(sql, MODIFY_COLUMN, account, after)
        till.note("other")
        watch(pipeline, failing(dies_at))
        takes()
    till.run()
    assert "owner" in as_of(till, capsys, before)[1]["bank.account"].column_names
    found, rows = as_of(till, capsys)
    assert (found["level"], found["cut_ts"] >= renamed) == ("exact", True)
    assert {"holder", "id"} <= set(rows["bank.account"].column_names)
    assert "owner" not in rows["bank.account"].column_names
    heads = {row["uuid"]: row["snapshot"] for row in found["tables"]}
    till.note("more")
    till.run()
    assert sum(row["snapshot"] != heads[row["uuid"]] for row in as_of(till, capsys)[0]["tables"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("dropped", [False, True], ids=["renamed", "dropped"])
def test_a_statement_about_a_held_table_goes_with_it_where_that_gets_another_name_or_ends(till, dropped):
    account = till.database.table("bank", "account")
    ledger = dataclasses.replace(account, name="ledger")
    till.expect({**no_less_than(0), "expect_column_values_to_be_between": {"column": "balance", "min_value": 0}})
    till.accounts((1, 500))
    till.run()
    till.accounts((2, -500))
    till.run()
    assert till.own("tables", table_name="account")[0]["state"] == "held"
    till.say("TRUNCATE TABLE `bank`.`account`", TRUNCATE_TABLE, account)
    till.accounts((3, 3))
    if dropped:
        till.say("DROP TABLE `bank`.`account`", DROP_TABLE, account)
        till.run()
        assert {row["status"] for row in till.own("held")} == {"dropped"}
        assert till.cut() == ("exact", "")
        return
    till.say("RENAME TABLE `bank`.`account` TO `bank`.`ledger`", RENAME_TABLE, account, ledger)
    till.row(ledger, None, {"id": 4, "owner": "o4", "balance": Decimal(4)})
    till.run()
    till.release(name=TableName("bank", "ledger"))
    assert sorted(row.values["id"] for row in till.warehouse.current("bank.ledger").rows) == [3, 4]
    assert {row["status"] for row in till.own("held")} == {"released"}
    assert till.cut() == ("exact", "")


class Annex:
    """Another changefeed, to a topic of its own, over the same time."""

    def __init__(self, till, stack):
        self.topic = f"{till.feed.prefix}_annex"
        self.database = Database()
        self.feed = SimulatedChangefeed(
            stack.bootstrap_servers, protocol=till.feed.protocol, topic=self.topic, watermark_every=3
        )
        self.feed.send(self.database.create_schema("annex"))
        self.feed.send(self.database.create_table(dataclasses.replace(ACCOUNT, schema="annex")))

    def happen(self):
        """Rows, a column with a default in the middle, keys that move, rows that go."""
        for number in range(1, 41):
            row = {"id": number, "owner": f"o{number}", "balance": number}
            self.do(lambda writer, row=row: writer.insert("annex", "account", row))
            if number == 20:
                column = SimulatedColumn("branch", "varchar(20)", nullable=False, default="main")
                self.feed.send(self.database.add_column("annex", "account", column))
        for number in range(1, 11):
            self.do(lambda writer, number=number: writer.update("annex", "account", (number,), {"id": 100 + number}))
        self.do(lambda writer: [writer.delete("annex", "account", (number,)) for number in range(30, 36)])
        self.feed.close()

    def say(self, sql, action):
        """A statement about a table of the other changefeed, older than what that one has been shown."""
        moment = self.database.commit(self.database.begin()).commit_ts
        self.feed._sender.ddl(ddl.SimulatedDdl(sql, action, "bank", "account", ACCOUNT, ACCOUNT), moment)

    def do(self, change):
        writer = self.database.begin()
        change(writer)
        self.feed.send(self.database.commit(writer))


def test_a_topic_that_comes_late_with_a_history_is_taken_in_whole(till, stack):
    """Its rows and statements are older than what the tables show; a batch takes a few of them, the others go on."""
    till.note("quiet since")
    till.accounts(*((number, number) for number in range(1, 81)))
    till.run()
    annex = Annex(till, stack)
    for table in ("account", "note"):
        annex.say(f"DROP TABLE `bank`.`{table}`", DROP_TABLE)
    annex.happen()
    till.set("source", topics=[f"{till.feed.prefix}_cdc", annex.topic], max_offsets_per_trigger=15)
    till.accounts((81, 81))
    till.run()
    till.assert_right()
    want = {row["id"]: row for row in annex.database.rows("annex", "account")}
    assert {row.values["id"]: row.values for row in till.warehouse.current("annex.account").rows} == want
    cuts = sorted(till.own("cuts"), key=lambda row: row["batch_id"])
    assert {row["level"] for row in {row["table_uuid"]: row for row in cuts}.values()} == {"exact"}
    partial = {row["batch_id"] for row in cuts if row["level"] == "partial"}
    assert len(partial) > 3
    assert {row["schema_name"] for row in cuts if row["level"] == "partial"} == {"annex"}
    shown = [row for row in cuts if row["table_name"] == "account" and row["schema_name"] == "bank"]
    assert any(row["cut_ts"] == till.last_ts and row["batch_id"] in partial for row in shown)


@pytest.mark.slow
def test_rows_that_are_read_before_the_rename_that_gives_their_name_are_of_that_table(till, stack):
    """A batch takes some of each topic, and comes further in that of the new name."""
    account, topic = till.database.table("bank", "account"), f"{till.feed.prefix}_other"
    ledger = dataclasses.replace(account, name="ledger")
    till.accounts(*((number, number) for number in range(1, 41)))
    till.say("RENAME TABLE `bank`.`account` TO `bank`.`ledger`", RENAME_TABLE, account, ledger)
    other = SimulatedChangefeed(
        stack.bootstrap_servers, protocol=till.feed.protocol, topic=topic, watermark_every=10**6
    )
    for number in range(101, 121):
        till.last_ts = till.database.commit(till.database.begin()).commit_ts
        row = {"id": number, "owner": f"o{number}", "balance": Decimal(number)}
        other._sender.row(RowEvent(ledger, "insert", None, row, 1), till.last_ts)
    other.checkpoint(till.last_ts)
    other.close()
    till.set("source", topics=[f"{till.feed.prefix}_cdc", topic], max_offsets_per_trigger=4)
    till.run()
    assert len(till.own("batches")) > 3
    found = till.warehouse.current("bank.ledger").rows
    assert sorted(row.values["id"] for row in found) == [*range(1, 41), *range(101, 121)]
    assert {row["table_name"]: row["state"] for row in till.own("tables")} == {"ledger": "live", "note": "live"}
    assert till.cut() == ("exact", "")


@pytest.mark.slow
def test_a_table_whose_new_name_has_a_topic_that_is_read_later_shows_nothing_beyond_that(till, stack):
    """The topic of its old name says that more is complete than has been read of the other one."""
    account, topic = till.database.table("bank", "account"), f"{till.feed.prefix}_other"
    ledger, queue = (dataclasses.replace(account, name=name) for name in ("ledger", "queue"))
    other = SimulatedChangefeed(
        stack.bootstrap_servers, protocol=till.feed.protocol, topic=topic, watermark_every=10**6
    )

    def moment():
        till.last_ts = till.database.commit(till.database.begin()).commit_ts
        return till.last_ts

    def insert(table, *numbers):
        for number in numbers:
            row = {"id": number, "owner": f"o{number}", "balance": Decimal(number)}
            other._sender.row(RowEvent(table, "insert", None, row, 1), moment())
            other.flush()

    other._sender.ddl(ddl.create_table(queue), moment())
    insert(queue, *range(1, 21))
    till.accounts((1, 1), (2, 2))
    till.run()
    till.say("RENAME TABLE `bank`.`account` TO `bank`.`ledger`", RENAME_TABLE, account, ledger)
    insert(ledger, *range(101, 106))
    other._sender.ddl(
        ddl.SimulatedDdl("TRUNCATE TABLE `bank`.`ledger`", TRUNCATE_TABLE, "bank", "ledger", ledger), moment()
    )
    insert(ledger, *range(106, 116))
    other.checkpoint(till.last_ts)
    other.close()
    till.set("source", topics=[f"{till.feed.prefix}_cdc", topic], max_offsets_per_trigger=8)
    with pytest.raises(Death):
        till.run(dies_at="ledger-appended@5")
    assert till.own("cuts", level="partial")
    till.run()
    assert len(till.own("batches")) > 3
    for name, numbers in (("ledger", range(106, 116)), ("queue", range(1, 21))):
        assert sorted(row.values["id"] for row in till.warehouse.current(f"bank.{name}").rows) == [*numbers]
    assert till.cut() == ("exact", "")


@pytest.mark.slow
def test_a_partition_that_retention_has_emptied_stands_in_the_way_of_no_first_cut(till, stack):
    annex = Annex(till, stack)
    annex.feed.close()
    admin = AdminClient({"bootstrap.servers": stack.bootstrap_servers})
    for removed in admin.delete_records([TopicPartition(annex.topic, 0, OFFSET_END)]).values():
        removed.result(30)
    till.set("source", topics=[f"{till.feed.prefix}_cdc", annex.topic])
    till.accounts((1, 500))
    till.run()
    assert till.cut() == ("exact", "")
    till.assert_right()


COLUMNS = (SimulatedColumn("id", "bigint", nullable=False), SimulatedColumn("amount", "int", nullable=False))
PARTS, WHOLE = (SimulatedTable("bank", name, COLUMNS, primary_key=("id",)) for name in ("parts", "whole"))
PARTITIONS = " PARTITION BY RANGE (`id`) (PARTITION `p` VALUES LESS THAN (10),PARTITION `q` VALUES LESS THAN (100))"
EXCHANGE_PARTITION = 42
ALTER_COMMENT, DROP_TABLE, TRUNCATE_TABLE, MODIFY_COLUMN, RENAME_TABLE = 5, 4, 11, 12, 14
FAR = 2**63 - 2


class Swapped:
    """A partitioned table and one that changes places with its first partition."""

    def __init__(self, till):
        self.till = till
        for table, more in ((PARTS, PARTITIONS), (WHOLE, "")):
            made = till.database.create_table(table)
            told = dataclasses.replace(made.ddl, query=made.ddl.query + more)
            till._tell(dataclasses.replace(made, ddl=told))
        suite = {"table": "bank.whole", "checks": [no_less_than(0)]}
        (till.folder / "checks" / "whole.yaml").write_text(json.dumps(suite))

    def insert(self, table, *rows):
        for number, amount in rows:
            row = {"id": number, "amount": amount}
            self.till._commit(lambda writer, row=row: writer.insert("bank", table.name, row))

    def exchange(self):
        moment = self.till.database.commit(self.till.database.begin()).commit_ts
        sql = "ALTER TABLE `bank`.`parts` EXCHANGE PARTITION `p` WITH TABLE `bank`.`whole`"
        self.till.feed._sender.ddl(ddl.SimulatedDdl(sql, EXCHANGE_PARTITION, "bank", "parts", PARTS, PARTS), moment)
        self.till.last_ts = moment

    def rows(self, table):
        found = self.till.warehouse.current(table.full_name)
        return {row.values["id"]: row.values["amount"] for row in (found.rows if found else ())}


def no_less_than(least):
    check = {"column": "amount", "min_value": least}
    return {"expect_column_values_to_be_between": check, "name": "no_debt", "severity": "hold"}


@pytest.mark.slow
def test_a_partition_that_waits_for_the_table_it_is_exchanged_with_shows_nothing_behind_that(till):
    both = Swapped(till)
    both.insert(PARTS, (1, 10), (20, 200))
    both.insert(WHOLE, (2, 2))
    till.run()
    both.insert(WHOLE, (3, -3))
    both.insert(PARTS, (4, 40))
    both.exchange()
    both.insert(PARTS, (5, 50), (21, 210))
    till.run()
    assert both.rows(PARTS) == {1: 10, 4: 40, 20: 200}
    assert both.rows(WHOLE) == {2: 2}
    till.note("goes on")
    both.insert(PARTS, (6, 60))
    till.run()
    assert both.rows(PARTS) == {1: 10, 4: 40, 20: 200}
    till.release(name=TableName("bank", "whole"))
    till.run()
    assert both.rows(PARTS) == {2: 2, 3: -3, 5: 50, 6: 60, 20: 200, 21: 210}
    assert both.rows(WHOLE) == {1: 10, 4: 40}


@pytest.mark.slow
def test_rows_whose_schema_never_comes_are_given_up_by_a_release_and_the_others_go_on(stack, tmp_path):
    till = Till(stack, tmp_path, "simple")
    till.accounts((1, 500))
    till.lost_version((2, 7))
    till.accounts((3, 9))
    till.run()
    assert sorted(till.balances()) == [1]
    assert till.release() > 0
    assert sorted(till.balances()) == [1, 3]
    assert [row["code"] for row in till.own("dead_letters")] == ["SCHEMA_UNKNOWN"]
    till.accounts((4, 1))
    till.run()
    assert sorted(till.balances()) == [1, 3, 4]
    assert till.redrive(what="dead_letters") == Redriven(open=1)
    till.feed.close()


@pytest.mark.slow
def test_a_table_that_has_not_changed_has_no_further_row_in_the_cuts_of_another_process(till):
    till.accounts((1, 5))
    till.note("stays")
    till.run()
    till.accounts((2, 5))
    till.run()
    cuts = {name: [row["snapshot_id"] for row in till.own("cuts", table_name=name)] for name in ("account", "note")}
    assert {name: (len(found), len(set(found))) for name, found in cuts.items()} == {"account": (2, 2), "note": (1, 1)}


def test_a_watermark_and_a_statement_of_the_far_future_close_nothing(till):
    till.accounts((1, 500))
    till.run()
    till.feed.checkpoint(FAR)
    sql = "ALTER TABLE `bank`.`account` COMMENT = 'not yet'"
    table = till.database.table("bank", "account")
    till.feed._sender.ddl(ddl.SimulatedDdl(sql, ALTER_COMMENT, "bank", "account", table, table), FAR)
    till.accounts((2, 7))
    till.run()
    till.accounts((3, 9))
    till.run()
    till.assert_right()
    assert {row["code"] for row in till.own("dead_letters")} == {"COMMIT_TS_AHEAD"}
