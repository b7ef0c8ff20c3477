"""Large current tables, quickly: rows that no changefeed has sent, written with Spark into tables the product made.

A hundred tables of a million rows would be an hour of records. What the cases measure is what ten records cost
*against* a large table, and for that the table must have the product's schema, properties, location and marks,
as many rows in as many bytes, and keys that the records hit. So the product makes each pair from ten records, and
then its current table gets the rest of the keys by a plain append: the mark that says which changes the table was
built from is inherited by later snapshots, so the product goes on as after any restart. The `__changes` tables stay
small; nothing measured here reads the old part of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from machine import cores
from order_line import STATUSES
from pyspark import StorageLevel
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMMIT_TS = 1
"""Of every such row: older than what any record says."""

_STATUSES = ", ".join(f"'{status}'" for status in STATUSES)
_COLUMNS = {
    "ol_id": "cast(id as decimal(20,0))",
    "ol_w_id": "cast(1 + pmod(h, 100) as int)",
    "ol_d_id": "cast(1 + pmod(h, 10) as int)",
    "ol_i_id": "1 + pmod(h, 20000)",
    "ol_amount": "cast((32768 + pmod(h, 8355840)) / 100 as decimal(12,2))",
    "ol_discount": "cast(pmod(h, 5001) / 10000 as decimal(5,4))",
    "ol_qty": "cast(1 + pmod(shiftright(h, 8), 10) as int)",
    "ol_status": f"element_at(array({_STATUSES}), cast(1 + pmod(shiftright(h, 16), 6) as int))",
    "ol_dist_info": "base64(unhex(md5(cast(id as string))))",
    "ol_meta": 'concat(\'{"batch": \', pmod(h, 20000), \', "gift": false, "tags": ["a", "fragile"]}\')',
    "ol_created": "cast(timestamp_millis(1716613769000 + id) as timestamp_ntz)",
    "ol_delivery_d": "if(pmod(h, 2) = 0, timestamp_seconds(1717200000 + 3600 * pmod(h, 720)), null)",
    "ol_rate": "pmod(h, 1000003) / 1000003D",
    "_commit_ts": f"cast({COMMIT_TS} as bigint)",
    "_unrepresentable": "cast(null as map<string, string>)",
}


_FILE_ROWS = 1_000_000
_FACTOR = 2_654_435_761
"""A prime: times this, modulo their count, numbers come in an order that is none."""


def rows(spark: SparkSession, count: int, *, shuffled: bool = False) -> DataFrame:
    """Rows of the current table of `order_line` with the keys 1 to `count`.

    `shuffled`: each file has keys from all over.
    """
    files = max(cores(), count // _FILE_ROWS) if shuffled else cores()
    keys = spark.range(1, count + 1, 1, files)
    if shuffled:
        keys = keys.select((F.pmod(F.col("id") * _FACTOR, F.lit(count)) + 1).alias("id"))
    keys = keys.withColumn("h", F.xxhash64("id"))
    return keys.select(*(F.expr(text).alias(name) for name, text in _COLUMNS.items()))


def grow(spark: SparkSession, tables: list[str], count: int, *, shuffled: bool = False) -> None:
    """Give each table every key from 1 to `count` that it does not have."""
    made = rows(spark, count, shuffled=shuffled)
    if len(tables) > 1:
        made = made.persist(StorageLevel.MEMORY_AND_DISK)
    for table in tables:
        known = [row.ol_id for row in spark.table(table).select("ol_id").collect()]
        made.where(~F.col("ol_id").isin(known)).writeTo(table).append()
    made.unpersist()
