"""Dead letters of tables that are known: what they say, what takes them with it, and which cuts lack them."""

import dataclasses
import json
from decimal import Decimal

import pytest
from e2e.bank import ACCOUNT, SCHEMA
from e2e.till import NAME, RENAME_TABLE, Till
from golden.corpus import EVERY

from pipeline.observe.metrics import PREFIX, Metrics
from pipeline.simulate.database import RowEvent
from pipeline.simulate.open_protocol import OpenCodec, record

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

DROP_TABLE = 4
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
    till.feed._topics.send(f"{till.feed.prefix}_cdc", 0, key, value)
    till.last_ts = max(till.last_ts, moment)
    return moment


def counted(metrics):
    """Table → dead letters, as Prometheus is told."""
    samples = [sample for family in metrics.registry.collect() for sample in family.samples]
    return {s.labels["table"]: s.value for s in samples if s.name == f"{PREFIX}_dead_letters_total" and s.value}


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


def test_rows_that_a_release_gives_up_are_letters_of_their_table(stack, tmp_path):
    till = Till(stack, tmp_path, "simple")
    till.accounts((1, 500))
    till.lost_version((2, 7))
    sent = till.last_ts
    till.run()
    till.release(name=NAME)
    assert letters(till) == [("SCHEMA_UNKNOWN", "bank", "account", sent, "open")]
    till.feed.close()
