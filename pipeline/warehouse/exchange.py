"""EXCHANGE PARTITION: the rows of a partition and those of a table change places, and none of them is sent.

First, both current tables show the commit ts of the statement. A table that has exchanged rows cannot be built again
from its changes, because the other table's changes have the rows that it got.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.names import quoted
from pipeline.warehouse.publisher import Publisher, keys_of
from pipeline.warehouse.removals import removed
from pipeline.warehouse.state import CUT, EXCHANGED_FROM, REMOVED

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.warehouse.layout import Layout, Removal
    from pipeline.warehouse.pairs import TablePair
    from pipeline.warehouse.tables import Tables


@dataclass(frozen=True, slots=True)
class Exchange:
    """`removal` says which rows of `table` change places with all rows of `other`."""

    table: TablePair
    other: TablePair
    removal: Removal

    @property
    def done(self) -> bool:
        """Whether both current tables show it; a pair without one has nothing to show."""
        if self.table.current is None or self.other.current is None:
            return True
        return min(self.table.by_commit_ts.removed_done, self.other.by_commit_ts.removed_done) >= self.removal.at

    @property
    def begun(self) -> bool:
        """Whether one of the current tables shows it."""
        return max(self.table.by_commit_ts.removed_done, self.other.by_commit_ts.removed_done) >= self.removal.at


def exchanges(tables: Tables) -> list[Exchange]:
    """All exchanges of the warehouse, in their order."""
    unordered = [
        Exchange(table, other, removal)
        for table in tables
        for removal in table.layout.by_commit_ts.removals
        if removal.other and (other := tables.by_uuid(removal.other)) is not None
    ]
    return sorted(unordered, key=lambda exchange: exchange.removal.at)


def exchange(spark: SparkSession, wanted: Exchange, timezone: str, operation: str, step: Callable[[str], None]) -> None:
    """Let the rows change places. After a crash between the two tables the second one follows."""
    table, other, commit_ts = wanted.table, wanted.other, wanted.removal.at
    if table.current is None or other.current is None:
        return
    first = Publisher(spark, table, table.current, timezone, f"{operation}_exchange", step)
    second = Publisher(spark, other, other.current, timezone, f"{operation}_exchange", step)
    before = _before(spark, wanted)
    went = before.where(removed(table.layout, wanted.removal))
    summary = REMOVED.entry(commit_ts) | CUT.entry(commit_ts)
    if table.by_commit_ts.removed_done < commit_ts:
        came = _as(spark.table(other.name.sql), other.layout, table.layout)
        table.current.stage(first.branch)
        first.remove(keys_of(table.layout, timezone), before, removed(table.layout, wanted.removal))
        first.fresh(came).append()
    other.current.stage(second.branch)
    second.fresh(_as(went, table.layout, other.layout)).overwrite(F.lit(True))
    if table.by_commit_ts.removed_done < commit_ts:
        first.show(summary | EXCHANGED_FROM.entry(table.current.head()))
        table.by_commit_ts.removed_done = table.by_commit_ts.cut = commit_ts
    second.show(summary)
    other.by_commit_ts.removed_done = other.by_commit_ts.cut = commit_ts


def _before(spark: SparkSession, wanted: Exchange) -> DataFrame:
    """The table as it was before the statement."""
    table, current = wanted.table, wanted.table.current
    if current is not None and table.by_commit_ts.removed_done >= wanted.removal.at:
        snapshot = current.inherited(EXCHANGED_FROM)
        return spark.read.option("snapshot-id", str(snapshot)).table(table.name.sql)
    return spark.table(table.name.sql)


def _as(rows: DataFrame, layout: Layout, to: Layout) -> DataFrame:
    """Rows of one table as rows of another that has the same columns in the source."""
    columns = []
    for column in to.current:
        own = layout.live(column.source) if column.live else None
        value = F.lit(None) if own is None else F.col(quoted(own.name))
        columns.append(value.cast(column.type).alias(column.name))
    return rows.select(*columns, change.COMMIT_TS, change.UNREPRESENTABLE)
