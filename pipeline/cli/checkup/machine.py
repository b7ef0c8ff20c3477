"""This machine: Python, Java, jars, folders, memory. Needs nothing that runs."""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli.checkup.findings import fine, note, wrong
from pipeline.cli.wording import counted, some
from pipeline.lake.table_metadata import human
from pipeline.runtime.jars import jars, lacking
from pipeline.runtime.java import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.cli.checkup.findings import Finding
    from pipeline.settings import Settings

LITTLE_SPACE = 2 * 10**9
CGROUPS = Path("/sys/fs/cgroup")
_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")
"""A container's memory, in cgroups of version 2 and 1. Without a limit: `max`, or more than any machine has."""
_MEMORY = re.compile(r"(\d+)([kmgt])b?", re.IGNORECASE)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


def programs() -> Iterator[Finding]:
    """Python and Java."""
    yield fine("python", f"{platform.python_version()}, PySpark {metadata.version('pyspark')}")
    java = find_java()
    yield fine("java", f"{java.version}, {java.executable}")


def libraries() -> Iterator[Finding]:
    """The jars. None is fetched: that takes a network and minutes, and a person or a run begins it."""
    home, missing = lacking()
    if missing:
        yield wrong(
            "jars", f"{counted(len(missing), 'file')} missing in {home}: {some(missing)}",
            "run python -m pipeline.devstack fetch (any run fetches them too), then ticdc-warehouse doctor again: it "
            "needs them for everything beyond this machine",
        )  # fmt: skip
        return
    yield fine("jars", f"{len(jars('spark'))} for Spark, whole and as pinned")


def folders(settings: Settings) -> Iterator[Finding]:
    """Whether the local folders can be written and have room: a small file is written there and removed again."""
    for about, folder in (("warehouse", settings.warehouse.path), ("checkpoint", settings.checkpoint)):
        there = _nearest(folder)
        try:
            with tempfile.NamedTemporaryFile(dir=there, prefix=".doctor-") as file:
                file.write(b"written")
                file.flush()
        except OSError as error:
            yield wrong(
                about, f"this user cannot write to {there}: {error.strerror}",
                f"let the user that runs the pipeline write to {folder}",
            )  # fmt: skip
            continue
        free = shutil.disk_usage(there).free
        done = "a file was written there and removed" if there == folder else "can be made"
        sentence = f"{folder}: {done}, {human(free)} free"
        if free < LITTLE_SPACE:
            yield note(
                about, sentence, "give it more room: compaction writes a table anew before it removes the old files"
            )
        else:
            yield fine(about, sentence)


def memory(settings: Settings) -> Iterator[Finding]:
    """The driver's memory against the machine's, or the container's where that has less."""
    asked = _bytes(settings.spark.conf.get("spark.driver.memory", "2g"))
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    has = min([physical, *_limits()])
    limited = " (this container's limit)" if has < physical else ""
    sentence = f"{human(asked)} for Spark's driver, of {human(has)}{limited}; {os.cpu_count()} cores"
    if asked > has * 3 // 4:
        yield note(
            "memory",
            sentence,
            "lower spark.driver.memory in spark.conf: otherwise the machine would swap or end the process",
        )
    else:
        yield fine("memory", sentence)


def _limits() -> Iterator[int]:
    for name in _LIMITS:
        try:
            text = (CGROUPS / name).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            yield int(text)


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def _bytes(size: str) -> int:
    parts = _MEMORY.fullmatch(size.strip())
    return int(parts[1]) * 1024 ** _POWERS[parts[2].lower()] if parts else int(size)
