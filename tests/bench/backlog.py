"""Ten million records, half a million a batch: how much memory driver and workers take together at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sums
import workload
from figures import Measured, differences
from machine import GIB, PeakMemory, cores, watched
from progress import say
from throughput import CHANGES, CURRENT

if TYPE_CHECKING:
    from ground import Ground, Sizes


def run(ground: Ground, sizes: Sizes) -> Measured:
    """In a process of its own; `local[…]` runs the workers' tasks in the driver's JVM."""
    rows, stack = 10 * sizes.rows, ground.stack
    say(f"backlog: producing {rows:,} records")
    topic, truth = workload.produce(
        stack.bootstrap_servers, stack.registry_url, rows, prefix="backlog", processes=cores()
    )
    with ground.worker("ours", "backlog") as worker:
        config = ground.config("backlog", {"topics": [topic]}, batch=sizes.batch)
        with watched() as around, PeakMemory(worker.pid) as peak:
            worker.ask("open", config=config)
            facts = worker.ask("run")
        worker.ask("close")
    warehouse = ground.warehouse("backlog")
    events = sums.of_events(sums.scanned(warehouse, CHANGES, sums.EVENTS))
    living = sums.of_rows(sums.scanned(warehouse, CURRENT, sums.CURRENT))
    mistakes = [
        *differences("changes", sums.expected_events(truth), events),
        *differences("current", sums.expected_rows(truth), living),
    ]
    gib = round(peak.total / GIB, 2)
    say(f"backlog: {facts['seconds']:.0f} s, {rows / facts['seconds']:,.0f} records/s, at most {gib} GiB")
    details = {
        "records": rows,
        "batch": sizes.batch,
        "seconds": round(facts["seconds"], 1),
        "records_per_second": round(rows / facts["seconds"]),
        "peak_gib_by_program": {name: round(size / GIB, 2) for name, size in peak.parts.items()},
        "batch_seconds": [batch["seconds"] for batch in facts["batches"]],
        **around,
    }
    return Measured({"backlog.peak_gib": gib}, details, mistakes, sizes.reduced("rows"))
