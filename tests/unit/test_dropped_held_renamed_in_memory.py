"""Tables that are dropped, made anew, renamed or held, and what was said of them: in one batch as in several.

What the slow tests of tests/e2e/test_cut_structure.py and test_cut_history.py say of names, in memory.
"""

import pytest
from unit.batch_model.iceberg import ModelTable
from unit.till_in_memory import SCHEMA, Till, replaced

from pipeline.ddl import ActionType
from pipeline.ddl.partitions import from_json
from pipeline.errors import Refused
from pipeline.warehouse import advance, altered

RECOVER = "RECOVER TABLE `s`.`account`"
BATCHES = pytest.mark.parametrize("apart", [True, False], ids=["several", "one batch"])


@pytest.fixture(autouse=True)
def sparkless(monkeypatch):
    replaced(monkeypatch)


@pytest.fixture
def till():
    return Till()


def recover(till):
    return till.say(ActionType.RECOVER_TABLE, RECOVER, "account")


def kept(till, name="account"):
    """The name of a table that was dropped."""
    return next(one for one in till.states() if one.startswith(f"{name}__dropped_"))


def history(till, sql):
    return [row for row in till.own("ddl_history") if row["sql"].startswith(sql)]


# ---- dropped


@BATCHES
def test_a_dropped_table_stays_as_it_was_and_makes_way_for_one_that_is_renamed_onto_its_name(till, apart):
    till.put("account", 1, 2)
    till.put("note", 4)
    till.run()
    till.put("account", 3)
    till.tidb.drop("account")
    if apart:
        till.run()
        assert till.states() == {"account": ("account", "dropped"), "note": ("note", "live")}
        assert till.keys("account") == [1, 2, 3]
    till.rename("note", "account")
    till.run()
    assert till.states() == {kept(till): ("account", "dropped"), "account": ("account", "live")}
    assert till.keys(kept(till)) == [1, 2, 3]
    assert len(till.tables[kept(till)].changes.content()) == 3
    till.assert_right("account")
    (dropped,) = history(till, "DROP TABLE")
    assert "dropped" in dropped["action"]


@BATCHES
def test_a_table_that_is_made_anew_under_its_name_is_another_one(till, apart):
    till.put("account", 1)
    till.run()
    till.tidb.drop("account")
    if apart:
        till.run()
    till.tidb.create("account")
    till.put("account", 2)
    till.run()
    assert (till.keys(kept(till)), till.keys("account")) == ([1], [2])


def test_what_waits_comes_in_with_a_rename_onto_the_name_of_a_dropped_table(till):
    """The first batch of a process looks for what a dead one has put into tables, which get other names in it."""
    till.put("account", 1)
    till.put("note", 4)
    till.tidb.drop("account")
    till.undescribed("late", 1)
    till.run()
    assert [row["reason"].partition(":")[0] for row in till.own("held")] == ["SCHEMA_PENDING"]
    till.described_at_last("late")
    till.rename("note", "account")
    till.put("account", 3)
    till.run()
    assert till.states() == {
        kept(till): ("account", "dropped"), "account": ("account", "live"), "late": ("late", "live"),
    }  # fmt: skip
    assert till.keys("late") == [1]
    assert {row["status"] for row in till.own("held")} == {"released"}
    till.assert_right("account")


@pytest.mark.parametrize("backwards", [False, True], ids=["as said", "backwards"])
@pytest.mark.parametrize("policy", ["keep", "drop"])
def test_a_name_that_one_statement_gives_away_and_gives_anew_drops_nothing(policy, backwards):
    """As online schema changes end; the DDL event by which a table takes the name may come first."""
    till = Till(policy=policy)
    till.put("account", 1, 2)
    till.put("note", 4)
    till.run()
    till.put("account", 3)
    renames = [("account", "account_old"), ("note", "account")]
    till.tidb.rename(*(reversed(renames) if backwards else renames))
    till.run()
    assert till.states() == {"account_old": ("account_old", "live"), "account": ("account", "live")}
    till.assert_right("account", "account_old")


# ---- not understood


@BATCHES
def test_a_statement_that_nobody_understands_holds_a_table_of_which_no_row_has_come(till, apart):
    """RECOVER TABLE brings rows back that no message has: what comes after it waits, whenever it comes."""
    till.put("account", 1)
    till.run()
    till.recovered("account")
    till.put("note", 4)
    if apart:
        till.run()
        assert till.cut() == ("partial", "held: s.account (0 records)")
    till.put("account", 2)
    till.put("note", 3)
    till.run()
    level, reason = till.cut()
    assert (level, reason.partition(" (")[0]) == ("partial", "held: s.account")
    assert till.states() == {
        kept(till): ("account", "dropped"),
        "account": ("account", "held"),
        "note": ("note", "live"),
    }
    assert till.keys("account") == []
    till.release("account")
    assert till.keys("account") == [2]
    till.put("note", 1)
    till.run()
    assert till.cut() == ("exact", "")


def test_a_statement_that_nobody_understands_about_a_database_holds_its_tables(till):
    """The text alone names the database."""
    till.put("account", 1)
    till.run()
    for schema in (SCHEMA, "elsewhere"):
        till.say(9999, f"RESHAPE DATABASE IF EXISTS `{schema}`", schema=schema)
    till.run()
    assert till.states() == {"account": ("account", "held"), "note": ("note", "held")}
    done = {row["sql"].split("`")[1]: (row["action"], row["status"]) for row in history(till, "RESHAPE")}
    assert done[SCHEMA][1] == "held"
    assert "tables release s.account" in done[SCHEMA][0]
    assert done["elsewhere"] == ("the statement names no table of this warehouse, so no table is held", "applied")


@pytest.mark.parametrize(
    ("sql", "kind"),
    [("FLASHBACK CLUSTER TO TIMESTAMP '2026-11-24 00:00:00'", ActionType.FLASHBACK_CLUSTER), ("UNDO", 9999)],
)
def test_a_statement_that_nobody_understands_about_everything_holds_all_tables(till, sql, kind):
    """Also one of which the first row comes with it, and none that has gone."""
    till.put("note", 4)
    till.tidb.drop("note")
    till.run()
    till.put("account", 1)
    till.say(kind, sql, schema="")
    till.put("account", 2)
    till.run()
    assert till.states() == {"account": ("account", "held"), "note": ("note", "dropped")}
    assert [row["status"] for row in history(till, sql[:4])] == ["held"]
    assert till.level() == "partial"
    till.release("account")
    till.assert_right("account")
    till.run()
    assert till.cut() == ("exact", "")


def test_a_name_that_is_held_before_any_row_came_can_be_released(till):
    till.run()
    till.recovered("account")
    till.run()
    till.release("account")
    till.put("account", 2)
    till.run()
    assert till.keys("account") == [2]
    assert till.cut() == ("exact", "")


@pytest.mark.parametrize("skip", range(2))
def test_a_statement_that_holds_its_table_does_so_too_where_the_process_dies_with_it(till, skip):
    till.put("account", 1)
    till.run()
    till.say(ActionType.TRUNCATE_TABLE_PARTITION, "ALTER TABLE `s`.`account` TRUNCATE PARTITION `p`", "account")
    till.put("account", 2)
    till.run("commit to s.account__changes", skip)
    till.run()
    assert till.states()["account"] == ("account", "held")
    assert till.keys("account") == [1]
    till.release("account")
    till.assert_right("account")


# ---- held


@pytest.mark.parametrize("dropped", [False, True], ids=["renamed", "dropped"])
def test_a_statement_about_a_held_table_goes_with_it_where_that_gets_another_name_or_ends(till, dropped):
    till.put("account", 1)
    till.run()
    recover(till)
    till.run()
    assert till.states()["account"] == ("account", "held")
    till.truncate("account")
    till.put("account", 3)
    if dropped:
        till.tidb.drop("account")
        till.put("note", 1)
        till.run()
        assert {row["status"] for row in till.own("held")} == {"dropped"}
        (truncated,) = history(till, "TRUNCATE")
        assert truncated["action"] == "nothing: its table was held, and is dropped"
        assert till.cut() == ("exact", "")
        with pytest.raises(Refused, match="is not held"):
            till.release("account")
        return
    till.rename("account", "ledger")
    till.put("ledger", 4)
    till.run()
    assert (history(till, "TRUNCATE"), till.keys("ledger")) == ([], [1])
    till.release("ledger")
    assert [row["status"] for row in history(till, "TRUNCATE")] == ["applied"]
    assert till.keys("ledger") == [3, 4]
    till.assert_right("ledger")
    assert {row["status"] for row in till.own("held")} == {"released"}


STEPS = ("release-begun", 0), ("commit to s.account__changes", 1), ("commit to s.account", 0), ("released", 0)


@pytest.mark.parametrize(("dies_before", "skip"), STEPS)
def test_a_release_that_dies_is_ended_by_the_next_run(till, dies_before, skip):
    till.put("account", 1)
    till.run()
    recover(till)
    till.put("account", 2, 3)
    till.run()
    till.release("account", dies_before, skip)
    till.put("account", 4)
    till.run()
    till.assert_right("account")
    assert {row["status"] for row in till.own("held")} == {"released"}


def test_a_release_that_dies_before_the_table_lives_is_to_be_asked_for_again(till):
    till.put("account", 1)
    till.run()
    recover(till)
    till.put("account", 2)
    till.run()
    till.release("account", "commit to s.account__changes")
    till.put("account", 4)
    till.run()
    assert (till.states()["account"], till.keys("account")) == (("account", "held"), [1])
    till.release("account")
    till.assert_right("account")
    assert {row["status"] for row in till.own("held")} == {"released"}


def test_columns_that_a_user_changes_hold_their_table_in_a_run_that_lives_and_others_go_on(till, monkeypatch):
    """What is wrong with them and what undoes it: test_alterations.py."""
    wrong = {}

    def looked(table):
        table.altered = wrong.get(table.source.table, "")

    monkeypatch.setattr(altered, "refreshed", looked)
    monkeypatch.setattr(altered, "remember", lambda _table: None)
    till.put("account", 1)
    with till.process() as opened:
        till.take(opened)
        assert till.states()["account"] == ("account", "live")
        wrong["account"] = "COLUMNS_CHANGED: c0 is called money"
        till.put("account", 2)
        till.put("note", 4)
        till.take(opened)
        assert till.states()["account"] == ("account", "held")
        assert (till.keys("account"), till.keys("note")) == ([1], [4])
    assert {row["reason"] for row in till.own("held")} == {wrong.pop("account")}
    till.release("account")
    till.assert_right("account", "note")


# ---- like another


@pytest.mark.parametrize("model", ["is live", "is held"])
def test_a_table_that_is_made_like_one_whose_partitions_change_in_the_same_batch_has_those_of_then(
    till, monkeypatch, model
):
    monkeypatch.setattr(
        advance, "_remove", lambda *_: None
    )  # which rows go is Spark's (tests/spark/test_partitions.py)
    till.create(
        "parts", "(`id` INT PRIMARY KEY,`c0` INT) PARTITION BY RANGE (`id`) (PARTITION `p` VALUES LESS THAN (20))"
    )
    if model == "is held":
        till.say(ActionType.RECOVER_TABLE, "RECOVER TABLE `s`.`parts`", "parts")
    till.run()
    into = "(PARTITION `p` VALUES LESS THAN (15),PARTITION `pb` VALUES LESS THAN (20))"
    sql = f"ALTER TABLE `s`.`parts` REORGANIZE PARTITION `p` INTO {into}"
    till.say(ActionType.REORGANIZE_PARTITION, sql, "parts")
    till.create("alike", "LIKE `s`.`parts`")
    till.put("alike", 2)
    till.say(ActionType.DROP_TABLE_PARTITION, "ALTER TABLE `s`.`parts` DROP PARTITION `pb`", "parts")
    till.run()
    assert names_of(till.tables["alike"].layout) == ["p", "pb"]
    if model == "is live":
        assert names_of(till.tables["parts"].layout) == ["p"]
    till.say(ActionType.TRUNCATE_TABLE_PARTITION, "ALTER TABLE `s`.`alike` TRUNCATE PARTITION `pb`", "alike")
    till.run()
    assert till.states()["alike"] == ("alike", "live")


def names_of(layout):
    return [one.name for one in from_json(dict(layout.partitions)).partitions]


# ---- what cuts tell


def test_an_older_checkpoint_repeats_nothing(till):
    """Also no statement."""
    till.put("account", 1)
    till.run()
    older = till.world.checkpoint.copy()
    till.tidb.add_column(till.tidb.tables["account"])
    till.put("account", 1)
    till.run()
    till.tidb.add_column(till.tidb.tables["account"])
    till.put("account", 2)
    till.run()
    before = till.own("ddl_history"), till.own("cuts")
    till.world.checkpoint = older
    till.run(watermark=False)
    assert (till.own("ddl_history"), till.own("cuts")) == before
    till.put("account", 3)
    till.run()
    till.assert_right("account")
    assert till.cut() == ("exact", "")


def test_a_table_that_has_not_changed_has_no_further_row_in_the_cuts_of_another_process(till):
    till.put("account", 1)
    till.put("note", 4)
    till.run()
    till.put("account", 2)
    till.run()
    cuts = {name: [row["snapshot_id"] for row in till.own("cuts", table_name=name)] for name in ("account", "note")}
    assert {name: (len(found), len(set(found))) for name, found in cuts.items()} == {"account": (2, 2), "note": (1, 1)}


@pytest.fixture
def columns_of_snapshots(monkeypatch):
    """Let a snapshot of the model have the columns of its time, as Iceberg's have."""
    made_with = {}
    write = ModelTable.write

    def written(self, *args, **named):
        write(self, *args, **named)
        made_with[self._meta.refs.get("main")] = self.columns()

    monkeypatch.setattr(ModelTable, "write", written)
    monkeypatch.setattr(ModelTable, "shows_its_columns", lambda self: made_with.get(self.head()) == self.columns())
    return made_with


@pytest.mark.parametrize("dies_before", ["commit to _pipeline.cuts", ""])
def test_a_cut_has_the_columns_of_its_time_and_tables_without_rows(till, columns_of_snapshots, dies_before):
    def newest(name):
        return max(till.own("cuts", table_name=name), key=lambda row: (row["batch_id"], row["recorded_at"]))

    till.put("account", 1)
    till.run()
    assert newest("note")["level"] == "exact"
    assert till.keys("note") == []
    before = newest("account")["snapshot_id"]
    account = till.tidb.tables["account"]
    till.tidb.rename_column(account, account.others[0])
    till.put("note", 4)
    if dies_before:
        till.run(dies_before)
    till.run()
    now = newest("account")
    assert (now["cut_ts"], now["level"], now["snapshot_id"] != before) == (till.tidb.ts, "exact", True)
    assert columns_of_snapshots[now["snapshot_id"]] == till.tables["account"].current.columns()
    assert columns_of_snapshots[before] != columns_of_snapshots[now["snapshot_id"]]
    rows = len(till.own("cuts", table_name="account"))
    till.put("note", 3)
    till.run()
    assert len(till.own("cuts", table_name="account")) == rows
