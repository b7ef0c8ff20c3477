"""Three hundred publishes of ten rows into one table: what its metadata weighs, kept for good and looked after.

`day` makes as many as a day has 10-second batches, and keeps an hour of them.

No Kafka: what a batch commits (the append to the changes table, the publish, the rows of checks, cut and ledger)
is made by the product's own functions, so that nothing else takes time. `growth` keeps snapshots by their number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from figures import Measured
from progress import say

if TYPE_CHECKING:
    from ground import Ground, Sizes
    from remote import Remote

PUBLISHES, FEW_PUBLISHES = 300, 60
KEPT = 60
"""Snapshots, of each table; an expiry comes after 50 commits."""
DAY, HOUR = 8_640, 360


def run(ground: Ground, sizes: Sizes) -> Measured:
    """A third as many without maintenance: that grows by the same amount with each."""
    publishes = PUBLISHES if sizes.steady > FEW_PUBLISHES else FEW_PUBLISHES
    details: dict[str, Any] = {"publishes": publishes, "kept_snapshots": KEPT}
    with ground.worker("publishes", "growth") as worker:
        for name, count, keep in (("kept", publishes // 3, 10 * publishes), ("maintained", publishes, KEPT)):
            worker.ask("begin", folder=str(ground.folder / name), keep=keep)
            details[name] = _published(worker, count, publishes // 6, f"growth, {keep} snapshots kept")
    return Measured({}, details, _mistakes(details), "")


def day(ground: Ground, sizes: Sizes) -> Measured:
    """A day's publishes, one behind the other, looked after as a pipeline does; weighed every ten minutes of them.

    The day is as short as it takes: what `keep_for` calls an hour, is what 360 of these take.
    """
    hours, hour = (DAY // HOUR, HOUR) if sizes.steady > FEW_PUBLISHES else (6, FEW_PUBLISHES // 6)
    with ground.worker("publishes", "day") as worker:
        worker.ask("begin", folder=str(ground.folder / "day"), hour=hour)
        samples = _published(worker, hours * hour, hour // 6, "day")
    details = {"publishes": hours * hour, "kept_batches": hour, "samples": samples, "most": _most(samples)}
    say(f"day: at most, of all tables together, {details['most']}")
    return Measured({}, details, _grown(samples), "")


def _published(worker: Remote, publishes: int, every: int, case: str) -> list[dict[str, Any]]:
    """What the tables weigh after each so many publishes, told as it comes."""
    say(f"{case}: {publishes} publishes")
    samples = []
    for _ in range(publishes // every):
        samples.append(worker.ask("publish", publishes=every))
        say(f"{case}: {samples[-1]['publishes']} publishes, {samples[-1]['seconds']} s, {_most(samples[-1:])}")
    return samples


def _most(samples: list[dict[str, Any]]) -> dict[str, int]:
    """The most of each that there was at once, of all tables together."""
    names = ("snapshots", "metadata_files", "metadata_bytes", "data_files", "data_bytes", "sum_files")
    return {name: max(sum(table[name] for table in one["tables"].values()) for one in samples) for name in names}


def _grown(samples: list[dict[str, Any]]) -> list[str]:
    """What is more in the last third of a day than in the second. Rows of changes and ledger stay for good."""
    third = len(samples) // 3
    middle, last = _most(samples[third : 2 * third]), _most(samples[2 * third :])
    bounded = ("snapshots", "metadata_files", "metadata_bytes", "data_files")
    return [
        f"{what}: {last[what]} in the last third, {middle[what]} at most before"
        for what in bounded if last[what] > 1.2 * middle[what]
    ]  # fmt: skip


def _mistakes(details: dict[str, Any]) -> list[str]:
    """Looked after, nothing may be more at the end than when the first expiry had been half way."""
    *_, middle, before, last = details["maintained"]
    return [
        f"{table}: {what} {now} after {last['publishes']} publishes, {earlier} at most before"
        for table, found in last["tables"].items()
        for what in ("snapshots", "metadata_files", "metadata_bytes")
        if (now := found[what]) > 1.3 * (earlier := max(one["tables"][table][what] for one in (middle, before)))
    ]
