"""Publishing: bringing a current table up to its changes table, as one visible step.

What is new is what the changes table has appended since the snapshot that the current table was last built from;
that id stands in the summary of the publishing snapshot, so a crash at any point is made good by doing it again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.change import Op
from pipeline.model.names import quoted
from pipeline.warehouse.keys import LAST, PLACE, SOURCE, Keys, placed
from pipeline.warehouse.shape import Pending, backfill, current_shape
from pipeline.warehouse.tables import APPLIED, FILLED, OPERATION, STAGE, TRUNCATED, obligations

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.warehouse.iceberg import Table
    from pipeline.warehouse.layout import Layout
    from pipeline.warehouse.tables import WarehouseTable

_BROADCAST_KEYS = 2_000_000
_LEAST_SPLIT = 1 << 20
"""Bytes. Iceberg by itself packs files into splits of 16 MB or more: one core may get most of an append."""
_FEW_ROWS = 200
"""Up to so many appended rows, keys and places go through the driver as literals: no shuffle, no join."""


@dataclass(frozen=True, slots=True)
class Published:
    """What a publish did. `order_unknown`: keys whose changes stand in more than one partition."""

    keys: int = 0
    order_unknown: int = 0
    snapshot: int | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """One append of the changes table: its rows, and how many there are."""

    frame: DataFrame
    rows: int


@dataclass(frozen=True, slots=True)
class _Publisher:
    spark: SparkSession
    table: WarehouseTable
    current: Table
    timezone: str
    operation: str
    arrivals: Callable[[], DataFrame] | None
    step: Callable[[str], None]

    @property
    def branch(self) -> str:
        return f"{STAGE}{self.operation}"

    @property
    def target(self) -> str:
        return self.table.name.branch(self.branch)

    def write(self, rows: DataFrame) -> Any:
        return rows.writeTo(self.target).option(f"snapshot-property.{OPERATION}", self.operation)

    def news(self, head: int | None) -> list[Append]:
        """What the changes table has appended since the current table was built, append by append."""
        if head is None or head == self.table.applied:
            return []
        return self._appends(self.table.applied)

    def everything(self, head: int | None) -> list[Append]:
        """All changes: at once where one topic gave them, whose offsets are an order; else append by append."""
        if head is None:
            return []
        if len({topic_id for topic_id, _ in self.table.ends}) <= 1:  # one made again counts as another
            return [self._appended(None, head)]
        return self._appends(None)

    def _appends(self, since: int | None) -> list[Append]:
        """The appends that have rows: one whose records are all unreadable has none."""
        changes = self.table.changes
        appends = changes.appends_since(since)
        return [self._appended(parent, one) for parent, one in appends if parent is None or changes.added_rows(one)]

    def _appended(self, parent: int | None, snapshot: int) -> Append:
        changes = self.table.changes
        tasks = 2 * self.spark.sparkContext.defaultParallelism
        split = str(max(_LEAST_SPLIT, changes.added_bytes(snapshot) // tasks))
        reader = self.spark.read.option("split-size", split).option("file-open-cost", split)
        if parent is None:
            reader = reader.option("snapshot-id", str(snapshot))
            return Append(reader.table(changes.name.sql), _FEW_ROWS + 1)
        reader = reader.option("start-snapshot-id", str(parent)).option("end-snapshot-id", str(snapshot))
        return Append(reader.table(changes.name.sql), changes.added_rows(snapshot))

    def pending(self) -> list[Pending]:
        """Columns whose default or conversion the rows of the current table do not show yet."""
        due = obligations(self.table.layout)
        missing: dict[int, Pending] = {}
        for name, (column, number) in due.items():
            if name not in self.table.filled and column.id not in missing:
                missing[column.id] = Pending(column, max(0, number - 1), default_due=number == 0)
        return list(missing.values())


def publish(  # noqa: PLR0913 - the session, what, how, and two ways of doing it
    spark: SparkSession,
    table: WarehouseTable,
    timezone: str,
    operation: str,
    step: Callable[[str], None],
    arrivals: Callable[[], DataFrame] | None = None,
    *,
    afresh: bool = False,
) -> Published:
    """Bring the current table up to the changes table. Nothing is done where nothing is new.

    `arrivals` gives (`_topic, _kafka_partition, _offset, _arrived_at`), which orders keys that stand in two partitions.
    `afresh`: as if the current table were empty; readers see the old rows until the new ones are complete.
    """
    if table.current is None:
        return Published()
    publisher = _Publisher(spark, table, table.current, timezone, operation, arrivals, step)
    head = table.changes.head()
    news = publisher.everything(head) if afresh else publisher.news(head)
    pending = [] if afresh else publisher.pending()
    truncated = table.truncated_at > table.truncated_done
    if not (news or pending or truncated or afresh):
        return Published()
    table.current.stage(publisher.branch)
    step("branch-made")
    if pending:
        _fill(publisher, pending)
    if afresh or truncated:
        _empty(publisher, afresh=afresh)
    published = [_apply(publisher, append) for append in news]
    filled = frozenset(obligations(table.layout))
    table.current.mark(_marks(table, head, filled, operation), publisher.branch)
    step("staged")
    table.current.publish(publisher.branch)
    step("published")
    table.applied, table.filled, table.truncated_done = head, filled, table.truncated_at
    conflicts = sum(p.order_unknown for p in published)
    return Published(sum(p.keys for p in published), conflicts, table.current.head())


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
    publisher.write(filled).overwrite(F.lit(True))
    publisher.step("backfilled")


def _empty(publisher: _Publisher, *, afresh: bool) -> None:
    """Let rows go that a TRUNCATE has ended, or all."""
    gone = "true" if afresh else f"{change.COMMIT_TS} <= {publisher.table.truncated_at:d}"
    publisher.spark.sql(f"DELETE FROM {publisher.target} WHERE {gone}")  # noqa: S608 - names of ours, values as parameters
    publisher.step("truncated")


def _apply(publisher: _Publisher, append: Append) -> Published:
    """Delete the keys that changed, append what they are now."""
    keys = _keys(publisher.table.layout, publisher.timezone)
    rows = placed(append.frame)
    if append.rows <= _FEW_ROWS and keys.few_are_literals:
        few = _apply_few(publisher, keys, rows)
        if few is not None:
            return few
    return _apply_many(publisher, keys, rows)


@lru_cache(maxsize=1024)
def _keys(layout: Layout, timezone: str) -> Keys:
    """The expressions that publish a table: they are the same until its columns change."""
    return Keys(layout.key, current_shape(layout, timezone))


def _apply_few(publisher: _Publisher, keys: Keys, rows: DataFrame) -> Published | None:
    """A handful of rows, their keys and places as literals. None where a key stands in two partitions."""
    last = keys.few_last_places(rows.coalesce(1))
    if last is None:
        return None
    if last and not publisher.current.is_empty(publisher.branch):
        predicate, arguments = keys.literals([key for key, _, _ in last])
        publisher.spark.sql(f"DELETE FROM {publisher.target} WHERE {predicate}", args=arguments)  # noqa: S608 - names of ours, values as parameters
    publisher.step("keys-deleted")
    places: dict[int, list[str]] = {}
    for _, source, place in last:
        places.setdefault(source, []).append(str(place))
    here = " OR ".join(f"({SOURCE} = {s:d} AND {PLACE} IN ({', '.join(p)}))" for s, p in places.items())
    if here:
        _write(publisher, rows.where(here), keys)
    return Published(len(last))


def _apply_many(publisher: _Publisher, keys: Keys, rows: DataFrame) -> Published:
    last = keys.last_places(rows).persist(StorageLevel.MEMORY_AND_DISK)
    view = f"keys_{publisher.operation}_{publisher.table.uuid.replace('-', '')}"
    last.createOrReplaceTempView(view)
    try:
        facts = _facts(keys, last)
        if facts["keys"] == 0:
            return Published()
        if not publisher.current.is_empty(publisher.branch):
            _delete(publisher, keys, view, facts)
        publisher.step("keys-deleted")
        winners = _by_arrival(publisher, keys, rows) if facts["conflicts"] else last
        winners = winners.select(F.col("s_high").alias("w_source"), F.col(LAST).alias("w_place"))
        if facts["keys"] <= _BROADCAST_KEYS:
            winners = F.broadcast(winners)
        here = (F.col(SOURCE) == F.col("w_source")) & (F.col(PLACE) == F.col("w_place"))
        _write(publisher, rows.join(winners, here, "left_semi"), keys)
        return Published(facts["keys"], facts["conflicts"])
    finally:
        last.unpersist()
        publisher.spark.catalog.dropTempView(view)  # not before: it uncaches what the view shows


def _by_arrival(publisher: _Publisher, keys: Keys, rows: DataFrame) -> DataFrame:
    return keys.last_arrivals(rows, None if publisher.arrivals is None else publisher.arrivals())


def _facts(keys: Keys, last: DataFrame) -> dict[str, Any]:
    """How many keys, how many of them in several partitions, and the range of the first key column."""
    bounds = [F.min("k0").alias("low"), F.max("k0").alias("high")] if keys.prunable else []
    conflicts = F.count_if(F.expr("s_low <> s_high")).alias("conflicts")
    row = last.agg(F.count(F.lit(1)).alias("keys"), conflicts, *bounds).collect()[0]
    return {"low": None, "high": None, **row.asDict()}


def _delete(publisher: _Publisher, keys: Keys, view: str, facts: dict[str, Any]) -> None:
    hint = "/*+ BROADCAST(s) */" if facts["keys"] <= _BROADCAST_KEYS else ""
    matched, arguments = keys.match(facts["low"], facts["high"])
    publisher.spark.sql(
        f"MERGE INTO {publisher.target} t USING (SELECT {hint} * FROM {view}) s ON {matched} "  # noqa: S608 - names of ours, values as parameters
        "WHEN MATCHED THEN DELETE",
        args=arguments,
    )


def _write(publisher: _Publisher, last: DataFrame, keys: Keys) -> None:
    """Append what the last changes leave: every row but the deleted and the truncated."""
    kept = last.where(f"{change.OP} <> '{Op.DELETE.value}'")
    if publisher.table.truncated_at:
        newer = F.col(change.COMMIT_TS) > publisher.table.truncated_at
        kept = kept.where(F.coalesce(newer, F.lit(True)))
    publisher.write(keys.images.of(kept)).append()
