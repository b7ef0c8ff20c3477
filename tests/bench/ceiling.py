"""Side a, the ceiling: plain Spark from Kafka through `from_avro` into typed columns, appended as Parquet.

No routes by schema id, no check that a body was read to its end, no observation, no table format: one batch read of
the whole topic and one job. Measured as in the prototype that set the targets, but with zstd, as every side.
"""

from __future__ import annotations

import os
import time

import requests
from machine import cores, cpu_seconds
from order_line import order_line
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from pipeline.runtime.jars import jars
from pipeline.runtime.session import DEFAULTS

_SENT = ("ol_w_id", "ol_d_id", "ol_i_id", "ol_amount", "ol_discount", "ol_qty", "ol_status", "ol_dist_info", "ol_meta")


def session() -> SparkSession:
    """Plain Spark, with the memory, the jars and the cores that ours has."""
    conf = {
        "spark.app.name": "ceiling",
        "spark.driver.memory": DEFAULTS["spark.driver.memory"],
        "spark.jars": ",".join(str(jar) for jar in jars("spark")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": "zstd",
    }
    return SparkSession.builder.master(f"local[{cores()}]").config(map=conf).getOrCreate()


class Ceiling:
    """Commands of the worker."""

    def open(self, bootstrap: str, registry: str, topic: str) -> None:
        """Start Spark and fetch the two schemas of the topic."""
        self._spark = session()
        self._spark.sparkContext.setLogLevel("ERROR")
        self._options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        self._key, self._value = (self._schema(registry, f"{topic}-{part}") for part in ("key", "value"))

    @staticmethod
    def _schema(registry: str, subject: str) -> str:
        return requests.get(f"{registry}/subjects/{subject}/versions/latest", timeout=10).json()["schema"]

    def run(self, folder: str) -> dict[str, float]:
        """Append the whole topic to a folder of Parquet files."""
        cpu, started = cpu_seconds(os.getpid()), time.monotonic()
        raw = self._spark.read.format("kafka").options(**self._options).load()
        self._typed(raw).write.mode("append").parquet(folder)
        return {"seconds": time.monotonic() - started, "cpu_seconds": cpu_seconds(os.getpid()) - cpu}

    def _typed(self, raw: DataFrame) -> DataFrame:
        place = ("topic", "partition", "offset")
        key = from_avro(F.expr("substring(key, 6)"), self._key, {"mode": "PERMISSIVE"})
        value = from_avro(F.expr("substring(value, 6)"), self._value, {"mode": "PERMISSIVE"})
        decoded = raw.select(*place, key.alias("k"), value.alias("v"))
        return decoded.select(
            F.expr("if(v is null, 'delete', if(v._tidb_op = 'c', 'insert', 'update'))").alias("_op"),
            F.col("v._tidb_commit_ts").alias("_commit_ts"),
            *(F.col(name).alias(f"_{name}") for name in place),
            _unsigned("k.ol_id").alias("ol_id"),
            *(F.col(f"v.{name}") for name in _SENT),
            F.expr("try_cast(v.ol_created as timestamp_ntz)").alias("ol_created"),
            F.expr("try_cast(v.ol_delivery_d as timestamp)").alias("ol_delivery_d"),
            F.col("v.ol_rate"),
        )


def _unsigned(name: str) -> Column:
    """BIGINT UNSIGNED as TiCDC sends it, a long that wraps, undone."""
    number = f"cast({name} as decimal(20,0))"
    return F.expr(f"cast(if({name} < 0, {number} + 18446744073709551616BD, {number}) as decimal(20,0))")


assert {column.name for column in order_line().columns} >= set(_SENT)
