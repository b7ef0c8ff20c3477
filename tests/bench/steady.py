"""A thousand batches of ten records into one table: does one grow dearer, or the folder fuller?

A day of 10-second batches is 8,640 of them, and snapshots stay for an hour, which is 360 batches. Here one batch
follows the other, and snapshots stay for about as many: what there is when they begin to go is what there is all day.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sums
import workload
from figures import Measured, boundedness, differences, steadiness
from machine import watched
from progress import say
from shelf import Shelf
from throughput import CHANGES, CURRENT

if TYPE_CHECKING:
    from ground import Ground, Sizes
    from order_line import Truth
    from remote import Remote

ROWS = 10
WARM_UP = 40
FILES = ("data_files", "metadata_files")
KEEP_FOR = "5 minutes"


def run(ground: Ground, sizes: Sizes) -> Measured:
    """The whole backlog in one run, ten records a batch, in a JVM that is warm: a cold one would flatter the ratio."""
    with ground.worker("ours", "steady") as worker:
        say(f"steady: warming up with {WARM_UP} batches")
        _run(ground, worker, "warm-steady", WARM_UP)
        say(f"steady: {sizes.steady} batches of {ROWS} records")
        with watched() as around, Shelf(ground.warehouse("steady")) as shelf:
            facts, truth = _run(ground, worker, "steady", sizes.steady)
    mistakes = _mistakes(ground, truth)
    if len(facts["batches"]) != sizes.steady:
        mistakes.append(f"{len(facts['batches'])} batches were run, not {sizes.steady}")
    found = steadiness([batch["committed_at"] for batch in facts["batches"]])
    say(f"steady: {found['early_seconds']} s a batch at first, {found['late_seconds']} s at the end")
    bounds = boundedness(shelf.samples)
    for name, most in bounds.items():
        say(f"steady: {name} {most['middle']:,} at most in the second third, {most['last']:,} in the last")
    details = {
        **found, "bounds": bounds, "seconds": round(facts["seconds"], 1), "last_batch": facts["batches"][-1], **around,
    }  # fmt: skip
    figures = {
        "steady.late/early": found["late/early"],
        "steady.files": max((bounds[name]["last/middle"] for name in FILES if name in bounds), default=1.0),
        "steady.metadata": bounds["metadata_bytes"]["last/middle"] if bounds else 1.0,
    }
    return Measured(figures, details, mistakes, sizes.reduced("steady"))


def _run(ground: Ground, worker: Remote, name: str, batches: int) -> tuple[dict, Truth]:
    """One partition: Spark would round ten records for four partitions to eight."""
    stack = ground.stack
    topic, truth = workload.produce(
        stack.bootstrap_servers, stack.registry_url, ROWS * batches, prefix=name, processes=1, partitions=1
    )
    worker.ask("open", config=ground.config(name, {"topics": [topic]}, batch=ROWS, maintenance={"keep_for": KEEP_FOR}))
    facts = worker.ask("run")
    worker.ask("close")
    return facts, truth


def _mistakes(ground: Ground, truth: Truth) -> list[str]:
    warehouse = ground.warehouse("steady")
    events = sums.of_events(sums.scanned(warehouse, CHANGES, sums.EVENTS))
    rows = sums.of_rows(sums.scanned(warehouse, CURRENT, sums.CURRENT))
    return [
        *differences("changes", sums.expected_events(truth), events),
        *differences("current", sums.expected_rows(truth), rows),
    ]
