"""By offset, too, a table waits whose name in the warehouse is not free, and all that is said of it meanwhile with it.

What the slow tests of tests/e2e/test_taken_names.py say of tables without cuts, in memory.
"""

import pytest
from unit.batch_model import batch as model
from unit.batch_model.process import Process, World
from unit.till_in_memory import SCHEMA, NamedFuse

from pipeline.errors import Refused
from pipeline.model.names import TableName


class Till:
    """Two tables that a changefeed sends to a topic each, and a warehouse."""

    def __init__(self):
        self.world, self.fuse = World(ddl_sent=True), NamedFuse()
        self.source = self.world.source
        self.source.create("account")
        self.source.create("note")
        self.put("account", 1)
        self.put("note", 1)
        self.run()

    def put(self, name, *keys):
        for key in keys:
            self.source.put(self.source.tables[name], key)

    def opened(self):
        opened = Process(self.world, self.fuse)
        opened.context.records.held_counts()  # as `Pipeline.open`
        return opened

    def run(self, dies_before=""):
        self.fuse.wanted, self.fuse.skip = dies_before, 0
        opened = self.opened()
        try:
            while opened.batch(self.ends):
                pass
        finally:
            self.fuse.wanted = ""

    def ends(self, starts):
        ends = self.source.broker.latest
        return ends if any(end > starts.get(at, 0) for at, end in ends.items()) else None

    def release(self, name):
        return self.opened().release(TableName(SCHEMA, name))

    def states(self):
        return {pair.name.name: (pair.source.table, str(pair.state.value)) for pair in Process.tables_of(self.world)}

    def rows(self, name):
        pair = next(pair for pair in Process.tables_of(self.world) if pair.name.name == name)
        return sorted(row.key for row in pair.current.content())

    def own(self, name):
        return self.opened().context.records.tables[name].content()


@pytest.fixture
def till(monkeypatch):
    for where, name, instead in model.replacements():
        monkeypatch.setattr(where, name, instead)
    return Till()


def kept(till):
    return next(name for name in till.states() if "__dropped_" in name)


@pytest.mark.parametrize("dies_before", ["commit to s.note__changes", "commit to s.account__changes", ""])
def test_a_table_waits_for_the_statement_that_frees_its_name_in_the_source(till, dies_before):
    old = till.source.tables["account"]
    till.source.damage(till.source.tables["note"], 0, header=False)
    till.run()
    till.source.rename_table("note", "account")
    till.run()
    at = till.source.ts
    assert till.states() == {"account": ("account", "live"), "note": (f"note@{at}", "held")}
    (told,) = [row for row in till.own("ddl_history") if row["sql"].startswith("RENAME")]
    assert (told["action"], told["status"]) == ("held; to go on: ticdc-warehouse tables release s.account", "held")
    for name in (f"note@{at}", "account"):
        with pytest.raises(Refused, match=rf"s.note@{at} cannot be released: s.account already belongs"):
            till.release(name)
    moved = till.source.tables["account"]
    till.source.tables["account"] = old
    till.source.drop_table("account")
    till.source.tables["account"] = moved
    till.put("account", 2)
    if dies_before:
        with pytest.raises(model.Crash):
            till.run(dies_before)
    till.run()
    assert till.states() == {"account": ("account", "dropped"), "note": ("account", "held")}
    assert {(row["table_name"], row["status"]) for row in till.own("held")} == {("account", "open")}
    assert [(row["table_name"], row["status"]) for row in till.own("dead_letters")] == [("account", "open")]
    till.put("account", 3)
    till.run()
    assert till.release("account") == 2
    till.put("account", 4)
    till.run()
    assert till.states() == {kept(till): ("account", "dropped"), "account": ("account", "live")}
    assert (till.rows(kept(till)), till.rows("account")) == ([1], [1, 2, 3, 4])


@pytest.mark.parametrize("later", [True, False], ids=["in a later batch", "in the same batch"])
def test_a_new_table_of_its_old_name_waits_behind_it(till, later):
    old = till.source.tables["account"]
    till.source.rename_table("note", "account")
    if later:
        till.run()
    till.source.create("note")
    till.put("note", 2)
    till.run()
    till.put("note", 3)
    till.run()
    assert till.states()["account"] == ("account", "live")
    assert sorted(till.states()) == ["account", "note"]
    assert {row["table_name"] for row in till.own("held")} == {"note"}
    with pytest.raises(Refused, match=r"s.note cannot be released: s.note already belongs to .* s.note@"):
        till.release("note")
    moved = till.source.tables["account"]
    till.source.tables["account"] = old
    till.source.drop_table("account")
    till.source.tables["account"] = moved
    till.put("account", 4)
    till.run()
    assert till.release("account") == 1
    assert till.release("note") == 2
    till.put("note", 4)
    till.run()
    assert (till.rows("account"), till.rows("note")) == ([1, 4], [2, 3, 4])
