"""From measured seconds to figures: medians, ratios, windows. Pure: tests/unit/test_bench_figures.py."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EARLY = slice(5, 15)
"""Batches 6 to 15 of a run of batches."""

LATE = slice(-10, None)
"""The last ten."""


Sample = tuple[float, "Mapping[str, int]"]
"""Seconds since the beginning, and what was counted then."""


@dataclass(frozen=True)
class Measured:
    """What a case found: figures that targets are about, details, and every result that is wrong.

    `reduced` says in which way it was smaller than its targets mean it; empty at full size.
    """

    figures: Mapping[str, float]
    details: Mapping[str, Any]
    mistakes: Sequence[str] = ()
    reduced: str = ""


def ratio(seconds: Mapping[str, Sequence[float]], side: str, other: str) -> dict[str, float]:
    """How many times as fast a side is as another, by the medians of their runs.

    `least` and `most` are over the rounds, in each of which every side ran once: where they lie far apart the
    machine was not quiet.
    """
    rounds = [theirs / ours for ours, theirs in zip(seconds[side], seconds[other], strict=True)]
    return {
        "ratio": round(median(seconds[other]) / median(seconds[side]), 3),
        "least": round(min(rounds), 3),
        "most": round(max(rounds), 3),
    }


def intervals(ends: Sequence[float]) -> list[float]:
    """What each batch cost, by the times at which batches were committed: the first from zero on.

    From one commit to the next, so that everything a batch brings with it is in it: Spark's own offset log,
    and the compaction and expiry that follow some batches.
    """
    return [end - start for start, end in zip([0.0, *ends], ends, strict=False)]


def steadiness(ends: Sequence[float]) -> dict[str, float]:
    """How the cost of a small batch grows over a run: the median of the last ten against batches 6 to 15.

    Medians leave out the batches that are followed by maintenance; the means of the first and the last fifth,
    which do not, are told beside them.
    """
    costs = intervals(ends)
    fifth = max(1, len(costs) // 5)
    early, late = median(costs[EARLY] or costs), median(costs[LATE])
    first, last = (sum(part) / len(part) for part in (costs[:fifth], costs[-fifth:]))
    return {
        "batches": len(costs),
        "early_seconds": round(early, 3),
        "late_seconds": round(late, 3),
        "late/early": round(late / early, 3),
        "mean_first_fifth": round(first, 3),
        "mean_last_fifth": round(last, 3),
        "mean_last/first": round(last / first, 3),
        "longest_seconds": round(max(costs), 3),
    }


def boundedness(samples: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """The most that there was at once in the last third of a run, against the third before it."""
    ends = samples[-1][0] if samples else 0.0
    found: dict[str, dict[str, float]] = {}
    for name in samples[-1][1] if samples else ():
        middle, last = (
            max((each[name] for at, each in samples if low < at / ends <= high), default=0)
            for low, high in ((1 / 3, 2 / 3), (2 / 3, 1))
        )
        found[name] = {"middle": middle, "last": last, "last/middle": round(last / max(1, middle), 3)}
    return found


def differences(what: str, expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """One sentence for each number of a checksum that is not what it must be."""
    return [
        f"{what}: {name} is {found.get(name)}, expected {value}"
        for name, value in expected.items()
        if found.get(name) != value
    ]


def two_batches(records: int, partitions: int) -> int:
    """The most records of a batch that make two of a topic: Spark shares them among partitions and rounds down."""
    slack = 0 if records % (2 * partitions) == 0 else 2 * partitions
    return max(records // 2 + slack, 1)
