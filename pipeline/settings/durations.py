"""Durations as Spark writes them (`10 seconds`, `1 minute 30 seconds`), or short: `5m`, `7d`, `1h30m`."""

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
_SHORT = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
"""Only in small letters: `5M` would be months to many, which have no length."""
_PART = re.compile(r"\s*([0-9]{1,15})(\.[0-9]{1,9})?\s+([A-Za-z]{3,}?)[sS]?(?=\s|$)")
_SHORT_PART = re.compile(r"\s*([0-9]{1,15})(\.[0-9]{1,9})?\s*(us|ms|[smhdw])(?=\s|[0-9]|$)")
_INTERVAL = re.compile(r"^\s*interval\s", re.IGNORECASE)
_SIZES = ((60.0, 1.0, "s"), (3600.0, 60.0, "min"), (172_800.0, 3600.0, "h"))
_EXPECTED = "expected a duration such as `10 seconds`, `1 minute`, `500 milliseconds`, or short: `10s`, `5m`, `7d`"


def seconds(text: str) -> float:
    """Read a duration as Spark's processing-time trigger does, so no months or years. Raises ValueError.

    Spark does not know the short units; it gets the seconds.
    """
    rest = _INTERVAL.sub("", text).rstrip()
    total, position = 0.0, 0
    while position < len(rest) or not position:
        part = _PART.match(rest, position) or _SHORT_PART.match(rest, position)
        unit = _unit(part[3]) if part else None
        if not part or unit is None or (part[2] and unit != 1.0):  # Spark: only seconds have parts
            raise ValueError(_EXPECTED)
        total += float(part[1] + (part[2] or "")) * unit
        position = part.end()
    return total


def _unit(name: str) -> float | None:
    return _SHORT.get(name) or _UNITS.get(name.lower())


def written(seconds: float) -> str:
    """Write seconds as `0.9 s`, `12 min`, `3.0 h`, `8 d`: two digits are enough to act on."""
    for limit, unit, name in _SIZES:
        if seconds < limit:
            value = seconds / unit
            return f"{value:.1f} {name}" if value < 10 else f"{value:.0f} {name}"  # noqa: PLR2004 - two digits
    return f"{seconds / 86_400:.0f} d"
