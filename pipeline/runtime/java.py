"""The Java that runs Spark, the broker and the registry: found, and checked, before anything is started.

Runs without any installed package: `make` calls this file before there is an environment.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import EnvironmentFault

SUPPORTED = (17, 21)
_INSTALL = (
    "Install a Java 17 runtime (Debian, Ubuntu: `apt-get install openjdk-17-jre-headless`; macOS: "
    "`brew install openjdk@17`) and point JAVA_HOME at it."
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java launcher and its feature version (17, 21)."""

    executable: Path
    version: int


def find_java() -> Java:
    """Find Java where Spark will: `JAVA_HOME`, then `PATH`.

    Raises `EnvironmentFault` JAVA_MISSING or JAVA_VERSION, one sentence each.
    """
    executable = _executable()
    version = _version(executable)
    if version not in SUPPORTED:
        raise EnvironmentFault(
            "JAVA_VERSION",
            f"{executable} is Java {version}, and Spark 4.0 runs on Java {' or '.join(map(str, SUPPORTED))}.",
            _INSTALL,
        )
    return Java(executable, version)


def _executable() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        executable = Path(home) / "bin" / "java"
        if not os.access(executable, os.X_OK):
            raise EnvironmentFault("JAVA_MISSING", f"JAVA_HOME is {home}, which has no bin/java.", _INSTALL)
        return executable
    on_path = shutil.which("java")
    if on_path is None:
        raise EnvironmentFault("JAVA_MISSING", "There is no Java: JAVA_HOME is not set and PATH has no java.", _INSTALL)
    return Path(on_path)


@functools.cache
def _version(executable: Path) -> int:
    """Feature version as `java -version` says it: 8 for `1.8.0_402`, 21 for `21-ea`."""
    answer = subprocess.run(  # noqa: S603 - the user's own Java
        [executable, "-version"], capture_output=True, text=True, check=False
    )
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    if answer.returncode != 0 or version is None:  # macOS ships a java that only says where to get one
        raise EnvironmentFault("JAVA_MISSING", f"{executable} does not run: {_last_line(answer.stderr)}", _INSTALL)
    return int(version[1])


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it says nothing."


if __name__ == "__main__":
    try:
        find_java()
    except EnvironmentFault as fault:
        sys.exit(str(fault))
