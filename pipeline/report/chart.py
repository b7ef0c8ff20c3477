"""Drawings as numbers: what a template needs to write a bar chart as SVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipeline.report.facts import Volume

PARTS = ("inserts", "updates", "deletes", "aside")
_LEAST = 2.5
"""Percent: a single row that was set aside is seen."""
_STEPS = (1, 2, 3, 4, 5, 6, 8)


@dataclass(frozen=True, slots=True)
class Bar:
    """One rectangle; `kind` is its CSS class, lengths in percent of the drawing."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    title: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Stacked bars, and how much the whole height stands for."""

    bars: tuple[Bar, ...]
    top: int

    @staticmethod
    def of(volume: Sequence[Volume]) -> Chart:
        """Draw what came in, a stack per column."""
        top = _round(max((_total(one) for one in volume), default=0))
        return Chart(tuple(bar for at, one in enumerate(volume) for bar in _stack(at, len(volume), one, top)), top)


def spark(numbers: Sequence[int]) -> tuple[Bar, ...]:
    """Draw a row of small bars, each at least a line where there is anything."""
    top = max(numbers, default=0)
    return tuple(
        _bar("rows", place, len(numbers), 0.0, max(number / top * 100, 4.0))
        for place, number in enumerate(numbers)
        if number
    )


def _stack(place: int, places: int, volume: Volume, top: int) -> Iterator[Bar]:
    below = 0.0
    for kind in PARTS:
        number = getattr(volume, kind)
        height = number / top * 100 if top else 0.0
        if number:
            height = max(height, _LEAST if kind == "aside" else 0.0)
            yield _bar(kind, place, places, below, height)
        below += height
    title = (
        ", ".join(f"{getattr(volume, kind):,} {_WORDS[kind]}" for kind in PARTS if getattr(volume, kind)) or "no change"
    )
    yield Bar(
        "touch", round(place / places * 100, 3), 0, round(100 / places, 3), 100, f"{volume.column.label}: {title}"
    )


_WORDS = {"inserts": "inserted", "updates": "updated", "deletes": "deleted", "aside": "set aside"}


def _bar(kind: str, place: int, places: int, below: float, height: float) -> Bar:
    width = 100 / places
    return Bar(
        kind, round((place + 0.12) * width, 3), round(100 - below - height, 3), round(width * 0.76, 3), round(height, 3)
    )


def _total(volume: Volume) -> int:
    return volume.inserts + volume.updates + volume.deletes + volume.aside


def _round(number: int) -> int:
    """Give the next number of one digit and zeros, for an axis that can be read."""
    size = 1
    while True:
        for step in _STEPS:
            if number <= step * size:
                return step * size
        size *= 10
