"""The verdict: what a report says first, for every way that a pipeline can stand."""

import datetime as dt
import json

import pytest
from unit import report_shop as shop

from pipeline.model.holding import REPAIR_FIRST
from pipeline.report import PipelineState, assemble
from pipeline.report.facts import CheckMark


def report(rows, now=shop.NOW):
    return assemble(rows, "shop", now)


def judged(rows, table, rule):
    checks = report(rows).timeline.checks.items
    return next(check for check in checks if (check.table, check.rule) == (table, rule))


def only(rows):
    found = report(rows).verdict.findings
    assert found.total == 1, [one.title for one in found.items]
    return found.items[0]


class TestStanding:
    def test_nothing_has_run(self):
        verdict = report({}).verdict
        assert (verdict.standing, verdict.findings.total) == (PipelineState.NOTHING, 0)
        assert "ticdc-warehouse run --available-now" in verdict.detail

    def test_all_is_right(self):
        made = report(shop.quiet())
        assert (made.verdict.standing, made.verdict.headline) == (PipelineState.RIGHT, "All is right.")
        assert "All 14 checks of 4 tables passed" in made.verdict.detail
        assert "committed 2 min ago" in made.verdict.detail
        assert made.verdict.findings.total == 0

    def test_what_nobody_has_judged_is_not_called_right(self):
        verdict = report({**shop.quiet(), "quality_results": []}).verdict
        assert verdict.standing is PipelineState.RIGHT
        assert verdict.headline == "Every change is in the warehouse; no check has judged it."

    def test_warnings_alone_set_nothing_aside(self):
        one = only(shop.warned())
        assert report(shop.warned()).verdict.standing is one.standing is PipelineState.WARNED
        assert one.title == "shop.customers breaks “email looks right”"
        assert (one.since.batch, one.since.earlier, one.rows) == (shop.EMAIL_AT, False, 2)
        assert (one.because, one.owner) == ("invoices go to this address", "crm@shop.example")
        assert one.examples[1].values == "email = nobody"
        assert one.examples[1].at == "shop_customers, partition 0, offset 4803"

    def test_rows_set_aside_name_table_rule_rows_and_command(self):
        verdict = report(shop.set_aside()).verdict
        worst = verdict.findings.items[0]
        assert verdict.standing is worst.standing is PipelineState.SET_ASIDE
        assert verdict.headline == "20 changes are set aside; the rest is in the warehouse."
        assert "14 quarantined, 2 waiting for these, 4 unreadable" in verdict.detail
        assert worst.title == "14 changes of shop.orders break total_not_negative"
        assert (worst.since.batch, worst.rows) == (shop.NEGATIVE_AT, 14)
        assert worst.commands[-1] == "ticdc-warehouse quarantine redrive --table shop.orders --rule total_not_negative"
        assert [one.commands[-1] for one in verdict.findings.items[1:]] == [
            "ticdc-warehouse quarantine redrive --dead-letters",
            "ticdc-warehouse quarantine redrive --dead-letters --table shop.customers",
        ]

    def test_a_held_table_says_why_since_when_and_how_to_go_on(self):
        one = only(shop.held())
        assert report(shop.held()).verdict.standing is one.standing is PipelineState.HELD
        assert (one.table, one.rule, one.rows) == ("shop.payments", "amount_is_sane", 600)
        assert one.since.batch == shop.HELD_AT
        assert "QUALITY_HOLD" in one.detail
        assert one.owner == "finance"
        assert one.commands == (
            "ticdc-warehouse tables history shop.payments",
            "ticdc-warehouse tables release shop.payments",
        )

    def test_a_table_that_was_released_since_its_state_was_copied_does_not_wait(self):
        rows = shop.held()
        rows["tables"][-1]["batch_id"] = shop.HELD_AT
        rows["held"] = [{**one, "status": "released"} for one in rows["held"]]
        assert report(rows).quarantine.held.total == 0
        assert {table.state for table in report(rows).tables.items} == {"live"}

    def test_a_table_waits_also_before_a_record_of_it_comes(self):
        rows = shop.held()
        rows["held"] = [shop.row(110, "payments", reason="earlier", status="released")]
        assert only(rows).detail.startswith("No record of it has come since. QUALITY_HOLD")

    def test_a_table_without_a_pair_is_held_by_its_records(self):
        rows = shop.quiet() | {"held": [shop.row(120, "other", reason="TABLE_NAME_TAKEN", status="open")]}
        assert only(rows).title == "shop.other waits"

    @pytest.mark.parametrize("reason", ["SCHEMA_PENDING: no BOOTSTRAP yet", "DDL_PENDING: not in partition 3"])
    def test_records_that_enter_by_themselves_need_no_release(self, reason):
        rows = shop.quiet() | {"held": [shop.row(120, "other", reason=reason, status="open")]}
        assert only(rows).commands == ("ticdc-warehouse tables history shop.other",)

    def test_what_comes_before_a_release_is_said(self):
        reason = "DDL_NOT_UNDERSTOOD: TRUNCATE PARTITION"
        rows = shop.quiet() | {"held": [shop.row(120, "other", reason=reason, status="open")]}
        assert only(rows).detail.endswith(f"{reason} Before its release: {REPAIR_FIRST}.")

    def test_a_refused_batch_stops_everything(self):
        verdict = report(shop.stopped(shop.busy())).verdict
        worst = verdict.findings.items[0]
        assert verdict.standing is worst.standing is PipelineState.STOPPED
        assert verdict.headline == "The pipeline has stopped: shop.orders breaks customer_exists."
        assert "The tables are as batch 140 left them; nothing newer" in verdict.detail
        assert worst.detail == "In batch 141 the check saw 3 orders of customers that do not exist."

    def test_a_batch_that_was_committed_after_all_is_no_stop(self):
        rows = shop.stopped()
        rows["batches"].append(shop.batch(shop.LAST + 1))
        assert only(rows).standing is PipelineState.WARNED

    def test_a_batch_without_a_commit_is_a_stop_that_no_check_explains(self):
        rows = shop.quiet()
        rows["batches"].append(shop.batch(shop.LAST + 1, committed=False))
        assert only(rows).title == "Batch 141 was not committed"
        assert report(rows).verdict.standing is PipelineState.STOPPED

    def test_the_worst_stands_first(self):
        found = report(shop.stopped(shop.busy())).verdict.findings.items
        assert [one.standing.rank for one in found] == sorted((one.standing.rank for one in found), reverse=True)


class TestChecks:
    def test_what_was_redriven_is_over(self):
        rows = shop.set_aside()
        rows["dead_letters"] = []
        rows["quarantine"] = [{**one, "status": "redriven"} for one in rows["quarantine"]]
        made = report(rows)
        assert made.verdict.standing is PipelineState.RIGHT
        assert "1 check found something earlier; that is over" in made.verdict.detail
        assert made.quarantine.settled == 17

    def test_quarantined_rows_that_are_nowhere_are_told(self):
        rows = shop.set_aside() | {"quarantine": [], "dead_letters": []}
        assert only(rows).title == "shop.orders breaks total_not_negative"

    def test_changes_that_still_wait_alone_are_set_aside(self):
        rows = shop.quiet() | {"quarantine": [shop.aside(138, "orders", [], 7, code="FENCED")]}
        assert only(rows).title == "1 change of shop.orders waited for an older, quarantined change"
        assert report(rows).verdict.standing is PipelineState.SET_ASIDE

    def test_what_a_held_batch_would_have_quarantined_is_told_once(self):
        rows = shop.held()
        for one in rows["quality_results"]:
            if one["table_name"] == "payments" and one["batch_id"] == shop.HELD_AT:
                one.update(unexpected=66, success=False)
        assert only(rows).title == "shop.payments waits"

    def test_of_two_results_of_one_batch_the_newer_counts(self):
        rows = shop.quiet()
        later = shop.at(shop.LAST) + dt.timedelta(seconds=5)
        again = shop.result(shop.LAST, "orders", "paid_matches_total", success=False, unexpected=4, recorded_at=later)
        rows["quality_results"].insert(0, again)
        assert only(rows).rows == 4
        again["recorded_at"] = shop.at(shop.LAST) - dt.timedelta(seconds=5)
        assert report(rows).verdict.standing is PipelineState.RIGHT

    def test_a_batch_without_rows_to_judge_ends_no_trouble(self):
        rows = shop.warned()
        last = next(r for r in rows["quality_results"] if r["batch_id"] == shop.LAST and r["rule"].startswith("email"))
        last.update(success=True, evaluated=0, unexpected=0, sample=None)
        assert only(rows).since.batch == shop.EMAIL_AT

    def test_a_check_that_left_its_suite_is_no_finding(self):
        rows = shop.warned()
        rows["quality_results"] = [
            one for one in rows["quality_results"] if one["batch_id"] < 138 or not one["rule"].startswith("email")
        ]
        assert report(rows).verdict.standing is PipelineState.RIGHT
        assert judged(rows, "shop.customers", "email looks right").retired
        assert report(rows).timeline.current == 13

    def test_trouble_older_than_the_window_is_said_to_be(self):
        rows = shop.quiet() | {
            "batches": [shop.batch(number) for number in range(1, 301)],
            "quality_results": [shop.result(n, "orders", "r", success=False, unexpected=1) for n in range(1, 301)],
        }
        one = only(rows)
        assert (one.since.batch, one.since.earlier) == (157, True)

    def test_a_quarantining_check_marks_rows_that_mostly_allows(self):
        rows = shop.quiet()
        rows["quality_results"].append(
            shop.result(shop.LAST, "orders", "total_not_negative", "quarantine", unexpected=1)
        )
        assert judged(rows, "shop.orders", "total_not_negative").mark is CheckMark.QUARANTINED

    @pytest.mark.parametrize(
        "sample",
        ["", "{", "3", "null", '{"rows": 3}', '{"rows": [3]}', '{"rows": [{"at": {}, "key": 3}]}', "[" * 99_999],
    )
    def test_a_sample_that_is_none_is_left_out(self, sample):
        rows = shop.quiet()
        rows["quality_results"][-1].update(success=False, unexpected=1, sample=sample)
        assert only(rows).rows == 1

    def test_rows_are_shown_of_the_newest_result_that_has_some(self):
        rows = shop.warned()
        for one in rows["quality_results"]:
            if one["rule"].startswith("email") and one["batch_id"] == shop.LAST:
                one["sample"] = json.dumps({"because": "newer"})
        one = only(rows)
        assert (one.because, len(one.examples)) == ("newer", 2)


class TestPurity:
    def test_the_same_rows_give_the_same_report(self):
        assert report(shop.busy()) == report(shop.busy())

    def test_rows_of_other_pipelines_do_not_count(self):
        rows = {name: [{**one, "pipeline": "other"} for one in found] for name, found in shop.busy().items()}
        assert report(rows).verdict.standing is PipelineState.NOTHING

    def test_rows_may_come_once_only(self):
        once = {name: iter(found) for name, found in shop.busy().items()}
        assert report(once) == report(shop.busy())

    def test_names_match_without_case(self):
        rows = shop.set_aside()
        for one in rows["quarantine"]:
            one["table_name"] = "ORDERS"
        assert "shop.orders" in report(rows).verdict.findings.items[0].title

    def test_ages_are_as_of_now(self):
        later = report(shop.quiet(), shop.NOW + dt.timedelta(days=3))
        assert "committed 3 d ago" in later.verdict.detail
