"""Publishing: bringing a current table up to its changes table, as one visible step.

What is new is what the changes table has appended since the snapshot that the current table was last built from;
that id stands in the summary of the publishing snapshot, so a crash at any point is made good by doing it again.
Order regime: by offset (DESIGN rule 1). A key's last change by its place in the partition decides.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import functions as F

from pipeline.model import change, types
from pipeline.model.change import Op
from pipeline.model.names import quoted
from pipeline.model.change import ARRIVED_AT
from pipeline.warehouse.shape import Pending, Shape, backfill, current_shape
from pipeline.warehouse.tables import APPLIED, FILLED, OPERATION, TRUNCATED, obligations

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column as SparkColumn, DataFrame, SparkSession

    from pipeline.warehouse.iceberg import Table
    from pipeline.warehouse.tables import WarehouseTable

_PLACE, _SOURCE, _LAST = "_place", "_source", "_last"
_INDEX_BITS = 20
_BROADCAST_KEYS = 2_000_000
_PRUNE_BY_VALUES = 100
_CALENDAR = frozenset({types.DATE, types.TIMESTAMP, types.TIMESTAMP_NTZ})
_ORDERED = frozenset({types.INT, types.BIGINT, types.STRING, types.DATE, types.UNSIGNED_BIGINT})


@dataclass(frozen=True, slots=True)
class Published:
    """What a publish did. `order_unknown`: keys whose changes stand in more than one partition."""

    keys: int = 0
    order_unknown: int = 0
    snapshot: int | None = None


@dataclass(frozen=True, slots=True)
class _Publisher:
    spark: SparkSession
    table: WarehouseTable
    current: Table
    timezone: str
    operation: str
    arrivals: DataFrame | None

    @property
    def branch(self) -> str:
        return f"stage_{self.operation}"

    @property
    def target(self) -> str:
        return self.table.name.branch(self.branch)

    def write(self, rows: DataFrame) -> Any:
        return rows.writeTo(self.target).option(f"snapshot-property.{OPERATION}", self.operation)

    def news(self, head: int | None) -> list[DataFrame]:
        """What the changes table has appended since the current table was built, append by append."""
        if head is None or head == self.table.applied:
            return []
        appends = self.table.changes.appends_since(self.table.applied)
        return [self._appended(parent, snapshot) for parent, snapshot in appends]

    def _appended(self, parent: int | None, snapshot: int) -> DataFrame:
        reader = self.spark.read
        if parent is not None:
            reader = reader.option("start-snapshot-id", str(parent)).option("end-snapshot-id", str(snapshot))
        else:
            reader = reader.option("snapshot-id", str(snapshot))
        return reader.table(self.table.name.changes.sql)

    def pending(self) -> list[Pending]:
        """Columns whose default or conversion the rows of the current table do not show yet."""
        due = obligations(self.table.layout)
        missing: dict[int, Pending] = {}
        for name, (column, number) in due.items():
            if name not in self.table.filled and column.id not in missing:
                missing[column.id] = Pending(column, max(0, number - 1))
        return list(missing.values())


def publish(
    spark: SparkSession,
    table: WarehouseTable,
    timezone: str,
    operation: str,
    step: Callable[[str], None],
    arrivals: DataFrame | None = None,
) -> Published:
    """Bring the current table up to the changes table. Nothing is done where nothing is new.

    `arrivals` (`_topic, _kafka_partition, _offset, _arrived_at`) orders keys that stand in two partitions.
    """
    if table.current is None:
        return Published()
    publisher = _Publisher(spark, table, table.current, timezone, operation, arrivals)
    head = table.changes.head()
    news, pending = publisher.news(head), publisher.pending()
    truncated = table.truncated_at > table.truncated_done
    if not news and not pending and not truncated:
        return Published()
    table.current.stage(publisher.branch)
    step("branch-made")
    if pending:
        _fill(publisher, pending)
        step("backfilled")
    if truncated:
        spark.sql(f"DELETE FROM {publisher.target} WHERE {change.COMMIT_TS} <= {table.truncated_at:d}")  # noqa: S608
        step("truncated")
    published = [_apply(publisher, rows, step) for rows in news]
    filled = frozenset(obligations(table.layout))
    table.current.mark(_marks(table, head, filled, operation), publisher.branch)
    step("staged")
    table.current.publish(publisher.branch)
    step("published")
    table.applied, table.filled, table.truncated_done = head, filled, table.truncated_at
    return Published(
        sum(p.keys for p in published), sum(p.order_unknown for p in published), table.current.head()
    )


def _marks(table: WarehouseTable, head: int | None, filled: frozenset[str], operation: str) -> dict[str, str]:
    """What the publishing snapshot says of itself: from which changes it was built, what its rows show."""
    marks = {FILLED: json.dumps(sorted(filled)), TRUNCATED: str(table.truncated_at), OPERATION: operation}
    return marks if head is None else {**marks, APPLIED: str(head)}


def _fill(publisher: _Publisher, pending: list[Pending]) -> None:
    """Rewrite the rows that are there: they show defaults and converted values from now on."""
    shape = backfill(publisher.table.layout, pending, publisher.timezone)
    rows = publisher.spark.table(publisher.target)
    names = [name for name in rows.columns if name != change.UNREPRESENTABLE]
    columns = [shape.columns.get(name, F.col(quoted(name))).alias(name) for name in names]
    filled = rows.select(*columns, shape.unrepresentable.alias(change.UNREPRESENTABLE))
    publisher.write(filled).overwrite(F.lit(True))  # noqa: FBT003 - every row


def _apply(publisher: _Publisher, news: DataFrame, step: Callable[[str], None]) -> Published:
    """Delete the keys that changed, append what they are now."""
    shape = current_shape(publisher.table.layout, publisher.timezone)
    rows = _placed(news)
    last = _last_places(publisher, rows, shape).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        facts = _facts(publisher, last)
        if facts.keys == 0:
            return Published()
        _delete(publisher, last, facts)
        step("keys-deleted")
        winners = last if not facts.conflicts else _last_arrivals(publisher, rows, shape)
        _append(publisher, rows, shape, winners, facts)
        return Published(facts.keys, facts.conflicts)
    finally:
        last.unpersist()


def _placed(news: DataFrame) -> DataFrame:
    """Rows with their place in their partition, and the partition as one number."""
    place = F.shiftleft(F.col(change.OFFSET), _INDEX_BITS) + F.col(change.INDEX)
    return news.withColumns({_PLACE: place, _SOURCE: F.xxhash64(change.TOPIC, change.PARTITION)})


def _key(publisher: _Publisher, shape: Shape) -> dict[str, SparkColumn]:
    """Key columns k0, k1 … of a changes row; a calendar column also by the text it could not hold."""
    key: dict[str, SparkColumn] = {}
    for number, column in enumerate(publisher.table.layout.key):
        key[f"k{number}"] = shape.columns[column.name]
        if column.type in _CALENDAR:
            key[f"k{number}t"] = shape.unrepresentable.getItem(column.name)
    return key


def _last_places(publisher: _Publisher, rows: DataFrame, shape: Shape) -> DataFrame:
    """Per key: the place of its last change, and in which partitions its changes stand.

    Only fixed-width numbers are aggregated, which Spark does in a hash table.
    """
    key = _key(publisher, shape)
    narrow = rows.select(*(column.alias(name) for name, column in key.items()), _SOURCE, _PLACE)
    return narrow.groupBy(*key).agg(
        F.max(_PLACE).alias(_LAST), F.min(_SOURCE).alias("s_low"), F.max(_SOURCE).alias("s_high")
    )


def _last_arrivals(publisher: _Publisher, rows: DataFrame, shape: Shape) -> DataFrame:
    """As `_last_places`, where keys stand in several partitions: the last by Kafka's timestamp."""
    key = _key(publisher, shape)
    position = [change.TOPIC, change.PARTITION, change.OFFSET]
    if publisher.arrivals is not None:
        rows = rows.join(publisher.arrivals, position, "left")
    else:
        rows = rows.withColumn(ARRIVED_AT, F.col(change.COMMIT_TIME))
    narrow = rows.select(*(column.alias(name) for name, column in key.items()), _SOURCE, _PLACE, ARRIVED_AT)
    best = F.max_by(F.struct(_PLACE, _SOURCE), F.struct(ARRIVED_AT, _SOURCE, _PLACE)).alias("best")
    return narrow.groupBy(*key).agg(best).select(
        *key, F.col(f"best.{_PLACE}").alias(_LAST), F.col(f"best.{_SOURCE}").alias("s_high")
    )


@dataclass(frozen=True, slots=True)
class _Facts:
    keys: int
    conflicts: int
    low: Any
    high: Any
    values: tuple[Any, ...]


def _facts(publisher: _Publisher, last: DataFrame) -> _Facts:
    """How many keys, and between which values the first key column lies (to prune files by)."""
    first = publisher.table.layout.key[0]
    prune = first.type in _ORDERED
    bounds = [F.min("k0").alias("low"), F.max("k0").alias("high")] if prune else []
    row = last.agg(F.count(F.lit(1)).alias("keys"), F.count_if(F.expr("s_low <> s_high")).alias("conflicts"), *bounds).collect()[0]
    values: tuple[Any, ...] = ()
    if prune and 0 < row["keys"] <= _PRUNE_BY_VALUES:
        values = tuple(r.k0 for r in last.select("k0").distinct().collect())
    return _Facts(row["keys"], row["conflicts"], row["low"] if prune else None, row["high"] if prune else None, values)


def _delete(publisher: _Publisher, last: DataFrame, facts: _Facts) -> None:
    view = f"keys_{publisher.operation}_{publisher.table.uuid.replace('-', '')}"
    last.createOrReplaceTempView(view)
    hint = "/*+ BROADCAST(s) */" if facts.keys <= _BROADCAST_KEYS else ""
    matched, arguments = _match(publisher, facts)
    session = publisher.spark
    try:
        session.sql(
            f"MERGE INTO {publisher.target} t USING (SELECT {hint} * FROM {view}) s ON {matched} "  # noqa: S608
            "WHEN MATCHED THEN DELETE",
            args=arguments,
        )
    finally:
        session.catalog.dropTempView(view)


def _match(publisher: _Publisher, facts: _Facts) -> tuple[str, dict[str, Any]]:
    """The MERGE condition: the key, null-safe, and a predicate that prunes files."""
    terms: list[str] = []
    for number, column in enumerate(publisher.table.layout.key):
        name = quoted(column.name)
        if column.type in _CALENDAR:
            unrepresentable = f"t.{change.UNREPRESENTABLE}[:n{number}]"
            terms.append(f"t.{name} <=> s.k{number} AND {unrepresentable} <=> s.k{number}t")
        else:
            terms.append(f"t.{name} = s.k{number}")
    arguments: dict[str, Any] = {
        f"n{number}": column.name
        for number, column in enumerate(publisher.table.layout.key)
        if column.type in _CALENDAR
    }
    first = quoted(publisher.table.layout.key[0].name)
    if facts.low is not None and publisher.table.layout.key[0].type not in _CALENDAR:
        terms.append(f"t.{first} BETWEEN :low AND :high")
        arguments |= {"low": facts.low, "high": facts.high}
    return " AND ".join(terms), arguments


def _append(
    publisher: _Publisher, rows: DataFrame, shape: Shape, last: DataFrame, facts: _Facts
) -> None:
    winners = last.select(F.col("s_high").alias("w_source"), F.col(_LAST).alias("w_place"))
    if facts.keys <= _BROADCAST_KEYS:
        winners = F.broadcast(winners)
    here = (F.col(_SOURCE) == F.col("w_source")) & (F.col(_PLACE) == F.col("w_place"))
    kept = rows.where(F.col(change.OP) != Op.DELETE.value)
    if publisher.table.truncated_at:
        kept = kept.where(F.coalesce(F.col(change.COMMIT_TS) > publisher.table.truncated_at, F.lit(True)))  # noqa: FBT003
    columns = [value.alias(name) for name, value in shape.columns.items()]
    images = kept.join(winners, here, "left_semi").select(
        *columns, change.COMMIT_TS, shape.unrepresentable.alias(change.UNREPRESENTABLE)
    )
    publisher.write(images).append()
