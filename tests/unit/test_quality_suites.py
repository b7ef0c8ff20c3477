"""Suites: what is read from the files, and what is said of files that make no sense."""

import re
from pathlib import Path

import pytest

from pipeline.errors import SettingsError
from pipeline.model.names import TableName
from pipeline.quality import suites
from pipeline.quality.rulebook import Rulebook
from pipeline.quality.suites import FORBIDDING, SETTING_ASIDE, Faults, Severity, fingerprint, load, read, scan
from pipeline.quality.validation import in_order, validate
from pipeline.quality.validation import unread as unread_findings
from pipeline.settings import Quality

ORDERS = """\
table: [shop.orders, "shop.orders_*"]
owner: orders team
private: Email
checks:
  - expect_column_values_to_be_between: {column: total, min_value: 0, max_value: 1.5}
    name: total is small
    severity: quarantine
    because: refunds are rows of their own
    row_condition: status <> 'draft'
  - expect_column_pair_values_to_be_equal: {column_A: paid, column_B: total}
    owner: accounting
    mostly: 0.9
  - expect_table_row_count_to_equal: {value: 3}
"""


def faults(text):
    with pytest.raises(Faults) as found:
        read(text, "a.yaml")
    return found.value.sentences


def check(lines):
    return "table: a.b\nchecks:\n" + lines


class TestReading:
    def test_a_suite_is_what_was_written(self):
        suite = read(ORDERS, "orders.yaml")
        between, pair, count = suite.checks
        assert suite.tables == ("shop.orders", "shop.orders_*")
        assert suite.private == {"email"}
        assert between.expectation == "expect_column_values_to_be_between"
        assert between.arguments == {"column": "total", "min_value": 0, "max_value": 1.5}
        assert (between.name, between.severity, between.owner) == ("total is small", Severity.QUARANTINE, "orders team")
        assert (between.because, between.row_condition) == ("refunds are rows of their own", "status <> 'draft'")
        assert (pair.owner, pair.mostly, pair.severity) == ("accounting", 0.9, Severity.WARN)
        assert [one.columns for one in suite.checks] == [("total",), ("paid", "total"), ()]
        assert [str(one.place) for one in suite.checks] == ["orders.yaml:5:5", "orders.yaml:10:5", "orders.yaml:13:5"]
        assert count.name == "row_count_to_equal"

    def test_everything_written_has_its_place(self):
        suite = read(ORDERS, "orders.yaml")
        between = suite.checks[0]
        found = [between.at("mostly"), between.at(between.expectation, "min_value"), between.at("row_condition")]
        assert [str(place) for place in found] == ["orders.yaml:5:5", "orders.yaml:5:57", "orders.yaml:9:5"]
        assert str(suite.at("table", "1")) == "orders.yaml:1:22"

    def test_rows_that_a_query_finds_are_an_expectation_too(self):
        text = check("  - unexpected_rows_expectation: {unexpected_rows_query: select * from x}\n")
        assert read(text, "a.yaml").checks[0].expectation == "unexpected_rows_expectation"

    def test_a_check_without_a_name_gets_one(self):
        suite = read(ORDERS, "orders.yaml")
        assert [one.name for one in suite.checks[1:]] == ["be_equal(paid, total)", "row_count_to_equal"]

    @pytest.mark.parametrize(
        ("table", "is_about"),
        [
            ("shop.orders", True),
            ("Shop.ORDERS", True),
            ("shop.orders_2025", True),
            ("shop.order", False),
            ("x.orders", False),
        ],
    )
    def test_names_and_patterns_have_no_case(self, table, is_about):
        assert read(ORDERS, "orders.yaml").is_about(TableName(*table.split("."))) is is_about

    def test_values_have_their_yaml_types(self):
        text = check(
            "  - expect_column_values_to_be_in_set: {column: c, value_set: [1, '1', true, 2026-11-21, null]}\n"
        )
        values = read(text, "a.yaml").checks[0].arguments["value_set"]
        assert [type(value).__name__ for value in values] == ["int", "str", "bool", "date", "NoneType"]


class TestFingerprint:
    def test_it_changes_with_whatever_decides_a_verdict(self):
        changes = {"min_value: 0": "min_value: 1", "quarantine": "warn", "mostly: 0.9": "mostly: 0.8", "draft": "new"}
        texts = [ORDERS, *(ORDERS.replace(old, new) for old, new in changes.items())]
        assert len({fingerprint(read(text, "a.yaml").checks) for text in texts}) == len(texts)

    def test_names_reasons_and_the_order_decide_nothing(self):
        suite = read(ORDERS.replace("total is small", "x").replace("refunds are", "y"), "b.yaml")
        assert fingerprint(reversed(suite.checks)) == fingerprint(read(ORDERS, "a.yaml").checks)


class TestRefusals:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("tabel: a.b\n", "a.yaml:1:1: unknown key `tabel` (did you mean `table`?)"),
            ("table: a.b\nchecks: 3\n", "a.yaml:2:1: `checks`: should be a valid list"),
            (check("  - hello\n"), "a.yaml:3:5: a check is keys and values"),
            (
                check("  - because: x\n"),
                "a.yaml:3:5: no expectation; a check has exactly one key such as `expect_column",
            ),
            (check("  - expect_a: {}\n    expect_b: {}\n"), "a.yaml:3:5: more than one expectation"),
            (check("  - expect_a: 3\n"), "a.yaml:3:5: expected arguments: {column: …}"),
            (check("  - expect_a: {mostly: 1}\n"), "a.yaml:3:16: write `mostly` beside `expect_a`, not in it"),
            (check("  - expect_a: {}\n    mostly: 2\n"), "a.yaml:4:5: `mostly`: should be less than or equal to 1"),
            (check("  - expect_a: {}\n    severity: stop\n"), "a.yaml:4:5: `severity`: should be 'warn', 'quarantine'"),
            (check("  - expect_a: {}\n    severty: warn\n"), "(did you mean `severity`?)"),
            (check("  - expect_a: {}\n  - expect_a: {}\n"), "a.yaml:4:5: the check at a.yaml:3:5 is named `a` too"),
            ("table: a.b\ntable: c.d\n", "a.yaml:2:1: is here twice"),
            ("table: [a\n", "not YAML"),
            ("table: 2026-13-45\n", "month"),
            ("- a\n", "expected keys and values"),
            ("", "is empty"),
        ],
    )
    def test_what_makes_no_sense_is_said_with_its_place(self, text, said):
        assert any(said in sentence for sentence in faults(text)), faults(text)

    def test_everything_is_said_at_once_in_the_order_of_the_lines(self):
        found = faults("tabel: a.b\nchecks:\n  - because: x\n  - expect_a: {}\n    mostly: 3\n")
        assert [int(sentence.split(":")[1]) for sentence in found] == [1, 1, 3, 5]


NINETEEN = """\
table: shop.orders
owners: me
checks:
  - because: x
  - expect_column_values_to_be_betwen: {column: a}
    mostly: 3
  - expect_column_values_to_be_between: {column: a, min_value: 3, max_value: 1, mostly: 0.5}
    severity: stop
  - expect_column_values_to_be_in_set: {column: a, value_set: []}
    owner: [a]
  - expect_column_values_to_not_be_null: {colum: a}
  - expect_column_values_to_match_regex: {column: a, regex: [b, c]}
  - expect_column_values_to_be_unique: {column: a}
    severity: quarantine
  - expect_column_max_to_be_between: {column: a, min_value: 0}
    mostly: 0.9
  - expect_a: {}
    expect_b: {}
  - hello
  - expect_column_values_to_be_in_set: {column: a, value_set: 3}
  - expect_column_values_to_be_between: {column: a, min_value: 0, strict_max: true}
  - expect_column_values_to_be_between: {column: b, min_value: 0, result_format: BASIC}
  - expect_column_values_to_be_between: {column: c, min_value: 0, notes: b}
  - expect_column_value_lengths_to_be_between: {column: d, min_valu: 1}
"""


class TestMistakes:
    def test_whatever_is_wrong_with_a_suite_is_told_at_once_in_the_order_of_its_lines(self, tmp_path):
        (tmp_path / "a.yaml").write_text(NINETEEN)
        (tmp_path / "b.yaml").write_text("table: [c\n")
        with pytest.raises(SettingsError) as error:
            Rulebook(None).renewed(Quality(suites=tmp_path))
        lines = error.value.message.splitlines()
        assert lines[0] == f"{len(lines) - 1} things are wrong in the suites"
        told = [int(line.split(":")[1]) for line in lines[1:] if line.startswith("  a.yaml")]
        assert told == sorted(told)
        assert {*told} == {2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 17, 19, 20, 21, 22, 23, 24}
        assert len(told) >= 19
        assert lines[-1].startswith("  b.yaml")

    def test_the_same_is_told_by_a_look_at_the_suites(self, tmp_path):
        (tmp_path / "a.yaml").write_text(NINETEEN)
        suites, unread = scan(tmp_path)
        found = in_order([*unread_findings(unread), *validate(suites, {})])
        assert len(found) >= 19

    def test_a_file_that_cannot_be_read_is_named(self, tmp_path):
        (tmp_path / "c.yaml").write_bytes(b"\xff\xfe")
        (finding,) = unread_findings(scan(tmp_path)[1])
        assert str(finding).startswith("c.yaml: can't be read")


class TestFolders:
    def test_all_files_are_read_and_all_faults_told(self, tmp_path: Path):
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / "b.yml").write_text(ORDERS)
        (tmp_path / "a.yaml").write_text("table: x.y\n")
        (tmp_path / "notes.txt").write_text("no suite")
        assert [suite.tables for suite in load(tmp_path)] == [("x.y",), ("shop.orders", "shop.orders_*")]
        (tmp_path / "a.yaml").write_text("tabel: x.y\n")
        (tmp_path / "deep" / "c.yaml").write_bytes(b"\xff\xfe")
        with pytest.raises(SettingsError) as error:
            load(tmp_path)
        assert "a.yaml:1:1" in error.value.message
        assert "c.yaml: can't be read: it is not UTF-8 text" in error.value.message

    def test_a_folder_that_is_not_there_is_an_error(self, tmp_path: Path):
        with pytest.raises(SettingsError, match="there is no folder"):
            load(tmp_path / "checks")


def test_what_a_severity_does_is_said_of_every_one_and_the_worse_does_more():
    policies = [severity.policy for severity in sorted(Severity, key=lambda one: one.policy.rank)]
    assert [policy.rank for policy in policies] == list(range(len(Severity)))
    assert [policy.only_records for policy in policies] == [True, False, False, False]
    assert [policy.forbids_batch for policy in policies] == [False, False, True, True]
    assert (SETTING_ASIDE, FORBIDDING) == ((Severity.QUARANTINE,), (Severity.FAIL, Severity.HOLD))


def test_no_other_module_compares_severities():
    compared = re.compile(r"severity (is|is not|==|!=) |severity in \(|Severity\.[A-Z]+ in ")
    sources = Path(suites.__file__).parents[1].rglob("*.py")
    assert {file.name for file in sources if compared.search(file.read_text())} <= {"gate.py"}  # results by severity
