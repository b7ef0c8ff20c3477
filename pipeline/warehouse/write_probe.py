"""Whether files can be written where the tables lie, by what writes those of tables; no table is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pipeline.model.names import CATALOG
from pipeline.warehouse.iceberg import Catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.settings.sections import Warehouse

_HADOOP = "org.apache.iceberg.hadoop.HadoopFileIO"


def try_writing(spark: SparkSession, warehouse: Warehouse, location: str) -> None:
    """Write a small file at a location, look at it, and remove it. Raises `Py4JJavaError`."""
    io, file = _file_io(spark, warehouse, location), f"{location}/trial"
    stream = io.newOutputFile(file).createOrOverwrite()
    stream.write(b"written")
    stream.close()
    try:
        io.newInputFile(file).getLength()
    finally:
        io.deleteFile(file)


def _file_io(spark: SparkSession, warehouse: Warehouse, location: str) -> Any:
    """Iceberg's FileIO (Java). A catalog in a database is not asked: that would make its tables in an empty one."""
    if warehouse.catalog.type != "jdbc":
        return Catalog(spark).file_io(location)
    iceberg = cast("Any", spark)._jvm.org.apache.iceberg
    conf = iceberg.spark.SparkUtil.hadoopConfCatalogOverrides(spark._jsparkSession, CATALOG)
    properties = dict(warehouse.catalog.properties)
    return iceberg.CatalogUtil.loadFileIO(properties.get("io-impl", _HADOOP), _java_map(spark, properties), conf)


def _java_map(spark: SparkSession, properties: dict[str, str]) -> Any:
    java = cast("Any", spark)._jvm.java.util.HashMap()
    for key, value in properties.items():
        java.put(key, value)
    return java
