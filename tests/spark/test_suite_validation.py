"""Suites against tables in Spark: what compiles there, regular expressions that are tried, and the commands."""

import json
import time

import pytest

from pipeline import cli
from pipeline.model import types
from pipeline.model.columns import SourceColumn, TableVersion
from pipeline.model.names import TableName
from pipeline.quality import regexes
from pipeline.quality.schema import json_schema
from pipeline.quality.suites import read
from pipeline.quality.validation import validate
from pipeline.warehouse.evolution import Policy, meet
from pipeline.warehouse.layout import Layout

pytestmark = pytest.mark.spark

TABLES = {TableName("shop", "orders"): {"id": "bigint", "total": "decimal(12,2)", "no`te": "string", "day": "date"}}
NULL, REGEX = "expect_column_values_to_be_null: {column: id}", "expect_column_values_to_match_regex"
CONFIG = """\
name: checks
source: {{kind: kafka, protocol: avro, bootstrap_servers: "localhost:1", topics: [none]}}
registry: {{url: "http://localhost:1"}}
warehouse: {{path: {warehouse}}}
checkpoint: {folder}/checkpoint
quality: {{suites: {folder}/suites}}
"""


def found(spark, *checks, **settings):
    text = "table: shop.orders\nchecks:\n" + "".join(f"  - {check}\n" for check in checks)
    return [str(one) for one in validate([read(text, "a.yaml")], TABLES, lambda: spark, **settings)]


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (f"{NULL}\n    row_condition: lost > 1", "4:5: shop.orders: row_condition: [UNRESOLVED_COLUMN"),
        (f"{NULL}\n    row_condition: id >", "4:5: shop.orders: row_condition: [PARSE_SYNTAX_ERROR]"),
        (f"{NULL}\n    row_condition: id", "BOOLEAN"),
        (f"{NULL}\n    row_condition: rand() > 0.5", "its outcome differs"),
        (
            "expect_column_max_to_be_between: {column: id, min_value: 0}\n    row_condition: lost > 1",
            "4:5: shop.orders: row_condition: [UNRESOLVED_COLUMN",
        ),
        (f"{REGEX}: {{column: no`te, regex: '(a'}}", "3:58: Java refuses the regular expression: Unclosed group"),
        (f"{REGEX}: {{column: no`te, regex: '.*.*.*.*='}}", "takes more than 1 s on texts of 400 characters"),
        (f"{REGEX}: {{column: no`te, regex: '^(a|b)*$'}}", "warning: on texts of 8,000 characters"),
    ],
)
def test_what_spark_and_java_refuse_is_found_with_its_place(spark, check, said):
    (finding,) = found(spark, check)
    assert finding.startswith("a.yaml:")
    assert said in finding


def test_every_check_that_is_refused_is_told_and_the_others_are_not(spark):
    bad = [f"{NULL}\n    name: bad {number}\n    row_condition: lost = {number}" for number in range(3)]
    assert len(found(spark, NULL, *bad)) == 3


def test_what_is_right_is_not_found(spark):
    assert (
        found(
            spark,
            f"{NULL}\n    row_condition: total > 0 AND `no``te` <> ''",
            "expect_column_values_to_be_between: {column: DAY, min_value: 2026-01-01}",
            f"{REGEX}: {{column: no`te, regex: '^[a-z]+(-[a-z]++)*+$'}}",
            f"{REGEX}_list: {{column: no`te, regex_list: ['\\Qa+b\\E', '(?>x+)+y']}}",
        )
        == []
    )


def test_a_pattern_that_takes_too_long_is_left_alone(spark):
    jvm = spark.sparkContext._jvm
    begun = time.monotonic()
    assert regexes.seconds(jvm, ".*.*.*.*=", budget=0.2) is None
    assert time.monotonic() - begun < 30
    taken = regexes.seconds(jvm, "^[a-z]+$")
    assert taken is not None
    assert taken < 0.5


def test_a_slow_pattern_is_a_warning_where_slow_ones_are_allowed(spark):
    (finding,) = found(spark, f"{REGEX}: {{column: no`te, regex: '.*.*.*.*='}}", allow_slow_regex=True)
    assert "warning: the regular expression takes" in finding


@pytest.fixture
def project(warehouse, tmp_path):
    """A configuration, its folder of suites, and a function that makes a table with a live and a dropped column."""
    _, tables, path = warehouse
    (tmp_path / "suites").mkdir()
    config = tmp_path / "checks.yaml"
    config.write_text(CONFIG.format(warehouse=path, folder=tmp_path))

    def made():
        source = TableName("shop", "orders")
        columns = [
            SourceColumn("id", types.BIGINT, "BIGINT", nullable=False),
            SourceColumn("note", types.STRING, "TEXT", nullable=True),
        ]
        layout, _ = meet(
            Layout(),
            TableVersion(source, 1, (*columns, SourceColumn("gone", types.STRING, "TEXT", nullable=True)), ("id",)),
            Policy(),
        )
        layout, _ = meet(layout, TableVersion(source, 2, tuple(columns), ("id",)), Policy())
        tables.create(source, layout)

    return config, tmp_path / "suites", made


def suite(folder, *checks):
    (folder / "shop").mkdir(exist_ok=True)
    text = "table: shop.orders\nchecks:\n" + "".join(f"  - {check}\n" for check in checks)
    (folder / "shop" / "orders.yaml").write_text(text)


def test_validate_ends_well_where_nothing_is_wrong(project, capsys):
    config, folder, made = project
    made()
    suite(
        folder,
        "expect_column_values_to_not_be_null: {column: id}",
        "expect_column_max_to_be_between: {column: id, min_value: 0}",
    )
    assert cli.main(["checks", "validate", "-c", str(config)]) == 0
    said = "1 suite, 2 checks: 1 judged row by row, 1 by Great Expectations on batches, 0 on whole tables"
    assert capsys.readouterr().out == f"{said}; 0 errors, 0 warnings\n"


def test_validate_tells_everything_and_ends_with_1(project, capsys):
    config, folder, made = project
    made()
    suite(folder, "expect_column_values_to_not_be_null: {column: gone}", "expect_column_values_to_be_nul: {column: id}")
    (folder / "b.yaml").write_text("tabel: x\n")
    assert cli.main(["checks", "validate", "-c", str(config)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in lines[:-1]] == [
        "b.yaml:1:1",
        "b.yaml:1:1",
        "shop/orders.yaml:3:43",
        "shop/orders.yaml:4:5",
    ]
    assert "shop.orders has no column `gone`" in lines[2]
    assert lines[-1].endswith("4 errors, 0 warnings")
    assert cli.main(["checks", "validate", "-c", str(config), "--output", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["suites"], told["checks"], told["errors"], told["tables"]) == (2, 2, 4, 1)
    assert told["findings"][-1] | {"message": "", "hint": ""} == {
        "file": "shop/orders.yaml", "line": 4, "column": 5, "code": "EXPECTATION_UNKNOWN", "error": True,
        "message": "", "hint": "",
    }  # fmt: skip


def test_validate_says_what_it_could_not_check_without_a_warehouse(project, capsys, tmp_path):
    config, folder, _ = project
    config.write_text(CONFIG.format(warehouse=tmp_path / "nowhere", folder=tmp_path))
    suite(folder, "expect_column_values_to_not_be_null: {column: gone}")
    assert cli.main(["checks", "validate", "-c", str(config)]) == 0
    assert "the warehouse has no table yet" in capsys.readouterr().out
    assert not (tmp_path / "nowhere").exists()


def test_validate_asks_for_suites(project, capsys):
    config, _, _ = project
    config.write_text(config.read_text().replace("quality:", "# "))
    assert cli.main(["checks", "validate", "-c", str(config)]) == 1
    assert "NO_SUITES" in capsys.readouterr().err


def test_schema_prints_the_schema_of_suites(capsys):
    for words in ([], ["--output", "json"]):
        assert cli.main(["checks", "schema", *words]) == 0
        assert json.loads(capsys.readouterr().out) == json_schema()
