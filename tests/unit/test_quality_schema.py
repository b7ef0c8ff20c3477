"""The JSON Schema of suites: it takes what is read, and refuses what is not."""

import json
import re
from pathlib import Path

import pytest
import yaml
from great_expectations.expectations.registry import get_expectation_impl
from jsonschema import Draft202012Validator

from pipeline.quality import schema
from pipeline.quality.compiled import COMPILED
from pipeline.quality.suites import read
from pipeline.quality.validation import validate

DOCS = (Path(__file__).parents[2] / "docs" / "reference" / "checks.md").read_text(encoding="utf-8")
QUANTILES = "expect_column_quantile_values_to_be_between"
EXAMPLES = re.findall(r"```yaml\n(table:.*?)```", DOCS, re.DOTALL)


def refusals(text):
    tree = json.loads(json.dumps(yaml.safe_load(text), default=str))
    return [error.message for error in Draft202012Validator(schema.json_schema()).iter_errors(tree)]


def check(line):
    return f"table: a.b\nchecks:\n  - {line}\n"


def test_it_is_a_schema_of_its_dialect_and_always_the_same():
    Draft202012Validator.check_schema(schema.json_schema())
    schema.known.cache_clear()
    schema.arguments.cache_clear()
    assert json.dumps(schema.json_schema()) == json.dumps(schema.json_schema())
    assert list(schema.known()) == sorted(schema.known())


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_of_the_documentation_are_suites(text):
    assert refusals(text) == []
    assert validate([read(text, "example.yaml")], {}) == []


def test_the_documentation_has_examples():
    assert EXAMPLES


@pytest.mark.parametrize(
    "line",
    [
        "expect_column_values_to_be_in_set: {column: a, value_set: [1, b, 2.5, true, 2026-11-21]}",
        "expect_column_pair_values_to_be_in_set: {column_A: a, column_B: b, value_pairs_set: [[1, x], [2, y]]}",
        "expect_column_values_to_be_between: {column: a, min_value: 2026-11-21}",
        "expect_column_values_to_be_between: {column: a, min_value: 0.5, strict_min: true}\n    severity: hold",
        "expect_column_values_to_be_between: {column: a, max_value: 1}\n    mostly: 0.9\n    row_condition: b > 1",
        f"{QUANTILES}: {{column: a, quantile_ranges: {{quantiles: [0.1, 0.9], value_ranges: [[0, 1], [2, null]]}}}}",
        "expect_column_values_to_be_between: {column: a, min_value: 1, max_value: null}",
        "expect_table_row_count_to_equal: {value: 3}",
        "unexpected_rows_expectation: {unexpected_rows_query: select * from b}",
    ],
)
def test_what_is_read_is_taken(line):
    assert validate([read(check(line), "a.yaml")], {}) == []
    assert refusals(check(line)) == []


@pytest.mark.parametrize(
    "text",
    [
        "tabel: a.b\n",
        "table: []\n",
        check("expect_column_values_to_be_betwen: {column: a, min_value: 0}"),
        check("expect_column_values_to_be_between: {column: a, min_valu: 0}"),
        check("expect_column_values_to_be_between: {min_value: 0}"),
        check("expect_column_values_to_be_null: {column: a}\n    severity: stop"),
        check("expect_column_values_to_be_null: {column: a}\n    mostly: 2"),
        check("expect_column_values_to_be_null: {column: a}\n    expect_column_values_to_be_unique: {column: a}"),
        check("because: x"),
    ],
)
def test_a_typo_is_refused(text):
    assert refusals(text)


def test_what_great_expectations_has_no_spark_form_of_is_left_out():
    for name in schema.known():
        assert name not in schema.UNSUPPORTED
        assert get_expectation_impl(name).__module__.startswith("great_expectations.")
    assert set(schema.known()) >= COMPILED | schema.WHOLE_TABLE


def test_the_documentation_lists_every_expectation_where_it_is_judged():
    for level in schema.Level:
        (table,) = re.findall(rf"<!-- {level.value} -->\n(.*?)<!-- end -->", DOCS, re.DOTALL)
        assert re.findall(r"`(\w+)`", table) == [name for name in schema.known() if schema.level(name) is level]
    (table,) = re.findall(r"<!-- unsupported -->\n(.*?)<!-- end -->", DOCS, re.DOTALL)
    assert dict(re.findall(r"^\| `(\w+)` \| (.*?) \|$", table, re.MULTILINE)) == schema.UNSUPPORTED
