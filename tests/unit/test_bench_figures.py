"""The bench's arithmetic and verdicts: ratios, windows of batches, targets, wrong results."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


def module(name):
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


figures, targets = module("figures"), module("targets")

SECONDS = {"a": [2.0, 1.0, 1.2], "c": [2.0, 2.0, 1.0]}


def one(figure):
    return next(target for target in targets.TARGETS if target.figure == figure)


def test_a_ratio_is_of_the_medians_and_tells_how_far_the_rounds_lie_apart():
    assert figures.ratio(SECONDS, "c", "a") == {"ratio": 0.6, "least": 0.5, "most": 1.2}


def test_a_side_that_takes_half_the_time_is_twice_as_fast():
    assert figures.ratio({"c": [1.0], "b": [2.0]}, "c", "b")["ratio"] == 2.0


def test_a_ratio_needs_as_many_runs_of_both_sides():
    with pytest.raises(ValueError, match="zip"):
        figures.ratio({"c": [1.0], "b": [2.0, 2.0]}, "c", "b")


def test_a_batch_costs_the_time_from_the_commit_before_it():
    assert figures.intervals([1.5, 2.0, 4.0]) == [1.5, 0.5, 2.0]


def ends(costs):
    return [sum(costs[: n + 1]) for n in range(len(costs))]


def test_steadiness_compares_the_last_ten_batches_with_batches_six_to_fifteen():
    costs = [9.0] * 5 + [1.0] * 10 + [5.0] * 975 + [2.0] * 10
    found = figures.steadiness(ends(costs))
    assert (found["early_seconds"], found["late_seconds"], found["late/early"]) == (1.0, 2.0, 2.0)
    assert found["batches"] == 1000


def test_one_slow_batch_does_not_decide_the_steadiness_but_shows_in_the_means():
    costs = [1.0] * 50
    costs[-1] = 11.0
    found = figures.steadiness(ends(costs))
    assert found["late/early"] == 1.0
    assert (found["mean_first_fifth"], found["mean_last_fifth"], found["longest_seconds"]) == (1.0, 2.0, 11.0)


def test_steadiness_of_very_few_batches_is_still_a_number():
    assert figures.steadiness([1.0, 2.0])["late/early"] == 1.0


def test_every_number_that_differs_is_told_and_nothing_else():
    expected = {"rows": 3, "events": {"insert": 3}}
    assert figures.differences("current", expected, {"rows": 3, "events": {"insert": 3}, "more": 1}) == []
    assert figures.differences("current", expected, {"rows": 2, "events": {"insert": 3}}) == [
        "current: rows is 2, expected 3"
    ]
    assert figures.differences("current", expected, {}) == [
        "current: rows is None, expected 3",
        "current: events is None, expected {'insert': 3}",
    ]


@pytest.mark.parametrize("sizes", [(250_000,) * 4, (250_029,) * 4, (25_030, 25_029, 25_030, 25_029), (3, 3, 3, 3)])
def test_a_topic_is_read_in_two_batches_also_where_its_partitions_differ_by_a_record(sizes):
    most, left = figures.two_batches(sum(sizes), 4), list(sizes)
    batches = 0
    while sum(left):
        total = sum(left)
        left = [0 if total <= most else max(0, one - max(1, int(most * one / total))) for one in left]
        batches += 1
    assert batches == 2 or sum(sizes) < 16


@pytest.mark.parametrize(
    ("figure", "value", "met", "aim_met"),
    [
        ("throughput.c/a", 0.7, True, True),
        ("throughput.c/a", 0.699, False, False),
        ("throughput.d/a", 0.73, True, False),
        ("throughput.d/b2", 1.2, True, True),
        ("small.one_seconds", 1.0, True, True),
        ("small.one_seconds", 1.01, False, False),
        ("small.all_seconds", 10, True, False),
        ("backlog.peak_gib", 4.2, False, False),
    ],
)
def test_a_target_is_met_at_its_limit_and_missed_beyond(figure, value, met, aim_met):
    judged = one(figure).judge(value)
    assert (judged["met"], judged["aim_met"]) == (met, aim_met)


def test_what_is_bounded_is_the_most_of_the_last_third_against_the_third_before():
    samples = [(at, {"files": count}) for at, count in ((1, 5), (2, 50), (4, 20), (5, 40), (7, 30), (9, 44))]
    assert figures.boundedness(samples) == {"files": {"middle": 40, "last": 44, "last/middle": 1.1}}
    assert figures.boundedness([]) == {}


def test_the_targets_are_those_of_the_issues():
    assert {target.figure: (target.limit, target.aim) for target in targets.TARGETS} == {
        "throughput.c/a": (0.7, 0.7),
        "throughput.c/b": (1, 1.2),
        "throughput.d/a": (0.72, 0.8),
        "throughput.d/b2": (1, 1.2),
        "small.one_seconds": (1, 1),
        "small.all_seconds": (12, 8),
        "huge.few_seconds": (1.5, 1),
        "huge.many_seconds": (10, 5),
        "many.seconds_per_table": (0.08, 0.05),
        "many.far_seconds": (10, 10),
        "thousand.seconds": (80, 50),
        "thousand.nothing_new": (8, 8),
        "thousand.list": (4, 4),
        "large.lz4": (0.9, 0.9),
        "large.snappy": (0.9, 0.9),
        "large.claimed": (1.2, 1.2),
        "steady.late/early": (1.5, 1.5),
        "steady.files": (1.2, 1.2),
        "steady.metadata": (1.2, 1.2),
        "quality.judged/plain": (0.85, 0.85),
        "quality.small": (1.5, 1.5),
        "protocols.simple/avro": (0.5, 0.5),
        "protocols.open/avro": (0.35, 0.35),
        "protocols.canal/avro": (0.4, 0.5),
        "protocols.canal-changes/avro-changes": (0.4, 0.5),
        "storage.csv/avro": (0.8, 0.8),
        "storage.csv-changes/avro-changes": (0.8, 0.8),
        "storage.canal/avro": (0.4, 0.4),
        "storage.canal-changes/avro-changes": (0.4, 0.4),
        "storage.ten_rows": (1.1, 1.1),
        "storage.many_files": (2, 2),
        "storage.nothing_new": (0.5, 0.5),
        "storage.late/early": (1.1, 1.1),
        "storage.kept_planning": (2, 2),
        "storage.kept_requests": (50, 50),
        "storage.kept_mib": (200, 200),
        "storage.peak_mib": (256, 256),
        "backlog.peak_gib": (4, 4),
    }


def test_only_figures_that_were_measured_are_judged_and_json_can_carry_them():
    judged = targets.judged({"throughput.c/a": 0.8, "something.else": 1.0})
    assert [target["figure"] for target in judged] == ["throughput.c/a"]
    assert json.loads(json.dumps(judged)) == judged


@pytest.mark.parametrize(
    ("value", "reduced", "mistakes", "verdict"),
    [
        (0.8, "", [], "met"),
        (0.6, "", [], "missed"),
        (0.6, "rows 10 of 1000000", [], "indicative"),
        (0.8, "", ["d: rows is 1, expected 2"], "wrong"),
        (0.8, "rows 10 of 1000000", ["d: rows is 1, expected 2"], "wrong"),
    ],
)
def test_the_verdict_is_about_right_results_first_then_about_targets_at_full_size(value, reduced, mistakes, verdict):
    judged = targets.judged({"throughput.c/a": value}, reduced)
    assert targets.verdict(judged, mistakes) == verdict


def test_without_any_target_the_verdict_is_only_indicative():
    assert targets.verdict([], []) == "indicative"


def test_a_judged_target_is_one_line_for_people():
    (judged,) = targets.judged({"small.all_seconds": 50.0}, "tables 10 of 100")
    line = targets.line(judged)
    assert line.startswith("MISSED 10 rows in each of 100 tables")
    assert line.endswith("50 (target <= 12, aim <= 8); reduced: tables 10 of 100")
