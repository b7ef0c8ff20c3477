"""Processes of the product that tests start, tell what to do, and kill."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pipeline.runtime.jars import jars

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
PATIENCE = 180
_DEAD = 60


def spark_of(java: str = "") -> dict[str, object]:
    """The section `spark` for a process that is small and starts soon; `java`: options that may archive classes."""
    return {
        "master": "local[2]",
        "conf": {
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.driver.extraClassPath": ":".join(map(str, jars("spark"))),  # what `java` archives must stand here
            "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {java}",
        },
    }


def until(met: Callable[[], object], seconds: float = 60) -> None:
    """Wait for it."""
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, met
        time.sleep(0.1)


class Process:
    """One process and its JVM: a process group of its own, with what it says as lines."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self.errors = folder / f"errors-{time.time_ns()}.log"
        with self.errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, *words],
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self.said: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    @classmethod
    def worker(cls, file: Path) -> Self:
        """A worker (see worker.py) on this configuration: it starts Spark at once."""
        return cls([str(Path(__file__).with_name("worker.py")), str(file)], file.parent)

    @classmethod
    def command(cls, file: Path, *words: str) -> Self:
        """`python -m pipeline WORDS -c FILE`."""
        return cls(["-m", "pipeline", *words, "-c", str(file)], file.parent)

    def tell(self, *words: str, **environment: str) -> None:
        """Let a worker begin with a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"words": words, "environment": environment}) + "\n")
        self._process.stdin.flush()

    def until(self, prefix: str, seconds: float = PATIENCE) -> str | None:
        """Wait for a line that begins so; None where the process ends before it."""
        deadline = time.monotonic() + seconds
        while (line := self._lines.get(timeout=max(0.1, deadline - time.monotonic()))) is not None:
            if line.startswith(prefix):
                return line
        self._lines.put(None)
        return None

    def done(self, *words: str, **environment: str) -> int:
        """Let a worker do a command; its exit code."""
        self.tell(*words, **environment)
        ended = self.until("ended ")
        assert ended is not None, self.complaint()
        return int(ended.split()[1])

    def ended(self, seconds: float = PATIENCE) -> int:
        """Wait for the end; the exit code."""
        code = self._process.wait(seconds)
        self.until("nothing begins so")
        return code

    def leave(self) -> None:
        """Let a worker end by itself, and its JVM."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self.ended() == 0, self.complaint()
        self.gone()

    def signal(self, number: int) -> None:
        """Send a signal to the process alone."""
        self._process.send_signal(number)

    def kill_alone(self) -> None:
        """End the process and leave its JVM to itself."""
        self._process.kill()
        self._process.wait(_DEAD)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def lives(self) -> bool:
        """Whether the process (not its JVM) lives."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End process and JVM as a power cut would; waits until no trace of them is left."""
        self._signal_group(signal.SIGKILL)
        self._process.wait(_DEAD)
        self.gone()

    def gone(self) -> float:
        """Wait until the JVM is gone too; how long that took."""
        began = time.monotonic()
        while self._signal_group(0):
            assert time.monotonic() - began < _DEAD, "the JVM outlives its process"
            time.sleep(0.02)
        return time.monotonic() - began

    def complaint(self) -> str:
        """What it wrote, for the message of a failed assertion."""
        return "\n".join([*self.said[-30:], self.errors.read_text()[-4000:]])

    def _signal_group(self, number: int) -> bool:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        return True

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line.rstrip("\n"))
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)


class Workers:
    """Workers for one configuration, of which the next starts Spark while one works."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._made: list[Process] = []
        self._next: Process | None = None

    def take(self, *, more: bool = True) -> Process:
        """A worker whose Spark is up; `more`: another one will be wanted."""
        worker = self._next or self._start()
        self._next = self._start() if more else None
        assert worker.until("ready") is not None, worker.complaint()
        return worker

    def _start(self) -> Process:
        self._made.append(Process.worker(self._file))
        return self._made[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._made:
            process.kill()
