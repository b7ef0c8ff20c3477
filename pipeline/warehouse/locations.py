"""Where tables lie, in one spelling: what Iceberg stores is compared and read through here.

Tables of earlier versions have locations without a scheme (`/warehouse/data/…`), those of today `file:///…`, which
readers in Rust (DataFusion, Polars' own) want; Hadoop writes `file:/…` for the same. A store's URL is left as it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_FILE = re.compile(r"^file:(?://[^/]*)?/*", re.IGNORECASE)
_CUT_SHORT = re.compile(r"[#?]")
"""What readers take for the end of a URL's path: such a folder is named without a scheme, as it has always been."""


def as_url(location: str) -> str:
    """Give a location on this machine as `file:///…`; any other as it is."""
    path = as_path(location)
    plain = path is not None and path.is_absolute() and not _CUT_SHORT.search(location)
    return f"file://{path}" if plain else location


def as_path(location: str) -> Path | None:
    """Give the path of a location on this machine (`/x`, `file:/x`, `file://host/x`); None for a store's."""
    if _FILE.match(location):
        return Path(_FILE.sub("/", location))
    return None if _SCHEME.match(location) else Path(location)


def real_path(location: str) -> Path | None:
    """Give the path with every link followed: of two that are equal here, the files are the same."""
    path = as_path(location)
    return None if path is None else Path(os.path.realpath(path))


def is_same(location: str, other: str) -> bool:
    """Whether two locations are one place."""
    here, there = real_path(location), real_path(other)
    return here == there if here and there else location.rstrip("/") == other.rstrip("/")
