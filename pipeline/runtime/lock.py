"""One writer per warehouse: OS locks that die with their processes (design.md, rule 9).

There are two processes, Python and its JVM, and each holds a lock: where Python was killed, its JVM lives on for a
second or more and ends the commit that it was in. The next writer waits for that, then looks at the tables.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self, cast

from filelock import FileLock, Timeout

from pipeline.errors import EnvironmentFault, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

LOCKED = "WAREHOUSE_IN_USE"
_PATIENCE = 60.0
_HOLDER = ".writer.json"
_JVM_LOCK = ".writer.jvm.lock"
_OPENED_BY_JAVA = (_JVM_LOCK, "catalog.db")
"""Files of the warehouse's folder that the JVM opens: what it says of one of another user names no file."""


def made(folder: Path) -> Path:
    """The folder, made if need be, and writable. Raises `EnvironmentFault` FOLDER_UNWRITABLE."""
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _check(folder.absolute(), os.W_OK | os.X_OK)
    return folder


def _check(path: Path, wanted: int) -> None:
    """What this process may do with it, where it is there.

    Not by opening it: closing a file would end the locks that this process may have on it.
    """
    if path.exists() and not os.access(path, wanted):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Name the folder, and the file where it is one, that cannot be written."""
    try:
        yield
    except OSError as error:
        what = error.filename or folder.absolute()
        raise EnvironmentFault(
            "FOLDER_UNWRITABLE",
            f"user {os.geteuid()} cannot create or write {what}: {error.strerror or error}",
            "let this user write there, including all files in it, or name another folder",
        ) from error


class WriterLock:
    """Held while a process writes the warehouse. A file beside it says which process holds it."""

    def __init__(self, warehouse: Path, purpose: str) -> None:
        self._lock = FileLock(made(warehouse) / ".writer.lock", timeout=0)
        self._about = warehouse / _HOLDER
        self._purpose = purpose

    def __enter__(self) -> Self:
        me = {"pid": os.getpid(), "host": socket.gethostname(), "purpose": self._purpose}
        me["since"] = datetime.now(UTC).isoformat(timespec="seconds")
        with _writing(self._about.parent):
            self._acquire()
            self._about.write_text(json.dumps(me))
            for name in _OPENED_BY_JAVA:
                _check(self._about.with_name(name), os.R_OK | os.W_OK)
        return self

    def _acquire(self) -> None:
        try:
            self._lock.acquire()
        except Timeout:  # an OSError, too
            raise Refused(
                LOCKED,
                f"another process writes this warehouse: {described(holder(self._about.parent))}",
                "wait for it to end or stop it (SIGTERM ends it after its batch); one warehouse has one writer",
            ) from None

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def holder(warehouse: Path) -> dict[str, Any]:
    """Who took the lock last: `purpose`, `pid`, `host`, `since`; empty if the file does not say."""
    try:
        record: dict[str, Any] = json.loads((warehouse / _HOLDER).read_text())
    except (OSError, ValueError):
        return {}
    return record


def described(who: dict[str, Any]) -> str:
    """A holder as people read it."""
    if not who:
        return "unknown"
    return f"`{who['purpose']}`, process {who['pid']} on {who['host']}, since {who['since']}"


class JvmLock:
    """The same for this process's JVM: waits until the JVM of a writer that was killed is gone."""

    def __init__(self, spark: SparkSession, warehouse: Path) -> None:
        self._file: Any = cast("Any", spark)._jvm.java.io.RandomAccessFile(str(warehouse / _JVM_LOCK), "rw")

    def __enter__(self) -> Self:
        channel, deadline = self._file.getChannel(), time.monotonic() + _PATIENCE
        while channel.tryLock() is None:
            if time.monotonic() > deadline:
                self._file.close()
                raise Refused(
                    LOCKED,
                    "the JVM of a writer that was killed still works on this warehouse",
                    "find it with `pgrep -af org.apache.spark`, and end it",
                )
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
