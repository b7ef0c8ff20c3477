"""Durations as Spark writes them: `10 seconds`, `1 minute 30 seconds`, `500 milliseconds`."""

from __future__ import annotations

import re

_UNITS = {
    "microsecond": 1e-6,
    "millisecond": 1e-3,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
    "week": 604800.0,
}
_PART = re.compile(r"\s*([0-9]{1,15})(\.[0-9]{1,9})?\s+([a-z]+?)s?(?=\s|$)")
_EXPECTED = "expected a duration such as `10 seconds`, `1 minute` or `500 milliseconds`"


def seconds(text: str) -> float:
    """Read a duration as Spark's processing-time trigger does, so no months or years; raises ValueError."""
    rest = re.sub(r"^\s*interval\s", "", text.lower()).rstrip()
    total, at = 0.0, 0
    while at < len(rest) or not at:
        found = _PART.match(rest, at)
        if not found or found[3] not in _UNITS or (found[2] and found[3] != "second"):  # Spark: only seconds have parts
            raise ValueError(_EXPECTED)
        total += float(found[1] + (found[2] or "")) * _UNITS[found[3]]
        at = found.end()
    return total
