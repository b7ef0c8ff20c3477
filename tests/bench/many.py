"""Two hundred small tables in one batch: first all new, then all known."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import feed
import sums
import workload
from figures import Measured, differences
from machine import watched
from progress import say

if TYPE_CHECKING:
    from ground import Ground, Sizes
    from order_line import Truth
    from remote import Remote

PREFIX = "many"
ROWS = 10
KEY_RANGE = 10_000
WARM_UP_TABLES = 10
FAR = 0.2
"""Seconds that a commit of a catalog elsewhere takes."""


def run(ground: Ground, sizes: Sizes) -> Measured:
    """One batch that makes the tables, then `repeats` batches into tables that are there, which are judged."""
    stack, tables = ground.stack, feed.names(sizes.many)
    with ground.worker("ours", PREFIX) as worker:
        _warm_up(ground, worker)
        truths = workload.many_tables(stack.bootstrap_servers, stack.registry_url, sizes.many, ROWS, prefix=PREFIX)
        sent = dict(zip(tables, truths.values(), strict=True))
        worker.ask("open", config=ground.config(PREFIX, {"topic_pattern": f"{PREFIX}_.*"}, batch=500_000))
        new = batch(worker, sizes.many)
        known = []
        for number in range(sizes.repeats):
            _more(ground, tables, sent, number)
            known.append(batch(worker, sizes.many))
        worker.ask("far", seconds=FAR)
        _more(ground, tables, sent, sizes.repeats)
        far = batch(worker, sizes.many)
        worker.ask("close")
    mistakes = []
    for table, truth in sent.items():
        events = sums.of_events(sums.scanned(ground.warehouse(PREFIX), f"bench.{table}__changes", sums.EVENTS))
        mistakes += differences(f"{table}__changes", sums.expected_events(truth), events)
    per_table = round(median(facts["seconds"] for facts in known) / sizes.many, 3)
    details = {"tables": sizes.many, "records_per_table": ROWS, "new": new, "known": known, "far": far}
    figures = {"many.seconds_per_table": per_table, "many.far_seconds": far["seconds"]}
    return Measured(figures, details, mistakes, sizes.reduced("many"))


def _more(ground: Ground, tables: list[str], sent: dict[str, Truth], number: int) -> None:
    fresh = feed.more(ground.stack, PREFIX, tables, ROWS, KEY_RANGE, 1000 + number)
    for table, truth in zip(tables, fresh, strict=True):
        sent[table] += truth


def _warm_up(ground: Ground, worker: Remote) -> None:
    """Some batches of some tables in a warehouse that does not count."""
    stack, name = ground.stack, "warmup"
    workload.many_tables(stack.bootstrap_servers, stack.registry_url, WARM_UP_TABLES, 5 * ROWS, prefix=name)
    worker.ask("open", config=ground.config(name, {"topic_pattern": f"{name}_.*"}, batch=WARM_UP_TABLES * ROWS))
    worker.ask("run")
    worker.ask("close")


def batch(worker: Remote, tables: int) -> dict[str, Any]:
    """Take what there is, in one batch."""
    with watched() as around:
        facts = worker.ask("run")
    (batch,) = facts["batches"]
    per_table = facts["seconds"] / tables
    say(f"many: {batch['tables']} tables: {facts['seconds']:.2f} s, {per_table:.3f} s per table")
    return {**facts, "seconds": round(facts["seconds"], 3), "seconds_per_table": round(per_table, 3), **around}
