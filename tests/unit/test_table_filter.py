"""Which tables a pipeline reads, by TiCDC's rules."""

import pytest

from pipeline.model.names import TableName
from pipeline.model.table_filter import NotARule, TableFilter


@pytest.mark.parametrize(
    ("rules", "taken", "left_out"),
    [
        (["*.*"], ["shop.orders", "a.b"], []),
        (["shop.*"], ["shop.orders", "SHOP.Orders"], ["shop1.orders", "myshop.orders"]),
        (["*.*", "!shop.*"], ["a.b"], ["shop.orders"]),
        (["shop.orders"], ["Shop.ORDERS"], ["shop.orders1", "s.orders"]),
        (["db*.*", "!*.cfg*", "*.cfgsample"], ["db1.t", "db1.cfgsample", "x.cfgsample"], ["db1.cfg1", "x.t"]),
        (["!a.b", "*.*"], ["a.b"], []),
        (["a?c.t[0-9]"], ["abc.t1"], ["ac.t1", "abc.t", "abc.t12", "abc.tx"]),
        (["[!a-z].[^a-z]"], ["1.^", "9.z"], ["b.^", "1.9"]),
        (["/^foo/.*", r"!/^foo/./^sbtest-\d/"], ["foo1.t", "foo.sbtest"], ["xfoo.t", "foo1.sbtest-1"]),
        (["*./end$/"], ["a.the_end"], ["a.ends"]),
        ([r"*./a\/b/"], ["x.a/b"], ["x.ab"]),
        (['"some ""quoted""".`a``b`'], ['some "quoted".a`b'], ["some quoted.a`b"]),
        ([r"a\.b.c\-d"], [("a.b", "c-d")], [("axb", "c-d")]),
        (["中文.表?"], ["中文.表名"], ["中文.表"]),
        (["p_1$.*"], ["p_1$.t"], ["p_1.t"]),
        (["*.*"], [("line\nend", "t\n")], []),
        (["*.t"], [], [("s", "t\n")]),
    ],
)
def test_the_last_rule_that_a_table_fits_decides(rules, taken, left_out):
    table_filter = TableFilter.of(rules)
    assert [table for table in taken if not table_filter.takes(named(table))] == []
    assert [table for table in left_out if table_filter.takes(named(table))] == []


@pytest.mark.parametrize(
    "text",
    ["", "db", "db.", ".t", "a.b.c", "a%b.c", r"a\tb.c", "[].*", "[.*", r"[\d].*", "`db`*.*", "/db.*", "`db.*",
     '"db.*', "db\\", "db.t#c", "/(/.*", "[z-a].*", "@rules.txt", "a.b "],
)  # fmt: skip
def test_what_is_no_rule(text):
    with pytest.raises(NotARule):
        TableFilter.of([text])


def test_rules_that_only_take_out_take_nothing():
    assert not TableFilter.of(["!a.b"]).takes_some
    assert TableFilter.of(["!a.b", "a.*"]).takes_some


def named(table):
    return TableName(*(table if isinstance(table, tuple) else table.split(".", 1)))
