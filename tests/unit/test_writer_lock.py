"""One writer per warehouse: its locks die with its processes, and the JVM of one that was killed is waited for."""

import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pipeline.errors import Refused
from pipeline.runtime import lock
from pipeline.runtime.lock import LOCKED, JvmLock, WriterLock

HOLDS = """
import sys, time
from pathlib import Path
from pipeline.runtime.lock import WriterLock
with WriterLock(Path(sys.argv[1]), "run"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_dies_with_its_process(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(Refused, match=rf"`run`, process {other.pid} ") as refused, WriterLock(tmp_path, "run"):
            pass
        assert refused.value.code == LOCKED
        other.send_signal(signal.SIGKILL)
        other.wait(30)
        with WriterLock(tmp_path, "run"):
            pass


class Channel:
    """A file's channel in Java: another JVM has its lock so many times that it is asked."""

    def __init__(self, times):
        self.times, self.closed = times, False

    def tryLock(self):  # noqa: N802 - Java's name
        self.times -= 1
        return "a lock" if self.times < 0 else None

    def getChannel(self):  # noqa: N802 - Java's name
        return self

    def close(self):
        self.closed = True


def session(channel):
    return SimpleNamespace(_jvm=SimpleNamespace(java=SimpleNamespace(io=SimpleNamespace(
        RandomAccessFile=lambda _name, _mode: channel
    ))))  # fmt: skip


def test_the_jvm_of_a_killed_writer_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(lock.time, "sleep", lambda _seconds: None)
    channel = Channel(3)
    with JvmLock(session(channel), tmp_path):
        assert channel.times == -1
    assert channel.closed


def test_one_that_does_not_end_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "_PATIENCE", 0.0)
    channel = Channel(10**6)
    with (
        pytest.raises(Refused, match="the JVM of a writer that was killed") as refused,
        JvmLock(session(channel), tmp_path),
    ):
        pass
    assert (refused.value.code, channel.closed) == (LOCKED, True)
