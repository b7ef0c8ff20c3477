"""Statements that do away with tables and rows, and the changefeed that sends no old values (by commit ts)."""

import dataclasses
import datetime as dt
import json
from itertools import groupby

import pytest
from e2e.bank import ACCOUNT, NOTE, SCHEMA
from e2e.till import NAME, RENAME_TABLE, Till
from pyiceberg.table.snapshots import ancestors_of
from spark.open_events import record
from support.slow import EVERY, few
from support.steps import watch

from pipeline.model.names import TableName
from pipeline.observe.metrics import PREFIX, Metrics
from pipeline.service import client
from pipeline.service.dispatch import REBUILD
from pipeline.settings import load
from pipeline.simulate.ddl import SimulatedDdl
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

PROTOCOLS = ("simple", "open-protocol") if EVERY else ("simple",)
DROP_TABLE, DROP_COLUMN, TRUNCATE_TABLE, DROP_PARTITION, TRUNCATE_PARTITION, RECOVER_TABLE = 4, 6, 11, 20, 23, 25
ADD_PRIMARY_KEY, DROP_PRIMARY_KEY, REORGANIZE_PARTITION, CREATE_TABLE = 32, 33, 64, 3
ADD_COLUMN, DROP_COLUMN, MODIFY_COLUMN = 5, 6, 12
FLASHBACK_CLUSTER, UNKNOWN = 62, 9999


@pytest.fixture(params=PROTOCOLS)
def till(request, stack, tmp_path):
    made = Till(stack, tmp_path, request.param)
    yield made
    made.feed.close()


def ids(till, name):
    return sorted(row.values["id"] for row in till.warehouse.current(name).rows)


def states(till):
    return {row["warehouse_name"]: row["state"] for row in till.own("tables")}


@pytest.mark.slow
def test_a_dropped_table_stays_as_it_was_and_makes_way_for_one_that_is_renamed_onto_its_name(till):
    till.accounts((1, 500), (2, 7))
    till.note("stays")
    till.run()
    till.accounts((3, 9))
    dropped = till.say("DROP TABLE `bank`.`account`", DROP_TABLE, ACCOUNT)
    till.run()
    assert states(till) == {"bank.account": "dropped", "bank.note": "live"}
    assert ids(till, "bank.account") == [1, 2, 3]
    sql = "RENAME TABLE `bank`.`note` TO `bank`.`account`"
    till.say(sql, RENAME_TABLE, NOTE, dataclasses.replace(NOTE, name="account"))
    till.run()
    kept = f"bank.account__dropped_{dropped}"
    assert states(till) == {kept: "dropped", "bank.account": "live"}
    assert ids(till, kept) == [1, 2, 3]
    assert [row.values["code"] for row in till.warehouse.current("bank.account").rows] == ["stays"]
    changes = till.warehouse.changes()
    assert {name: len(rows) for name, rows in changes.items()} == {kept: 3, "bank.account": 1}
    told = {row["commit_ts"]: (row["ddl_type"], row["action"]) for row in till.own("ddl_history")}
    assert "dropped" in told[dropped][1], told


@pytest.mark.slow
def test_what_waits_comes_in_with_a_rename_onto_the_name_of_a_dropped_table(stack, tmp_path):
    """The first batch of a process looks for what a dead one has put into tables, which get other names in it."""
    till = Till(stack, tmp_path, "simple")
    late = SimulatedTable("bank", "late", (SimulatedColumn("id", "bigint", nullable=False),), primary_key=("id",))
    till.accounts((1, 500))
    till.note("stays")
    dropped = till.say("DROP TABLE `bank`.`account`", DROP_TABLE, ACCOUNT)
    moment = till.undescribed(late, 1)
    till.run()
    assert [row["reason"].partition(":")[0] for row in till.own("held")] == ["SCHEMA_PENDING"]
    till.bootstrap(late, moment)
    renamed = dataclasses.replace(NOTE, name="account", version=99)
    till.say("RENAME TABLE `bank`.`note` TO `bank`.`account`", RENAME_TABLE, NOTE, renamed)
    till.row(renamed, None, {"code": "later", "text": ""})
    till.run()
    assert states(till) == {f"bank.account__dropped_{dropped}": "dropped", "bank.account": "live", "bank.late": "live"}
    assert sorted(row.values["code"] for row in till.warehouse.current("bank.account").rows) == ["later", "stays"]
    assert ids(till, "bank.late") == [1]
    assert {row["status"] for row in till.own("held")} == {"released"}
    till.feed.close()


@pytest.mark.slow
def test_a_table_that_is_made_anew_under_its_name_is_another_one(till):
    till.accounts((1, 500))
    till.run()
    dropped = till.say("DROP TABLE `bank`.`account`", DROP_TABLE, ACCOUNT)
    till.run()
    made = till.database.create_table(dataclasses.replace(ACCOUNT, name="again"))
    sql = made.ddl.query.replace("`again`", "`account`")
    again = dataclasses.replace(made.ddl, query=sql, table="account", version=ACCOUNT)
    till._tell(dataclasses.replace(made, ddl=again))
    till.accounts((2, 7))
    till.run()
    assert ids(till, f"bank.account__dropped_{dropped}") == [1]
    assert ids(till, "bank.account") == [2]


def test_truncate_empties_the_table_in_a_snapshot_of_its_own_and_leaves_the_changes(till):
    till.accounts((1, 500), (2, 7))
    till.run()
    till.accounts((3, 9))
    till.say("TRUNCATE TABLE `bank`.`account`", TRUNCATE_TABLE, ACCOUNT)
    till.accounts((4, 1))
    till.run()
    assert ids(till, "bank.account") == [4]
    assert len(till.warehouse.changes()["bank.account"]) == 4
    table = till.warehouse.table("bank.account")
    behind = [one.snapshot_id for one in ancestors_of(table.current_snapshot(), table.metadata)]
    seen = [sorted(table.scan(snapshot_id=one).to_arrow()["id"].to_pylist()) for one in reversed(behind)]
    assert [rows for rows, _ in groupby(seen)] == [[1, 2], [], [4]]


def test_partitions_that_cannot_be_followed_hold_their_table_alone_until_it_is_released(till):
    parts = SimulatedTable("bank", "parts", (SimulatedColumn("id", "bigint", nullable=False),), primary_key=("id",))
    made = till.database.create_table(parts)
    query = made.ddl.query + " PARTITION BY KEY (`id`) PARTITIONS 3"
    till._tell(dataclasses.replace(made, ddl=dataclasses.replace(made.ddl, query=query)))
    till._commit(lambda writer: writer.insert("bank", "parts", {"id": 1}))
    till.run()
    assert states(till)["bank.parts"] == "live"
    till.say("ALTER TABLE `bank`.`parts` TRUNCATE PARTITION `p0`", TRUNCATE_PARTITION, parts)
    till._commit(lambda writer: writer.insert("bank", "parts", {"id": 2}))
    till.note("goes on")
    till.accounts((1, 500))
    till.run()
    assert states(till) == {"bank.account": "live", "bank.note": "live", "bank.parts": "held"}
    (held,) = till.own("tables", table_name="parts")
    assert held["held_reason"].startswith("DDL_NOT_UNDERSTOOD")
    assert "TRUNCATE PARTITION" in held["held_reason"]
    told = {row["sql"]: (row["action"], row["status"]) for row in till.own("ddl_history", table_name="parts")}
    assert told.pop("ALTER TABLE `bank`.`parts` TRUNCATE PARTITION `p0`") == (
        "held; to go on: ticdc-warehouse tables release bank.parts", "held",
    )  # fmt: skip
    assert {status for _, status in told.values()} == {"applied"}
    assert ids(till, "bank.parts") == [1]
    assert ids(till, "bank.account") == [1]
    assert len(till.warehouse.current("bank.note").rows) == 1
    till.release(name=TableName("bank", "parts"))
    assert ids(till, "bank.parts") == [1, 2]
    till.run()
    assert states(till)["bank.parts"] == "live"


@pytest.mark.slow
def test_rows_of_partitions_by_list_go_with_them(till):
    lists = SimulatedTable(
        "bank",
        "lists",
        (
            SimulatedColumn("id", "bigint", nullable=False),
            SimulatedColumn("place", "varchar(10)"),
            SimulatedColumn("n", "int"),
        ),
        primary_key=("id",),
    )
    made = till.database.create_table(lists)
    by = "(PARTITION `a` VALUES IN (1, 2), PARTITION `b` VALUES IN (3, NULL), PARTITION `c` DEFAULT)"
    query = f"{made.ddl.query} PARTITION BY LIST (`n`) {by}"
    till._tell(dataclasses.replace(made, ddl=dataclasses.replace(made.ddl, query=query)))
    for number, n in enumerate((1, 2, 3, None, 7)):
        till.row(lists, None, {"id": number, "place": "", "n": n})
    till.run()
    assert ids(till, "bank.lists") == [0, 1, 2, 3, 4]
    till.say("ALTER TABLE `bank`.`lists` TRUNCATE PARTITION `b`", TRUNCATE_PARTITION, lists)
    till.row(lists, None, {"id": 8, "place": "", "n": 3})
    till.run()
    assert ids(till, "bank.lists") == [0, 1, 4, 8]
    till.say("ALTER TABLE `bank`.`lists` DROP PARTITION `a`", DROP_PARTITION, lists)
    till.run()
    assert ids(till, "bank.lists") == [4, 8]
    assert states(till)["bank.lists"] == "live"
    client.rebuild(load(till.file), TableName("bank", "lists"))
    assert ids(till, "bank.lists") == [4, 8]


@pytest.mark.slow
@pytest.mark.parametrize("model", few("is live", "is held"))
def test_a_table_that_is_made_like_one_whose_partitions_change_in_the_same_batch_has_those_of_then(till, model):
    parts = SimulatedTable("bank", "parts", (SimulatedColumn("id", "bigint", nullable=False),), primary_key=("id",))
    alike = dataclasses.replace(parts, name="alike")
    made = till.database.create_table(parts)
    query = made.ddl.query + " PARTITION BY RANGE (`id`) (PARTITION `p` VALUES LESS THAN (20))"
    till._tell(dataclasses.replace(made, ddl=dataclasses.replace(made.ddl, query=query)))
    if model == "is held":
        till.say("RECOVER TABLE `bank`.`parts`", RECOVER_TABLE, parts)
    till.run()
    into = "(PARTITION `p` VALUES LESS THAN (15),PARTITION `pb` VALUES LESS THAN (20))"
    till.say(f"ALTER TABLE `bank`.`parts` REORGANIZE PARTITION `p` INTO {into}", REORGANIZE_PARTITION, parts)
    till.say("CREATE TABLE `bank`.`alike` LIKE `bank`.`parts`", CREATE_TABLE, after=alike)
    for number in (1, 17):
        till.row(alike, None, {"id": number})
    till.say("ALTER TABLE `bank`.`parts` DROP PARTITION `pb`", DROP_PARTITION, parts)
    till.run()
    till.say("ALTER TABLE `bank`.`alike` TRUNCATE PARTITION `p`", TRUNCATE_PARTITION, alike)
    till.run()
    assert ids(till, "bank.alike") == [17]
    till.say("ALTER TABLE `bank`.`alike` TRUNCATE PARTITION `pb`", TRUNCATE_PARTITION, alike)
    till.run()
    assert ids(till, "bank.alike") == []
    assert states(till)["bank.alike"] == "live"


@pytest.mark.slow
@pytest.mark.parametrize("protocol", few("open-protocol", "simple"))
def test_a_row_goes_by_what_no_column_could_hold_of_it(stack, tmp_path, protocol):
    """Of a multiset, and by a key that moves (raw): dates that no calendar has are told apart by their texts."""
    till = Till(stack, tmp_path, protocol)
    columns = (SimulatedColumn("id", "int"), SimulatedColumn("day", "date", nullable=False))
    heap, keyed = (
        SimulatedTable("bank", "heap", columns),
        SimulatedTable("bank", "keyed", columns, primary_key=("day",), clustered=False),
    )
    for table in (heap, keyed):
        till._tell(till.database.create_table(table))
    rows = [{"id": number, "day": day} for number, day in enumerate(("0000-00-00", "2024-02-30", "2024-00-00"))]
    for table in (heap, keyed):
        for row in rows:
            till.row(table, None, row)
    for _ in range(2):
        till.row(heap, None, {"id": 9, "day": "0000-00-00"})
    till.run()
    till.row(heap, {"id": 9, "day": "0000-00-00"}, None)
    till.row(heap, rows[0], {"id": 7, "day": "0000-00-00"})
    till.row(heap, rows[1], {"id": 1, "day": "2024-02-29"})
    till.row(heap, rows[2], None)
    till.row(keyed, rows[0], {"id": 0, "day": "2024-01-01"})
    till.row(keyed, rows[1], {"id": 1, "day": "0000-00-00"})
    till.run()

    def shown(name):
        found = till.warehouse.current(name).rows
        return sorted((row.values["id"], str(row.values["day"]), row.lost.get("day")) for row in found)

    assert shown("bank.heap") == [(1, "2024-02-29", None), (7, "None", "0000-00-00"), (9, "None", "0000-00-00")]
    assert shown("bank.keyed") == [
        (0, "2024-01-01", None),
        (1, "None", "0000-00-00"),
        (2, "None", "2024-00-00"),
    ]
    changes = till.warehouse.changes()["bank.heap"]
    told = {row["id"]: dict(row["_before"]["_unrepresentable"] or ()) for row in changes if row["_op"] == "update"}
    assert told == {7: {"day": "0000-00-00"}, 1: {"day": "2024-02-30"}}
    till.feed.close()


@pytest.mark.slow
def test_letters_of_a_table_that_is_described_too_late_make_it_and_its_rows_go_on(stack, tmp_path):
    till = Till(stack, tmp_path, "simple")
    late = SimulatedTable("bank", "late", (SimulatedColumn("id", "bigint", nullable=False),), primary_key=("id",))
    moment = till.undescribed(late, 1)
    till.run()
    till.release(name=TableName("bank", "late"))
    assert [row["code"] for row in till.own("dead_letters")] == ["SCHEMA_UNKNOWN"]
    till.bootstrap(late, moment)
    till.run()
    assert till.redrive(what="dead_letters").redriven == 1
    till.row(late, None, {"id": 2})
    till.run()
    assert ids(till, "bank.late") == [1, 2]
    assert till.cut() == ("exact", "")
    till.feed.close()


@pytest.mark.slow
@pytest.mark.parametrize("apart", few(True, False), ids=lambda apart: "in a later batch" if apart else "at once")
def test_a_statement_that_nobody_understands_holds_a_table_of_which_no_row_has_come(till, apart):
    """RECOVER TABLE brings rows back that no message has: what comes behind it waits, whenever it comes."""
    till.accounts((1, 500))
    till.run()
    dropped = till.say("DROP TABLE `bank`.`account`", DROP_TABLE, ACCOUNT)
    till.say("RECOVER TABLE `bank`.`account`", RECOVER_TABLE, ACCOUNT)
    till.note("goes on")
    if apart:
        till.run()
        assert till.cut() == ("partial", "held: bank.account (0 records)")
        till.note("and on")  # a cut is told of tables that show something new
    till.accounts((2, 7))
    till.run()
    records = "1 record" if apart else "3 records"  # the statement waits with the rows of its batch, once a partition
    assert till.cut() == ("partial", f"held: bank.account ({records})")
    kept = f"bank.account__dropped_{dropped}"
    assert states(till) == {kept: "dropped", "bank.account": "held", "bank.note": "live"}
    assert ids(till, "bank.account") == []
    till.release()
    assert ids(till, "bank.account") == [2]
    till.run()
    assert till.cut() == ("exact", "")


@pytest.mark.slow
def test_a_statement_that_nobody_understands_about_a_database_holds_its_tables(till):
    """Simple names the database in the text alone."""
    till.accounts((1, 500))
    till.run()
    for schema in (SCHEMA, "elsewhere"):
        statement(till, f"RESHAPE DATABASE IF EXISTS `{schema}`", UNKNOWN, schema)
    till.run()
    assert states(till) == {"bank.account": "held", "bank.note": "held"}
    done = {row["sql"].split("`")[1]: (row["action"], row["status"]) for row in history(till, "RESHAPE")}
    assert done["bank"][1] == "held"
    assert "tables release bank.account" in done["bank"][0]
    assert done["elsewhere"] == ("the statement names no table of this warehouse, so no table is held", "applied")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "kind"), few(("FLASHBACK CLUSTER TO TIMESTAMP '2026-11-24 00:00:00'", FLASHBACK_CLUSTER), ("UNDO", UNKNOWN))
)
def test_a_statement_that_nobody_understands_about_everything_holds_all_tables(till, sql, kind):
    """Also one of which the first row comes with it, and none that has gone."""
    till.note("there before")
    till.say("DROP TABLE `bank`.`note`", DROP_TABLE, NOTE)
    till.run()
    till.accounts((1, 500))
    statement(till, sql, kind, "")
    till.accounts((2, 7))
    till.run()
    assert states(till) == {"bank.account": "held", "bank.note": "dropped"}
    assert [row["status"] for row in history(till, sql[:4])] == ["held"]
    assert max(till.own("batches"), key=lambda batch: batch["batch_id"])["level"] == "partial"
    till.release()
    assert ids(till, "bank.account") == [1, 2]
    till.run()
    assert till.cut() == ("exact", "")


def statement(till, sql, kind, schema):
    till.last_ts = till.database.commit(till.database.begin()).commit_ts
    till.feed._sender.ddl(SimulatedDdl(sql, kind, schema, ""), till.last_ts)


def history(till, beginning):
    return [row for row in till.own("ddl_history") if row["sql"].startswith(beginning)]


@pytest.mark.slow
def test_a_name_that_is_held_before_any_row_came_can_be_released(till):
    till.run()
    till.say("DROP TABLE `bank`.`account`", DROP_TABLE, ACCOUNT)
    till.say("RECOVER TABLE `bank`.`account`", RECOVER_TABLE, ACCOUNT)
    till.run()
    till.release()
    till.accounts((2, 7))
    till.run()
    assert ids(till, "bank.account") == [2]
    assert till.cut() == ("exact", "")


@pytest.mark.slow
def test_rows_go_by_the_key_of_their_time_also_when_that_comes_back(stack, tmp_path):
    """A table without a key gets one and loses it: all in one batch, and a batch for each time."""
    till = Till(stack, tmp_path, "open-protocol")
    columns = (SimulatedColumn("a", "int", nullable=False), SimulatedColumn("b", "int"))
    once, turns = SimulatedTable("bank", "once", columns), SimulatedTable("bank", "turns", columns)

    def keyless(table):
        till.row(table, None, {"a": 1, "b": 1})

    def keyed(table):
        now = dataclasses.replace(table, primary_key=("a",), clustered=False, version=table.version + 1)
        till.say(f"ALTER TABLE `{table.name}` ADD PRIMARY KEY (`a`)", ADD_PRIMARY_KEY, now)
        till.row(now, None, {"a": 3, "b": 3})
        till.row(now, {"a": 3, "b": 3}, {"a": 3, "b": 4})

    def again(table):
        till.say(f"ALTER TABLE `{table.name}` DROP PRIMARY KEY", DROP_PRIMARY_KEY, table)
        for _ in range(2):
            till.row(table, None, {"a": 2, "b": 2})

    for table in (once, turns):
        till._tell(till.database.create_table(table))
    for step in (keyless, keyed, again):
        step(turns)
        if step is again:
            for one in (keyless, keyed, again):
                one(once)
        till.run()
    for table in (once, turns):
        found = till.warehouse.current(table.full_name).rows
        assert sorted((row.values["a"], row.values["b"]) for row in found) == [(1, 1), (2, 2), (2, 2), (3, 4)]
    till.feed.close()


@pytest.mark.slow
def test_a_key_column_that_is_dropped_stays_until_the_rows_of_its_time_are_shown(stack, tmp_path):
    till = Till(stack, tmp_path, "open-protocol")
    till.set("warehouse", drop_column="drop")
    columns = (SimulatedColumn("id", "int", nullable=False), SimulatedColumn("v", "int"))
    keyed = SimulatedTable("bank", "keyed", columns, primary_key=("id",), clustered=False)
    keyless = dataclasses.replace(keyed, primary_key=(), version=2)
    bare = dataclasses.replace(keyless, columns=columns[1:], version=3)
    till._tell(till.database.create_table(keyed))
    for number in (1, 2):
        till.row(keyed, None, {"id": number, "v": number})
    till.run()
    till.row(keyed, {"id": 1, "v": 1}, {"id": 1, "v": 7})
    till.say("ALTER TABLE `keyed` DROP PRIMARY KEY", DROP_PRIMARY_KEY, keyed, keyless)
    till.say("ALTER TABLE `keyed` DROP COLUMN `id`", DROP_COLUMN, keyless, bare)
    till.row(bare, None, {"v": 3})
    till.run()
    found = till.warehouse.current("bank.keyed").rows
    assert sorted(row.values["v"] for row in found) == [2, 3, 7]
    till.row(bare, {"v": 2}, None)
    till.run()
    found = till.warehouse.current("bank.keyed").rows
    assert sorted(row.values["v"] for row in found) == [3, 7]
    assert {name for row in found for name in row.values} == {"v"}
    rebuilt(till, "keyed")
    found = till.warehouse.current("bank.keyed").rows
    assert sorted(row.values["v"] for row in found) == [3, 7]
    assert {name for row in found for name in row.values} == {"v"}
    till.row(bare, {"v": 7}, {"v": 8})
    till.run()
    found = till.warehouse.current("bank.keyed").rows
    assert sorted(row.values["v"] for row in found) == [3, 8]
    assert till.cut() == ("exact", "")
    till.feed.close()


@pytest.mark.slow
def test_without_old_values_an_update_is_an_upsert_and_a_delete_knows_its_key(stack, tmp_path):
    till = Till(stack, tmp_path, "open-protocol")
    till.set("changefeed", **{"enable-old-value": False})
    till.accounts((1, 500), (2, 7))
    till.run()

    def row(number, balance=None):
        handle = {"id": {"t": 8, "h": True, "f": 11, "v": number}}
        if balance is None:
            return {"d": handle}
        more = {"owner": {"t": 15, "f": 0, "v": f"o{number}"}, "balance": {"t": 246, "f": 0, "v": balance}}
        return {"u": {**handle, **more}}

    for event in (row(1, "501.00"), row(2), row(3, "9.00")):
        moment = till.database.commit(till.database.begin()).commit_ts
        key = {"ts": moment, "scm": "bank", "tbl": "account", "t": 1}
        till.feed._channel.send(f"{till.feed.prefix}_cdc", 0, *record((json.dumps(key), json.dumps(event))))
        till.last_ts = moment
    till.run()
    assert till.balances() == {1: 501, 3: 9}
    ops = [(change["id"], change["_op"]) for change in till.warehouse.changes()["bank.account"]]
    assert {(1, "upsert"), (2, "delete"), (3, "upsert")} <= set(ops)
    till.feed.close()


ALIKE = ("ß", "ss", "ı", "i", "ſ", "s", "σ", "ς", "k")  # noqa: RUF001
"""Nine columns for TiDB, which compares names in lower case; other rules make fewer of them."""


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "names"), few(("open-protocol", ALIKE), ("simple", ALIKE[:2])))
def test_columns_that_tidb_tells_apart_have_their_own_values(protocol, names, stack, tmp_path):
    till = Till(stack, tmp_path, protocol)
    columns = tuple(SimulatedColumn(name, "int") for name in names)
    table = SimulatedTable(
        "bank", "alike", (SimulatedColumn("id", "int", nullable=False), *columns), primary_key=("id",)
    )
    till._tell(till.database.create_table(table))
    first = {name: number for number, name in enumerate(names, 10)}
    till._commit(lambda writer: writer.insert("bank", "alike", {"id": 1, **first}))
    till.run()
    second = {name: number for number, name in enumerate(names[::2], 30)}
    till._commit(lambda writer: writer.update("bank", "alike", (1,), second))
    till.run()
    (found,) = till.warehouse.current("bank.alike").rows
    assert sorted(found.values.values()) == sorted({"id": 1, **first, **second}.values())
    assert {name: found.values[name] for name in names[:2]} == {name: {**first, **second}[name] for name in names[:2]}
    till.feed.close()


@pytest.mark.slow
def test_values_whose_members_nobody_has_named_are_told_once_and_counted(stack, tmp_path):
    till, metrics = Till(stack, tmp_path, "open-protocol"), Metrics("till", "1.2.3")
    columns = (SimulatedColumn("id", "int", nullable=False), SimulatedColumn("state", "enum('new','paid')"))
    table = SimulatedTable("bank", "order", columns, primary_key=("id",))
    for batch in ((1, 2), (3,)):
        for number in batch:
            till.row(table, None, {"id": number, "state": "paid"})
        till.run(metrics)
    told = [row for row in till.own("ddl_history") if row["ddl_type"] == "MEMBERS_UNKNOWN"]
    assert [(row["schema_name"], row["table_name"], row["action"].partition(":")[0]) for row in told] == [
        ("bank", "order", "state")
    ]
    samples = [sample for family in metrics.registry.collect() for sample in family.samples]
    counted = {s.labels["table"]: s.value for s in samples if s.name == f"{PREFIX}_members_unknown_total"}
    assert counted == {"bank.order": 3}
    till.feed.close()


@pytest.mark.slow
def test_a_table_that_another_commits_to_while_it_is_published_is_published_all_the_same(till):
    till.accounts((1, 500))
    with till.living() as (pipeline, takes):
        takes()
        left = ["linked"]

        def meddle(step):
            if step in left:
                left.remove(step)
                pipeline.context.tables.find(NAME).current.mark({"by": "another"}, "main")

        watch(pipeline, meddle)
        till.change(1, balance=7)
        till.accounts((2, 5))
        takes()
    assert left == []
    assert till.balances() == {1: 7, 2: 5}
    till.assert_right()


def rebuilt(till, *names):
    with till.living() as (pipeline, _):
        for name in names:
            pipeline.operation(REBUILD, ["bank", name])


def heaps(till, *columns):
    """Two tables without a key: `once` gets a story in one batch, `turns` a batch for each chapter."""
    tables = [SimulatedTable("bank", name, columns) for name in ("once", "turns")]
    for table in tables:
        till._tell(till.database.create_table(table))
    return tables


def told(till, once, turns, chapters):
    """Tell both tables a story, and rebuild them; their rows, with what their columns could not hold."""
    for chapter in chapters:
        chapter(turns)
        if chapter is chapters[-1]:
            for one in chapters:
                one(once)
        till.run()
    names = [table.full_name for table in (once, turns)]
    found = [till.warehouse.current(name).rows for name in names]
    rebuilt(till, "once", "turns")
    found += [till.warehouse.current(name).rows for name in names]
    return [sorted(((*row.values.values(), *row.lost.values()) for row in rows), key=str) for rows in found]


def altered(table, *columns):
    return dataclasses.replace(table, columns=columns, version=table.version + 1)


@pytest.mark.slow
def test_rows_without_a_key_go_by_the_columns_that_they_had_at_that_time(till):
    """A dropped column stays with its values, and with what it could not hold; no later image of a row has them."""
    a, c = SimulatedColumn("a", "int", nullable=False), SimulatedColumn("c", "date")
    once, turns = heaps(till, a, c)
    x, y, z, w = "2024-01-01", "0000-00-00", "2024-02-30", "2024-01-04"

    def old(table):
        for number, day in ((1, x), (1, y), (2, y), (3, z), (4, x), (4, y), (5, x), (6, None)):
            till.row(table, None, {"a": number, "c": day})

    def by_all(table):
        till.row(table, {"a": 1, "c": y}, None)
        till.row(table, {"a": 3, "c": z}, {"a": 3, "c": w})

    def dropped(table):
        now = altered(table, a)
        till.say(f"ALTER TABLE `{table.name}` DROP COLUMN `c`", DROP_COLUMN, table, now)
        till.row(now, None, {"a": 4})

    def by_what_is_left(table):
        now = altered(table, a)
        for number in (1, 4, 6, 9):
            till.row(now, {"a": number}, None)
        till.row(now, {"a": 2}, {"a": 7})
        till.row(now, {"a": 5}, {"a": 8})

    def and_back(table):
        till.row(altered(table, a), {"a": 8}, {"a": 5})

    want = [(3, dt.date(2024, 1, 4)), (4, None), (4, None, y), (5, None), (7, None)]
    stories = told(till, once, turns, (old, by_all, dropped, by_what_is_left, and_back))
    assert stories == [sorted(want, key=str)] * 4
    assert till.cut() == ("exact", "")


@pytest.mark.slow
def test_rows_without_a_key_go_by_the_column_that_took_the_place_of_another(till):
    """The column that a type which cannot widen leaves behind does not count."""
    a, before, after = SimulatedColumn("a", "int"), SimulatedColumn("c", "date"), SimulatedColumn("c", "varchar(10)")
    once, turns = heaps(till, a, before)

    def old(table):
        for number, day in ((1, "2024-01-01"), (2, "2024-01-02"), (2, "2024-01-02"), (3, "2024-01-03")):
            till.row(table, None, {"a": number, "c": day})
        till.row(table, None, {"a": 4, "c": None})
        for number in (6, 7, 8):
            till.row(table, None, {"a": number, "c": "0000-00-00"})

    def forked(table):
        now = altered(table, a, after)
        sql = f"ALTER TABLE `{table.name}` MODIFY COLUMN `c` VARCHAR(10)"
        till.say(sql, MODIFY_COLUMN, table, now)
        till.row(now, {"a": 1, "c": "2024-01-01"}, None)
        till.row(now, {"a": 2, "c": "2024-01-02"}, {"a": 2, "c": "soon"})
        till.row(now, {"a": 6, "c": "0000-00-00"}, None)
        till.row(now, {"a": 7, "c": "0000-00-00"}, {"a": 7, "c": "soon"})

    def dropped(table):
        now = dataclasses.replace(altered(table, a), version=table.version + 2)
        till.say(f"ALTER TABLE `{table.name}` DROP COLUMN `c`", DROP_COLUMN, altered(table, a, after), now)
        till.row(now, {"a": 3}, None)
        till.row(now, {"a": 4}, {"a": 5})
        till.row(now, {"a": 2}, None)

    stories = told(till, once, turns, (old, forked, dropped))
    zero = "0000-00-00"
    assert stories == [[(2, None, "soon"), (5, None, None), (7, None, "soon"), (8, None, zero, zero)]] * 4


@pytest.mark.slow
def test_rows_without_a_key_go_where_nobody_knows_what_they_show_in_a_column(till):
    """NULL, in a column whose default is an expression: the source has a value there, and says it in the delete."""
    a = SimulatedColumn("a", "int")
    d, e = (SimulatedColumn(name, "datetime", default="CURRENT_TIMESTAMP") for name in "de")
    once, turns = heaps(till, a)
    x, y, z = "2024-01-01 00:00:00", "2024-01-02 00:00:00", "2024-01-03 00:00:00"

    def old(table):
        for number in (1, 2, 2, 3, 7):
            till.row(table, None, {"a": number})

    def added(table):
        now = altered(table, a, d)
        sql = f"ALTER TABLE `{table.name}` ADD COLUMN `d` DATETIME DEFAULT CURRENT_TIMESTAMP"
        till.say(sql, ADD_COLUMN, table, now)
        for number, day in ((3, y), (4, y), (5, None), (5, None), (7, y)):
            till.row(now, None, {"a": number, "d": day})

    def gone(table):
        now = altered(table, a, d)
        for number, day in ((1, x), (3, y), (4, y), (5, None)):
            till.row(now, {"a": number, "d": day}, None)
        till.row(now, {"a": 2, "d": x}, {"a": 6, "d": x})

    def again(table):
        then = altered(table, a, d)
        now = altered(then, a, d, e)
        sql = f"ALTER TABLE `{table.name}` ADD COLUMN `e` DATETIME DEFAULT CURRENT_TIMESTAMP"
        till.say(sql, ADD_COLUMN, then, now)
        till.row(now, {"a": 6, "d": x, "e": z}, {"a": 8, "d": x, "e": z})
        till.row(now, {"a": 7, "d": x, "e": z}, None)
        till.row(now, {"a": 9, "d": x, "e": z}, None)

    first, second = (dt.datetime.fromisoformat(day) for day in (x, y))
    third = dt.datetime.fromisoformat(z)
    want = [(2, None, None), (3, None, None), (5, None, None), (7, second, None), (8, first, third)]
    assert told(till, once, turns, (old, added, gone, again)) == [want] * 4
