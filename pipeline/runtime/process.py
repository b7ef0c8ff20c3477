"""Child processes of the devstack: spawned, watched by a lock, stopped.

A service's pid lies in a file that is locked for as long as the service lives: it inherits the lock, and the
operating system drops it with the process. So any later process can tell a living service from a stale pid.
"""

from __future__ import annotations

import fcntl
import functools
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import EnvironmentFault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TETHER = Path(__file__).parent / "tether.py"
_POLL = 0.05
_TAIL = 12


@functools.cache
def _spawner(_pid: int) -> ThreadPoolExecutor:
    """Return the one thread that spawns, per process.

    Linux sends the parent-death signal when the spawning *thread* ends; this one ends with the process.
    """
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="devstack-spawner")


def tethered(command: Sequence[str], stdout: int, pass_fds: Sequence[int] = ()) -> subprocess.Popen[str]:
    """Start a command that dies with this process, however that dies; stderr goes where stdout goes."""
    tether = [sys.executable, "-I", "-S", str(_TETHER), str(os.getpid()), *command]
    return _spawner(os.getpid()).submit(_popen, tether, stdout, pass_fds).result()


def _popen(command: Sequence[str], stdout: int, pass_fds: Sequence[int]) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - commands are this package's own
        command,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.STDOUT,
        text=True,
        pass_fds=pass_fds,
        start_new_session=True,  # Ctrl-C reaches the parent, which stops its children in order
    )


@dataclass
class Service:
    """A process with a folder: `<name>.log`, and `<name>.pid` locked while it lives."""

    name: str
    folder: Path
    _child: subprocess.Popen[str] | None = field(default=None, init=False, repr=False)
    _log_start: int = field(default=0, init=False, repr=False)

    @property
    def log(self) -> Path:
        """What the process printed, over all its starts."""
        return self.folder / f"{self.name}.log"

    @property
    def _pid_file(self) -> Path:
        return self.folder / f"{self.name}.pid"

    @property
    def pid(self) -> int | None:
        """The living process, whoever started it; None if there is none."""
        self._reap()
        if not self._pid_file.exists():
            return None
        with self._pid_file.open() as file:
            if _lock(file.fileno()):
                return None
            return int(file.read() or 0) or None

    def spawn(self, command: Sequence[str], *, detached: bool) -> None:
        """Start the command, output appended to the log. Raises `EnvironmentFault` if one lives here."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._pid_file.open("a+") as pid_file, self.log.open("ab") as log:
            if not _lock(pid_file.fileno(), patience=0.5):
                raise EnvironmentFault(
                    "DEVSTACK_RUNNING",
                    f"A {self.name} runs in {self.folder} already.",
                    "Stop it with `ticdc-warehouse devstack down`, or take another folder.",
                )
            self._log_start = log.tell()
            start = _popen if detached else tethered
            self._child = start(command, log.fileno(), [pid_file.fileno()])
            pid_file.truncate(0)
            pid_file.write(str(self._child.pid))

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Poll until ready. Raises `EnvironmentFault` with the log's end if it dies or time is up."""
        deadline = time.monotonic() + seconds
        while not ready():
            if self.pid is None:
                raise self._failed("ended before it was ready")
            if time.monotonic() > deadline:
                raise self._failed(f"was not ready after {seconds:.0f} s")
            time.sleep(_POLL)

    def stop(self, grace: float = 10.0) -> None:
        """Ask the process to end, kill it after `grace` seconds. Nothing to do if none lives."""
        if not self._signal_and_wait(signal.SIGTERM, grace):
            self.kill()

    def kill(self) -> None:
        """End the process at once, as a power cut would."""
        self._signal_and_wait(signal.SIGKILL, 30.0)

    def tail(self, lines: int = _TAIL) -> str:
        """Return the last lines that the latest start wrote to the log."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(max(self._log_start, self.log.stat().st_size - 64 * 1024))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])

    def _signal_and_wait(self, number: signal.Signals, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        pid = self.pid
        if pid is not None:
            os.kill(pid, number)
        while self.pid is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL)
        return True

    def _reap(self) -> None:
        if self._child is not None and self._child.poll() is not None:
            self._child = None

    def _failed(self, what: str) -> EnvironmentFault:
        tail = self.tail().replace("\n", "\n    ")
        return EnvironmentFault(
            f"{self.name.upper()}_FAILED",
            f"The {self.name} {what}. The end of its log:\n    {tail}",
            f"The whole log: {self.log}",
        )


def _lock(descriptor: int, patience: float = 0.0) -> bool:
    """Take the lock; `patience` outlasts another process that only looks whether it is taken."""
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL)
        else:
            return True
