"""Every table as other readers see it: each has to give the rows that PyIceberg gives."""

from __future__ import annotations

import importlib.util
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
from golden.comparing import Difference
from golden.values import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from golden.warehouse import Warehouse
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession


def readers_differ(warehouse: Warehouse, spark: SparkSession) -> Iterator[Difference]:
    """Each table of the sources by each reader against PyIceberg, as multisets of rows."""
    readers = {"duckdb": _by_duckdb, "polars": _by_polars, "spark": partial(_by_spark, spark)}
    for name in warehouse.names():
        table = warehouse.table(name)
        expected = _rows(table.scan().to_arrow())
        for reader, read in readers.items():
            found = _rows(read(table))
            for row in (expected - found) | (found - expected):
                yield Difference(name, reader, "", f"{expected[row]} of {row}", found[row])


def _rows(table: pa.Table) -> Counter[Any]:
    names = sorted(table.column_names)
    return Counter(tuple((name, plain(row[name])) for name in names) for row in table.to_pylist())


def _by_duckdb(table: Table) -> pa.Table:
    connection = duckdb.connect()
    for extension in ("avro", "iceberg"):  # iceberg reads manifests with avro
        connection.execute(f"LOAD '{_extension(extension)}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection.execute("SELECT * FROM iceberg_scan(?)", [table.metadata_location]).to_arrow_table()


def _extension(name: str) -> Path:
    package = importlib.util.find_spec(f"duckdb_extension_{name}")
    return next(Path(package.origin).parent.rglob("*.duckdb_extension"))


def _by_polars(table: Table) -> pa.Table:
    return pl.scan_iceberg(table, reader_override="native").collect().to_arrow()


def _by_spark(spark: SparkSession, table: Table) -> pa.Table:
    return spark.read.format("iceberg").load(table.metadata_location).toArrow()
