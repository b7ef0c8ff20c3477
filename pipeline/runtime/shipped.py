"""Java of ours that Spark's tasks call, wherever they run: compiled by the driver, and sent to them in a jar."""

from __future__ import annotations

import zipfile
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn

from pipeline.runtime.driver.compiled import cooked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

_shipping = Lock()
_functions: dict[tuple[str, Path], Any] = {}
_classes: dict[tuple[str, Path], Any] = {}
"""Both by application and source."""
_PACKAGE = "ticdc"


def called(source: Path, returns: str, *arguments: Column, uses: Sequence[Path] = ()) -> Column:
    """What the function in a file of Java gives: a class of the package `ticdc` that is a `UDF<n>`.

    `returns`: the type of what it gives, as Spark's DDL writes it. Janino compiles the file (`driver.compiled`).
    `uses`: files of further classes, which it needs.
    """
    spark = SparkSession.active()
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark calls functions of Java by names, which each session has its own of
    application = spark.sparkContext.applicationId
    with _shipping:
        if (application, source) not in _functions:
            kind = jvm.org.apache.spark.sql.types.DataType.fromDDL(returns)
            classes = [_shipped(spark, each) for each in (*uses, source)]
            _functions[application, source] = _function(spark, classes[-1].newInstance(), kind)
        function = _functions[application, source]
    given: Any = arguments
    return ClassicColumn(function.apply(jvm.PythonUtils.toSeq([argument._jc for argument in given])))  # noqa: SLF001


def _shipped(spark: SparkSession, source: Path) -> Any:
    """The class, whose jar Spark sends to each executor and removes when it ends."""
    key = spark.sparkContext.applicationId, source
    if key in _classes:
        return _classes[key]
    if any(other.stem == source.stem and other != source for _, other in _classes):
        raise AssertionError(f"two files of Java are called {source.stem}")
    jvm: Any = spark._jvm  # noqa: SLF001
    loader = spark._jsparkSession.sharedState().jarClassLoader()  # noqa: SLF001
    jar = Path(spark.sparkContext._temp_dir) / f"{_PACKAGE}-{source.stem}.jar"  # noqa: SLF001
    with zipfile.ZipFile(jar, "w") as archive:
        for class_name, code in cooked(jvm, source, loader).getBytecodes().items():
            archive.writestr(f"{class_name.replace('.', '/')}.class", bytes(code))
    spark.sql(f"ADD JAR '{jar.as_uri()}'")
    _classes[key] = jvm.java.lang.Class.forName(f"{_PACKAGE}.{source.stem}", True, loader)
    return _classes[key]


def _function(spark: SparkSession, shipped: Any, returns: Any) -> Any:
    """`functions.udf` of an object of Java. Called by its name, py4j may take the one for functions of Scala."""
    jvm: Any = spark._jvm  # noqa: SLF001
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    kinds, given = gateway.new_array(jvm.java.lang.Class, 2), gateway.new_array(jvm.java.lang.Object, 2)
    named = jvm.java.lang.Class.forName
    kinds[0], kinds[1] = shipped.getClass().getInterfaces()[0], named("org.apache.spark.sql.types.DataType")
    given[0], given[1] = shipped, returns
    return named("org.apache.spark.sql.functions").getMethod("udf", kinds).invoke(None, given)
