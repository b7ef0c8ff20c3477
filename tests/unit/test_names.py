"""Which names are one: in the source (lower case), and for engines that read the warehouse."""

import pytest

from pipeline.model.names import TableName, confusable, folded, stored_column

DOTTED = "i\N{COMBINING DOT ABOVE}"
KELVIN = "\N{KELVIN SIGN}"
NAMES = ("Maß", "MASS", "ı", "I", "İ", DOTTED, "ſ", "S", "ς", "Σ", KELVIN, "k", "ﬁ", "fi", "ǅ", "ǆ")  # noqa: RUF001
"""Sharp s, dotless and dotted i, long s, sigma at the end, Kelvin, a ligature, a title-case letter."""


def alike(rule):
    """The names that a rule takes for one, as sets."""
    groups = {}
    for name in NAMES:
        groups.setdefault(rule(name), set()).add(name)
    return {frozenset(group) for group in groups.values() if len(group) > 1}


def test_names_of_the_source_go_by_lower_case():
    assert alike(folded) == {frozenset({KELVIN, "k"}), frozenset({"İ", DOTTED}), frozenset("ǅǆ")}


def test_java_compares_letters_in_upper_and_then_in_lower_case():
    dots = frozenset({*"ıIİ", DOTTED})  # noqa: RUF001
    together = {frozenset({KELVIN, "k"}), dots, frozenset("ſS"), frozenset("ςΣ"), frozenset("ǅǆ")}  # noqa: RUF001
    assert alike(confusable) == together


@pytest.mark.parametrize("rule", [folded, confusable])
def test_a_rule_is_as_good_behind_itself(rule):
    assert [rule(rule(name)) for name in NAMES] == [rule(name) for name in NAMES]


def test_tables_go_by_tidbs_rule_and_columns_beside_ours_by_javas():
    assert TableName("S", "Straße").key == TableName("s", "STRAßE").key != TableName("s", "strasse").key
    assert [stored_column(name) for name in ("_POS", "_poſ", "_pos2")] == ["_POS__src", "_poſ__src", "_pos2"]  # noqa: RUF001
