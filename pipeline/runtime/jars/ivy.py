"""The Ivy that PySpark ships, run on this package's module file.

Where jars come from is Ivy's default, or a settings file of the user's (`TICDC_WAREHOUSE_IVY_SETTINGS`): no
address stands in this code. Proxies are Java's business (`JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=…`).
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import EnvironmentFault
from pipeline.runtime import process
from pipeline.runtime.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
MODULE_FILE = HERE / "ivy.xml"
CONFS = ("spark", "broker", "registry")
SETTINGS_ENV = "TICDC_WAREHOUSE_IVY_SETTINGS"

_LAYOUT = "[conf]/[artifact](-[classifier])-[revision].[ext]"
_DOWNLOADED = re.compile(r"\[SUCCESSFUL \] .*!(\S+) \(")
_PROBLEM = re.compile(r"unresolved|not found|failed|exception|denied|refused|timed out|unknown ?host", re.IGNORECASE)
_TAIL = 8


def retrieve(
    into: Path,
    cache: Path,
    downloaded: Callable[[str], None],
    *,
    module: Path = MODULE_FILE,
    confs: tuple[str, ...] = CONFS,
) -> None:
    """Lay every artefact into `into` as `<conf>/<file>`; call `downloaded` with each file name as it arrives.

    `cache` is Ivy's own: what is there already is not downloaded again. `module`: the file that names the artefacts.
    Raises `EnvironmentFault` ARTEFACTS_UNAVAILABLE with what Ivy said.
    """
    command = [
        str(find_java().executable), "-jar", str(_ivy_jar()),
        "-settings", str(settings_file()), "-ivy", str(module), "-cache", str(cache),
        "-confs", *confs, "-retrieve", f"{into}/{_LAYOUT}",
    ]  # fmt: skip
    output: deque[str] = deque(maxlen=400)
    with process.tethered(command, subprocess.PIPE) as run:
        try:
            for line in run.stdout or ():
                output.append(line.rstrip())
                if download := _DOWNLOADED.search(line):
                    downloaded(download[1])
        except BaseException:  # Ctrl-C: do not wait for the downloads
            run.kill()
            raise
    if run.returncode != 0:
        raise _unavailable(output)


def settings_file() -> Path:
    """Return the settings in force: those that `TICDC_WAREHOUSE_IVY_SETTINGS` names, else this package's."""
    given = os.environ.get(SETTINGS_ENV)
    if not given:
        return HERE / "ivysettings.xml"
    path = Path(given).expanduser()
    if not path.is_file():
        raise EnvironmentFault(
            "IVY_SETTINGS_MISSING",
            f"{SETTINGS_ENV} is {given}, and there is no such file.",
            f"Name an Ivy settings file (docs/how-to/install-offline.md has one to copy), or unset {SETTINGS_ENV}.",
        )
    return path.absolute()


def _ivy_jar() -> Path:
    """Find `pyspark/jars/ivy-*.jar` without importing pyspark, which takes a while."""
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else None
    jars = sorted(folder.glob("ivy-*.jar")) if folder else []
    if not jars:
        raise EnvironmentFault(
            "IVY_MISSING",
            f"PySpark's Ivy is not in {folder or 'this environment (no pyspark)'}.",
            "Install pyspark with its jars: `make setup`.",
        )
    return jars[-1]


def _unavailable(output: deque[str]) -> EnvironmentFault:
    telling = [line.strip() for line in output if _PROBLEM.search(line)] or list(output)
    lines = list(dict.fromkeys(telling))[:_TAIL]
    return EnvironmentFault(
        "ARTEFACTS_UNAVAILABLE",
        "Ivy could not get every jar. It said:\n    " + "\n    ".join(lines),
        "Check the network. Behind a proxy: JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=… -Dhttps.proxyPort=…'; "
        f"with a mirror: {SETTINGS_ENV}=<an Ivy settings file> (docs/how-to/install-offline.md). "
        "What came is kept for the next try.",
    )
