"""What forbids a batch: checks of severity hold and fail, and too many rows that would be set aside."""

import pytest

from pipeline.errors import PipelineError
from pipeline.model.names import TableName
from pipeline.quality.gate import CHECK_FAILED, TOO_MANY, Gate
from pipeline.quality.rules import RuleResult
from pipeline.quality.suites import Severity

GATE = Gate(share=0.5, rows=10)


def result(severity, *, success=False, unexpected=3, rows=100, **further):
    return RuleResult(f"a {severity} rule", severity, rows, unexpected, success, rows, **further)


@pytest.mark.parametrize("severity", [Severity.WARN, Severity.QUARANTINE])
def test_what_warns_or_sets_rows_aside_forbids_nothing(severity):
    assert GATE.verdict([result(severity)], set_aside=3) is None


@pytest.mark.parametrize("severity", [Severity.HOLD, Severity.FAIL])
def test_a_broken_rule_of_hold_or_fail_forbids_the_batch(severity):
    found = GATE.verdict([result(severity, because="it was so once"), result(Severity.WARN)], set_aside=0)
    assert found.severity is severity
    assert found.reason == f"{CHECK_FAILED}: a {severity} rule: 3 of 100 rows break it (it was so once)"
    assert GATE.verdict([result(severity, success=True)], set_aside=0) is None


def test_fail_goes_before_hold():
    assert GATE.verdict([result(Severity.HOLD), result(Severity.FAIL)], set_aside=0).severity is Severity.FAIL


def test_a_check_that_cannot_be_made_forbids_nothing():
    unmade = result(Severity.FAIL, unexpected=0, observed="cannot be checked: no such column", possible=False)
    assert GATE.verdict([unmade], set_aside=0) is None


@pytest.mark.parametrize(
    ("aside", "rows", "held"), [(51, 100, True), (50, 100, False), (9, 9, False), (10, 10, True), (0, 0, False)]
)
def test_a_table_is_held_from_so_many_rows_and_such_a_share_on(aside, rows, held):
    found = GATE.verdict([result(Severity.QUARANTINE, unexpected=aside, rows=rows)], aside)
    assert (found is not None) is held
    if found:
        assert found.reason == f"{TOO_MANY}: {aside} of {rows} rows would be set aside (a quarantine rule)"


def test_the_error_that_ends_a_stream_names_the_table_and_the_way_on():
    error = GATE.verdict([result(Severity.FAIL)], set_aside=0).error(TableName("shop", "orders"))
    assert isinstance(error, PipelineError)
    assert (error.code, error.exit_code) == (CHECK_FAILED, 1)
    assert error.message.startswith("shop.orders: a fail rule: 3 of 100 rows break it")
    assert "severity" in error.hint


def test_the_error_of_a_whole_table_does_not_say_that_its_rows_are_kept_out():
    error = GATE.verdict([result(Severity.FAIL)], set_aside=0).error_of_whole(TableName("shop", "orders"))
    assert (error.code, error.exit_code) == (CHECK_FAILED, 1)
    assert error.message == "shop.orders as a whole: a fail rule: 3 of 100 rows break it"
    assert error.hint.startswith("the rows are in the table already")
