"""RENAMEs of one commit ts in an order that can have been executed."""

from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace

import pytest

from pipeline.ddl import CreateTable, NotUnderstood, RenameTable
from pipeline.ddl.rename_steps import executable
from pipeline.ddl.statement import Statement
from pipeline.ingest.by_commit_ts import timeline
from pipeline.ingest.by_offset.stages import bound_after
from pipeline.model.columns import CommitTs
from pipeline.model.messages import EVER, Ddl
from pipeline.model.names import TableName
from pipeline.warehouse.pairs import StoredBinding


def named(name):
    return TableName("s", name)


def statement(ts, action):
    table = action.new if isinstance(action, RenameTable) else action.table
    return Statement(Ddl(CommitTs(ts), table, 0, f"{ts}: {table}", {}), (action,))


def renames(text, ts=5):
    return [statement(ts, RenameTable(*map(named, pair.split(">")))) for pair in text.split()]


def names_after(statements, live):
    bindings = {named(name).key: name for name in live}
    for one in executable(statements, bindings):
        for action in one.actions:
            if isinstance(action, RenameTable):
                assert action.new.key not in bindings, "a name is given that a table has"
            bindings = bound_after(bindings, action, one.ddl.commit_ts)
    return {key[1]: table for key, table in bindings.items() if isinstance(table, str)}


@pytest.mark.parametrize(
    ("text", "live", "expected"),
    [
        ("orders>backup new>orders", ("orders", "new"), {"backup": "orders", "orders": "new"}),
        ("a>b b>c c>d", "abc", {"b": "a", "c": "b", "d": "c"}),
        ("a>b b>a", "ab", {"b": "a", "a": "b"}),
        ("a>b b>c c>a", "abc", {"b": "a", "c": "b", "a": "c"}),
        ("a>b b>a c>d d>c", "abcd", {"b": "a", "a": "b", "d": "c", "c": "d"}),
        ("a>b b>a c>d x>c", "abcx", {"b": "a", "a": "b", "d": "c", "c": "x"}),
    ],
    ids=["replaced", "chain", "swap", "cycle of three", "two swaps", "a swap and a chain"],
)
def test_every_order_gives_what_the_one_statement_has_done(text, live, expected):
    for order in permutations(renames(text)):
        assert names_after(list(order), live) == expected


def test_a_name_that_no_table_had_is_one_on_the_way():
    assert names_after(renames("a>t b>a t>b"), "ab") == {"a": "b", "b": "a"}


@pytest.mark.parametrize(("ids", "expected"), [((1, 1), {"z": "x"}), ((1, 2), {"n": "x"})])
def test_table_ids_tell_whether_a_name_is_one_on_the_way(ids, expected):
    for order in permutations(zip(renames("x>n n>z"), ids, strict=True)):
        sent = [replace(one, ddl=replace(one.ddl, table_id=number)) for one, number in order]
        assert names_after(sent, "x") == expected


def test_where_nobody_can_tell_the_tables_are_held():
    actions = [one.actions[0] for one in executable(renames("x>n n>z"), [named("x").key])]
    assert all(isinstance(action, NotUnderstood) and "the name n" in action.reason for action in actions)


def test_two_tables_that_change_names_do_so_though_one_has_no_rows_yet():
    assert names_after(renames("a>b b>a"), "a") == {"b": "a"}


def test_rows_of_a_name_tell_that_a_table_has_it():
    assert names_after(renames("x>n n>z"), "xn") == {"n": "x", "z": "n"}


def test_names_follow_the_statements_before():
    create = statement(1, CreateTable(named("b")))
    assert names_after([create, *renames("a>b b>a")], "a")["b"] == "a"


def test_a_new_spelling_of_a_name_is_no_cycle():
    (one,) = executable(renames("a>A"), ["a"])
    assert one.actions == (RenameTable(named("a"), named("A")),)


def test_other_statements_keep_their_places():
    before, after = statement(4, CreateTable(named("x"))), statement(6, CreateTable(named("y")))
    ordered = executable([before, *renames("new>a a>old"), after], [named("a").key])
    assert [one.ddl.table.table for one in ordered] == ["x", "old", "a", "y"]


class TestByCommitTs:
    """What counts are the names of before the RENAMEs, which a try that died may have applied in part."""

    @staticmethod
    def ordered(text, pairs, *before):
        """RENAMEs at 200 in their order; `pairs`: names with since when (and until when) a table has them."""
        bindings = [StoredBinding("s", name, *when) for name, *when in pairs]
        tables = [
            SimpleNamespace(uuid=f"u{n}", by_commit_ts=SimpleNamespace(bindings=(span,)))
            for n, span in enumerate(bindings)
        ]
        history = SimpleNamespace(properties={})
        context = SimpleNamespace(tables=tables, records=SimpleNamespace(tables={"ddl_history": history}))
        found = timeline._in_order([*before, *renames(text, 200)], context, ())
        return [" ".join(f"{a.old.table}>{a.new.table}" for a in s.actions) for s in found[len(before) :]]

    def test_a_table_that_was_made_after_the_oldest_statement_counts(self):
        old = statement(50, CreateTable(named("z")))
        assert self.ordered("c>a a>b", [("c", 10, EVER), ("a", 100, EVER)], old) == ["a>b", "c>a"]

    def test_one_that_was_gone_by_then_does_not(self):
        old = statement(50, CreateTable(named("z")))
        pairs = [("t", 10, 100), ("a", 10, EVER), ("b", 10, EVER)]
        assert self.ordered("a>t b>a t>b", pairs, old) == ["a>t", "b>a", "t>b"]

    def test_what_a_try_that_died_has_applied_does_not(self):
        """`b>c` was applied: `c` is a table by now, and was none before."""
        pairs = [("a", 10, EVER), ("b", 10, 200), ("c", 200, EVER)]
        assert self.ordered("a>b b>c", pairs) == ["b>c", "a>b"]
