"""RENAME TABLE onto a name of the warehouse that is not free: the table waits, nobody else's is touched."""

import dataclasses

import pytest
from e2e.bank import ACCOUNT, NOTE, SCHEMA, Bank
from e2e.till import RENAME_TABLE, Death, Till, dying
from golden.warehouse import Warehouse
from support.slow import few
from support.steps import watch

from pipeline.errors import Refused
from pipeline.model.names import TableName, WarehouseName
from pipeline.operations.release import release
from pipeline.service import Pipeline
from pipeline.settings import load
from pipeline.simulate.avro import ddl_message
from pipeline.simulate.database import RowEvent
from pipeline.warehouse.iceberg import Catalog
from pipeline.warehouse.tables import Tables

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

TAKEN = "TABLE_NAME_TAKEN: bank.note__changes already belongs to the source table bank.note"
DROP_DATABASE, CREATE_TABLE, DROP_TABLE, TRUNCATE_TABLE = 2, 3, 4, 11
RENAMED = dataclasses.replace(ACCOUNT, name="note__changes")
SQL = "RENAME TABLE `bank`.`account` TO `bank`.`note__changes`"
NAME = TableName(SCHEMA, RENAMED.name)
TO_KONTO = "RENAME TABLE `bank`.`account` TO `bank`.`konto`"
KONTO = dataclasses.replace(ACCOUNT, name="konto")
TO_ACCOUNT = "RENAME TABLE `bank`.`note` TO `bank`.`account`"
MOVED = dataclasses.replace(NOTE, name=ACCOUNT.name, version=2)


@pytest.fixture
def till(stack, tmp_path):
    made = Till(stack, tmp_path, "simple")
    yield made
    made.feed.close()


def states(till):
    return {row["warehouse_name"]: (row["table_name"], row["state"]) for row in till.own("tables")}


def balances(warehouse, name):
    return {row.values["id"]: row.values["balance"] for row in warehouse.current(name).rows}


def told(rows, sql):
    return [(row["action"], row["status"]) for row in rows if row["sql"] == sql]


def waits(till, number):
    """The rename, a row behind it and one of another table: the first table waits, the other does not."""
    till.say(SQL, RENAME_TABLE, ACCOUNT, RENAMED)
    till.row(RENAMED, None, {"id": number, "owner": "new", "balance": 9})
    till.note(f"n{number}")
    till.run()
    assert states(till) == {"bank.account": ("note__changes", "held"), "bank.note": ("note", "live")}
    assert balances(till.warehouse, "bank.account") == {1: 500}
    assert {row["reason"] for row in till.own("held")} == {f"{TAKEN}: {SQL}"}
    assert told(till.own("ddl_history"), SQL) == [
        ("held; to go on: ticdc-warehouse tables release bank.note__changes", "held")
    ]
    level, reason = till.cut()
    assert level == "partial"
    assert reason.startswith("held: bank.note__changes (")


@pytest.mark.slow
@pytest.mark.parametrize("codes", few(("of old",), ()), ids=lambda codes: "rows" if codes else "no rows yet")
def test_a_table_waits_that_is_renamed_onto_the_changes_of_another(till, codes):
    till.accounts((1, 500))
    for code in codes:
        till.note(code)
    till.run()
    waits(till, 2)
    assert {row.values["code"] for row in till.warehouse.current("bank.note").rows} == {*codes, "n2"}
    with pytest.raises(Refused, match=r"cannot be released: .* already belongs to .* bank.note\n") as no:
        till.release(name=NAME)
    assert no.value.code == "TABLE_NAME_TAKEN"
    till.run()
    assert states(till)["bank.account"] == ("note__changes", "held")
    dropped = till.say("DROP TABLE `bank`.`note`", DROP_TABLE, NOTE)
    till.run()
    till.release(name=NAME)
    assert states(till) == {
        "bank.note__changes": ("note__changes", "live"), f"bank.note__dropped_{dropped}": ("note", "dropped"),
    }  # fmt: skip
    till.row(RENAMED, None, {"id": 3, "owner": "newer", "balance": 8})
    till.run()
    assert balances(till.warehouse, "bank.note__changes") == {1: 500, 2: 9, 3: 8}
    assert till.cut()[0] == "exact"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "apart"),
    few(
        (("DROP TABLE `bank`.`note__changes`", DROP_TABLE, RENAMED), True),
        (("DROP TABLE `bank`.`note__changes`", DROP_TABLE, RENAMED), False),
        (("DROP DATABASE `bank`", DROP_DATABASE), True),
        (("DROP DATABASE `bank`", DROP_DATABASE), False),
    ),
)
def test_a_new_table_whose_name_is_taken_waits_for_nobody_when_it_is_dropped(till, statement, apart):
    till.note("here")
    till.run()
    till.say("CREATE TABLE `bank`.`note__changes` (`id` bigint PRIMARY KEY)", CREATE_TABLE, RENAMED)
    till.row(RENAMED, None, {"id": 7, "owner": "other", "balance": 70})
    if apart:
        till.run()
        assert till.cut()[0] == "partial"
    till.say("TRUNCATE TABLE `bank`.`note__changes`", TRUNCATE_TABLE, RENAMED)
    till.say(*statement)
    till.run()
    assert {row["status"] for row in till.own("held")} <= {"dropped"}
    assert states(till).get("bank.note__changes", ("", "dropped"))[1] == "dropped"
    if statement[1] == DROP_TABLE:  # of a database without tables there is no cut
        assert till.own("held")
        assert till.cut() == ("exact", "")


@pytest.mark.slow
@pytest.mark.parametrize("apart", few(False, True))
def test_what_a_new_table_waits_with_goes_along_to_a_name_that_is_free(till, apart):
    """Its rows, and the statements about it: what was truncated does not come back."""
    till.note("here")
    till.run()
    runs = till.run if apart else lambda: None
    till.say("CREATE TABLE `bank`.`note__changes` (`id` bigint PRIMARY KEY)", CREATE_TABLE, RENAMED)
    till.row(RENAMED, None, {"id": 6, "owner": "gone", "balance": 60})
    runs()
    till.say("TRUNCATE TABLE `bank`.`note__changes`", TRUNCATE_TABLE, RENAMED)
    till.row(RENAMED, None, {"id": 7, "owner": "other", "balance": 70})
    runs()
    account = dataclasses.replace(ACCOUNT, name="account__changes")
    onto_a_taken_name = "RENAME TABLE `bank`.`note__changes` TO `bank`.`account__changes`"
    till.say(onto_a_taken_name, RENAME_TABLE, RENAMED, account)
    till.row(account, None, {"id": 8, "owner": "waits", "balance": 80})
    runs()
    to_konto = "RENAME TABLE `bank`.`account__changes` TO `bank`.`konto`"
    till.say(to_konto, RENAME_TABLE, account, KONTO)
    till.row(KONTO, None, {"id": 9, "owner": "new", "balance": 90})
    till.run()
    (held,) = till.own("tables", table_name="konto")
    assert (held["warehouse_name"], held["state"]) == ("bank.konto", "held")
    assert held["held_reason"].endswith("to go on: ticdc-warehouse tables release bank.konto")
    assert {row["table_name"] for row in till.own("held")} == {"konto"}
    assert till.cut()[0] == "partial"
    konto = TableName(SCHEMA, "konto")
    till.release(name=konto)
    assert balances(till.warehouse, "bank.konto") == {7: 70, 8: 80, 9: 90}
    assert len(till.warehouse.changes()["bank.konto"]) == 4
    assert told(till.own("ddl_history"), "TRUNCATE TABLE `bank`.`note__changes`") == [
        ("held; to go on: ticdc-warehouse tables release bank.note__changes", "held")
    ]
    till.row(KONTO, None, {"id": 10, "owner": "newer", "balance": 100})
    till.run()
    assert balances(till.warehouse, "bank.konto") == {7: 70, 8: 80, 9: 90, 10: 100}
    assert till.cut() == ("exact", "")


@pytest.mark.slow
def test_a_new_table_whose_name_becomes_free_in_the_same_batch_is_as_in_the_source(till):
    till.note("here")
    till.run()
    till.say("CREATE TABLE `bank`.`note__changes` (`id` bigint PRIMARY KEY)", CREATE_TABLE, RENAMED)
    till.row(RENAMED, None, {"id": 6, "owner": "gone", "balance": 60})
    till.say("TRUNCATE TABLE `bank`.`note__changes`", TRUNCATE_TABLE, RENAMED)
    till.say("DROP TABLE `bank`.`note`", DROP_TABLE, NOTE)
    till.row(RENAMED, None, {"id": 7, "owner": "other", "balance": 70})
    till.run()
    assert balances(till.warehouse, "bank.note__changes") == {7: 70}
    assert till.cut() == ("exact", "")


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
def test_a_new_table_without_rows_is_renamed_to_a_name_that_is_free(till, apart):
    till.note("here")
    till.run()
    till.say("CREATE TABLE `bank`.`note__changes` (`id` bigint PRIMARY KEY)", CREATE_TABLE, RENAMED)
    till.say("TRUNCATE TABLE `bank`.`note__changes`", TRUNCATE_TABLE, RENAMED)
    if apart:
        till.run()
    till.say("RENAME TABLE `bank`.`note__changes` TO `bank`.`konto`", RENAME_TABLE, RENAMED, KONTO)
    till.row(KONTO, None, {"id": 7, "owner": "other", "balance": 70})
    till.run()
    if apart:  # the statement waits for its table
        till.release(name=TableName(SCHEMA, "konto"))
    assert balances(till.warehouse, "bank.konto") == {7: 70}
    assert till.cut() == ("exact", "")


@pytest.mark.slow
@pytest.mark.parametrize("dies_before", few("rename", "create"))
def test_a_batch_that_dies_while_a_new_table_gets_a_name_that_is_free_is_taken_again(till, monkeypatch, dies_before):
    till.note("here")
    till.run()
    till.say("CREATE TABLE `bank`.`note__changes` (`id` bigint PRIMARY KEY)", CREATE_TABLE, RENAMED)
    till.row(RENAMED, None, {"id": 7, "owner": "other", "balance": 70})
    till.run()
    till.say("RENAME TABLE `bank`.`note__changes` TO `bank`.`konto`", RENAME_TABLE, RENAMED, KONTO)
    till.row(KONTO, None, {"id": 8, "owner": "new", "balance": 80})

    def dies(*_, **__):
        raise Death

    monkeypatch.setattr(Tables, dies_before, dies)
    with pytest.raises(Death):
        till.run()
    monkeypatch.undo()
    till.run()
    konto = TableName(SCHEMA, "konto")
    assert states(till) == {
        "bank.account": ("account", "live"), "bank.konto": ("konto", "held"), "bank.note": ("note", "live"),
    }  # fmt: skip
    till.release(name=konto)
    assert balances(till.warehouse, "bank.konto") == {7: 70, 8: 80}
    assert till.cut() == ("exact", "")
    till.assert_right(complete=False)


@pytest.mark.slow
def test_a_table_that_is_held_keeps_its_reason_when_its_next_name_is_taken(till):
    till.accounts((1, 500))
    till.note("stays")
    till.run()
    till.puzzle()
    till.run()
    (first,) = till.own("tables", warehouse_name="bank.account")
    assert first["held_reason"].startswith("DDL_NOT_UNDERSTOOD: ")
    till.say(SQL, RENAME_TABLE, ACCOUNT, RENAMED)
    till.run()
    (held,) = till.own("tables", warehouse_name="bank.account")
    assert held["held_reason"] == f"{first['held_reason']}; and {TAKEN}: {SQL}"
    till.say("RENAME TABLE `bank`.`note__changes` TO `bank`.`konto`", RENAME_TABLE, RENAMED, KONTO)
    till.run()
    (held,) = till.own("tables", warehouse_name="bank.konto")
    assert held["held_reason"].startswith(f"{first['held_reason']}; and TABLE_NAME_TAKEN: its name was taken until ")
    till.release(name=TableName(SCHEMA, "konto"))
    assert balances(till.warehouse, "bank.konto") == {1: 500}


@pytest.mark.slow
def test_a_table_that_waits_and_is_dropped_leaves_its_old_name_to_a_new_one(till):
    till.accounts((1, 500))
    till.note("stays")
    till.run()
    waits(till, 2)
    dropped = till.say("DROP TABLE `bank`.`note__changes`", DROP_TABLE, RENAMED)
    till.say("CREATE TABLE `bank`.`account` (`id` bigint PRIMARY KEY)", CREATE_TABLE, ACCOUNT)
    till.row(ACCOUNT, None, {"id": 7, "owner": "other", "balance": 70})
    till.run()
    kept = f"bank.account__dropped_{dropped}"
    assert states(till) == {
        "bank.account": ("account", "live"), "bank.note": ("note", "live"), kept: ("note__changes", "dropped"),
    }  # fmt: skip
    assert balances(till.warehouse, kept) == {1: 500}
    assert balances(till.warehouse, "bank.account") == {7: 70}


def test_a_new_table_waits_whose_name_is_taken(till):
    till.note("here")
    till.run()
    sql = "CREATE TABLE `bank`.`note__changes` (`id` bigint PRIMARY KEY)"
    till.say(sql, CREATE_TABLE, RENAMED)
    till.row(RENAMED, None, {"id": 7, "owner": "other", "balance": 70})
    till.run()
    assert told(till.own("ddl_history"), sql) == [
        ("held; to go on: ticdc-warehouse tables release bank.note__changes", "held")
    ]
    with pytest.raises(Refused, match=r"drop bank\.note in the source, or choose another warehouse\.namespace"):
        till.release(name=NAME)
    till.say("DROP TABLE `bank`.`note`", DROP_TABLE, NOTE)
    till.row(RENAMED, None, {"id": 8, "owner": "behind it", "balance": 80})
    till.run()
    till.row(RENAMED, None, {"id": 9, "owner": "later", "balance": 90})
    till.run()
    free = "TABLE_NAME_TAKEN: its name was taken, and is free now; to go on: ticdc-warehouse tables release "
    assert {row["reason"] for row in till.own("held")} == {TAKEN, f"{free}bank.note__changes"}
    till.release(name=NAME)
    assert balances(till.warehouse, "bank.note__changes") == {7: 70, 8: 80, 9: 90}
    assert till.cut() == ("exact", "")


@pytest.mark.slow
def test_a_table_waits_that_is_renamed_into_our_own_namespace(till):
    till.accounts((1, 500))
    till.run()
    sql, there = "RENAME TABLE `bank`.`account` TO `_pipeline`.`account`", TableName("_pipeline", "account")
    till.say(sql, RENAME_TABLE, ACCOUNT, dataclasses.replace(ACCOUNT, schema="_pipeline"))
    till.run()
    till.run()
    assert states(till)["bank.account"] == ("account", "held")
    with pytest.raises(Refused, match="the pipeline's own"):
        till.release(name=there)
    back = "RENAME TABLE `_pipeline`.`account` TO `bank`.`konto`"
    till.say(
        back, RENAME_TABLE, dataclasses.replace(ACCOUNT, schema="_pipeline"), dataclasses.replace(ACCOUNT, name="konto")
    )
    till.run()
    (waits_still,) = till.own("tables", warehouse_name="bank.konto")
    assert (waits_still["table_name"], waits_still["state"]) == ("konto", "held")
    assert waits_still["held_reason"] == (
        "TABLE_NAME_TAKEN: its name was taken until it became bank.konto; to go on: "
        "ticdc-warehouse tables release bank.konto"
    )
    till.release(name=TableName("bank", "konto"))
    assert states(till)["bank.konto"] == ("konto", "live")
    assert balances(till.warehouse, "bank.konto") == {1: 500}


@pytest.mark.parametrize("last", few(1, 0), ids=lambda last: "both moved" if last else "the current table moved")
def test_a_release_that_dies_in_the_middle_of_the_rename_is_finished(till, monkeypatch, last):
    till.accounts((1, 500))
    till.run()
    waits(till, 2)
    till.say("DROP TABLE `bank`.`note`", DROP_TABLE, NOTE)
    till.run()
    true, done = Catalog.rename, []

    def dies(self, name, to):
        true(self, name, to)
        if name.namespace == "bank" and name.name.startswith("account"):
            done.append(name)
            if len(done) > last:
                raise Death

    monkeypatch.setattr(Catalog, "rename", dies)
    with pytest.raises(Death):
        till.release(name=NAME)
    monkeypatch.undo()
    till.run()
    assert states(till)["bank.note__changes"] == ("note__changes", "live")
    assert balances(till.warehouse, "bank.note__changes") == {1: 500, 2: 9}


@pytest.mark.slow
def test_a_release_that_dies_before_a_rename_that_cannot_be_done_any_more_holds_the_table_again(till):
    till.accounts((1, 500))
    till.run()
    waits(till, 2)
    till.say("DROP TABLE `bank`.`note`", DROP_TABLE, NOTE)
    till.run()
    with Pipeline.open(load(till.file)) as pipeline:
        watch(pipeline, dying("release-begun"))
        with pytest.raises(Death):
            release(pipeline.context, NAME)
        (dropped,) = [pair for pair in pipeline.context.tables if pair.name.name == "note"]
        pipeline.context.tables.move(dropped, WarehouseName("bank", "away"))
        pipeline.context.spark.sql("CREATE TABLE warehouse.bank.note__changes USING iceberg AS SELECT 1 AS mine")
    till.accounts((3, 8))
    till.run()
    reason = "TABLE_NAME_TAKEN: a table bank.note__changes exists already, and belongs to no source table"
    (held,) = till.own("tables", warehouse_name="bank.account")
    assert (held["table_name"], held["state"], held["held_reason"]) == ("note__changes", "held", reason)
    with Pipeline.open(load(till.file)) as pipeline:
        pipeline.context.spark.sql("ALTER TABLE warehouse.bank.note__changes RENAME TO bank.mine")
        release(pipeline.context, NAME)
    assert balances(till.warehouse, "bank.note__changes") == {1: 500, 2: 9}


@pytest.mark.slow
@pytest.mark.parametrize("last", few(1, 0), ids=lambda last: "both moved" if last else "the current table moved")
def test_a_batch_that_dies_in_the_middle_of_a_rename_is_taken_again(till, monkeypatch, last):
    till.accounts((1, 500))
    till.run()
    sql, after = "RENAME TABLE `bank`.`account` TO `bank`.`konto`", dataclasses.replace(ACCOUNT, name="konto")
    till.say(sql, RENAME_TABLE, ACCOUNT, after)
    till.row(after, None, {"id": 2, "owner": "new", "balance": 9})
    true, done = Catalog.rename, []

    def dies(self, name, to):
        true(self, name, to)
        done.append(name)
        if len(done) > last:
            raise OSError("the power has gone")

    monkeypatch.setattr(Catalog, "rename", dies)
    with pytest.raises(Exception, match="the power has gone"):
        till.run()
    monkeypatch.undo()
    till.run()
    assert states(till)["bank.konto"] == ("konto", "live")
    assert balances(till.warehouse, "bank.konto") == {1: 500, 2: 9}
    assert [status for _, status in told(till.own("ddl_history"), sql)] == ["applied"]
    till.assert_right(complete=False)


@pytest.mark.slow
def test_what_a_person_has_put_there_is_in_the_way_too(till):
    till.accounts((1, 500))
    till.run()
    with Pipeline.open(load(till.file)) as pipeline:
        pipeline.context.spark.sql("CREATE TABLE warehouse.bank.konto USING iceberg AS SELECT 1 AS mine")
    sql = "RENAME TABLE `bank`.`account` TO `bank`.`konto`"
    till.say(sql, RENAME_TABLE, ACCOUNT, dataclasses.replace(ACCOUNT, name="konto"))
    till.note("goes on")
    till.run()
    assert states(till)["bank.account"] == ("konto", "held")
    with Pipeline.open(load(till.file)) as pipeline:
        pipeline.context.spark.sql("ALTER TABLE warehouse.bank.konto RENAME TO bank.mine")
        release(pipeline.context, TableName("bank", "konto"))
    assert balances(till.warehouse, "bank.konto") == {1: 500}


@pytest.mark.slow
def test_without_current_tables_what_a_person_has_put_there_is_in_the_way_too(till):
    till.set("warehouse", current=False)
    till.accounts((1, 500))
    till.run()
    with Pipeline.open(load(till.file)) as pipeline:
        pipeline.context.spark.sql("CREATE TABLE warehouse.bank.konto USING iceberg AS SELECT 1 AS mine")
    till.say(TO_KONTO, RENAME_TABLE, ACCOUNT, KONTO)
    till.run()
    assert states(till)["bank.account"] == ("konto", "held")
    with Pipeline.open(load(till.file)) as pipeline:
        pipeline.context.spark.sql("ALTER TABLE warehouse.bank.konto RENAME TO bank.mine")
        pipeline.context.spark.sql("CREATE TABLE warehouse.bank.account USING iceberg AS SELECT 1 AS mine")
        release(pipeline.context, TableName("bank", "konto"))
        (konto,) = [pair for pair in pipeline.context.tables if pair.name.name == "konto"]
        assert konto.current is None
        names = {str(name) for name in pipeline.context.tables.catalog.names()}
        assert {"bank.account", "bank.mine", "bank.konto__changes"} <= names
        assert "bank.konto" not in names


@pytest.mark.slow
@pytest.mark.parametrize("mine", ["AS SELECT 1 AS mine", ""], ids=["with rows", "empty"])
def test_what_a_person_has_put_there_is_in_the_way_of_a_new_table(till, mine):
    columns = "" if mine else "(mine int) "
    with Pipeline.open(load(till.file)) as pipeline:
        pipeline.context.spark.sql("CREATE NAMESPACE warehouse.bank")
        pipeline.context.spark.sql(f"CREATE TABLE warehouse.bank.account {columns}USING iceberg {mine}")
    till.accounts((1, 500))
    till.note("goes on")
    till.run()
    assert states(till) == {"bank.note": ("note", "live")}
    reason = "TABLE_NAME_TAKEN: a table bank.account exists already, and belongs to no source table"
    assert {row["reason"] for row in till.own("held")} == {reason}
    with pytest.raises(Refused, match=r"cannot be released: a table bank\.account exists already"):
        till.release()
    with Pipeline.open(load(till.file)) as pipeline:
        pipeline.context.spark.sql("ALTER TABLE warehouse.bank.account RENAME TO bank.mine")
        release(pipeline.context, TableName("bank", "account"))
    assert balances(till.warehouse, "bank.account") == {1: 500}
    with Pipeline.open(load(till.file)) as pipeline:
        assert pipeline.context.spark.table("warehouse.bank.mine").count() == (1 if mine else 0)


class Uncut:
    """The bank told by Avro, in no order between its topics, and its warehouse."""

    def __init__(self, stack, folder):
        self.bank, self.folder = Bank(stack, 5, (ACCOUNT, NOTE)), folder
        self.file = self.bank.settings(folder)
        self.bank.open()
        self.account(ACCOUNT, 1)
        self.bank._commit(lambda writer: writer.insert(SCHEMA, "note", {"code": "stays", "text": "here"}))
        self.run()

    def account(self, table, number):
        self.bank.last_ts = self.bank.database.commit(self.bank.database.begin()).commit_ts
        row = {"id": number, "owner": f"o{number}", "balance": number}
        self.bank.feed._sender.row(RowEvent(table, "insert", None, row, 1), self.bank.last_ts)

    def note(self, table, code):
        self.bank.last_ts = self.bank.database.commit(self.bank.database.begin()).commit_ts
        self.bank.feed._sender.row(RowEvent(table, "insert", None, {"code": code, "text": ""}, 1), self.bank.last_ts)

    def say(self, table, sql, action, name):
        moment = self.bank.database.commit(self.bank.database.begin()).commit_ts
        self.bank.feed._channel.broadcast(self.bank.topic(table), ddl_message(sql, action, SCHEMA, name, moment))
        return moment

    def run(self):
        self.bank.checkpoint()
        with Pipeline.open(load(self.file)) as pipeline:
            pipeline.run(available_now=True)

    def release(self, name):
        with Pipeline.open(load(self.file)) as pipeline:
            return release(pipeline.context, name)

    @property
    def warehouse(self):
        return Warehouse.at(self.folder / "warehouse")

    def own(self, name):
        return self.warehouse.own(name)


@pytest.fixture
def uncut(stack, tmp_path):
    made = Uncut(stack, tmp_path)
    yield made
    made.bank.close()


def test_without_cuts_a_table_waits_as_well(uncut):
    uncut.say(ACCOUNT, SQL, RENAME_TABLE, RENAMED.name)
    uncut.run()
    uncut.account(RENAMED, 2)
    uncut.note(NOTE, "goes on")
    uncut.run()
    (held,) = [row for row in uncut.own("tables") if row["warehouse_name"] == "bank.account"]
    assert (held["table_name"], held["state"]) == ("note__changes", "held")
    assert held["held_reason"] == f"{TAKEN}: {SQL}"
    assert [(row["table_name"], row["reason"]) for row in uncut.own("held")] == [("note__changes", f"{TAKEN}: {SQL}")]
    assert [status for _, status in told(uncut.own("ddl_history"), SQL)] == ["held"]
    assert max(uncut.own("cuts"), key=lambda row: row["batch_id"])["level"] == "partial"
    with pytest.raises(Refused, match="cannot be released"):
        uncut.release(NAME)
    uncut.say(NOTE, "DROP TABLE `bank`.`note`", DROP_TABLE, NOTE.name)
    uncut.run()
    assert uncut.release(NAME) == 1
    uncut.account(RENAMED, 3)
    uncut.run()
    assert balances(uncut.warehouse, "bank.note__changes") == {1: 1, 2: 2, 3: 3}


def dying_behind(true):
    def dies(*given):
        true(*given)
        raise OSError("the power has gone")

    return dies


def codes(uncut, name):
    return sorted(row.values["code"] for row in uncut.warehouse.current(name).rows)


@pytest.mark.slow
def test_without_cuts_a_table_waits_for_the_statement_that_frees_its_name_in_the_source(uncut, monkeypatch):
    uncut.bank.torn(NOTE)
    uncut.run()
    at = uncut.say(NOTE, TO_ACCOUNT, RENAME_TABLE, ACCOUNT.name)
    uncut.account(ACCOUNT, 2)
    uncut.run()
    assert states(uncut) == {"bank.account": ("account", "live"), "bank.note": (f"note@{at}", "held")}
    assert told(uncut.own("ddl_history"), TO_ACCOUNT) == [
        ("held; to go on: ticdc-warehouse tables release bank.account", "held")
    ]
    for name in (f"note@{at}", "account"):
        with pytest.raises(Refused, match=rf"bank.note@{at} cannot be released: bank.account already belongs"):
            uncut.release(TableName(SCHEMA, name))
    uncut.say(ACCOUNT, "DROP TABLE `bank`.`account`", DROP_TABLE, ACCOUNT.name)
    uncut.note(MOVED, "behind it")
    monkeypatch.setattr(Tables, "take_name", dying_behind(Tables.take_name))
    with pytest.raises(Exception, match="the power has gone"):
        uncut.run()
    monkeypatch.undo()
    uncut.run()
    assert states(uncut) == {"bank.account": ("account", "dropped"), "bank.note": ("account", "held")}
    assert [(row["table_name"], row["status"]) for row in uncut.own("held")] == [("account", "open")]
    assert [(row["table_name"], row["status"]) for row in uncut.own("dead_letters")] == [("account", "open")]
    uncut.note(MOVED, "later")
    uncut.run()
    assert uncut.release(TableName(SCHEMA, "account")) == 2
    uncut.note(MOVED, "newest")
    uncut.run()
    kept = next(name for name in states(uncut) if "__dropped_" in name)
    assert states(uncut) == {kept: ("account", "dropped"), "bank.account": ("account", "live")}
    assert balances(uncut.warehouse, kept) == {1: 1, 2: 2}
    assert codes(uncut, "bank.account") == ["behind it", "later", "newest", "stays"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "later", few(True, False), ids=lambda later: "in a later one" if later else "in the same batch"
)
def test_without_cuts_a_new_table_of_its_old_name_waits_behind_it(uncut, later):
    uncut.say(NOTE, TO_ACCOUNT, RENAME_TABLE, ACCOUNT.name)
    if later:
        uncut.run()
    uncut.say(NOTE, "CREATE TABLE `bank`.`note` (`code` varchar(20) PRIMARY KEY)", CREATE_TABLE, NOTE.name)
    uncut.note(NOTE, "other")
    uncut.run()
    uncut.note(NOTE, "another")
    uncut.run()
    assert states(uncut)["bank.account"] == ("account", "live")
    assert sorted(states(uncut)) == ["bank.account", "bank.note"]
    assert {row["table_name"] for row in uncut.own("held")} == {"note"}
    with pytest.raises(Refused, match=r"bank.note cannot be released: bank.note already belongs to .* bank.note@"):
        uncut.release(TableName(SCHEMA, "note"))
    uncut.say(ACCOUNT, "DROP TABLE `bank`.`account`", DROP_TABLE, ACCOUNT.name)
    uncut.note(MOVED, "behind it")
    uncut.run()
    assert uncut.release(TableName(SCHEMA, "account")) == 1
    assert uncut.release(TableName(SCHEMA, "note")) == 2
    uncut.note(NOTE, "newest")
    uncut.run()
    assert codes(uncut, "bank.account") == ["behind it", "stays"]
    assert codes(uncut, "bank.note") == ["another", "newest", "other"]
