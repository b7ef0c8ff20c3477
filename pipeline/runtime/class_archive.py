"""Spark's classes in an archive that Java maps into memory (class data sharing): a driver starts in half the time.

It lies beside the installed packages (`archiving` makes it) and holds for one Java and one set of jars, which its name
says. Without it Java reads every class from its jar, as ever.
"""

from __future__ import annotations

import hashlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pipeline.runtime.java import find_java

if TYPE_CHECKING:
    from collections.abc import Mapping

_OTHER_CLASS_PATHS = ("SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""Variables that give Spark another class path than the one of the archive."""
WRITES = "TICDC_WAREHOUSE_WRITES_CLASSES"
"""Set in the process whose JVM writes the archive when it ends: where to."""
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Java tells of an archive that it cannot use on stdout, where documents go."""


def options(conf: Mapping[str, str]) -> str:
    """Java's options for the JVM of a driver that this process starts; empty if there is no archive for it."""
    if any(os.environ.get(name) for name in _OTHER_CLASS_PATHS) or conf.get("spark.driver.extraClassPath"):
        return ""
    if WRITES in os.environ:
        return f"{_QUIET} -XX:ArchiveClassesAtExit={os.environ[WRITES]}"
    archive = place()
    return f"{_QUIET} -XX:SharedArchiveFile={archive}" if archive.is_file() and " " not in str(archive) else ""


def place() -> Path:
    """The file of the archive for this Java and these jars, whether it exists or not."""
    package = cast("Any", find_spec("pyspark")).submodule_search_locations[0]
    files = [find_java().executable.resolve(), *sorted((Path(package) / "jars").iterdir())]
    inputs = [f"{file} {(stat := file.stat()).st_size} {int(stat.st_mtime)}" for file in files]
    name = hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:12]
    return Path(sys.prefix) / f"ticdc-warehouse-{name}.jsa"
