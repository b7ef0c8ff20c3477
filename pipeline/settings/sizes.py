"""Sizes as people write them: `512 MiB`, `64MB`, or a number of bytes."""

from __future__ import annotations

import re

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SIZE = re.compile(r"\s*([0-9]{1,15})\s*([A-Za-z]{0,3})\s*")


def bytes_of(text: str) -> int:
    """Read a size. Raises ValueError."""
    size = _SIZE.fullmatch(text)
    unit = _UNITS.get(size[2].upper()) if size else None
    if size is None or unit is None or not int(size[1]):
        raise ValueError("expected a size such as `512 MiB`, `64 MB`, or a number of bytes")
    return int(size[1]) * unit
