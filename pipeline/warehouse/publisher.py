"""What every publish of a current table does: rows staged on a branch, shown in one step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import functions as F

from pipeline.errors import BatchFailed
from pipeline.model import change
from pipeline.model.change import Op
from pipeline.model.messages import EVER
from pipeline.model.names import quoted
from pipeline.observe.logs import get_logger
from pipeline.warehouse.clone.keys import CannotClone
from pipeline.warehouse.clone.publish import check, clone
from pipeline.warehouse.iceberg import MAIN_MOVED
from pipeline.warehouse.keys import LAST, PLACE, SOURCE, Key, Keys, survive
from pipeline.warehouse.pairs import STAGE, backfills_of
from pipeline.warehouse.shape import DueBackfill, backfill, current_shape
from pipeline.warehouse.state import BACKFILLED, BY_CLONE, OPERATION, TRUNCATED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from pipeline.warehouse.clone.publish import Within
    from pipeline.warehouse.iceberg import Table
    from pipeline.warehouse.layout import Layout
    from pipeline.warehouse.pairs import TablePair

T = TypeVar("T")
_log = get_logger(__name__)
BROADCAST_KEYS = 2_000_000
FEW_ROWS = 200
"""Up to so many appended rows, keys and places go through the driver as literals: no shuffle, no join."""
_LEAST_SPLIT = 1 << 20
"""Bytes. Iceberg by itself packs files into splits of 16 MB or more: one core may get most of an append."""


@dataclass(frozen=True, slots=True)
class Published:
    """What a publish did. `order_unknown`: keys that have changes in more than one partition."""

    keys: int = 0
    order_unknown: int = 0
    snapshot: int | None = None


@dataclass(frozen=True, slots=True)
class Publisher:
    """One publish of one table, under way."""

    spark: SparkSession
    table: TablePair
    current: Table
    timezone: str
    operation: str
    step: Callable[[str], None]

    @property
    def branch(self) -> str:
        """Where it is made ready."""
        return f"{STAGE}{self.operation}"

    @property
    def target(self) -> str:
        """The branch as a table, in SQL."""
        return self.table.name.branch(self.branch)

    def write(self, rows: DataFrame) -> Any:
        """A writer of rows into the branch."""
        return rows.writeTo(self.target).option(f"snapshot-property.{OPERATION.name}", self.operation)

    def fresh(self, rows: DataFrame) -> Any:
        """A writer of rows that come into the branch: columns of users are NULL in them."""
        others = [F.lit(None).alias(name) for name in self.table.not_ours_in_current]
        return self.write(rows.select("*", *others) if others else rows)

    def appended(self, parent: int | None, snapshot: int, added_bytes: int) -> DataFrame:
        """The rows of the changes table from after one snapshot up to another; from the beginning without `parent`."""
        tasks = 2 * self.spark.sparkContext.defaultParallelism
        split = str(max(_LEAST_SPLIT, added_bytes // tasks))
        reader = self.spark.read.option("split-size", split).option("file-open-cost", split)
        if parent is None:
            reader = reader.option("snapshot-id", str(snapshot))
        else:
            reader = reader.option("start-snapshot-id", str(parent)).option("end-snapshot-id", str(snapshot))
        rows = reader.table(self.table.changes.name.sql)
        return rows.drop(*self.table.not_ours) if self.table.not_ours else rows

    def due_backfills(self) -> list[DueBackfill]:
        """Columns whose default or conversion the rows of the current table do not show yet."""
        missing: dict[int, DueBackfill] = {}
        for name, (column, number) in backfills_of(self.table.layout).items():
            if name not in self.table.backfilled and column.id not in missing:
                missing[column.id] = DueBackfill(column, max(0, number - 1), default_due=number == 0)
        return list(missing.values())

    def carry_out(self, publish: Callable[[], T]) -> T:
        """Do everything from `begin` to `show`. Do it once more, from the new main, if another commit has moved main.

        Raises `BatchFailed` (`MAIN_MOVED`) if main moves again, or if another pipeline has published: then this one's
        knowledge of the table is out of date.
        """
        last_operation = self.current.inherited(OPERATION)
        try:
            return publish()
        except BatchFailed as failed:
            self.current.refresh()
            if failed.code != MAIN_MOVED or self.current.inherited(OPERATION) != last_operation:
                raise
        return publish()

    def begin(self, due_backfills: list[DueBackfill], *, afresh: bool, truncated: bool) -> None:
        """Make the branch; fill columns and let rows go as the layout and TRUNCATE ask for."""
        self.current.stage(self.branch)
        self.step("branch-made")
        if due_backfills:
            self._backfill(due_backfills)
        if afresh:
            self.empty()
        elif truncated:
            self._truncate()

    def _backfill(self, due_backfills: list[DueBackfill]) -> None:
        """Rewrite the rows that are there: they show defaults and converted values from now on."""
        shape = backfill(self.table.layout, due_backfills, self.timezone)
        rows = self.spark.table(self.target)
        names = [name for name in rows.columns if name != change.UNREPRESENTABLE]
        columns = [shape.columns.get(name, F.col(quoted(name))).alias(name) for name in names]
        backfilled = rows.select(*columns, shape.unrepresentable.alias(change.UNREPRESENTABLE))
        self.write(backfilled).overwrite(F.lit(True))
        self.step("backfilled")

    def empty(self, commit_ts: int = EVER) -> None:
        """Delete all rows up to a commit ts. If the table shows nothing newer, whole files go without being read."""
        self._let_go(f"{change.COMMIT_TS} <= {commit_ts:d}" if self.table.by_commit_ts.cut > commit_ts else "true")

    def _truncate(self) -> None:
        """Delete the rows that a TRUNCATE has ended."""
        self._let_go(f"{change.COMMIT_TS} <= {self.table.by_offset.truncated_at:d}")

    def _let_go(self, gone: str) -> None:
        self.spark.sql(f"DELETE FROM {self.target} WHERE {gone}")  # noqa: S608 - names of ours, values as parameters
        self.step("truncated")

    def delete(self, keys: Keys, view: str, facts: Mapping[str, Any], also: str = "true") -> None:
        """Delete the rows whose keys are in a view (`facts_of`), if a further condition on both holds."""
        hint = "/*+ BROADCAST(s) */" if facts["keys"] <= BROADCAST_KEYS else ""
        matched, arguments = keys.match(facts["low"], facts.get("high"))
        self.spark.sql(
            f"MERGE INTO {self.target} t USING (SELECT {hint} * FROM {view}) s ON {matched} AND {also} "  # noqa: S608 - names of ours, values as parameters
            "WHEN MATCHED THEN DELETE",
            args=arguments,
        )

    def delete_few(self, keys: Keys, few: Sequence[Key]) -> None:
        """Delete the rows of a handful of keys, by their values."""
        if few and not self.current.is_empty(self.branch):
            predicate, arguments = keys.literals(few)
            self.spark.sql(f"DELETE FROM {self.target} WHERE {predicate}", args=arguments)  # noqa: S608 - names of ours, values as parameters

    def remove(self, keys: Keys, rows: DataFrame, which: Column) -> None:
        """Delete rows of the branch by their values. `rows`: those of the branch."""
        if not keys.columns:
            self.write(rows.where(~which)).overwrite(F.lit(True))
        elif not self.current.is_empty(self.branch):
            view = f"gone_{self.operation}_{self.table.uuid.replace('-', '')}"
            keys.of_current(rows.where(which)).createOrReplaceTempView(view)
            self.delete(keys, view, {"keys": FEW_ROWS + 1, "low": None})
            self.spark.catalog.dropTempView(view)

    def append(self, last: DataFrame, keys: Keys) -> None:
        """Append the rows that the last changes leave: all but deleted and truncated ones."""
        kept = last.where(f"{change.OP} <> '{Op.DELETE.value}'")
        if self.table.by_offset.truncated_at:
            newer = F.col(change.COMMIT_TS) > self.table.by_offset.truncated_at
            kept = kept.where(F.coalesce(newer, F.lit(True)))
        self.fresh(keys.images.of(kept)).append()

    def show(self, summary: Mapping[str, str]) -> None:
        """Let readers have it. `summary`: what the snapshot says of itself besides."""
        self.current.mark(self._says({**BY_CLONE.entry(False), **summary}), self.branch)
        self.step("staged")
        self.current.publish(self.branch)
        self.step("published")
        self._has_shown()

    def by_clone(self, appends: Sequence[int], summary: Mapping[str, str], within: Within | None = None) -> int | None:
        """Show appends by their own files (`clone`), in one commit; how many keys have changed.

        None where that cannot be: nothing was shown then. The arguments are those of `clone` and of `show`.
        """
        if not appends:
            return None
        try:
            check(self.table)
            marks = self._says({**BY_CLONE.entry(True), **summary})
            keys = clone(self.table, self.current, appends, marks, self.step, within)
        except CannotClone as why:
            _log.info("merged", table=str(self.table.source), why=str(why))
            return None
        self._has_shown()
        return keys

    def _says(self, summary: Mapping[str, str]) -> dict[str, str]:
        backfilled = BACKFILLED.entry(frozenset(backfills_of(self.table.layout)))
        truncated = TRUNCATED.entry(self.table.by_offset.truncated_at)
        return {**backfilled, **truncated, **OPERATION.entry(self.operation), **summary}

    def _has_shown(self) -> None:
        self.table.backfilled = frozenset(backfills_of(self.table.layout))
        self.table.by_offset.truncated_done = self.table.by_offset.truncated_at


def at_places(places: Iterable[tuple[int, int]]) -> str:
    """The condition, in SQL, that a placed row is at one of a handful of places (source, place); empty without any."""
    by_source: dict[int, list[str]] = {}
    for source, place in places:
        by_source.setdefault(source, []).append(str(place))
    return " OR ".join(f"({SOURCE} = {s:d} AND {PLACE} IN ({', '.join(p)}))" for s, p in by_source.items())


def at_winners(rows: DataFrame, winners: DataFrame, facts: Mapping[str, Any]) -> DataFrame:
    """The placed rows that are at the places of a frame (`s_high`, `_last`)."""
    winners = winners.select(F.col("s_high").alias("w_source"), F.col(LAST).alias("w_place"))
    if facts["keys"] <= BROADCAST_KEYS:
        winners = F.broadcast(winners)
    here = (F.col(SOURCE) == F.col("w_source")) & (F.col(PLACE) == F.col("w_place"))
    return rows.join(winners, here, "left_semi")


def facts_of(keys: Keys, last: DataFrame, *further: Column) -> dict[str, Any]:
    """How many keys there are, the range of the first key column where it prunes, and further aggregates."""
    bounds = [F.min("k0").alias("low"), F.max("k0").alias("high")] if keys.prunable else []
    row = last.agg(F.count(F.lit(1)).alias("keys"), *further, *bounds).collect()[0]
    facts = {"low": None, "high": None, **row.asDict()}
    return facts if survive((facts["low"], facts["high"])) else {**facts, "low": None, "high": None}


@lru_cache(maxsize=1024)
def keys_of(layout: Layout, timezone: str) -> Keys:
    """The expressions that publish a table: they are the same until its columns change."""
    return Keys(layout.key, current_shape(layout, timezone))
