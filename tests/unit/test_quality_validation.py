"""What is found wrong with suites where no Spark is: each thing with its place."""

import pytest

from pipeline.model.names import TableName
from pipeline.quality.schema import known
from pipeline.quality.suites import read
from pipeline.quality.validation import unread, validate

ORDERS = {"id": "bigint", "total": "decimal(12,2)", "note": "string", "paid": "decimal(12,2)", "day": "date"}
TABLES = {TableName("shop", "orders"): ORDERS}
BETWEEN = "expect_column_values_to_be_between"
IN_SET = "expect_column_values_to_be_in_set"
PAIR_IN_SET = "expect_column_pair_values_to_be_in_set"
REGEX_LIST = "expect_column_values_to_not_match_regex_list"
PAIR = "expect_column_pair_values_to_be_equal"


def suite(*checks, head="table: shop.orders\n"):
    return read(head + "checks:\n" + "".join(f"  - {check}\n" for check in checks), "a.yaml")


def found(*checks, tables=None, **settings):
    return [str(one) for one in validate([suite(*checks)], tables or {}, **settings)]


def only(*checks, **more):
    (finding,) = found(*checks, **more)
    return finding


class TestWithoutTables:
    @pytest.mark.parametrize(
        ("check", "said"),
        [
            ("expect_column_values_to_be_betwen: {column: a}", f"(did you mean `{BETWEEN}`?)"),
            (
                "expect_column_values_to_match_like_pattern: {column: a, like_pattern: b}",
                "for other engines than Spark",
            ),
            ("expect_column_values_to_be_increasing: {column: a}", "have no order"),
            (f"{BETWEEN}: {{column: a, min_valu: 0}}", "has no argument `min_valu` (did you mean `min_value`?)"),
            (f"{BETWEEN}: {{column: a, min_value: 3, max_value: 1}}", "no value is at least 3 and at most 1"),
            (f"{BETWEEN}: {{column: a}}", "cannot both be None"),
            (f"{BETWEEN}: {{min_value: 0}}", "`column`: field required"),
            (f"{BETWEEN}: {{column: a, min_value: 0, result_format: BASIC}}", "`result_format` does nothing here"),
            (f"{BETWEEN}: {{column: a, min_value: 0, notes: b}}", "write `because` and `owner` beside"),
            (f"{BETWEEN}: {{column: a, min_value: {{$PARAMETER: b}}}}", "there are no parameters here"),
            (f"{BETWEEN}: {{column: a, min_value: 0, strict_max: true}}", "does nothing without `max_value`"),
            (f"{IN_SET}: {{column: a, value_set: [1, null]}}", "lets every value pass"),
            (f"{IN_SET}: {{column: a, value_set: 3}}", "`value_set`: value is not a valid list"),
            (f"{IN_SET}: {{column: a, value_set: []}}", "`value_set` is empty"),
            ("expect_column_max_to_be_between: {column: a, min_value: 0}\n    mostly: 0.9", "`mostly` does nothing"),
            ("expect_table_column_count_to_equal: {value: 3}\n    row_condition: a", "`row_condition` does nothing"),
            (
                f"{PAIR_IN_SET}: {{column_A: a, column_B: b, value_pairs_set: [[1, 2]]}}\n    row_condition: a > 1",
                "`row_condition` does nothing",
            ),
            ("expect_column_max_to_be_between: {column: a, min_value: 0}\n    severity: quarantine", "finds no row"),
            ("expect_column_values_to_be_unique: {column: a}\n    severity: quarantine", "finds no row"),
            (
                "expect_column_values_to_not_be_null: {column: a}\n    severity: quarantine\n    mostly: 0.9",
                "sets each of them aside",
            ),
            ("expect_column_values_to_match_regex: {column: a, regex: '(a+)+'}", "nested quantifiers"),
            ("expect_column_values_to_match_regex_list: {column: a, regex_list: [b, '(a)\\1']}", "a back-reference"),
        ],
    )
    def test_what_makes_no_sense_is_found(self, check, said):
        finding = only(check)
        assert finding.startswith("a.yaml:")
        assert said in finding

    @pytest.mark.parametrize(
        ("check", "place"),
        [
            (f"{BETWEEN}: {{column: a, min_valu: 0, max_value: 1}}", "3:53"),
            ("expect_column_max_to_be_between: {column: a, min_value: 0}\n    severity: quarantine", "4:5"),
            (
                f"{REGEX_LIST}:\n      column: a\n      regex_list:\n      - b\n      - (a+)+",
                "7:9",
            ),
        ],
    )
    def test_a_finding_stands_where_it_was_written(self, check, place):
        assert only(check).startswith(f"a.yaml:{place}: ")

    def test_slow_patterns_can_be_allowed(self):
        assert found("expect_column_values_to_match_regex: {column: a, regex: '(a+)+'}", allow_slow_regex=True) == []

    def test_names_of_columns_are_not_asked_for(self):
        assert found(f"{BETWEEN}: {{column: lost, min_value: 0}}") == []

    def test_two_suites_that_give_a_table_checks_of_one_name_are_found(self):
        check = "expect_column_values_to_not_be_null: {column: a}"
        one, other = (
            read(f"table: {table}\nchecks:\n  - {check}\n", f"{source}.yaml")
            for table, source in (("shop.*", "a"), ("shop.orders", "b"))
        )
        (finding,) = validate([one, other], {})
        assert str(finding).startswith("b.yaml:3:5: shop.orders has a check named `not_be_null(a)` at a.yaml:3:5 too")

    def test_what_could_not_be_read_keeps_its_place(self):
        (finding,) = unread(["deep/a.yaml:4:5: `mostly`: should be less"])
        assert (finding.place.source, finding.place.line, finding.sentence) == (
            "deep/a.yaml",
            4,
            "`mostly`: should be less",
        )

    def test_expectations_of_great_expectations_are_known(self):
        assert len(known()) > 40
        assert BETWEEN in known()


class TestWithTables:
    @pytest.mark.parametrize(
        ("check", "said"),
        [
            (
                f"{BETWEEN}: {{column: totl, min_value: 0}}",
                "3:42: shop.orders has no column `totl` (did you mean `total`?)",
            ),
            (f"{PAIR}: {{column_A: paid, column_B: totl}}", "has no column `totl`"),
            (f"{PAIR}: {{column_A: paid, column_B: note}}", "`paid` is decimal(12,2) and `note` is string"),
            (
                f"{IN_SET}: {{column: note, value_set: [a, 12]}}",
                "`note` is string: it cannot be compared with 12 (in quotes",
            ),
            (f"{IN_SET}: {{column: id, value_set: [1, 'b']}}", "`id` is bigint: it cannot be compared with 'b'"),
            (f"{IN_SET}: {{column: id, value_set: [true]}}", "cannot be compared with True"),
            (f"{BETWEEN}: {{column: day, min_value: 3}}", "`day` is date: it cannot be compared with 3"),
            (f"{BETWEEN}: {{column: total, min_value: 2026-11-21}}", "cannot be compared with 2026-11-21"),
            (
                "expect_column_mean_to_be_between: {column: note, min_value: 3}",
                "`note` is string, but this check needs numbers",
            ),
        ],
    )
    def test_what_does_not_fit_the_table_is_found(self, check, said):
        assert said in only(check, tables=TABLES)

    @pytest.mark.parametrize(
        "check",
        [
            f"{BETWEEN}: {{column: TOTAL, min_value: 0}}",
            f"{IN_SET}: {{column: total, value_set: [1, 2.5, '0.10']}}",
            f"{BETWEEN}: {{column: day, min_value: 2026-01-01}}",
            "expect_column_to_exist: {column: lost}",
        ],
    )
    def test_what_fits_is_not_found(self, check):
        assert found(check, tables=TABLES) == []

    def test_a_table_that_is_not_there_is_a_warning(self):
        one = read("table: [shop.ordrs, 'x.*']\n", "a.yaml")
        findings = validate([one], TABLES)
        assert [str(finding) for finding in findings] == [
            "a.yaml:1:9: warning: the warehouse has no table that matches `shop.ordrs` (did you mean `shop.orders`?)",
            "a.yaml:1:21: warning: the warehouse has no table that matches `x.*`",
        ]
        assert not any(finding.is_error for finding in findings)

    def test_a_private_column_that_is_not_there_is_an_error(self):
        (finding,) = validate([read("table: shop.orders\nprivate: [nots]\n", "a.yaml")], TABLES)
        assert finding.is_error
        assert str(finding).startswith("a.yaml:2:1: no table of the suite has the private column `nots` (did you mean")

    def test_tables_alike_are_told_together(self):
        tables = {TableName("shop", f"orders_{year}"): ORDERS for year in range(2020, 2026)}
        one = read(f"table: shop.orders_*\nchecks:\n  - {BETWEEN}: {{column: lost, min_value: 0}}\n", "a.yaml")
        (finding,) = validate([one], tables)
        assert "shop.orders_2020, shop.orders_2021, shop.orders_2022 and 3 more has no column `lost`" in str(finding)
