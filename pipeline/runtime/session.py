"""The Spark session: jars, catalog, limits on hostile input, quiet output."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pipeline.errors import EnvironmentFault
from pipeline.model.names import CATALOG
from pipeline.runtime import class_archive
from pipeline.runtime.jars import jars
from pipeline.runtime.jvm import RememberingView, end_iterations_at_once
from pipeline.settings.redaction import FOR_SPARK, clean, is_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.settings import Settings

_AVRO_LIMITS = (
    "-Dorg.apache.avro.limits.string.maxLength=268435456 "
    "-Dorg.apache.avro.limits.bytes.maxLength=268435456 "
    "-Dorg.apache.avro.limits.collectionItems.maxLength=1000000"
)
"""Without them a message of six bytes asks for two gigabytes and ends the JVM."""

_PARALLEL = "-XX:+UseParallelGC"
"""G1 marks beside the work, which costs a tenth of a small machine's time; pauses do not matter to a batch."""
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC")

_LOGGING = f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}"

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
DEFAULTS = {
    "spark.app.name": "ticdc-warehouse",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.redaction.regex": FOR_SPARK,  # of its event log and its web page; Spark's own knows fewer secrets
    "spark.scheduler.mode": "FAIR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    SHUFFLE_PARTITIONS: str(os.cpu_count() or 2),  # `spread` says it anew for each batch
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",  # else each `persist` clones the session for good
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",  # what is kept is kept for seconds
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.sql.codegen.hugeMethodLimit": "8000",  # the JVM never compiles what is longer
    # Values of an IN list are handed to the generated code, not written into it: else each batch compiles it anew.
    "spark.sql.optimizer.inSetConversionThreshold": "0",
    "spark.sql.optimizer.inSetSwitchThreshold": "0",
    "spark.sql.constraintPropagation.enabled": "false",  # time in planning, for filters that change nothing here
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # it asks the JVM six things for every `F.col`
    "spark.sql.maxPlanStringLength": "0",
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.iceberg.handle-timestamp-without-timezone": "true",
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "false",
}


_ON_THIS_MACHINE = {
    # Hadoop has no call for a file's permissions here, and starts `chmod` for each file that it writes.
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark.hadoop.fs.file.impl.disable.cache": "true",  # Hadoop has made and kept one of another class by then
    # It renames a checkpoint's files without `readlink`, eight of which Spark's other one starts for each.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming."
    f"{'' if pyspark.__version__.startswith('4.0.') else 'checkpointing.'}FileSystemBasedCheckpointFileManager",
}
"""Where this process starts Spark and all of it is in one JVM."""
_IN_ONE_JVM = re.compile(r"local(\[.*\])?")
_BEFORE_THE_JVM = (
    "spark.master", "spark.jars", "spark.files", "spark.archives", "spark.driver.", "spark.pyspark.", "spark.submit.",
    "spark.yarn.", "spark.kubernetes.", "spark.kerberos.",
)  # fmt: skip
_JAVA_OPTIONS = "JavaOptions"
_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
_WORD = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")
_GATEWAY = "PYSPARK_GATEWAY_PORT"
_CATALOG_CLASS = "org.apache.iceberg.spark.SparkCatalog"
_LOOKING = {"spark.master": "local[1]", "spark.driver.memory": "1g"}
_FIRST_HEAP = re.compile(r"-Xms\S+")


def _launch(conf: Mapping[str, str]) -> None:
    """Start the JVM in a folder of its own: Spark leaves a folder `artifacts` where it is started.

    The JVM gets only the properties that it must have before it starts, as every user of the machine can read its
    command line. The rest of `conf`, with the catalog's secrets, comes when the session is made.
    """
    context = cast("Any", SparkContext)
    if context._gateway is None and _GATEWAY not in os.environ:
        if conf["spark.master"].startswith("local"):
            _name_this_machine()
        folder = tempfile.mkdtemp(prefix="ticdc-warehouse-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        early = {key: value for key, value in conf.items() if key.startswith(_BEFORE_THE_JVM)}
        early[_DRIVER_OPTIONS] = f"{conf[_DRIVER_OPTIONS]} {class_archive.options(conf)}".strip()
        gateway = cast("Any", launch_gateway)(SparkConf().setAll(list(early.items())), {"cwd": folder})
        context._ensure_initialized(gateway=gateway)


def _name_this_machine() -> None:
    """Spark does not start where a machine's own name leads nowhere: in a container without network, say."""
    try:
        socket.gethostbyname(socket.gethostname())
    except OSError:
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")


def catalog_properties(settings: Settings) -> dict[str, str]:
    """Spark's properties of the warehouse catalog. Tables are never cached: threads would read old snapshots."""
    catalog, prefix = settings.warehouse.catalog, f"spark.sql.catalog.{CATALOG}"
    properties = {
        prefix: _CATALOG_CLASS,
        f"{prefix}.type": catalog.type,
        f"{prefix}.cache-enabled": "false",
        f"{prefix}.warehouse": settings.warehouse.location,
    }
    if catalog.embedded:
        path = settings.warehouse.path / "catalog.db"
        properties[f"{prefix}.uri"] = f"jdbc:sqlite:{path}?busy_timeout=60000&journal_mode=WAL"
        properties[f"{prefix}.jdbc.schema-version"] = "V1"
    return properties | {f"{prefix}.{key}": value for key, value in catalog.properties.items()}


@dataclass(frozen=True, slots=True)
class Launch:
    """Properties for a driver's JVM. `left_out`: secrets that are not among them, by property or option."""

    properties: dict[str, str]
    left_out: tuple[str, ...] = ()


def launch_properties(settings: Settings, *, with_secrets: bool = False) -> Launch:
    """The properties that a driver's JVM must have before it starts, for `spark-submit --properties-file`.

    Secrets are left out, not hidden: an option `***` would count, and the right one from elsewhere would not.
    """
    configured = {"spark.pyspark.driver.python": sys.executable, **_configured(settings)}
    properties = {key: configured[key] for key in sorted(configured) if key.startswith(_BEFORE_THE_JVM)}
    if with_secrets:
        return Launch(properties)
    shown: dict[str, str] = {}
    left_out: list[str] = []
    for key, value in properties.items():
        if not is_secret(key) and clean(value) == value:
            shown[key] = value
        elif key.endswith(_JAVA_OPTIONS):
            words = _WORD.findall(value)
            left_out += [f"{word.partition('=')[0]} of {key}" for word in words if clean(word) != word]
            shown[key] = clean(" ".join(word for word in words if clean(word) == word))
        else:
            left_out.append(key)
    return Launch(shown, tuple(left_out))


def looking(settings: Settings) -> SparkSession:
    """The session of a command that only looks, perhaps beside a run, which may have every core of a cluster.

    So it has one core of this machine, and needs little memory. Properties that `spark-submit` was given still count.
    """
    return session(settings, _LOOKING)


def session(settings: Settings, instead: Mapping[str, str] | None = None) -> SparkSession:
    """The session of this process; a later call with another warehouse gets its catalog in the same JVM.

    Under `spark-submit` the JVM is there, and what was said on its command line counts; where this process starts it,
    `instead` counts most. Raises `EnvironmentFault`: SUBMIT_OPTIONS if that JVM was started without
    `launch_properties`.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        fresh = active.newSession()
        for key, value in (DEFAULTS | catalog_properties(settings) | dict(settings.spark.conf)).items():
            if key.startswith("spark.sql.catalog.") or fresh.conf.isModifiable(key):
                fresh.conf.set(key, value)
        # A catalog is loaded with the settings of the thread's active session, whose warehouse may be another.
        cast("Any", fresh)._jvm.org.apache.spark.sql.SparkSession.setActiveSession(fresh._jsparkSession)
        return fresh
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if _GATEWAY in os.environ:
        conf = _configured(settings, _submitted())
    else:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        conf = {**_configured(settings), **(instead or {})}
        if instead:
            conf[_DRIVER_OPTIONS] = _FIRST_HEAP.sub("", conf[_DRIVER_OPTIONS])  # it may be more than all that there is
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    interrupted = signal.getsignal(signal.SIGINT)
    _launch(conf)
    spark = builder.getOrCreate()
    if interrupted is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupted)  # Spark has put its own there
    spark.sparkContext._jvm.__class__ = RememberingView
    end_iterations_at_once()
    return spark


def spread(spark: SparkSession, settings: Settings) -> None:
    """Let what is shuffled have as many parts as the cluster has cores by now: executors come and go."""
    if SHUFFLE_PARTITIONS not in settings.spark.conf and SHUFFLE_PARTITIONS not in _given():
        spark.conf.set(SHUFFLE_PARTITIONS, str(spark.sparkContext.defaultParallelism))


def _configured(settings: Settings, submitted: Mapping[str, str] | None = None) -> dict[str, str]:
    """Spark's whole configuration; `submitted`: the properties that `spark-submit` was given, which count most."""
    conf = {
        **DEFAULTS,
        **(_ON_THIS_MACHINE if submitted is None and _IN_ONE_JVM.fullmatch(settings.spark.master) else {}),
        "spark.master": settings.spark.master,
        **catalog_properties(settings),
        **settings.spark.conf,
        "spark.jars": ",".join([*map(str, jars("spark")), *filter(None, [settings.spark.conf.get("spark.jars")])]),
        **(submitted or {}),
    }
    for side in ("driver", "executor"):
        if side == "driver" and submitted is not None:
            continue  # it runs already
        key = f"spark.{side}.extraJavaOptions"
        given = conf.get(key, "")
        own = f"{_AVRO_LIMITS} {_LOGGING}" if side == "driver" else _AVRO_LIMITS
        collector = "" if _COLLECTOR.search(given) else _PARALLEL
        conf[key] = f"{own} {collector} {given}".strip()
    return conf


def _submitted() -> dict[str, str]:
    """The properties that `spark-submit` was given. The name of the script is no name of an application."""
    context = cast("Any", SparkContext)
    context._ensure_initialized()
    jvm = context._jvm
    limited = jvm.java.lang.System.getProperty("org.apache.avro.limits.string.maxLength")
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(_CATALOG_CLASS)
    except Py4JJavaError:
        limited = None
    if limited is None:
        raise EnvironmentFault(
            "SUBMIT_OPTIONS",
            "spark-submit has started this driver without the jars and limits that it needs",
            "ticdc-warehouse config spark-submit > spark.properties; spark-submit --properties-file spark.properties …",
        )
    submitted = dict(_given())
    if submitted.get("spark.app.name", "").endswith(".py"):
        del submitted["spark.app.name"]
    return submitted


@cache
def _given() -> Mapping[str, str]:
    """What the command line of `spark-submit` and its file have; empty if this process starts Spark."""
    return dict(SparkConf().getAll()) if _GATEWAY in os.environ else {}


SPARK_ENDED = "SPARK_ENDED"
_DYING = 10.0  # seconds that a JVM takes to be gone when it has said so
_NO_MEMORY = 52  # org.apache.spark.util.SparkExitCode.OOM
_NO_MEMORY_TEXT = "java.lang.OutOfMemoryError"


def spark_ended(error: Exception) -> EnvironmentFault | None:
    """Give the cause of an error of Python's: its JVM is gone, or has no memory. None if it is neither."""
    code = _exit_code(error)
    if code is None:
        if _NO_MEMORY_TEXT not in str(error):
            return None
        code = _NO_MEMORY
    if code == _NO_MEMORY:
        return EnvironmentFault(
            SPARK_ENDED,
            "Spark ran out of memory; what was committed stays, and the next run takes the rest",
            "give Spark more memory than now (spark.conf: {spark.driver.memory: 4g}; 2g unless set), or make batches "
            "smaller with source.max_offsets_per_trigger; a command that only looks has 1g, and gets more by "
            "spark-submit",
        )
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return EnvironmentFault(
        SPARK_ENDED,
        f"Spark's process {how}; what was committed stays, and the next run takes the rest",
        "if you did not kill it, the machine's log may say why: a machine kills processes that take too much memory "
        "(spark.driver.memory, and about 1 GB more)"
        if code < 0
        else "its output on stderr before this says why",
    )


def _exit_code(error: Exception) -> int | None:
    """What this process's JVM has ended with; None where it lives, or is not of this process's making."""
    process = getattr(cast("Any", SparkContext)._gateway, "proc", None)
    if process is None:
        return None
    try:
        lost = isinstance(error, Py4JError | ConnectionError) and not isinstance(error, Py4JJavaError)
        return cast("int", process.wait(_DYING if lost else 0))
    except subprocess.TimeoutExpired:
        return None
