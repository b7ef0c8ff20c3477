"""Statements that do away with tables and rows, and the changefeed that sends no old values (cut regime)."""

import dataclasses
import json
from itertools import groupby

import pytest
from e2e.bank import ACCOUNT, NOTE
from e2e.till import RENAME_TABLE, Till
from golden.corpus import EVERY
from pyiceberg.table.snapshots import ancestors_of
from spark.open_events import record

from pipeline.model.names import TableName
from pipeline.simulate.tables import Column, Table

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

PROTOCOLS = ("simple", "open-protocol") if EVERY else ("simple",)
DROP_TABLE, TRUNCATE_TABLE, TRUNCATE_PARTITION = 4, 11, 23


@pytest.fixture(params=PROTOCOLS)
def till(request, stack, tmp_path):
    made = Till(stack, tmp_path, request.param)
    yield made
    made.feed.close()


def ids(till, name):
    return sorted(row.values["id"] for row in till.warehouse.current(name).rows)


def states(till):
    return {row["warehouse_name"]: row["state"] for row in till.own("tables")}


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
    table = till.warehouse._table("bank.account")
    behind = [one.snapshot_id for one in ancestors_of(table.current_snapshot(), table.metadata)]
    seen = [sorted(table.scan(snapshot_id=one).to_arrow()["id"].to_pylist()) for one in reversed(behind)]
    assert [rows for rows, _ in groupby(seen)] == [[], [1, 2], [], [4]]


def test_partitions_that_cannot_be_followed_hold_their_table_alone_until_it_is_released(till):
    parts = Table("bank", "parts", (Column("id", "bigint", nullable=False),), primary_key=("id",))
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
    assert ids(till, "bank.parts") == [1]
    assert ids(till, "bank.account") == [1]
    assert len(till.warehouse.current("bank.note").rows) == 1
    till.release(name=TableName("bank", "parts"))
    assert ids(till, "bank.parts") == [1, 2]
    till.run()
    assert states(till)["bank.parts"] == "live"


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
        till.feed._topics.send(f"{till.feed.prefix}_cdc", 0, *record((json.dumps(key), json.dumps(event))))
        till.last_ts = moment
    till.run()
    assert till.balances() == {1: 501, 3: 9}
    ops = [(change["id"], change["_op"]) for change in till.warehouse.changes()["bank.account"]]
    assert {(1, "upsert"), (2, "delete"), (3, "upsert")} <= set(ops)
    till.feed.close()
