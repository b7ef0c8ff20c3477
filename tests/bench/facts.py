"""What the figures were measured on: machine, versions, commit."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from typing import TYPE_CHECKING, Any

from machine import GIB, PAGE, PROC, cores

from pipeline.runtime.jars import jars
from pipeline.runtime.java import find_java

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGES = ("pyspark", "pyarrow", "fastavro", "confluent-kafka", "deltalake", "pyiceberg")
_JARS = ("iceberg-spark-runtime", "spark-sql-kafka", "spark-avro", "kafka_2.13")


def machine() -> dict[str, Any]:
    """Cores, memory, kernel, and the versions of everything that takes part."""
    return {
        "cores": cores(),
        "cpu": _cpu(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * PAGE / GIB, 1),
        "kernel": platform.release(),
        "versions": _versions(),
    }


def _cpu() -> str:
    lines = (PROC / "cpuinfo").read_text().splitlines()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "java": str(find_java().version)}
    found |= {package: importlib.metadata.version(package) for package in _PACKAGES}
    for jar in sorted({*jars("spark"), *jars("broker")}):
        if jar.name.startswith(_JARS):
            name, _, version = jar.stem.rpartition("-")
            found[name] = version
    return found


def commit(root: Path) -> str:
    """The commit that is measured, with `+` where the work tree differs from it."""
    told = subprocess.run(
        ["git", "-C", str(root), "describe", "--always", "--dirty=+"], capture_output=True, text=True, check=False
    )
    return told.stdout.strip() or "unknown"
