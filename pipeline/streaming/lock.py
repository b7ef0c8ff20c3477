"""One writer per warehouse: an OS lock that dies with its process (DESIGN rule 9)."""

from __future__ import annotations

import json
import os
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from filelock import FileLock, Timeout

from pipeline.errors import Refused

if TYPE_CHECKING:
    from pathlib import Path

LOCKED = "WAREHOUSE_IN_USE"


class WriterLock:
    """Held while a process writes the warehouse; who holds it stands in a file beside it."""

    def __init__(self, warehouse: Path, purpose: str) -> None:
        warehouse.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(warehouse / ".writer.lock", timeout=0)
        self._about = warehouse / ".writer.json"
        self._purpose = purpose

    def __enter__(self) -> Self:
        try:
            self._lock.acquire()
        except Timeout:
            raise Refused(
                LOCKED,
                f"another process writes this warehouse: {self._holder()}",
                "wait for it to end or stop it (SIGTERM ends it after its batch); one warehouse has one writer",
            ) from None
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "purpose": self._purpose}
        holder["since"] = datetime.now(UTC).isoformat(timespec="seconds")
        self._about.write_text(json.dumps(holder))
        return self

    def _holder(self) -> str:
        try:
            holder = json.loads(self._about.read_text())
        except (OSError, ValueError):
            return "unknown"
        return f"`{holder['purpose']}`, process {holder['pid']} on {holder['host']}, since {holder['since']}"

    def __exit__(self, *_: object) -> None:
        self._lock.release()
