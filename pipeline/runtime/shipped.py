"""Java of ours that Spark's tasks call, wherever they run: compiled by the driver, and sent to them in a jar."""

from __future__ import annotations

import zipfile
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from pipeline.runtime.driver.compiled import cooked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_registering = Lock()
_functions: dict[tuple[str, Path], Any] = {}
"""By application and source."""
_known: set[tuple[str, Path]] = set()
"""By session and source: each query of Structured Streaming has a session of its own."""
_PACKAGE = "ticdc"


def registered(spark: SparkSession, source: Path, returns: str) -> str:
    """The name of the SQL function that a file of Java defines: a class of the package `ticdc` that is a `UDF<n>`.

    `returns`: the type of what it gives, as Spark's DDL writes it. Janino compiles the file (`driver.compiled`).
    """
    name = f"{_PACKAGE}_{source.stem.lower()}"
    session: Any = spark._jsparkSession  # noqa: SLF001 - PySpark has no other way to the JVM's session
    application, here = spark.sparkContext.applicationId, (session.sessionUUID(), source)
    with _registering:
        if here not in _known:
            if (application, source) not in _functions:
                _functions[application, source] = _shipped(spark, source, name)
            kind = spark._jvm.org.apache.spark.sql.types.DataType.fromDDL(returns)  # type: ignore[union-attr] # noqa: SLF001
            session.udf().register(name, _functions[application, source], kind)
            _known.add(here)
    return name


def _shipped(spark: SparkSession, source: Path, name: str) -> Any:
    """An object of the class, whose jar Spark sends to each executor and removes when it ends."""
    jvm: Any = spark._jvm  # noqa: SLF001
    jar = Path(spark.sparkContext._temp_dir) / f"{name}.jar"  # noqa: SLF001
    with zipfile.ZipFile(jar, "w") as archive:
        for class_name, code in cooked(jvm, source).getBytecodes().items():
            archive.writestr(f"{class_name.replace('.', '/')}.class", bytes(code))
    spark.sql(f"ADD JAR '{jar.as_uri()}'")
    loader = spark._jsparkSession.sharedState().jarClassLoader()  # noqa: SLF001
    return jvm.java.lang.Class.forName(f"{_PACKAGE}.{source.stem}", True, loader).newInstance()
