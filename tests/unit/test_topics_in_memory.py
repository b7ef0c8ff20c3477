"""Tables of several topics that are read unevenly: a row is of the table that had its name then, and none shows more.

What the slow tests of tests/e2e/test_cut_history.py and test_two_clusters.py say of topics, in memory.
"""

import pytest
from unit.till_in_memory import SCHEMA, Till, replaced

from pipeline.ddl import ActionType


@pytest.fixture
def till(monkeypatch):
    replaced(monkeypatch)
    return Till(shared=False)


def test_rows_that_are_read_before_the_rename_that_gives_their_name_are_of_that_table(till):
    """A batch takes some of each topic, and comes further in that of the new name."""
    till.put("account", *range(40))
    till.rename("account", "ledger")
    till.put("ledger", *range(101, 121))
    till.run(limit=2)
    assert len(till.own("batches")) > 3
    till.assert_right("ledger")
    assert till.states() == {"ledger": ("ledger", "live"), "note": ("note", "live")}
    assert till.cut() == ("exact", "")


def test_a_table_whose_new_name_has_a_topic_that_is_read_later_shows_nothing_beyond_that(till):
    """The topic of its old name says that more is complete than has been read of the other one."""
    till.create("queue")
    till.put("queue", *range(20))
    till.put("account", 1, 2)
    till.run()
    till.rename("account", "ledger")
    till.put("ledger", *range(101, 106))
    till.truncate("ledger")
    till.put("ledger", *range(106, 116))
    till.run("commit to _pipeline.batches", 4, limit=2)
    assert till.own("cuts")
    till.run(limit=2)
    assert len(till.own("batches")) > 3
    till.assert_right("ledger", "queue")
    assert till.cut() == ("exact", "")


def test_a_partition_that_has_nothing_left_to_read_stands_in_the_way_of_no_first_cut(till):
    """As retention leaves it: the topic is there, and none of its records."""
    till.world.brought.add("t_annex", 2)
    till.put("account", 1)
    till.run()
    assert till.cut() == ("exact", "")
    till.assert_right("account")


def reason(till, name):
    return till.tables[name].held_reason


def test_a_table_that_has_moved_is_released_and_lives_on_in_both_topics(till):
    """Rows in a second topic may be of another cluster's table: it is held until a person says that it is one."""
    till.put("account", 1)
    till.put("note", 1)
    till.run()
    till.elsewhere("t_other", "account", 2)
    till.run()
    assert reason(till, "account").startswith("TABLE_NAME_TAKEN: streams t_account, t_other all bring a table")
    assert till.keys("account") == [1]
    till.release("account")
    till.assert_right("account")
    till.elsewhere("t_other", "account", 3)
    till.put("account", 4)
    till.run()
    till.assert_right("account")
    assert till.states()["account"] == ("account", "live")


def test_a_ddl_event_of_another_topic_holds_the_table_instead_of_changing_it(till):
    till.put("account", 1)
    till.put("note", 1)
    till.run()
    till.tidb.topic_of = lambda _name: "t_other"
    till.say(ActionType.TRUNCATE_TABLE, f"TRUNCATE TABLE `{SCHEMA}`.`note`", "note")
    till.run()
    assert reason(till, "note").startswith("DDL_NOT_UNDERSTOOD: streams t_note, t_other all bring a table")
    assert till.keys("note") == [1]
    assert till.states()["account"] == ("account", "live")
