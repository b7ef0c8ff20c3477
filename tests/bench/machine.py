"""Who uses the machine, and how much of it a process and its children take. Needs Linux's /proc."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
GIB = 1 << 30
NOISY_BEFORE = 0.5
NOISY_MEANWHILE = 0.1
"""Cores that others use, per core: before a run, and on average while it runs."""


def cores() -> int:
    """How many cores every side of the bench is given: all that this process may use (`taskset -c 0` gives it one)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- processes -------------------------------------------------------------------------------------------


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the third on; empty if the process has gone."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def family(root: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in PROC.glob("[0-9]*"):
        stat = _stat(int(entry.name))
        if stat:
            children[int(stat[1])].append(int(entry.name))
    found = [root]
    for pid in found:
        found += children[pid]
    return found


def cpu_seconds(root: int) -> float:
    """CPU that a process and its descendants have used, those that have ended and were waited for included."""
    return sum(sum(map(int, stat[11:15])) for pid in family(root) if (stat := _stat(pid))) / TICKS


def memory(root: int) -> dict[str, int]:
    """Resident bytes of a process and its descendants, by program: `java`, `python` …"""
    found: dict[str, int] = defaultdict(int)
    for pid in family(root):
        try:
            name = (PROC / str(pid) / "comm").read_text().strip()
            pages = int((PROC / str(pid) / "statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
        found["python" if name.startswith("python") else name] += pages * PAGE
    return dict(found)


class Sampler:
    """Looks at something while the block runs, every so many seconds."""

    every: float

    def __init__(self) -> None:
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def look(self) -> None:
        """Take one sample."""
        raise NotImplementedError

    def _sample(self) -> None:
        while not self._done.wait(self.every):
            self.look()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


class PeakMemory(Sampler):
    """The most memory that a family of processes has at once."""

    every = 0.2

    def __init__(self, root: int) -> None:
        super().__init__()
        self.total = 0
        self.parts: dict[str, int] = {}
        self._root = root

    def look(self) -> None:
        """See `Sampler.look`."""
        now = memory(self._root)
        if sum(now.values()) > self.total:
            self.total, self.parts = sum(now.values()), now


# --- others ----------------------------------------------------------------------------------------------


def _busy_seconds() -> float:
    """CPU seconds of the whole machine; those that a hypervisor gave to other guests count as used."""
    user, nice, system, _idle, _wait, irq, soft, steal = map(
        int, (PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + irq + soft + steal) / TICKS


class Others:
    """How many cores others than this process and its descendants use, per core of the machine."""

    def __init__(self) -> None:
        self._began = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float]:
        return time.monotonic(), _busy_seconds(), cpu_seconds(os.getpid())

    def share(self) -> float:
        """The share since this object was made."""
        began, busy, own = self._began
        now, busy_now, own_now = self._now()
        return max(0.0, (busy_now - busy) - (own_now - own)) / max(now - began, 1e-3) / cores()


@contextmanager
def watched() -> Iterator[dict[str, Any]]:
    """Write what was dirty to the disk, look who else is here, and look again when the block has ended."""
    os.sync()
    facts: dict[str, Any] = {"load_average": round(os.getloadavg()[0], 2)}
    before = Others()
    time.sleep(0.5)
    facts["others_before"] = round(before.share(), 2)
    meanwhile = Others()
    yield facts
    facts["others_meanwhile"] = round(meanwhile.share(), 2)
    facts["noisy"] = facts["others_before"] > NOISY_BEFORE or facts["others_meanwhile"] > NOISY_MEANWHILE
