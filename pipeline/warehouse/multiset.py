"""Tables without a handle: their rows have no identity, so a current table is a multiset (DESIGN 4.3).

A delete removes one equal row. At a commit ts the multiplicity of an equal change is the greatest of any one send of
it; a send ends where the commit ts of a partition goes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.change import Op
from pipeline.model.names import quoted
from pipeline.warehouse.keys import PLACE, SOURCE, placed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pipeline.warehouse.keys import Keys
    from pipeline.warehouse.publisher import Publisher

_LOST, _SEND, _SIGN, _TIMES, _NET, _OLD = "_lost", "_send", "_sign", "_times", "_net", "_old"


def show(publisher: Publisher, keys: Keys, rows: DataFrame) -> int:
    """Bring the branch up to these changes; how many different rows that concerned."""
    names = [name for name in keys.shape.columns if name != change.COMMIT_TS]
    net = _net(publisher, keys, rows, names).persist(StorageLevel.MEMORY_AND_DISK_DESER)
    try:
        counted = net.agg(F.count(F.lit(1)).alias("all"), F.count_if(F.col(_NET) < 0).alias("fewer")).collect()[0]
        fewer, left = net.where(F.col(_NET) < 0), None
        if counted["fewer"] and not publisher.current.is_empty(publisher.branch):
            left = _left(publisher, fewer, names).persist(StorageLevel.MEMORY_AND_DISK_DESER)
            left.count()
            _delete(publisher, fewer, names)
        publisher.step("keys-deleted")
        if counted["all"]:
            added = net.where(F.col(_NET) > 0).select(*_own(names), change.COMMIT_TS, _LOST, _NET)
            _append(publisher, added if left is None else added.unionByName(left), names)
        if left is not None:
            left.unpersist()
        return int(counted["all"])
    finally:
        net.unpersist()


def _own(names: list[str]) -> list[Column]:
    return [F.col(quoted(name)) for name in names]


def _net(publisher: Publisher, keys: Keys, rows: DataFrame, names: list[str]) -> DataFrame:
    """Every row that the changes concern, by how many there are more or fewer of it, with the newest commit ts."""
    order = Window.partitionBy(SOURCE).orderBy(PLACE)
    back = F.when(F.lag(change.COMMIT_TS).over(order) > F.col(change.COMMIT_TS), 1).otherwise(0)
    sent = placed(rows).withColumn("_back", back).withColumn(_SEND, F.sum("_back").over(order))
    if publisher.table.truncated_at:
        sent = sent.where(F.col(change.COMMIT_TS) > publisher.table.truncated_at)
    sign = F.when(F.col(change.OP) == Op.DELETE.value, -1).otherwise(1)
    signed = _imaged(keys, sent, sign)
    layout = publisher.table.layout
    if layout.before:
        old = [F.col(change.BEFORE).getField(column.name).alias(column.name) for column in layout.columns]
        own = [F.col(name) for name in (change.SCHEMA_ID, change.COMMIT_TS, SOURCE, _SEND)]
        lost = F.lit(None).cast(change.ENVELOPE[change.UNREPRESENTABLE]).alias(change.UNREPRESENTABLE)
        updates = (F.col(change.OP) == Op.UPDATE.value) & F.col(change.BEFORE).isNotNull()
        signed = signed.unionByName(_imaged(keys, sent.where(updates).select(*own, lost, *old), F.lit(-1)))
    same = [*_own(names), F.col(_LOST), F.col(change.COMMIT_TS), F.col(_SIGN), F.col(SOURCE)]
    once = signed.groupBy(*same, _SEND).agg(F.count(F.lit(1)).alias(_TIMES))
    most = once.groupBy(*same).agg(F.max(_TIMES).alias(_TIMES))
    total = F.sum(F.col(_SIGN) * F.col(_TIMES)).alias(_NET)
    newest = F.max(change.COMMIT_TS).alias(change.COMMIT_TS)
    return most.groupBy(*_own(names), F.col(_LOST)).agg(total, newest).where(F.col(_NET) != 0)


def _imaged(keys: Keys, sent: DataFrame, sign: Column) -> DataFrame:
    """The rows as the current table shows them."""
    columns = [value.alias(name) for name, value in keys.shape.columns.items()]
    own = [F.col(name) for name in (change.COMMIT_TS, SOURCE, _SEND)]
    return sent.select(*columns, _entries(keys.shape.unrepresentable).alias(_LOST), *own, sign.alias(_SIGN))


def _entries(lost: Column) -> Column:
    """`_unrepresentable` as something that can be compared."""
    return F.sort_array(F.map_entries(lost))


def _left(publisher: Publisher, fewer: DataFrame, names: list[str]) -> DataFrame:
    """Of the rows that there are fewer of: how many stay."""
    rows = publisher.spark.table(publisher.target).select(
        *_own(names), _entries(F.col(change.UNREPRESENTABLE)).alias(_LOST), change.COMMIT_TS
    )
    there = rows.alias("t").join(fewer.alias("s"), _same(names))
    mine = [F.col(f"t.{quoted(name)}").alias(name) for name in (*names, _LOST, change.COMMIT_TS)]
    found = there.select(*mine, F.col(f"s.{_NET}").alias(_NET))
    counted = found.groupBy(*_own(names), F.col(_LOST)).agg(
        F.max(change.COMMIT_TS).alias(change.COMMIT_TS), (F.count(F.lit(1)) + F.max(_NET)).alias(_NET)
    )
    return counted.where(F.col(_NET) > 0)


def _same(names: list[str]) -> str:
    return " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in (*names, _LOST))


def _delete(publisher: Publisher, fewer: DataFrame, names: list[str]) -> None:
    view = f"rows_{publisher.operation}_{publisher.table.uuid.replace('-', '')}"
    fewer.createOrReplaceTempView(view)
    terms = [f"t.{quoted(name)} <=> s.{quoted(name)}" for name in names]
    terms.append(f"sort_array(map_entries(t.{change.UNREPRESENTABLE})) <=> s.{_LOST}")
    publisher.spark.sql(
        f"MERGE INTO {publisher.target} t USING {view} s ON {' AND '.join(terms)} WHEN MATCHED THEN DELETE"
    )
    publisher.spark.catalog.dropTempView(view)


def _append(publisher: Publisher, rows: DataFrame, names: list[str]) -> None:
    """Each row as often as it says."""
    lost = F.map_from_entries(_LOST).alias(change.UNREPRESENTABLE)
    copies = rows.select(*_own(names), change.COMMIT_TS, lost, F.explode(F.sequence(F.lit(1), _NET)).alias("_copy"))
    publisher.write(copies.drop("_copy")).append()
