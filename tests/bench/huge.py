"""Ten records, and 10,000, into a table of a hundred million rows whose keys come in no order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import feed
import small
import workload
from figures import Measured
from progress import say

if TYPE_CHECKING:
    from ground import Ground, Sizes

PREFIX = "huge"
FEW, MANY = 10, 10_000
WARM_UPS, RUNS = 5, 5
NEVER = {"compact_files": 10**6, "compact_deletes": 10**6}
"""The case compacts, and no batch does."""


def run(ground: Ground, sizes: Sizes) -> Measured:
    """Fill the table, let the product compact it, then measure. Every run is one micro-batch."""
    stack, tables = ground.stack, feed.names(1)
    truths = workload.many_tables(
        stack.bootstrap_servers, stack.registry_url, 1, FEW, key_range=sizes.huge, prefix=PREFIX
    )
    sent = dict(zip(tables, truths.values(), strict=True))
    with ground.worker("ours", PREFIX) as worker:
        small.prepare(ground, worker, PREFIX, tables, sizes.huge, shuffled=True, maintenance=NEVER)
        sender = small.Sender(ground, worker, PREFIX, sizes.huge, sent)
        before = [sender.round(tables, FEW, seed) for seed in range(2)]
        compacted = worker.ask("compact")
        say(f"huge: compacted in {compacted:.0f} s")
        few = [sender.round(tables, FEW, 100 + seed) for seed in range(WARM_UPS + RUNS)][WARM_UPS:]
        many = [sender.round(tables, MANY, 200 + seed) for seed in range(1 + RUNS)][1:]
        worker.ask("close")
    figures = {"huge.few_seconds": small.of_the_batch(few), "huge.many_seconds": small.of_the_batch(many)}
    say(f"huge: {FEW} rows {figures['huge.few_seconds']} s, {MANY:,} rows {figures['huge.many_seconds']} s")
    details = {"rows": sizes.huge, "compacted_seconds": compacted, "before": before, "few": few, "many": many}
    mistakes = small.mistakes_of(ground.warehouse(PREFIX), sent, sizes.huge)
    return Measured(figures, details, mistakes, sizes.reduced("huge"))
