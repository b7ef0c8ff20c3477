"""A thousand batches of ten records into one table: does a batch grow dearer as the table gets older?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sums
import workload
from figures import Measured, differences, steadiness
from machine import watched
from progress import say
from throughput import CHANGES, CURRENT

if TYPE_CHECKING:
    from ground import Ground, Sizes
    from order_line import Truth
    from remote import Remote

ROWS = 10
WARM_UP = 40


def run(ground: Ground, sizes: Sizes) -> Measured:
    """The whole backlog in one run, ten records a batch, in a JVM that is warm: a cold one would flatter the ratio."""
    with ground.worker("ours", "steady") as worker:
        say(f"steady: warming up with {WARM_UP} batches")
        _run(ground, worker, "warm-steady", WARM_UP)
        say(f"steady: {sizes.steady} batches of {ROWS} records")
        with watched() as around:
            facts, truth = _run(ground, worker, "steady", sizes.steady)
    mistakes = _mistakes(ground, truth)
    if len(facts["batches"]) != sizes.steady:
        mistakes.append(f"{len(facts['batches'])} batches were run, not {sizes.steady}")
    found = steadiness([batch["committed_at"] for batch in facts["batches"]])
    say(f"steady: {found['early_seconds']} s a batch at first, {found['late_seconds']} s at the end")
    details = {**found, "seconds": round(facts["seconds"], 1), "last_batch": facts["batches"][-1], **around}
    return Measured({"steady.late/early": found["late/early"]}, details, mistakes, sizes.reduced("steady"))


def _run(ground: Ground, worker: Remote, name: str, batches: int) -> tuple[dict, Truth]:
    """One partition: Spark would round ten records for four partitions to eight."""
    stack = ground.stack
    topic, truth = workload.produce(
        stack.bootstrap_servers, stack.registry_url, ROWS * batches, prefix=name, processes=1, partitions=1
    )
    worker.ask("open", config=ground.config(name, {"topics": [topic]}, batch=ROWS))
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
