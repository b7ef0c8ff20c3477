"""A worker process (`worker.py`), from the side of the one who tells it what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


class WorkerFailed(Exception):
    """A worker could not do what it was told. Its log has the traceback."""


def environment() -> dict[str, str]:
    """Of every process of the bench: the checkout is importable, installed or not."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path}


class Remote:
    """A worker. It ends when its input does: at `close`, or with this process, however that ends."""

    def __init__(self, kind: str, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "worker.py"), kind],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment(),
            )

    @property
    def pid(self) -> int:
        """The worker's Python; its JVM is a child of it."""
        return self._process.pid

    def ask(self, do: str, **given: Any) -> Any:
        """Let the worker do one thing and wait for it. Raises `WorkerFailed`."""
        self._process.stdin.write(json.dumps({"do": do, **given}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise WorkerFailed(f"{do}: the worker has ended\n{self._log.read_text()[-3000:]}")
        reply = json.loads(line)
        if "error" in reply:
            raise WorkerFailed(f"{do}: {reply['error'].strip()} (log: {self._log})")
        return reply["result"]

    def close(self) -> None:
        """End the worker and its JVM."""
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
