"""Suites at work in the cut regime: what is set aside or held makes cuts partial, and comes back where it belongs."""

import pytest
from e2e.till import Death, Till
from golden.corpus import EVERY

from pipeline.model.columns import LOGICAL_BITS
from pipeline.observe.metrics import PREFIX, Metrics
from pipeline.streaming.redrive import Redriven

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


def no_debt(severity, least=0):
    return {
        "expect_column_values_to_be_between": {"column": "balance", "min_value": least},
        "name": "no_debt",
        "severity": severity,
    }


def numbers(metrics):
    """Name and labels → value, of all that Prometheus is told."""
    samples = [sample for family in metrics.registry.collect() for sample in family.samples]
    return {(s.name.removeprefix(f"{PREFIX}_"), *sorted(s.labels.values())): s.value for s in samples}


def physical(commit_ts):
    """Milliseconds since the epoch."""
    return commit_ts >> LOGICAL_BITS


PROTOCOLS = ("simple", "open-protocol") if EVERY else ("simple",)
REDRIVE_STEPS = ("redrive-begun", "redrive-appended", "redrive-marked") if EVERY else ("redrive-appended",)
RELEASE_STEPS = (
    ("release-begun", "changes-appended", "published", "ledger-appended") if EVERY else ("changes-appended",)
)


@pytest.fixture(params=PROTOCOLS)
def till(request, stack, tmp_path):
    made = Till(stack, tmp_path, request.param)
    yield made
    made.feed.close()


@pytest.fixture
def simple(stack, tmp_path):
    made = Till(stack, tmp_path, "simple")
    yield made
    made.feed.close()


class TestQuarantine:
    def test_rows_come_back_when_the_suite_is_mended_and_until_then_cuts_are_partial(self, till):
        till.expect(no_debt("quarantine"))
        till.accounts((1, 500), (2, -500), (3, -90000))
        till.run()
        assert sorted(till.balances()) == [1]
        assert till.cut() == ("partial", "2 in quarantine")
        till.expect(no_debt("quarantine", least=-1000))
        assert till.redrive() == Redriven(redriven=1, open=1)
        assert sorted(till.balances()) == [1, 2]
        till.expect()
        assert till.redrive(rule="no_debt") == Redriven(redriven=1)
        till.assert_right()
        till.note("later")
        till.run()
        assert till.cut() == ("exact", "")
        till.assert_right()

    def test_what_is_older_than_its_key_is_superseded(self, till):
        till.accounts((1, 500), (2, 500), (3, 500), (4, 1))
        till.run()
        till.expect(no_debt("quarantine"))
        for number in (1, 2, 3, 4):
            till.change(number, balance=-number)
        till.run()
        assert till.balances() == {1: 500, 2: 500, 3: 500, 4: 1}
        till.delete(1)
        till.change(2, balance=7)
        till.change(3, id=30, balance=9)
        till.run()
        till.expect()
        assert till.redrive() == Redriven(redriven=1, superseded=3)
        till.assert_right()

    @pytest.mark.parametrize("step", REDRIVE_STEPS)
    def test_a_redrive_that_dies_is_ended_by_the_next_run(self, simple, step):
        simple.expect(no_debt("quarantine"))
        simple.accounts((1, -500), (2, 500), (3, -1))
        simple.run()
        simple.expect()
        with pytest.raises(Death):
            simple.redrive(dies_at=step)
        simple.run()
        simple.assert_right()
        assert [row["status"] for row in simple.own("quarantine")] == ["redriven"] * 2


class TestHold:
    def test_a_table_whose_rows_are_forbidden_waits_while_others_go_on_and_is_released_as_a_whole(self, till):
        till.accounts((1, 500))
        till.run()
        till.expect(no_debt("hold"))
        till.accounts((2, -500), (3, 100))
        till.note("second")
        till.run()
        assert till.balances() == {1: 500}
        assert len(till.warehouse.current("bank.note").rows) == 1
        assert till.cut() == ("partial", "held: bank.account")
        till.change(3, balance=4)
        till.delete(1)
        till.run()
        assert till.balances() == {1: 500}
        held = len(till.own("held", status="open"))
        assert till.release() == held > 0
        till.assert_right()
        assert {row["status"] for row in till.own("held")} == {"released"}
        till.run()
        till.note("third")
        till.expect()
        till.run()
        assert till.cut() == ("exact", "")
        till.assert_right()

    def test_a_statement_that_nobody_understands_holds_its_table_until_it_is_released(self, till):
        till.accounts((1, 500))
        till.puzzle()
        till.accounts((2, 500))
        till.note("first")
        till.run()
        (table,) = till.own("tables", table_name="account")
        assert table["state"] == "held"
        till.release()
        till.assert_right()
        till.accounts((3, 1))
        till.run()
        till.assert_right()

    @pytest.mark.parametrize("step", RELEASE_STEPS)
    def test_a_release_that_dies_is_ended_by_the_next_one_or_the_next_run(self, simple, step):
        simple.accounts((1, 500))
        simple.run()
        simple.expect(no_debt("hold"))
        simple.accounts((2, -500), (3, 100))
        simple.change(3, balance=5)
        simple.run()
        with pytest.raises(Death):
            simple.release(dies_at=step)
        simple.accounts((4, 100))
        simple.run()
        simple.assert_right()
        assert {row["status"] for row in simple.own("held")} == {"released"}


def test_what_a_run_does_is_counted_and_what_waits_is_told(till):
    metrics = Metrics("till", "1.2.3")
    till.expect(no_debt("quarantine"), {**no_debt("hold", least=-1000), "name": "no_bankruptcy"})
    till.accounts((1, 500), (2, -500))
    till.note("first")
    till.run(metrics)
    told = numbers(metrics)
    assert told["changes_total", "bank.account", "insert"] == 1
    assert told["changes_total", "bank.note", "insert"] == 1
    assert told["quarantined_total", "bank.account"] == 1
    assert told["rows_in_total",] == sum(batch["rows_in"] for batch in till.own("batches"))
    assert told["last_cut_timestamp_seconds",] == physical(till.last_ts) / 1000
    assert ("table_held", "bank.account") not in told
    assert told["lag_seconds", "bank.note"] > 0
    till.accounts((3, -90000))
    till.run(metrics)
    told = numbers(metrics)
    assert told["table_held", "bank.account"] == 1
    assert ("table_held", "bank.note") not in told
    assert told["held_records_total", "bank.account"] == 1
    assert told["batches_total",] == len(till.own("batches"))
    till.expect()
    till.release()
    till.run(metrics)
    assert ("table_held", "bank.account") not in numbers(metrics)
