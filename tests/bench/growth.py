"""Three hundred publishes of ten rows into one table: what its metadata weighs, kept for good and looked after.

No Kafka: what a batch commits (the append to the changes table, the publish, the rows of the cut and of the ledger)
is made by the product's own functions, so that nothing else takes time. Snapshots are kept by their number here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from figures import Measured
from progress import say

if TYPE_CHECKING:
    from ground import Ground, Sizes

PUBLISHES, FEW_PUBLISHES = 300, 60
KEPT = 60
"""Snapshots, of each table; an expiry comes after 50 commits."""


def run(ground: Ground, sizes: Sizes) -> Measured:
    """A third as many without maintenance: that grows by the same amount with each."""
    publishes = PUBLISHES if sizes.steady > FEW_PUBLISHES else FEW_PUBLISHES
    details: dict[str, Any] = {"publishes": publishes, "kept_snapshots": KEPT}
    with ground.worker("publishes", "growth") as worker:
        for name, count, keep in (("kept", publishes // 3, 10 * publishes), ("maintained", publishes, KEPT)):
            say(f"growth: {count} publishes, at least {keep} snapshots kept")
            folder = str(ground.folder / name)
            details[name] = worker.ask("publish", folder=folder, publishes=count, keep=keep, every=publishes // 6)
            for sample in details[name]:
                say(f"growth: {sample}")
    return Measured({}, details, _mistakes(details), "")


def _mistakes(details: dict[str, Any]) -> list[str]:
    """Looked after, nothing may be more at the end than when the first expiry had been half way."""
    *_, middle, before, last = details["maintained"]
    return [
        f"{table}: {what} {now} after {last['publishes']} publishes, {earlier} at most before"
        for table, found in last["tables"].items()
        for what in ("snapshots", "metadata_files", "metadata_bytes")
        if (now := found[what]) > 1.3 * (earlier := max(one["tables"][table][what] for one in (middle, before)))
    ]
