"""Dead letters of tables that are known: what they say, what takes them with it, and which cuts lack them."""

import dataclasses
import json
from decimal import Decimal

import pytest
from e2e.bank import ACCOUNT, NOTE, SCHEMA
from e2e.till import NAME, RENAME_TABLE, Death, Till
from support.slow import EVERY, few

from pipeline.model.columns import FAR_FUTURE
from pipeline.observe.metrics import PREFIX, Metrics
from pipeline.simulate.database import RowEvent
from pipeline.simulate.open_protocol import OpenCodec, record
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

QUERY, CREATE_TABLE, DROP_TABLE, RECOVER_TABLE = 1, 3, 4, 25
DROP = "DROP TABLE `bank`.`account`"
PROTOCOLS = ("simple", "open-protocol") if EVERY else ("open-protocol",)
SAID = ("code", "schema_name", "table_name", "commit_ts", "status")


@pytest.fixture(params=PROTOCOLS)
def till(request, stack, tmp_path):
    made = Till(stack, tmp_path, request.param)
    yield made
    made.feed.close()


def account(number):
    return {"id": number, "owner": f"o{number}", "balance": Decimal(number)}


def letters(till):
    return [tuple(row[name] for name in SAID) for row in till.own("dead_letters")]


def too_large(till, number, sent_at=None):
    """Insert an account of which only the key is sent, or send it again; gives its commit ts."""
    moment = sent_at or till.database.commit(till.database.begin()).commit_ts
    table = till.database.table(SCHEMA, ACCOUNT.name)
    if till.feed.protocol == "simple":
        sent = json.loads(till.feed._sender._codec(table, moment).value("insert", None, account(number), moment))
        key, value = None, json.dumps({**sent, "handleKeyOnly": True}, separators=(",", ":")).encode()
    else:
        codec = OpenCodec(table)
        said = codec.key(account(number), moment)[:-1] + b',"ohk":true}'
        key, value = record([(said, codec.value(None, account(number)))])
    till.feed._channel.send(f"{till.feed.prefix}_cdc", 0, key, value)
    till.last_ts = max(till.last_ts, moment)
    return moment


def counted(metrics):
    """Table → dead letters, as Prometheus is told."""
    samples = [sample for family in metrics.registry.collect() for sample in family.samples]
    return {s.labels["table"]: s.value for s in samples if s.name == f"{PREFIX}_dead_letters_total" and s.value}


@pytest.mark.slow
def test_a_row_of_a_removed_table_that_comes_again_is_kept_and_missed_by_no_cut(till):
    till.set("warehouse", drop_table="drop")
    till.accounts((1, 500))
    sent = till.last_ts
    till.run()
    till.say(DROP, DROP_TABLE, till.database.table(SCHEMA, ACCOUNT.name))
    till.run()
    till.feed._sender.row(RowEvent(ACCOUNT, "insert", None, account(1), 1), sent)
    till.note("goes on")
    till.run()
    assert letters(till) == [("TABLE_REMOVED", "bank", "account", sent, "superseded")]
    assert till.cut() == ("exact", "")


@pytest.mark.slow
def test_a_row_from_before_its_table_was_made_is_kept_and_missed_by_no_cut(till):
    till.accounts((1, 500))
    till.run()
    till.feed._sender.row(RowEvent(ACCOUNT, "insert", None, account(9), 1), 5)
    till.note("goes on")
    till.run()
    assert letters(till) == [("TABLE_REMOVED", "bank", "account", 5, "superseded")]
    assert (till.cut(), till.own("held")) == (("exact", ""), [])
    till.assert_right()


@pytest.mark.slow
def test_rows_whose_commit_ts_tidb_cannot_have_are_letters_and_nothing_waits_for_them(till):
    till.accounts((1, 500))
    till.run()
    for number, moment in enumerate((0, -(2**63), FAR_FUTURE + 1, 2**63 - 1)):
        till.feed._sender.row(RowEvent(ACCOUNT, "insert", None, account(9 + number), 1), moment)
    till.accounts((2, 7))
    till.run()
    (code,) = {row["code"] for row in till.own("dead_letters")}
    assert (code.endswith("_UNREADABLE"), len(letters(till)), till.own("held")) == (True, 4, [])
    assert sorted(till.balances()) == [1, 2]
    till.assert_right()


def test_a_row_that_was_too_large_is_a_letter_of_its_table_and_goes_with_it(till):
    metrics = Metrics("till", "1.2.3")
    till.accounts((1, 500))
    till.run(metrics)
    sent = too_large(till, 2)
    till.note("goes on")
    till.run(metrics)
    assert letters(till) == [("HANDLE_KEY_ONLY", "bank", "account", sent, "open")]
    assert till.cut() == ("partial", "1 dead letters")
    assert counted(metrics) == {"bank.account": 1}
    till.say(DROP, DROP_TABLE, till.database.table(SCHEMA, ACCOUNT.name))
    till.note("goes on without it")
    till.run(metrics)
    assert letters(till) == [("HANDLE_KEY_ONLY", "bank", "account", sent, "superseded")]
    assert till.cut() == ("exact", "")
    too_large(till, 2, sent)
    till.note("is sent again")
    till.run()
    assert letters(till) == [("HANDLE_KEY_ONLY", "bank", "account", sent, "superseded")] * 2
    assert till.cut() == ("exact", "")


@pytest.mark.slow
def test_a_row_that_was_too_large_and_comes_when_its_table_was_renamed_is_a_letter_of_that(till):
    till.accounts((1, 500))
    till.run()
    sent = till.database.commit(till.database.begin()).commit_ts
    sql, renamed = "RENAME TABLE `bank`.`account` TO `bank`.`konto`", dataclasses.replace(ACCOUNT, name="konto")
    till.say(sql, RENAME_TABLE, ACCOUNT, renamed)
    till.run()
    too_large(till, 2, sent)
    till.note("goes on")
    till.run()
    assert letters(till) == [("HANDLE_KEY_ONLY", "bank", "konto", sent, "open")]


def dropped_and_made_anew(till):
    table = till.database.table(SCHEMA, ACCOUNT.name)
    till.say(DROP, DROP_TABLE, table)
    again = dataclasses.replace(table, version=table.version + 1)
    till.say("CREATE TABLE `bank`.`account` (`id` BIGINT)", CREATE_TABLE, after=again)
    return again, account(2)


def swapped(till):
    note = till.database.table(SCHEMA, NOTE.name)
    till.swap()
    return dataclasses.replace(note, name=ACCOUNT.name, version=99), {"code": "held", "text": ""}


@pytest.mark.slow
@pytest.mark.parametrize("changed", few(dropped_and_made_anew, swapped), ids=lambda changed: changed.__name__)
def test_a_row_that_was_too_large_takes_nothing_along_that_is_held_for_todays_table(till, changed):
    """Records of `held` have no commit ts: a former table of that name has none of them."""
    till.accounts((1, 500))
    till.run()
    table, row = changed(till)
    till.run()
    till.say("RECOVER TABLE `bank`.`account`", RECOVER_TABLE, table)
    till.row(table, None, row)
    till.run()
    sent = too_large(till, 3)
    till.run()
    assert {(one["table_name"], one["status"]) for one in till.own("held")} == {("account", "open")}
    assert letters(till) == [("HANDLE_KEY_ONLY", "bank", "account", sent, "open")]
    till.release()
    key = table.primary_key[0]
    assert [one.values[key] for one in till.warehouse.current(str(NAME)).rows] == [row[key]]


def test_rows_that_a_release_gives_up_are_letters_of_their_table(stack, tmp_path):
    till = Till(stack, tmp_path, "simple")
    till.accounts((1, 500))
    till.lost_version((2, 7))
    sent = till.last_ts
    till.run()
    till.release(name=NAME)
    assert letters(till) == [("SCHEMA_UNKNOWN", "bank", "account", sent, "open")]
    till.feed.close()


@pytest.mark.slow
def test_rows_whose_schema_never_came_end_with_their_table_and_stand_in_no_way_of_the_next(stack, tmp_path):
    till = Till(stack, tmp_path, "simple")
    table = till.database.table(SCHEMA, ACCOUNT.name)
    till.accounts((1, 500))
    till.lost_version((2, 7))
    sent = till.last_ts
    till.accounts((3, 9))
    till.run()
    assert sorted(till.balances()) == [1]
    dropped = till.say(DROP, DROP_TABLE, table)
    again = dataclasses.replace(table, version=table.version + 1)
    till.say("CREATE TABLE `bank`.`account` (`id` BIGINT)", CREATE_TABLE, after=again)
    till.row(again, None, account(4))
    till.run()
    assert letters(till) == [("SCHEMA_UNKNOWN", "bank", "account", sent, "superseded")]
    assert [row["value"] is not None for row in till.own("dead_letters")] == [True]
    assert sorted(till.balances()) == [4]
    kept = till.warehouse.current(f"{NAME}__dropped_{dropped}")
    assert sorted(row.values["id"] for row in kept.rows) == [1, 3]
    assert {row["status"] for row in till.own("held")} == {"released"}
    assert till.cut() == ("exact", "")
    till.feed.close()


@pytest.mark.slow
@pytest.mark.parametrize("dies_at", few("evolved", "", "ddl-applied", "cuts-appended"))
def test_rows_of_a_database_that_is_dropped_before_anything_describes_them_end_with_it(stack, tmp_path, dies_at):
    """A DROP DATABASE is the only word of its tables: no message says what they were."""
    till = Till(stack, tmp_path, "simple")
    late = SimulatedTable("shop", "late", (SimulatedColumn("id", "bigint", nullable=False),), primary_key=("id",))
    sent = [till.undescribed(late, number) for number in (1, 2)]
    till.accounts((1, 500))
    till.run()
    assert till.cut() == ("partial", "pending: 1 table (shop.late)")
    till.say("DROP DATABASE `shop`", QUERY)
    sent.append(till.undescribed(late, 3, sent[-1]))  # sent again, and read with the statement
    again = dataclasses.replace(late, version=late.version + 1)
    till.say("CREATE TABLE `shop`.`late` (`id` BIGINT)", CREATE_TABLE, after=again)
    till.row(again, None, {"id": 4})
    if dies_at:
        with pytest.raises(Death):
            till.run(dies_at=dies_at)
    till.run()
    assert sorted(letters(till)) == [("SCHEMA_UNKNOWN", "shop", "late", ts, "superseded") for ts in sent]
    assert [row.values["id"] for row in till.warehouse.current("shop.late").rows] == [4]
    assert {row["status"] for row in till.own("held")} == {"released"}
    assert till.cut() == ("exact", "")
    till.feed.close()
