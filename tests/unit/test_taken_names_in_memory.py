"""Tables whose name in the warehouse is not free: each waits, nobody else's is touched, whatever dies on the way.

What the slow tests of tests/e2e/test_taken_names.py say, in memory.
"""

import pytest
from unit.till_in_memory import SCHEMA, Till, replaced

from pipeline.ddl import ActionType
from pipeline.errors import Refused
from pipeline.model.names import TableName
from pipeline.warehouse.held import NAME_TAKEN

TAKEN = f"{NAME_TAKEN}: s.note__changes already belongs to the source table s.note"
STRANGER = f"{NAME_TAKEN}: a table s.konto exists already, and belongs to no source table"


@pytest.fixture
def till(monkeypatch):
    replaced(monkeypatch)
    return Till()


def history(till, sql):
    return [(row["action"], row["status"]) for row in till.own("ddl_history") if row["sql"].startswith(sql)]


def reason(till, warehouse_name):
    return till.tables[warehouse_name].held_reason


def waits(till):
    """`account` waits for the name of the changes of `note`, with a row; `note` goes on."""
    till.put("account", 1)
    till.run()
    till.rename("account", "note__changes")
    till.put("note__changes", 2)
    till.put("note", 0)
    till.run()
    assert till.states() == {"account": ("note__changes", "held"), "note": ("note", "live")}
    assert till.keys("account") == [1]
    assert {row["reason"].partition(": RENAME")[0] for row in till.own("held")} == {TAKEN}


@pytest.mark.parametrize("rows", [(3,), ()], ids=["rows", "no rows yet"])
def test_a_table_waits_that_is_renamed_onto_the_changes_of_another(till, rows):
    till.put("note", *rows)
    waits(till)
    assert till.keys("note") == sorted({*rows, 0})
    with pytest.raises(Refused, match=r"cannot be released: .* already belongs to .* s.note") as refused:
        till.release("note__changes")
    assert refused.value.code == NAME_TAKEN
    till.run()
    assert till.states()["account"] == ("note__changes", "held")
    till.tidb.drop("note")
    till.run()
    till.release("note__changes")
    assert {name.partition("__dropped")[0]: state for name, state in till.states().items()} == {
        "note__changes": ("note__changes", "live"), "note": ("note", "dropped"),
    }  # fmt: skip
    till.put("note__changes", 3)
    till.run()
    till.assert_right("note__changes")
    assert till.cut() == ("exact", "")


@pytest.mark.parametrize("apart", [True, False], ids=["several", "one batch"])
@pytest.mark.parametrize("what", ["table", "database"])
def test_a_new_table_whose_name_is_taken_waits_for_nobody_when_it_is_dropped(till, what, apart):
    till.put("note", 1)
    till.run()
    till.tidb.create("note__changes")
    till.put("note__changes", 2)
    if apart:
        till.run()
        assert till.level() == "partial"
    till.truncate("note__changes")
    if what == "table":
        till.tidb.drop("note__changes")
    else:
        till.say(ActionType.DROP_SCHEMA, f"DROP DATABASE `{SCHEMA}`")
    till.run()
    assert {row["status"] for row in till.own("held")} <= {"dropped"}
    assert till.states().get("note__changes", ("", "dropped"))[1] == "dropped"
    if what == "table":
        assert till.own("held")
        assert till.cut() == ("exact", "")


@pytest.mark.parametrize("apart", [False, True], ids=["one batch", "several"])
def test_what_a_new_table_waits_with_goes_along_to_a_name_that_is_free(till, apart):
    """Its rows, and the statements about it: what was truncated does not come back."""
    till.put("note", 1)
    till.run()
    runs = till.run if apart else lambda: None
    till.tidb.create("note__changes")
    till.put("note__changes", 0)
    runs()
    till.truncate("note__changes")
    till.put("note__changes", 1)
    runs()
    till.rename("note__changes", "account__changes")  # which is taken, too
    till.put("account__changes", 2)
    runs()
    till.rename("account__changes", "konto")
    till.put("konto", 3)
    till.run()
    assert till.states()["konto"] == ("konto", "held")
    assert reason(till, "konto").endswith("to go on: ticdc-warehouse tables release s.konto")
    assert {row["table_name"] for row in till.own("held")} == {"konto"}
    assert till.level() == "partial"
    till.release("konto")
    till.assert_right("konto")
    assert till.keys("konto") == [1, 2, 3]
    assert len(till.tables["konto"].changes.content()) == 4
    assert history(till, "TRUNCATE TABLE `s`.`note__changes`") == [
        ("held; to go on: ticdc-warehouse tables release s.note__changes", "held")
    ]
    till.put("konto", 4)
    till.run()
    till.assert_right("konto")
    assert till.cut() == ("exact", "")


def test_a_new_table_whose_name_becomes_free_in_the_same_batch_is_as_in_the_source(till):
    till.put("note", 1)
    till.run()
    till.tidb.create("note__changes")
    till.put("note__changes", 1)
    till.truncate("note__changes")
    till.tidb.drop("note")
    till.put("note__changes", 2)
    till.run()
    till.assert_right("note__changes")
    assert till.cut() == ("exact", "")


@pytest.mark.parametrize("apart", [False, True], ids=["one batch", "several"])
def test_a_new_table_without_rows_is_renamed_to_a_name_that_is_free(till, apart):
    till.put("note", 1)
    till.run()
    till.tidb.create("note__changes")
    till.truncate("note__changes")
    if apart:
        till.run()
    till.rename("note__changes", "konto")
    till.put("konto", 2)
    till.run()
    if apart:  # the statement waits for its table
        till.release("konto")
    till.assert_right("konto")
    assert till.cut() == ("exact", "")


@pytest.mark.parametrize("dies_before", ["commit to s.konto", "rename of s.*"])
def test_a_batch_that_dies_while_a_new_table_gets_a_name_that_is_free_is_taken_again(till, dies_before):
    till.put("note", 1)
    till.run()
    till.tidb.create("note__changes")
    till.put("note__changes", 1)
    till.run()
    till.rename("note__changes", "konto")
    till.put("konto", 2)
    till.run(dies_before)
    till.run()
    assert till.states() == {
        "account": ("account", "live"), "note": ("note", "live"), "konto": ("konto", "held"),
    }  # fmt: skip
    till.release("konto")
    till.assert_right("konto", "note")
    assert till.cut() == ("exact", "")


def test_a_table_that_is_held_keeps_its_reason_when_its_next_name_is_taken(till):
    till.put("account", 1)
    till.run()
    till.say(ActionType.RECOVER_TABLE, "RECOVER TABLE `s`.`account`", "account")
    till.run()
    first = reason(till, "account")
    assert first.startswith("DDL_NOT_UNDERSTOOD: ")
    till.rename("account", "note__changes")
    till.run()
    assert reason(till, "account") == f"{first}; and {TAKEN}: RENAME TABLE `s`.`account` TO `s`.`note__changes`"
    till.rename("note__changes", "konto")
    till.run()
    assert reason(till, "konto").startswith(f"{first}; and {NAME_TAKEN}: its name was taken until ")
    till.release("konto")
    till.assert_right("konto")


def test_a_table_that_waits_and_is_dropped_leaves_its_old_name_to_a_new_one(till):
    waits(till)
    till.tidb.drop("note__changes")
    till.tidb.create("account")
    till.put("account", 3)
    till.run()
    kept = next(name for name in till.states() if "__dropped_" in name)
    assert till.states() == {
        "account": ("account", "live"), "note": ("note", "live"), kept: ("note__changes", "dropped"),
    }  # fmt: skip
    assert till.keys(kept) == [1]
    till.assert_right("account", "note")


@pytest.mark.parametrize("skip", [0, 1, 2], ids=["nothing moved", "one table moved", "two moved"])
def test_a_release_that_dies_in_the_middle_of_the_rename_is_finished(till, skip):
    waits(till)
    till.tidb.drop("note")
    till.run()
    if skip < 2:
        till.release("note__changes", dies_before="rename of s.account*", skip=skip)
    else:
        till.release("note__changes", dies_before="commit to s.note__changes*")
    till.run()
    assert till.states()["note__changes"] == ("note__changes", "live")
    till.assert_right("note__changes")


def test_a_release_that_dies_before_a_rename_that_cannot_be_done_any_more_holds_the_table_again(till):
    waits(till)
    till.tidb.drop("note")
    till.run()
    till.release("note__changes", dies_before="rename of s.account*")
    till.anothers("note__changes")
    till.put("note__changes", 3)
    till.run()
    assert till.states()["account"] == ("note__changes", "held")
    assert (
        reason(till, "account")
        == f"{NAME_TAKEN}: a table s.note__changes exists already, and belongs to no source table"
    )
    till.move_anothers("note__changes", "mine")
    till.release("note__changes")
    till.assert_right("note__changes")


@pytest.mark.parametrize("skip", [0, 1], ids=["nothing moved", "one table moved"])
def test_a_batch_that_dies_in_the_middle_of_a_rename_is_taken_again(till, skip):
    till.put("account", 1)
    till.run()
    till.rename("account", "konto")
    till.put("konto", 2)
    till.run("rename of s.account*", skip)
    till.run()
    assert till.states()["konto"] == ("konto", "live")
    assert [status for _, status in history(till, "RENAME")] == ["applied"]
    till.assert_right("konto")


def test_what_a_person_has_put_there_is_in_the_way_too(till):
    till.put("account", 1)
    till.run()
    till.anothers("konto")
    till.rename("account", "konto")
    till.put("note", 1)
    till.run()
    assert till.states() == {"account": ("konto", "held"), "note": ("note", "live")}
    assert reason(till, "account").startswith(STRANGER)
    till.move_anothers("konto", "mine")
    till.release("konto")
    till.assert_right("konto", "note")


def test_what_a_person_has_put_there_is_in_the_way_of_a_new_table(till):
    till.anothers("konto")
    till.tidb.create("konto")
    till.put("konto", 1)
    till.put("note", 1)
    till.run()
    assert "konto" not in till.states()
    assert {row["reason"] for row in till.own("held")} == {STRANGER}
    with pytest.raises(Refused, match=r"cannot be released: a table s\.konto exists already"):
        till.release("konto")
    till.move_anothers("konto", "mine")
    till.release("konto")
    till.assert_right("konto", "note")


def test_a_table_waits_that_is_renamed_into_our_own_namespace(till):
    till.put("account", 1)
    till.run()
    there = TableName("_pipeline", "account")
    till.move("account", there)
    till.run()
    till.run()
    assert till.states()["account"] == ("account", "held")
    with pytest.raises(Refused, match="the pipeline's own"), till.process() as process:
        process.release(there)
    till.move("account", TableName(SCHEMA, "konto"), there)
    till.run()
    assert till.states()["konto"] == ("konto", "held")
    assert reason(till, "konto") == (
        f"{NAME_TAKEN}: its name was taken until it became s.konto; to go on: ticdc-warehouse tables release s.konto"
    )
    till.release("konto")
    assert till.states()["konto"] == ("konto", "live")
    assert till.keys("konto") == [1]
