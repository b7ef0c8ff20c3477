"""Fail-points: a test names a durable step, and the process ends right behind it, as if its power had gone.

`TICDC_WAREHOUSE_FAILPOINT=changes-appended` or `=changes-appended@3` (the third time the step is passed).
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from threading import Lock

VARIABLE = "TICDC_WAREHOUSE_FAILPOINT"


class FailPoints:
    """Called with the name of each step."""

    def __init__(self, wanted: str = "") -> None:
        name, _, times = wanted.partition("@")
        self._name, self._times = name, int(times or "1")
        self._passed: Counter[str] = Counter()
        self._lock = Lock()

    def __call__(self, step: str) -> None:
        """End this process if the test asked for that behind this step."""
        if step != self._name:
            return
        with self._lock:
            self._passed[step] += 1
            if self._passed[step] == self._times:
                os.kill(os.getpid(), signal.SIGKILL)


def from_environment() -> FailPoints:
    """The fail-point that the environment asks for, if any."""
    return FailPoints(os.environ.get(VARIABLE, ""))
