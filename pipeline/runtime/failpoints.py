"""Fail-points: a test names a durable step, and the process ends right after it, as if its power had gone.

`TICDC_WAREHOUSE_FAILPOINT=changes-appended` or `=changes-appended@3` (the third time the step is passed).
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from threading import Lock

from pipeline.errors import SettingsError

VARIABLE = "TICDC_WAREHOUSE_FAILPOINT"
STEPS = (
    "speculated",
    "read",
    "ddl-applied",
    "held-appended",
    "evolved",
    "rows-written",
    "changes-appended",
    "unreadable-set-aside",
    "quarantined",
    "branch-made",
    "backfilled",
    "truncated",
    "partitions-removed",
    "keys-deleted",
    "linked",
    "staged",
    "published",
    "pending-held",
    "dead-letters-appended",
    "results-appended",
    "cuts-appended",
    "schemas-appended",
    "pending-released",
    "ledger-appended",
    "compacted",
    "expired",
    "before-spark-commit",
    "release-begun",
    "release-stepped-aside",
    "release-appended",
    "released",
    "redrive-begun",
    "redrive-quarantined",
    "redrive-appended",
    "redrive-marked",
)
"""Every durable step, roughly in the order of a batch; tests end the process after each of them."""


class FailPoints:
    """Called with the name of each step."""

    def __init__(self, wanted: str = "") -> None:
        name, _, times = wanted.partition("@")
        if name and name not in STEPS:
            raise SettingsError("FAILPOINT_UNKNOWN", f"{VARIABLE} names no step: {name}", f"steps: {', '.join(STEPS)}")
        self._name, self._times = name, int(times or "1")
        self._passed: Counter[str] = Counter()
        self._lock = Lock()

    def __call__(self, step: str) -> None:
        """End this process if the test asked for that after this step."""
        if step not in STEPS:
            raise AssertionError(f"{step} is not listed among the steps")
        if step != self._name:
            return
        with self._lock:
            self._passed[step] += 1
            if self._passed[step] == self._times:
                self._die()

    def _die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def from_environment() -> FailPoints:
    """The fail-point that the environment asks for, if any."""
    return FailPoints(os.environ.get(VARIABLE, ""))
