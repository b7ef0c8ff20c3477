"""The file `metadata`: up to which commit ts the changefeed has written everything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pipeline.model.columns import FAR_FUTURE
from pipeline.sources.storage.paths import METADATA

if TYPE_CHECKING:
    from pipeline.sources.storage.store import Store

METADATA_MISSING, METADATA_UNREADABLE = "METADATA_MISSING", "METADATA_UNREADABLE"
UNREADABLE = (ValueError, KeyError, TypeError, RecursionError)
"""What `read_metadata` raises for a file that says no commit ts."""


def read_metadata(store: Store) -> tuple[int, float]:
    """The commit ts in `metadata`, and when that was written. Raises `FileNotFoundError`, or one of `UNREADABLE`."""
    modified = store.entry(METADATA).modified
    commit_ts = json.loads(store.read(METADATA))["checkpoint-ts"]
    if type(commit_ts) is not int or not 0 < commit_ts <= FAR_FUTURE:
        raise ValueError(f"{commit_ts!r:.40} is no commit ts")
    return commit_ts, modified
