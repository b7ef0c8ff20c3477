"""EXCHANGE PARTITION and what is said of its two tables after it: in one batch as in several, and with held tables.

What the slow tests of tests/e2e/test_cut_exchange.py say, in memory. Which rows lie in a partition is Spark's
(tests/spark/test_partitions.py): here the product's conditions on the model's rows.
"""

import pytest
from unit.till_in_memory import SCHEMA, Suite, Till, replaced

from pipeline.ddl import ActionType
from pipeline.model.names import TableName

BATCHES = pytest.mark.parametrize("apart", [True, False], ids=["several", "one batch"])
EDGE = 10


@pytest.fixture(autouse=True)
def sparkless(monkeypatch):
    replaced(monkeypatch)


@pytest.fixture
def till(request):
    return partitioned(Till(**getattr(request, "param", {})))


def partitioned(till):
    """`parts` with a row in its partition and one beyond, and `whole` with a row."""
    by = "PARTITION BY RANGE (`id`) (PARTITION `p` VALUES LESS THAN (10),PARTITION `q` VALUES LESS THAN (100))"
    till.create("parts", f"(`id` INT PRIMARY KEY,`c0` INT) {by}")
    till.create("whole")
    till.put("parts", 1, 20)
    till.put("whole", 2)
    till.run()
    return till


def exchange(till, parts="parts"):
    sql = f"ALTER TABLE `{SCHEMA}`.`{parts}` EXCHANGE PARTITION `p` WITH TABLE `{SCHEMA}`.`whole`"
    at = till.say(ActionType.EXCHANGE_TABLE_PARTITION, sql, parts)
    one, other = till.tidb.tables[parts].rows, till.tidb.tables["whole"].rows
    went = {key: one.pop(key) for key in [key for key in one if key < EDGE]}
    one |= other
    other.clear()
    other |= went
    till.tidb._done()
    return at


@pytest.fixture
def suite(till):
    return Suite(till)


def hold(till, suite, name):
    """Hold a table by a row that breaks a rule."""
    suite.forbids("hold")
    till.put(name, 3)
    suite.bad.add(till.value(name, 3))


def shown(till):
    return till.keys("parts"), till.keys("whole")


@BATCHES
@pytest.mark.parametrize("emptied", ["parts", "whole"])
def test_a_table_that_is_emptied_after_an_exchange_had_its_rows_until_then(till, emptied, apart):
    runs = till.run if apart else lambda: None
    till.put("whole", 4)
    runs()
    exchange(till)
    runs()
    if apart:
        assert shown(till) == ([2, 4, 20], [1])
    till.truncate(emptied)
    runs()
    till.put(emptied, 5)
    till.run()
    till.assert_right("parts", "whole")
    assert till.cut() == ("exact", "")


@pytest.mark.parametrize("skip", [0, 1, 2])
def test_an_exchange_that_dies_in_the_middle_is_done_by_a_second_try(till, skip):
    exchange(till)
    till.put("parts", 5)
    till.run("commit to s.parts" if skip < 2 else "exchanged-one", skip % 2)
    till.run()
    till.assert_right("parts", "whole")
    assert till.cut() == ("exact", "")


@BATCHES
def test_columns_that_change_after_an_exchange_are_those_of_rows_that_have_changed_places(till, apart):
    """In one batch the cut stands before the first of them, and the run goes on: never is a row shown without."""
    runs = till.run if apart else lambda: None
    exchange(till)
    runs()
    whole = till.tidb.tables["whole"]
    till.tidb.rename_column(whole, whole.others[0])
    renamed = till.tidb.ts
    runs()
    till.tidb.add_column(till.tidb.tables["parts"])
    till.run()
    till.assert_right("parts", "whole")
    cuts = {row["cut_ts"]: row["level"] for row in till.own("cuts")}
    assert (max(cuts), set(cuts.values())) == (till.tidb.ts, {"exact"})
    assert apart or renamed in cuts


def test_a_partition_that_waits_for_the_table_it_is_exchanged_with_shows_nothing_after_that(till, suite):
    hold(till, suite, "whole")
    till.put("parts", 4)
    exchange(till)
    till.put("parts", 5, 21)
    till.run()
    assert shown(till) == ([1, 4, 20], [2])
    till.put("parts", 6)
    till.put("note", 1)
    till.run()
    assert shown(till) == ([1, 4, 20], [2])
    assert till.keys("note") == [1]
    till.release("whole")
    till.run()
    till.assert_right("parts", "whole")
    assert shown(till) == ([2, 3, 5, 6, 20, 21], [1, 4])


def test_columns_that_change_while_an_exchange_waits_for_the_other_table_wait_with_it(till, suite):
    """And the rows after that, of this table alone."""
    hold(till, suite, "whole")
    exchange(till)
    till.run()
    parts = till.tidb.tables["parts"]
    till.tidb.rename_column(parts, parts.others[0])
    till.put("parts", 21)
    till.put("note", 1)
    till.run()
    assert till.keys("parts") == [1, 20]
    assert till.keys("note") == [1]
    waiting = till.own("held", table_name="parts", status="open")
    assert {row["reason"].partition(":")[0] for row in waiting} == {"DDL_PENDING"}
    till.release("whole")
    till.put("note", 2)
    till.run()
    till.assert_right("parts", "whole", "note")
    assert till.cut() == ("exact", "")


@pytest.mark.parametrize("held", ["whole", "parts"])
def test_an_exchange_is_done_when_a_table_that_was_held_before_it_is_released(till, suite, held):
    """Neither shows anything after it until then."""
    hold(till, suite, held)
    till.run()
    exchange(till)
    till.put("parts", 5, 21)
    till.put("whole", 6)
    till.put("note", 1)
    till.run()
    assert shown(till) == ([1, 20], [2])
    states = {name: state for name, (_, state) in till.states().items()}
    assert (states[held], states["whole" if held == "parts" else "parts"]) == ("held", "live")
    assert till.keys("note") == [1]
    till.release(held)
    till.put("note", 2)
    till.run()
    till.assert_right("parts", "whole")
    assert till.cut() == ("exact", "")


@pytest.mark.parametrize("first", [True, False], ids=["held first", "held after it"])
def test_an_exchange_is_done_when_a_table_that_the_same_batch_holds_is_released(till, first):
    def recover():
        till.say(ActionType.RECOVER_TABLE, f"RECOVER TABLE `{SCHEMA}`.`parts`", "parts")

    for step in (recover, lambda: exchange(till)) if first else (lambda: exchange(till), recover):
        step()
    till.put("parts", 5)
    till.put("whole", 6)
    till.run()
    assert (till.states()["parts"][1], till.states()["whole"][1]) == ("held", "live")
    assert shown(till) == ([1, 20], [2])
    till.release("parts")
    till.put("note", 1)
    till.run()
    till.assert_right("parts", "whole")
    assert till.cut() == ("exact", "")


@pytest.mark.parametrize("first", [True, False], ids=["renamed first", "renamed after it"])
def test_an_exchange_of_a_table_that_gets_a_taken_name_in_the_same_batch_is_done(till, first):
    """After it at once; before it, when the name is free."""
    till.put("note", 1)
    till.run()
    if not first:
        exchange(till)
    till.rename("parts", "note__changes")
    if first:
        exchange(till, "note__changes")
    till.put("note__changes", 5)
    till.put("whole", 6)
    till.run()
    assert till.states()["parts"] == ("note__changes", "held")
    if not first:
        assert shown(till) == ([2, 20], [1, 6])
        return
    till.tidb.drop("note")
    till.run()
    till.release("note__changes")
    till.put("account", 1)
    till.run()
    till.assert_right("note__changes", "whole")
    assert till.cut() == ("exact", "")


@pytest.mark.parametrize("till", [{"policy": "keep"}, {"policy": "drop"}], indirect=True, ids=["keep", "drop"])
@pytest.mark.parametrize("dies_before", ["", "evolved", "published", "exchanged-one", "commit to _pipeline.batches"])
def test_an_exchange_and_the_drop_of_the_other_table_in_one_batch_are_done_by_a_second_try(till, dies_before):
    exchange(till)
    till.tidb.drop("whole")
    till.put("parts", 5)
    if dies_before:
        till.run(dies_before)
    till.run()
    till.assert_right("parts")
    assert (till.states()["parts"], till.own("held", status="open")) == (("parts", "live"), [])
    assert kept(till) == ([1] if till.world.policy == "keep" else None)
    assert till.cut() == ("exact", "")


@pytest.mark.parametrize("till", [{"policy": "keep"}, {"policy": "drop"}], indirect=True, ids=["keep", "drop"])
@pytest.mark.parametrize("held", ["parts", "whole"])
def test_a_table_that_is_dropped_while_its_exchange_waits_is_there_until_that_is_done(till, suite, held):
    """In the same batch, and in a later one."""
    hold(till, suite, held)
    exchange(till)
    if held == "whole":
        till.run()
    till.tidb.drop("whole")
    till.put("parts", 5)
    till.run()
    assert till.keys("parts") == [1, 20]
    assert till.states()[held][1] == "held"
    till.release(held)
    till.put("note", 1)
    till.run()
    assert till.keys("parts") == ([2, 3, 5, 20] if held == "whole" else [2, 5, 20])
    assert kept(till) == (([1] if held == "whole" else [1, 3]) if till.world.policy == "keep" else None)
    assert till.states()["parts"] == ("parts", "live")
    assert till.cut() == ("exact", "")


def kept(till):
    """The rows of the table that was dropped, as long as there is one."""
    names = [name for name, (source, _) in till.states().items() if source == "whole"]
    return till.keys(names[0]) if names else None


def test_a_truncate_waits_for_its_time_as_rows_do(till):
    """A row before it waits for its schema; of removals that are shown the newest alone is noted."""
    till.put("account", 1)
    till.run()
    till.undescribed("account", 2)
    till.truncate("account")
    till.put("account", 3)
    till.run()
    assert till.keys("account") == [1]
    till.release("account")
    assert till.keys("account") == [3]
    for number in (4, 5):
        till.truncate("account")
        till.put("account", number)
        till.run()
    assert till.keys("account") == [5]
    assert len(till.tables["account"].layout.by_commit_ts.removals) == 2, "of those that are shown the newest is noted"


def test_a_truncate_that_an_earlier_version_has_noted_is_carried_out(till):
    till.put("account", 1, 2)
    till.run()
    with till.process() as opened:
        tables = opened.context.tables
        tables.truncate(tables.find(TableName(SCHEMA, "account")), till.tidb.ts)
    till.put("account", 3)
    till.run()
    assert till.keys("account") == [3]
