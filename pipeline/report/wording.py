"""Words for numbers, times and hostile text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pipeline.model.columns import LOGICAL_BITS, time_of
from pipeline.settings.faults import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME, VALUE, TEXT = 160, 120, 400
"""How much of a name, a value and a sentence is shown."""

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_NEXT_UNIT = 2
_LAST_TSO = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp() * 1000) << LOGICAL_BITS


def clean(value: Any, most: int = TEXT) -> str:
    """Give any value as printable text of at most `most` characters; None is empty, control characters are escaped."""
    text = "" if value is None else str(value)
    if len(text) <= most and text.isprintable():
        return text
    shown = printable(text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def utc(moment: datetime) -> datetime:
    """Give the instant in UTC; one without a zone is UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def committed(ts: Any) -> datetime | None:
    """Read a TSO's time; None where it is none."""
    if not isinstance(ts, int) or not 0 < ts <= _LAST_TSO:
        return None
    return time_of(ts)


def stamp(moment: datetime) -> str:
    """`2026-11-21 11:40:07 UTC`."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def clock(moment: datetime) -> str:
    """`11:40` of a time whose day is known."""
    return f"{moment:%H:%M}"


def duration(seconds: float) -> str:
    """`0.4 s`, `45 s`, `3 min`, `30 h`, `8 d`: the largest unit of which there are two, at least seconds."""
    if seconds < 10:  # noqa: PLR2004 - two digits
        return f"{max(seconds, 0.0):.1f} s"
    for size, name in _UNITS[:-1]:
        if seconds >= _NEXT_UNIT * size:
            return f"{seconds // size:.0f} {name}"
    return f"{seconds:.0f} s"


def ago(moment: datetime, now: datetime) -> str:
    """`3 min ago`; what seems to come from the future is just now, since clocks differ."""
    seconds = (now - moment).total_seconds()
    return "just now" if seconds < 10 else f"{duration(seconds)} ago"  # noqa: PLR2004 - nobody counts these


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 row`, `1,204 rows`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def enumerated(words: Sequence[str], most: int = 3) -> str:
    """`a`, `a and b`, `a, b and 4 more`."""
    shown = [*words[:most], *([f"{len(words) - most:,} more"] if len(words) > most else [])]
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def named(rule: str) -> str:
    """A check's name in a sentence: in quotes where it is several words."""
    return f"“{rule}”" if " " in rule else rule
