"""What judging costs: a topic and small batches of many tables, with and without the built-in rules and 20 checks."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import feed
import workload
import yaml
from figures import Measured, ratio
from machine import cores, watched
from progress import say
from throughput import Contest, Ours

if TYPE_CHECKING:
    from ground import Ground, Sizes
    from remote import Remote

PLAIN, JUDGED = "plain", "judged"
PREFIX = "judged"
ROWS, WARM_UPS, ROUNDS = 10, 3, 5
_STATUSES = ["new", "picked", "packed", "shipped", "delivered", "returned"]
CHECKS: tuple[dict[str, Any], ...] = (
    {"expect_column_values_to_be_between": {"column": "ol_amount", "min_value": 0}, "severity": "quarantine"},
    {"expect_column_values_to_be_between": {"column": "ol_discount", "min_value": 0, "max_value": 1}},
    {"expect_column_values_to_be_between": {"column": "ol_qty", "min_value": 0, "max_value": 1_000_000}},
    {"expect_column_values_to_be_between": {"column": "ol_w_id", "min_value": 0}},
    {"expect_column_values_to_be_between": {"column": "ol_d_id", "min_value": 0}},
    {"expect_column_values_to_be_between": {"column": "ol_i_id", "min_value": 0}, "severity": "quarantine"},
    {"expect_column_values_to_be_between": {"column": "ol_rate", "min_value": -1e9, "max_value": 1e9}},
    {"expect_column_values_to_be_in_set": {"column": "ol_status", "value_set": _STATUSES}, "severity": "quarantine"},
    {"expect_column_values_to_not_be_in_set": {"column": "ol_status", "value_set": ["lost", "stolen"]}},
    {"expect_column_values_to_not_be_null": {"column": "ol_amount"}},
    {"expect_column_values_to_not_be_null": {"column": "ol_status"}},
    {"expect_column_values_to_not_be_null": {"column": "ol_created"}},
    {"expect_column_values_to_not_be_null": {"column": "ol_meta"}},
    {"expect_column_value_lengths_to_be_between": {"column": "ol_dist_info", "max_value": 24}},
    {"expect_column_value_lengths_to_be_between": {"column": "ol_status", "min_value": 1, "max_value": 20}},
    {"expect_column_values_to_match_regex": {"column": "ol_status", "regex": "^[a-z]+$"}},
    {"expect_column_values_to_match_regex": {"column": "ol_meta", "regex": "^[{]"}},
    {"expect_column_pair_values_a_to_be_greater_than_b": {
        "column_A": "ol_i_id", "column_B": "ol_discount", "or_equal": True}, "mostly": 0.5},
    {"expect_column_values_to_be_between": {"column": "ol_qty", "min_value": 0},
     "row_condition": "ol_status = 'shipped'", "name": "shipped_qty"},
    {"expect_column_values_to_not_be_null": {"column": "ol_delivery_d"}, "mostly": 0.01, "name": "some_delivered"},
)  # fmt: skip


def run(ground: Ground, sizes: Sizes) -> Measured:
    """Both, one after the other in each round."""
    contest = _large(ground, sizes)
    seconds = {name: [facts["seconds"] for facts in runs] for name, runs in contest.runs.items()}
    found = ratio(seconds, JUDGED, PLAIN)
    small = _small(ground, sizes)
    figures = {
        "quality.judged/plain": found["ratio"],
        "quality.small": round(median(small[JUDGED]) / median(small[PLAIN]), 2),
    }
    say(f"quality: {figures}")
    details = {"records": sizes.rows, "checks": len(CHECKS), "large": contest.runs, "ratio": found, "small": small}
    return Measured(figures, details, contest.mistakes, sizes.reduced("rows", "runs", "tables"))


def _large(ground: Ground, sizes: Sizes) -> Contest:
    say(f"quality: producing {sizes.rows:,} records")
    stack = ground.stack
    topic, truth = workload.produce(
        stack.bootstrap_servers, stack.registry_url, sizes.rows, prefix="quality", processes=cores()
    )
    with ground.worker("ours", PLAIN) as plain, ground.worker("ours", JUDGED) as judged:
        sides = {
            PLAIN: Ours(plain, ground, topic, sizes.batch, current=True, quality=_quality(ground, PLAIN)),
            JUDGED: Ours(judged, ground, topic, sizes.batch, current=True, quality=_quality(ground, JUDGED)),
        }
        contest = Contest(dict(sides), ground.folder, truth, sizes.rows, case="quality")
        contest.rounds(sizes.runs)
    return contest


def _small(ground: Ground, sizes: Sizes) -> dict[str, list[float]]:
    """Seconds of a batch of ten rows for each table, in each of two warehouses of the same topics."""
    stack, tables = ground.stack, feed.names(sizes.tables)
    workload.many_tables(
        stack.bootstrap_servers, stack.registry_url, sizes.tables, ROWS, key_range=sizes.rows, prefix=PREFIX
    )
    found: dict[str, list[float]] = {PLAIN: [], JUDGED: []}
    with ground.worker("ours", f"small-{PLAIN}") as plain, ground.worker("ours", f"small-{JUDGED}") as judged:
        workers: dict[str, Remote] = {PLAIN: plain, JUDGED: judged}
        for name, worker in workers.items():
            topics = {"topic_pattern": f"{PREFIX}_.*"}
            worker.ask("open", config=ground.config(
                f"small-{name}", topics, batch=500_000, quality=_quality(ground, name)))  # fmt: skip
            worker.ask("run")
        for number in range(WARM_UPS + ROUNDS):
            feed.more(stack, PREFIX, tables, ROWS, sizes.rows, 2000 + number)
            for name, worker in workers.items():
                with watched():
                    (batch,) = worker.ask("run")["batches"]
                say(f"quality: {batch['tables']} tables, {name}: {batch['seconds']:.2f} s")
                if number >= WARM_UPS:
                    found[name].append(batch["seconds"])
        for worker in workers.values():
            worker.ask("close")
    return found


def _quality(ground: Ground, name: str) -> dict[str, Any]:
    """The section of the configuration: no rules at all, or all of them for every table."""
    if name == PLAIN:
        return {"built_in": False}
    folder = ground.folder / "checks"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "all.yaml").write_text(yaml.safe_dump({"table": "bench.*", "checks": list(CHECKS)}))
    return {"suites": str(folder)}
