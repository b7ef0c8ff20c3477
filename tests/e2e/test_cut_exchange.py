"""EXCHANGE PARTITION and what is said of its two tables behind it: in one batch as in several (by commit ts)."""

import dataclasses
import json

import pytest
from e2e.test_cut_history import PARTS, WHOLE, Swapped, no_less_than
from e2e.till import EXCHANGE_PARTITION, NAME, Death, Till
from support.slow import few

from pipeline.model.names import TableName
from pipeline.operations.redrive import Redriven
from pipeline.service import Pipeline
from pipeline.settings import load
from pipeline.simulate.tables import SimulatedColumn

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

CREATE_TABLE, DROP_TABLE, ALTER, TRUNCATE_TABLE, RENAME_TABLE, RECOVER_TABLE = 3, 4, 5, 11, 14, 25

BATCHES = pytest.mark.parametrize("apart", few(True, False), ids=lambda apart: "several" if apart else "one batch")


@pytest.fixture
def till(stack, tmp_path):
    made = Till(stack, tmp_path, "simple")
    yield made
    made.feed.close()


def replaced(table, columns):
    return dataclasses.replace(table, columns=tuple(columns), version=table.version + 1)


class Script:
    """What a person does to the two tables, taken at the end, or after each step."""

    def __init__(self, till, *, apart):
        self.till, self.apart, self.both = till, apart, Swapped(till)
        self.both.insert(PARTS, (1, 10), (2, 20), (20, 200))
        self.both.insert(WHOLE, (3, 30))

    def step(self):
        if self.apart:
            self.till.run()

    def exchange(self):
        self.both.exchange()
        self.step()

    def truncate(self, table):
        self.till.say(f"TRUNCATE TABLE `bank`.`{table.name}`", TRUNCATE_TABLE, table)
        self.step()

    def insert(self, table, *rows):
        self.both.insert(table, *rows)
        self.step()


@pytest.mark.slow
@BATCHES
@pytest.mark.parametrize("emptied", few(PARTS, WHOLE), ids=lambda table: table.name)
def test_a_table_that_is_emptied_behind_an_exchange_had_its_rows_until_then(till, emptied, apart):
    script = Script(till, apart=apart)
    till.run()
    script.insert(WHOLE, (4, 40))
    script.exchange()
    script.truncate(emptied)
    script.insert(emptied, (5, 50))
    till.run()
    rows = {"parts": {3: 30, 4: 40, 20: 200}, "whole": {1: 10, 2: 20}}
    assert {table.name: script.both.rows(table) for table in (PARTS, WHOLE)} == {**rows, emptied.name: {5: 50}}
    assert till.cut() == ("exact", "")


@pytest.mark.slow
def test_a_truncate_waits_for_its_time_as_rows_do(till):
    """A row before it that waits for its schema; and what was emptied is so in a table built anew, too."""
    till.accounts((1, 500))
    till.run()
    till.lost_version((2, 7))
    till.say("TRUNCATE TABLE `bank`.`account`", TRUNCATE_TABLE, till.database.table("bank", "account"))
    till.accounts((3, 9))
    till.run()
    assert till.balances() == {1: 500}
    till.release()
    assert till.balances() == {3: 9}
    for number in (4, 5):
        till.say("TRUNCATE TABLE `bank`.`account`", TRUNCATE_TABLE, till.database.table("bank", "account"))
        till.accounts((number, number))
        till.run()
    assert till.balances() == {5: 5}
    layout = json.loads(till.warehouse.table("bank.account__changes").properties["ticdc.layout"])
    assert len(layout["removals"]) == 2, "of those that are shown the newest does"


@pytest.mark.slow
def test_a_truncate_that_an_earlier_version_has_noted_is_carried_out(till):
    till.accounts((1, 500), (2, 7))
    till.run()
    with Pipeline.open(load(till.file)) as pipeline:
        tables = pipeline.context.tables
        tables.truncate(tables.find(NAME), till.last_ts)
    till.accounts((3, 9))
    till.run()
    assert till.balances() == {3: 9}


@BATCHES
def test_columns_that_change_behind_an_exchange_are_those_of_rows_that_have_changed_places(till, apart):
    """In one batch the cut stands before the first of them, and the run goes on: never is a row shown without."""
    till.set("warehouse", drop_column="drop")
    script = Script(till, apart=apart)
    till.run()
    script.exchange()
    altered = replaced(WHOLE, (WHOLE.columns[0], dataclasses.replace(WHOLE.columns[1], name="sum")))
    sql = "ALTER TABLE `bank`.`whole` RENAME COLUMN `amount` TO `sum`"
    renamed = till.say(sql, ALTER, WHOLE, altered)
    script.step()
    left = replaced(altered, altered.columns[:1])
    till.say("ALTER TABLE `bank`.`whole` DROP COLUMN `sum`", ALTER, altered, left)
    script.step()
    kind = SimulatedColumn("kind", "varchar(9)", nullable=False, default="new")
    sql = "ALTER TABLE `bank`.`parts` ADD COLUMN `kind` varchar(9) NOT NULL DEFAULT 'new'"
    till.say(sql, ALTER, PARTS, replaced(PARTS, (*PARTS.columns, kind)))
    till.run()
    cuts = {row["cut_ts"]: row["level"] for row in sorted(till.own("cuts"), key=lambda row: row["batch_id"])}
    assert (max(cuts), set(cuts.values())) == (till.last_ts, {"exact"})
    assert apart or renamed in cuts
    found = [row.values for row in till.warehouse.current("bank.parts").rows]
    assert sorted((row["id"], row["amount"], row["kind"]) for row in found) == [(3, 30, "new"), (20, 200, "new")]
    assert [row.values for row in till.warehouse.current("bank.whole").rows] == [{"id": 1}, {"id": 2}]
    assert till.cut() == ("exact", "")


@pytest.mark.slow
def test_columns_that_change_while_an_exchange_waits_for_the_other_table_wait_with_it(till):
    """And the rows behind that, of this table alone."""
    both = Swapped(till)
    both.insert(PARTS, (1, 10), (20, 200))
    both.insert(WHOLE, (2, 2))
    till.run()
    both.insert(WHOLE, (3, -3))
    both.exchange()
    till.run()
    altered = replaced(PARTS, (PARTS.columns[0], dataclasses.replace(PARTS.columns[1], name="sum")))
    till.say("ALTER TABLE `bank`.`parts` RENAME COLUMN `amount` TO `sum`", ALTER, PARTS, altered)
    till.row(altered, None, {"id": 21, "sum": 210})
    till.note("goes on")
    till.run()
    assert both.rows(PARTS) == {1: 10, 20: 200}
    assert len(till.warehouse.current("bank.note").rows) == 1
    assert {row["reason"].partition(":")[0] for row in till.own("held", table_name="parts")} == {"DDL_PENDING"}
    till.release(name=TableName("bank", "whole"))
    till.note("and on")
    till.run()
    found = [row.values for row in till.warehouse.current("bank.parts").rows]
    assert sorted((row["id"], row["sum"]) for row in found) == [(2, 2), (3, -3), (20, 200), (21, 210)]
    assert both.rows(WHOLE) == {1: 10}
    assert till.cut() == ("exact", "")


def suites(till, severity):
    """Let both tables have no debts."""
    check = {"column": "amount", "min_value": 0}
    for table in (PARTS, WHOLE):
        rule = {"expect_column_values_to_be_between": check, "name": "no_debt", "severity": severity}
        (till.folder / "checks" / f"{table.name}.yaml").write_text(
            json.dumps({"table": table.full_name, "checks": [rule]})
        )


@pytest.mark.slow
def test_rows_in_quarantine_that_are_another_tables_by_an_exchange_stay_until_they_change_there(till):
    both = Swapped(till)
    suites(till, "quarantine")
    both.insert(PARTS, (1, 10), (20, 200))
    both.insert(WHOLE, (3, 30))
    till.run()
    both.insert(PARTS, (4, -40), (21, -21))
    both.insert(WHOLE, (5, -5))
    till.row(PARTS, {"id": 1, "amount": 10}, {"id": 22, "amount": -22})
    till.run()
    both.exchange()
    both.insert(PARTS, (6, -6), (30, 300))
    till.run()
    assert (both.rows(PARTS), both.rows(WHOLE)) == ({3: 30, 20: 200, 30: 300}, {1: 10})
    suites(till, "warn")
    assert till.redrive() == Redriven(redriven=2, open=3, exchanged=3)
    assert till.redrive() == Redriven(open=3, exchanged=3)
    assert (both.rows(PARTS), both.rows(WHOLE)) == ({3: 30, 6: -6, 20: 200, 21: -21, 30: 300}, {1: 10})
    till.row(WHOLE, {"id": 4, "amount": -40}, {"id": 4, "amount": 44})
    till.row(PARTS, {"id": 5, "amount": -5}, None)
    till.run()
    assert till.redrive() == Redriven(superseded=2, open=1, exchanged=1)
    assert (both.rows(PARTS), both.rows(WHOLE)) == ({3: 30, 6: -6, 20: 200, 21: -21, 30: 300}, {1: 10, 4: 44})


def hold(till, table):
    """Let a batch with a debt hold a table."""
    suite = {"table": table.full_name, "checks": [no_less_than(0)]}
    (till.folder / "checks" / f"{table.name}.yaml").write_text(json.dumps(suite))


def filled(till):
    """Both tables with rows that the warehouse has: one of PARTS in the partition, one beyond it."""
    both = Swapped(till)
    both.insert(PARTS, (1, 10), (20, 200))
    both.insert(WHOLE, (2, 2))
    till.run()
    return both


def state(till, name):
    return next(row["state"] for row in till.own("tables") if row["table_name"] == name)


@pytest.mark.slow
@pytest.mark.parametrize("held", [WHOLE, PARTS], ids=lambda table: table.name)
def test_an_exchange_is_done_when_a_table_that_was_held_before_it_is_released(till, held):
    """Neither shows anything behind it until then."""
    hold(till, PARTS)
    both = filled(till)
    both.insert(held, (3, -3))
    till.run()
    both.exchange()
    both.insert(PARTS, (5, 50), (21, 210))
    both.insert(WHOLE, (6, 60))
    till.note("goes on")
    till.run()
    assert (both.rows(PARTS), both.rows(WHOLE)) == ({1: 10, 20: 200}, {2: 2})
    assert {table.name: state(till, table.name) for table in (PARTS, WHOLE)} == {
        "parts": "live", "whole": "live", held.name: "held",
    }  # fmt: skip
    assert len(till.warehouse.current("bank.note").rows) == 1
    till.release(name=TableName("bank", held.name))
    till.note("and on")
    till.run()
    rows = {"parts": {2: 2, 5: 50, 20: 200, 21: 210}, "whole": {1: 10, 6: 60}}
    rows["parts" if held is WHOLE else "whole"][3] = -3
    assert {table.name: both.rows(table) for table in (PARTS, WHOLE)} == rows
    assert till.cut() == ("exact", "")


@pytest.mark.slow
@pytest.mark.parametrize("first", few(True, False), ids=lambda first: "held first" if first else "held behind it")
def test_an_exchange_is_done_when_a_table_that_the_same_batch_holds_is_released(till, first):
    both = filled(till)
    for step in (1, 2) if first else (2, 1):
        if step == 1:
            till.say("RECOVER TABLE `bank`.`parts`", RECOVER_TABLE, PARTS)
        else:
            both.exchange()
    both.insert(PARTS, (5, 50))
    both.insert(WHOLE, (6, 60))
    till.run()
    assert (state(till, "parts"), state(till, "whole")) == ("held", "live")
    assert (both.rows(PARTS), both.rows(WHOLE)) == ({1: 10, 20: 200}, {2: 2})
    till.release(name=TableName("bank", "parts"))
    till.note("goes on")
    till.run()
    assert (both.rows(PARTS), both.rows(WHOLE)) == ({2: 2, 5: 50, 20: 200}, {1: 10, 6: 60})
    assert till.cut() == ("exact", "")


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False], ids=lambda first: "renamed first" if first else "renamed behind it")
def test_an_exchange_of_a_table_that_gets_a_taken_name_in_the_same_batch_is_done(till, first):
    """Behind it at once; before it, when the name is free."""
    till.set("warehouse", namespace="lake")
    both = Swapped(till)
    taken = dataclasses.replace(PARTS, schema="shop", name="teile")
    till.say("CREATE TABLE `shop`.`teile` (`id` BIGINT)", CREATE_TABLE, after=taken)
    till.row(taken, None, {"id": 9, "amount": 9})
    both.insert(PARTS, (1, 10), (20, 200))
    both.insert(WHOLE, (2, 2))
    till.run()
    renamed = dataclasses.replace(PARTS, name="teile")
    if not first:
        both.exchange()
    till.say("RENAME TABLE `bank`.`parts` TO `bank`.`teile`", RENAME_TABLE, PARTS, renamed)
    if first:
        sql = "ALTER TABLE `bank`.`teile` EXCHANGE PARTITION `p` WITH TABLE `bank`.`whole`"
        till.say(sql, EXCHANGE_PARTITION, renamed)
    till.row(renamed, None, {"id": 5, "amount": 50})
    both.insert(WHOLE, (6, 60))
    till.run()
    assert {row["state"] for row in till.own("tables", schema_name="bank", table_name="teile")} == {"held"}
    if first:
        till.say("DROP TABLE `shop`.`teile`", DROP_TABLE, taken)
        till.run()
        till.release(name=TableName("bank", "teile"))
    till.note("goes on")
    till.run()
    name = "lake.teile" if first else "lake.parts"
    rows = {row.values["id"]: row.values["amount"] for row in till.warehouse.current(name).rows}
    whole = {row.values["id"]: row.values["amount"] for row in till.warehouse.current("lake.whole").rows}
    late = {5: 50} if first else {}
    assert (rows, whole) == ({2: 2, 20: 200, **late}, {1: 10, 6: 60})


def kept(till, both):
    """The rows of the table that was dropped, as long as there is one."""
    return both.rows(WHOLE) if till.own("tables", table_name="whole") else None


@pytest.mark.parametrize("dies_at", few("ddl-applied@2", "ddl-applied@1", "evolved", "published"))
@pytest.mark.parametrize("policy", few("drop", "keep"))
def test_an_exchange_and_the_drop_of_the_other_table_in_one_batch_are_done_by_a_second_try(till, policy, dies_at):
    till.set("warehouse", drop_table=policy)
    both = filled(till)
    both.exchange()
    till.say("DROP TABLE `bank`.`whole`", DROP_TABLE, WHOLE)
    both.insert(PARTS, (5, 50))
    with pytest.raises(Death):
        till.run(dies_at=dies_at)
    till.run()
    assert both.rows(PARTS) == {2: 2, 5: 50, 20: 200}
    assert (state(till, "parts"), till.own("held")) == ("live", [])
    assert kept(till, both) == ({1: 10} if policy == "keep" else None)
    assert till.cut() == ("exact", "")


@pytest.mark.slow
@pytest.mark.parametrize("policy", few("drop", "keep"))
@pytest.mark.parametrize("held", [PARTS, WHOLE], ids=lambda table: f"{table.name} held")
def test_a_table_that_is_dropped_while_its_exchange_waits_is_there_until_that_is_done(till, held, policy):
    """In the same batch, and in a later one."""
    till.set("warehouse", drop_table=policy)
    hold(till, PARTS)
    both = filled(till)
    both.insert(held, (3, -3))
    both.exchange()
    if held is WHOLE:
        till.run()
    till.say("DROP TABLE `bank`.`whole`", DROP_TABLE, WHOLE)
    both.insert(PARTS, (5, 50))
    till.run()
    assert both.rows(PARTS) == {1: 10, 20: 200}
    assert state(till, held.name) == "held"
    till.release(name=TableName("bank", held.name))
    till.note("goes on")
    till.run()
    rows, whole = {2: 2, 5: 50, 20: 200}, {1: 10}
    (rows if held is WHOLE else whole)[3] = -3
    assert both.rows(PARTS) == rows
    assert kept(till, both) == (whole if policy == "keep" else None)
    assert state(till, "parts") == "live"
    assert till.cut() == ("exact", "")
