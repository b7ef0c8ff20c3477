"""Compiled expectations against Great Expectations: the same numbers and the same verdicts on random frames.

Every expectation of `COMPILED` needs a generator here; one without fails.
"""

import random
from datetime import date, datetime
from decimal import Decimal
from functools import partial

import pytest
from great_expectations.execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.registry import get_expectation_impl
from great_expectations.validator.validation_graph import ValidationGraph
from pyspark.sql import functions as F

from pipeline.quality.compiled import COMPILED, NotCompiled, compiled
from pipeline.quality.suites import Check

pytestmark = pytest.mark.spark

COLUMNS = {
    "small": "int", "large": "bigint", "price": "decimal(12,3)", "other": "decimal(12,3)", "ratio": "double",
    "word": "string", "more": "string", "day": "date", "nothing": "int",
}  # fmt: skip
WORDS = ("", "a", "b", "ab", "abc", "Zoë", "a,b", "NULL", "12", "-1.5", "x\ny")
NUMBERS = ("small", "large", "price", "other", "ratio", "nothing")
CONDITIONS = ("", "small > 0", "word <> 'a'", "price IS NULL OR ratio > 0", "nothing = 1")
SIZES = ((0, 1), (3, 2), (40, 4))
"""Rows of a frame, and checks for each expectation."""
WITHOUT_CONDITION = {"expect_column_pair_values_to_be_in_set"}
"""Great Expectations ignores a row condition in some of its counts."""


def value(dice, kind):
    """A random value of a type, often NULL, often one that others have too."""
    if dice.random() < 0.2:
        return None
    match kind:
        case "int" | "bigint":
            return dice.choice((0, 1, 2, 3, -1, 7, 2**31 - 1))
        case "double":
            return dice.choice((0.0, 1.0, 2.5, -1.5, float("nan"), float("inf"), 1e300))
        case "string":
            return dice.choice(WORDS)
        case "date":
            return date(2026, 11, dice.randint(1, 28))
        case _:
            return Decimal(dice.choice(("0", "1", "2", "2.5", "-1.250", "999999999.999")))


def rows(dice, count):
    kinds = {**COLUMNS, "nothing": None}
    return [tuple(None if kind is None else value(dice, kind) for kind in kinds.values()) for _ in range(count)]


def limits(dice):
    low, high = sorted(dice.sample((-2, 0, 1, 2.5, 7), 2))
    found = dice.choice(({"min_value": low}, {"max_value": high}, {"min_value": low, "max_value": high}))
    if dice.random() < 0.5:
        found |= {"strict_min": dice.random() < 0.5, "strict_max": dice.random() < 0.5}
    return found


def between(dice):
    if dice.random() < 0.3:
        make = dice.choice((date, partial(datetime, hour=12)))
        low, high = make(2026, 11, dice.randint(1, 14)), make(2026, 11, dice.randint(15, 28))
        return {"column": "day", "min_value": low, "max_value": high, "strict_min": dice.random() < 0.5}
    return {"column": dice.choice(NUMBERS), **limits(dice)}


def pair(dice, names):
    found = dict(zip(("column_A", "column_B"), dice.sample(names, 2), strict=True))
    choices = ("both_values_are_missing", "either_value_is_missing", "neither")
    return found | ({"ignore_row_if": dice.choice(choices)} if dice.random() < 0.7 else {})


def several(dice, names):
    found = {"column_list": dice.sample(names, dice.randint(2, len(names)))}
    choices = ("all_values_are_missing", "any_value_is_missing", "never")
    return found | ({"ignore_row_if": dice.choice(choices)} if dice.random() < 0.7 else {})


def text(dice):
    return {"column": dice.choice(("word", "more"))}


def in_set(dice):
    column = dice.choice(("small", "word", "price"))
    members = {"small": (0, 1, 2), "word": WORDS, "price": (0, 1, 2.5)}[column]
    return {"column": column, "value_set": dice.sample(members, dice.randint(1, 3))}


REGEXES = ("^a", "b$", "^[a-z]+$", "^$", "\\d", "ë")

GENERATORS = {
    "expect_column_pair_values_a_to_be_greater_than_b": lambda dice: {
        **pair(dice, ("small", "large", "price", "other")), "or_equal": dice.random() < 0.5,
    },
    "expect_column_pair_values_to_be_equal": lambda dice: pair(dice, dice.choice((NUMBERS, ("word", "more")))),
    "expect_column_pair_values_to_be_in_set": lambda dice: {
        **pair(dice, ("small", "large")),
        "value_pairs_set": [(dice.randint(0, 2), dice.randint(0, 2)) for _ in range(3)],
    },
    "expect_column_value_lengths_to_be_between": lambda dice: {
        **text(dice), **dice.choice(({"min_value": 1}, {"max_value": 2}, {"min_value": 1, "max_value": 3})),
    },
    "expect_column_value_lengths_to_equal": lambda dice: {**text(dice), "value": dice.randint(0, 3)},
    "expect_column_values_to_be_between": between,
    "expect_column_values_to_be_in_set": in_set,
    "expect_column_values_to_be_null": lambda dice: {"column": dice.choice(tuple(COLUMNS))},
    "expect_column_values_to_match_regex": lambda dice: {**text(dice), "regex": dice.choice(REGEXES)},
    "expect_column_values_to_match_regex_list": lambda dice: {
        **text(dice), "regex_list": dice.sample(REGEXES, 2), "match_on": dice.choice(("any", "all")),
    },
    "expect_column_values_to_not_be_in_set": in_set,
    "expect_column_values_to_not_be_null": lambda dice: {"column": dice.choice(tuple(COLUMNS))},
    "expect_column_values_to_not_match_regex": lambda dice: {**text(dice), "regex": dice.choice(REGEXES)},
    "expect_column_values_to_not_match_regex_list": lambda dice: {**text(dice), "regex_list": dice.sample(REGEXES, 2)},
    "expect_multicolumn_sum_to_equal": lambda dice: {
        **several(dice, ("small", "large", "price", "other")), "sum_total": dice.choice((0, 1, 3, 2.5)),
    },
    "expect_multicolumn_values_to_be_equal": lambda dice: several(dice, dice.choice((NUMBERS[:4], ("word", "more")))),
    "expect_select_column_values_to_be_unique_within_record": lambda dice: several(
        dice, dice.choice((NUMBERS[:4], ("word", "more")))
    ),
}  # fmt: skip


def test_every_compiled_expectation_has_a_generator():
    assert set(GENERATORS) == COMPILED


def checks(dice, count):
    return [
        Check(
            name, generate(dice), f"{name} {number}",
            mostly=dice.choice((1.0, 0.9, 0.5)),
            row_condition="" if name in WITHOUT_CONDITION else dice.choice(CONDITIONS),
        )
        for name, generate in GENERATORS.items()
        for number in range(count)
    ]  # fmt: skip


def judged_by_gx(frame, wanted):
    """(evaluated, unexpected, success) of each check, by jobs of Great Expectations' own."""
    engine = SparkDFExecutionEngine(batch_data_dict={"batch": frame}, persist=False)
    graph, dependencies = ValidationGraph(execution_engine=engine), []
    for check in wanted:
        condition = {"row_condition": check.row_condition, "condition_parser": "spark"} if check.row_condition else {}
        expectation = get_expectation_impl(check.expectation)(**check.arguments, mostly=check.mostly, **condition)
        needed = expectation.get_validation_dependencies(runtime_configuration={"result_format": "BASIC"})
        metrics = {n: m for n, m in needed.metric_configurations.items() if n.endswith("_count")}
        for metric in metrics.values():
            graph.build_metric_dependency_graph(metric_configuration=metric, runtime_configuration=None)
        dependencies.append((expectation, metrics))
    resolved, aborted = graph.resolve(show_progress_bars=False)
    assert not aborted, aborted
    for expectation, metrics in dependencies:
        values = {name: resolved[metric.id] for name, metric in metrics.items()}
        rows = values["table.row_count"]
        nulls = values.get("column_values.nonnull.unexpected_count") or 0  # None where there is no row
        name = expectation.map_metric
        about_nulls = name in {"column_values.nonnull", "column_values.null"}
        evaluated = values.get(f"{name}.filtered_row_count", rows if about_nulls else rows - nulls)
        yield evaluated, values[f"{name}.unexpected_count"] or 0, expectation._validate(values)["success"]


@pytest.mark.parametrize(("size", "count"), SIZES)
def test_numbers_and_verdicts_are_those_of_great_expectations(spark, size, count):
    dice = random.Random(size)  # noqa: S311 - no secret
    schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    frame = (
        spark.createDataFrame(rows(dice, size), schema).coalesce(1).cache()
    )  # Great Expectations runs dozens of jobs
    wanted = checks(dice, count)
    found = compiled(spark, wanted, COLUMNS)
    counters = [
        F.count_if(predicate).alias(f"{what}{number}")
        for number, rule in enumerate(found.rules)
        for what, predicate in (("judged", rule.judged), ("unexpected", rule.unexpected))
    ]
    counted = found.numbered(frame).agg(*counters).collect()[0]
    for number, (rule, theirs) in enumerate(zip(found.rules, judged_by_gx(frame, wanted), strict=True)):
        judged, unexpected = counted[f"judged{number}"], counted[f"unexpected{number}"]
        assert (judged, unexpected, rule.success(judged, unexpected)) == theirs, rule.check
    frame.unpersist()


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (Check("expect_column_values_to_be_between", {"column": "lost", "min_value": 0}, "a"), "no column `lost`"),
        (Check("expect_column_values_to_be_between", {"column": "small"}, "a"), "cannot both be None"),
        (Check("expect_column_values_to_be_between", {"column": "word", "min_value": 0}, "a"), "StringType"),
        (Check("expect_column_values_to_match_regex", {"column": "word", "regx": "a"}, "a"), "regx: extra fields"),
        (Check("expect_column_values_to_be_null", {"column": "word"}, "a", row_condition="lost > 1"), "lost"),
        (Check("expect_column_values_to_be_null", {"column": "word"}, "a", row_condition="word >"), "syntax"),
        (Check("expect_column_values_to_be_null", {"column": "word"}, "a", row_condition="_q0 > 1"), "_q0"),
        (Check("expect_column_values_to_be_null", {"column": "word"}, "a", row_condition="small"), "BOOLEAN"),
        (Check("expect_column_values_to_be_null", {"column": "word"}, "a", row_condition="sum(small) > 1"), "WHERE"),
        (Check("expect_column_values_to_be_null", {"column": "word"}, "a", row_condition="rand() > 0.5"), "differs"),
        (Check("expect_column_values_to_be_null", {"column": "word"}, "a", row_condition="exists (select 1)"), "a job"),
        (
            Check(
                "expect_column_pair_values_to_be_in_set",
                {"column_A": "small", "column_B": "large", "value_pairs_set": [(1, 2)]},
                "a",
                row_condition="small > 0",
            ),
            "ignores it",
        ),
    ],
)
def test_a_check_that_cannot_be_compiled_says_why(spark, check, why):
    with pytest.raises(NotCompiled) as refusal:
        compiled(spark, [check], COLUMNS)
    assert refusal.value.args[0] is check
    assert why.casefold() in refusal.value.args[1].casefold()


def test_names_are_no_sql(spark):
    names = {"we`ird.x": "int", "_q0": "int", "Größe": "int", "sel ect; --": "int"}
    wanted = [Check("expect_multicolumn_sum_to_equal", {"column_list": list(names), "sum_total": 6}, "sum")]
    wanted += [Check("expect_column_values_to_be_between", {"column": n, "min_value": 2}, n) for n in names]
    frame = spark.createDataFrame([(1, 2, 3, 0)], ", ".join(f"`{n.replace('`', '``')}` int" for n in names))
    found = compiled(spark, wanted, names)
    row = found.numbered(frame).select(*(rule.unexpected.alias(str(n)) for n, rule in enumerate(found.rules))).first()
    assert list(row) == [False, True, False, False, True]


@pytest.mark.parametrize("nullable", ["", " not null"])
def test_what_cannot_be_computed_is_unexpected_and_ends_nothing(spark, nullable):
    """Also where rules share what fails: Spark would compute that once, ahead of all of them."""
    conditions = ("1 / small > 0", "1 / small > 0.7", "cast(word as int) / small > 0.7")
    wanted = [Check("expect_column_values_to_be_null", {"column": "small"}, c, row_condition=c) for c in conditions]
    frame = spark.createDataFrame([(0, "0"), (1, "1"), (3, "x")], f"small int{nullable}, word string")
    found = compiled(spark, wanted, {"small": "int", "word": "string"})
    predicates = [predicate for rule in found.rules for predicate in (rule.judged, rule.unexpected)]
    rows = found.numbered(frame).select(*(p.alias(f"p{n}") for n, p in enumerate(predicates))).collect()
    assert [[row[0], row[2], row[4]] for row in rows] == [[True] * 3, [True] * 3, [True, False, True]]
    assert all(row[n] == row[n + 1] for row in rows for n in (0, 2, 4))
