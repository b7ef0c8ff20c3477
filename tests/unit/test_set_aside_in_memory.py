"""Rows that no table can take or that break a rule, by commit ts: what becomes of them, and which cuts lack them.

What the slow tests of tests/e2e/test_cut_letters.py and test_cut_quality.py say, in memory.
"""

import pytest
from unit.commit_ts_model import process
from unit.till_in_memory import SCHEMA, Suite, Till, replaced

from pipeline.ddl import ActionType
from pipeline.errors import Refused
from pipeline.operations.redrive import Redriven, Selection, redrive, unfinished

SAID = ("code", "schema_name", "table_name", "commit_ts", "status")


@pytest.fixture(autouse=True)
def sparkless(monkeypatch):
    replaced(monkeypatch)


@pytest.fixture
def till():
    return Till()


def letters(till):
    return [tuple(row[name] for name in SAID) for row in till.own("dead_letters")]


def redriven(till, what="quarantine", dies_before="", skip=0):
    with till.process(dies_before, skip) as opened:
        return redrive(opened.context, Selection(what))


# ---- tables that are not there


def test_a_row_of_a_removed_table_that_comes_again_is_kept_and_missed_by_no_cut():
    till = Till(policy="drop")
    till.put("account", 1)
    sent, version = till.tidb.ts, till.tidb.tables["account"].version
    till.run()
    till.tidb.drop("account")
    till.run()
    assert "account" not in till.states()
    till.row_at(sent, "account", 1, version)
    till.put("note", 4)
    till.run()
    assert letters(till) == [("TABLE_REMOVED", SCHEMA, "account", sent, "superseded")]
    assert till.cut() == ("exact", "")


def test_a_row_from_before_its_table_was_made_is_kept_and_missed_by_no_cut(till):
    till.put("account", 1)
    till.run()
    till.row_at(5, "account", 3, till.tidb.tables["account"].version)
    till.put("note", 4)
    till.run()
    assert letters(till) == [("TABLE_REMOVED", SCHEMA, "account", 5, "superseded")]
    assert (till.cut(), till.own("held")) == (("exact", ""), [])
    till.assert_right("account", "note")


# ---- rows that were too large


def test_a_row_that_was_too_large_is_a_letter_of_its_table_and_goes_with_it(till):
    till.put("account", 1)
    till.run()
    sent = till.too_large("account", 2)
    till.put("note", 4)
    till.run()
    assert letters(till) == [("HANDLE_KEY_ONLY", SCHEMA, "account", sent, "open")]
    assert till.cut() == ("partial", "1 dead letters")
    till.tidb.drop("account")
    till.put("note", 3)
    till.run()
    assert letters(till) == [("HANDLE_KEY_ONLY", SCHEMA, "account", sent, "superseded")]
    assert till.cut() == ("exact", "")
    till.too_large("account", 2, sent)
    till.put("note", 2)
    till.run()
    assert letters(till) == [("HANDLE_KEY_ONLY", SCHEMA, "account", sent, "superseded")] * 2
    assert till.cut() == ("exact", "")


def test_a_row_that_was_too_large_and_comes_when_its_table_was_renamed_is_a_letter_of_that(till):
    till.put("account", 1)
    till.run()
    sent = till.tidb.ts + 1
    till.rename("account", "konto")
    till.run()
    till.too_large("account", 2, sent)
    till.put("note", 4)
    till.run()
    assert letters(till) == [("HANDLE_KEY_ONLY", SCHEMA, "konto", sent, "open")]


@pytest.mark.parametrize("changed", ["dropped and made anew", "swapped"])
def test_a_row_that_was_too_large_takes_nothing_along_that_is_held_for_todays_table(till, changed):
    """Records of `held` have no commit ts: a former table of that name has none of them."""
    till.put("account", 1)
    till.put("note", 4)
    till.run()
    if changed == "swapped":
        till.tidb.rename(("account", "account_old"), ("note", "account"))
    else:
        till.tidb.drop("account")
        till.tidb.create("account")
    till.run()
    till.say(ActionType.RECOVER_TABLE, "RECOVER TABLE `s`.`account`", "account")
    till.put("account", 2)
    till.run()
    sent = till.too_large("account", 3)
    till.run()
    assert {(row["table_name"], row["status"]) for row in till.own("held")} == {("account", "open")}
    assert letters(till) == [("HANDLE_KEY_ONLY", SCHEMA, "account", sent, "open")]
    till.release("account")
    till.assert_right("account")


# ---- rows that nothing describes


def test_rows_whose_schema_never_comes_are_given_up_by_a_release_and_the_others_go_on(till):
    till.put("account", 1)
    at = till.undescribed("account", 2)
    till.put("account", 3)
    till.run()
    assert till.keys("account") == [1]
    till.release("account")
    assert till.keys("account") == [1, 3]
    assert letters(till) == [("SCHEMA_UNKNOWN", SCHEMA, "account", at, "open")]
    till.put("account", 4)
    till.run()
    assert till.keys("account") == [1, 3, 4]
    assert redriven(till, "dead_letters") == Redriven(open=1)


def test_letters_of_a_table_that_is_described_too_late_make_it_and_its_rows_go_on(till):
    till.undescribed("late", 1)
    till.run()
    till.release("late")
    assert [row["code"] for row in till.own("dead_letters")] == ["SCHEMA_UNKNOWN"]
    till.described_at_last("late")
    till.run()
    assert redriven(till, "dead_letters").redriven == 1
    till.undescribed("late", 2)  # described by now
    till.run()
    assert till.keys("late") == [1, 2]
    assert till.cut() == ("exact", "")


def test_rows_whose_schema_never_came_end_with_their_table_and_stand_in_no_way_of_the_next(till):
    till.put("account", 1)
    at = till.undescribed("account", 2)
    till.put("account", 3)
    till.run()
    assert till.keys("account") == [1]
    till.tidb.drop("account")
    till.tidb.create("account")
    till.put("account", 4)
    till.run()
    assert letters(till) == [("SCHEMA_UNKNOWN", SCHEMA, "account", at, "superseded")]
    kept = next(name for name in till.states() if "__dropped_" in name)
    assert (till.keys("account"), till.keys(kept)) == ([4], [1, 3])
    assert {row["status"] for row in till.own("held")} == {"released"}
    assert till.cut() == ("exact", "")


STEPS = ["", "read", "ddl-applied", "evolved", "published", "commit to _pipeline.cuts", "commit to _pipeline.batches"]


@pytest.mark.parametrize("dies_before", STEPS)
def test_rows_of_a_database_that_is_dropped_before_anything_describes_them_end_with_it(till, dies_before):
    """A DROP DATABASE is the only word of its tables: no message says what they were."""
    sent = [till.undescribed("late", number) for number in (1, 2)]
    till.run()
    assert till.level() == "partial"
    till.say(ActionType.DROP_SCHEMA, f"DROP DATABASE `{SCHEMA}`")
    sent.append(till.undescribed("late", 3, sent_at=sent[-1]))  # sent again, and read with the statement
    till.create("late")
    till.put("late", 4)
    if dies_before:
        till.run(dies_before)
    till.run()
    assert sorted(letters(till)) == [("SCHEMA_UNKNOWN", SCHEMA, "late", ts, "superseded") for ts in sent]
    till.assert_right("late")
    assert {row["status"] for row in till.own("held")} == {"released"}
    assert till.cut() == ("exact", "")


def test_rows_that_are_sent_again_before_anything_describes_them_come_in_once(till):
    at = till.undescribed("late", 1)
    till.undescribed("late", 1, sent_at=at)
    for _ in range(2):
        till.run()
        till.undescribed("late", 1, sent_at=at)
    till.described_at_last("late")
    till.run()
    assert till.keys("late") == [1]
    assert {row["status"] for row in till.own("held")} == {"released"}
    assert till.cut() == ("exact", "")


def test_more_than_may_wait_stops_every_run_until_more_may(till, monkeypatch):
    def may_wait(records):
        hold = process.SETTINGS["keep"].hold.model_copy(update={"max_records": records})
        return monkeypatch.setitem(process.SETTINGS, "keep", process.SETTINGS["keep"].model_copy(update={"hold": hold}))

    may_wait(2)
    for key in (1, 2, 3):
        till.undescribed("late", key)
    for _ in range(2):
        with pytest.raises(Refused, match=r"3 records wait \(s.late\), more than hold.max_records \(2\)") as stopped:
            till.run()
        assert stopped.value.code == "HELD_TOO_MANY"
    may_wait(3)
    till.run()
    assert len(till.own("held")) == 3
    till.described_at_last("late")
    till.run()
    assert till.keys("late") == [1, 2, 3]


# ---- quarantine


@pytest.fixture
def suite(till):
    return Suite(till)


def put_bad(till, suite, name, *keys):
    """Insert or change rows so that they break the rule."""
    for key in keys:
        till.put(name, key)
        suite.bad.add(till.value(name, key))


def test_rows_come_back_when_the_suite_is_mended_and_until_then_cuts_are_partial(till, suite):
    suite.forbids("quarantine")
    till.put("account", 0, 1)
    put_bad(till, suite, "account", 2, 3)
    till.run()
    assert till.keys("account") == [0, 1]
    assert till.cut() == ("partial", "2 in quarantine")
    suite.bad.discard(till.value("account", 2))
    assert redriven(till) == Redriven(redriven=1, open=1)
    assert till.keys("account") == [0, 1, 2]
    suite.forbids("")
    assert redriven(till) == Redriven(redriven=1)
    till.assert_right("account")
    till.put("note", 4)
    till.run()
    assert till.cut() == ("exact", "")
    assert redriven(till) == Redriven()
    till.assert_right("account", "note")


def test_what_is_older_than_its_key_is_superseded(till, suite):
    till.put("account", 1, 2, 3)
    till.run()
    suite.forbids("quarantine")
    for key in (1, 2, 3):
        put_bad(till, suite, "account", key)
        till.run()
    assert till.keys("account") == [1, 2, 3]
    assert len(till.own("quarantine")) == 3
    till.delete("account", 1)
    till.put("account", 2)
    till.run()
    suite.forbids("")
    assert redriven(till) == Redriven(redriven=1, superseded=2)
    till.assert_right("account")


def test_rows_that_went_with_all_of_their_table_are_superseded(till, suite):
    suite.forbids("quarantine")
    till.put("account", 0)
    put_bad(till, suite, "account", 1)
    till.run()
    till.truncate("account")
    put_bad(till, suite, "account", 2)
    till.put("account", 3)
    till.run()
    assert till.keys("account") == [3]
    suite.forbids("")
    assert redriven(till) == Redriven(redriven=1, superseded=1)
    till.assert_right("account")


def test_rows_of_a_table_that_was_renamed_come_back_under_its_new_name(till, suite):
    suite.forbids("quarantine")
    till.put("account", 1)
    put_bad(till, suite, "account", 2)
    till.run()
    till.rename("account", "customer")
    put_bad(till, suite, "customer", 3)
    till.run()
    suite.forbids("")
    assert redriven(till) == Redriven(redriven=2)
    till.put("note", 4)
    till.run()
    till.assert_right("customer", "note")


STEPS = ["redrive-begun", "redrive-quarantined", "redrive-appended", "redrive-marked", "commit to s.account"]


@pytest.mark.parametrize("dies_before", STEPS)
def test_a_redrive_that_dies_is_ended_by_the_next_run(till, suite, dies_before):
    suite.forbids("quarantine")
    put_bad(till, suite, "account", 1, 3)
    till.put("account", 2)
    till.run()
    suite.forbids("")
    redriven(till, dies_before=dies_before)
    with till.process() as opened:
        unfinished(opened.context)
    till.run()
    till.assert_right("account")
    assert [row["status"] for row in till.own("quarantine")] == ["redriven"] * 2


def test_what_a_redrive_of_a_living_run_has_let_in_is_in_the_next_cut(till, suite):
    suite.forbids("quarantine")
    till.put("account", 1)
    put_bad(till, suite, "account", 2)
    till.run()
    assert till.cut() == ("partial", "1 in quarantine")
    suite.bad.clear()
    with till.process() as opened:
        assert redrive(opened.context, Selection()).redriven == 1
        till.put("note", 4)
        till.take(opened)
    (newest,) = till.own("cuts", table_name="account", cut_ts=till.tidb.ts)
    assert newest["level"] == "exact"
    content = till.tables["account"].current.content_at(newest["snapshot_id"])
    assert sorted(row.key for row in content) == [1, 2]


# ---- held for their rows


def test_a_table_that_is_dropped_after_rows_that_are_forbidden_is_no_table_any_more(till, suite):
    till.put("account", 1)
    till.put("note", 4)
    till.run()
    suite.forbids("hold")
    put_bad(till, suite, "account", 2)
    till.tidb.drop("account")
    till.run()
    assert till.states()["account"] == ("account", "dropped")
    assert {row["status"] for row in till.own("held")} == {"dropped"}
    assert till.keys("account") == [1]
    assert till.cut() == ("exact", "")
    assert max(row["cut_ts"] for row in till.own("cuts")) == till.tidb.ts  # though no table shows anything new
    with pytest.raises(Refused, match="is not held"):
        till.release("account")


def test_a_table_whose_rows_are_forbidden_waits_while_others_go_on_and_is_released_as_a_whole(till, suite):
    till.put("account", 1)
    till.run()
    suite.forbids("hold")
    put_bad(till, suite, "account", 2)
    till.put("account", 3)
    till.put("note", 4)
    till.run()
    assert (till.keys("account"), till.keys("note")) == ([1], [4])
    assert till.states()["account"] == ("account", "held")
    till.delete("account", 1)
    till.run()
    assert till.keys("account") == [1]
    till.release("account")
    till.assert_right("account", "note")
    assert {row["status"] for row in till.own("held")} == {"released"}
