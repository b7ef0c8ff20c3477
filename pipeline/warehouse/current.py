"""Publishing by offset: bringing a current table up to its changes table, as one visible step.

A publish takes what the changes table has appended since the snapshot from which the current table was last built. The
summary of the publishing snapshot has the id of that one, so after a crash at any point the publish is simply repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.change import Op
from pipeline.model.names import quoted
from pipeline.warehouse.keys import LAST, PLACE, SOURCE, Keys, as_it_was, placed
from pipeline.warehouse.publisher import (
    FEW_ROWS,
    Published,
    Publisher,
    at_places,
    at_winners,
    facts_of,
    keys_of,
)
from pipeline.warehouse.state import APPLIED

_OWN = (change.SCHEMA_ID, change.COMMIT_TS, change.COMMIT_TIME, change.TOPIC, change.PARTITION, change.OFFSET)
"""What else than its columns tells a row's key, and the order of rows."""

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.warehouse.layout import Layout
    from pipeline.warehouse.pairs import TablePair


@dataclass(frozen=True, slots=True)
class Append:
    """One append of the changes table, or `several` as one: the rows, and how many there are."""

    frame: DataFrame
    rows: int
    several: bool = False


@dataclass(frozen=True, slots=True)
class _ByOffset:
    publisher: Publisher
    arrivals: Callable[[], DataFrame] | None

    @property
    def table(self) -> TablePair:
        return self.publisher.table

    def news(self, head: int | None) -> list[Append]:
        """What the changes table has appended since the current table was built, append by append."""
        if head is None or head == self.table.applied:
            return []
        return self._appends(self.table.applied)

    def everything(self, head: int | None) -> list[Append]:
        """All changes: at once if one stream gave them, since its positions are an order; else append by append."""
        if head is None:
            return []
        if len({stream_id for stream_id, _ in self.table.ends}) <= 1:  # one made again counts as another
            return [replace(self._appended(None, head), several=True)]
        return self._appends(None)

    def cloned(self, head: int) -> Published | None:
        """Show what is new by its own files; None where that cannot be."""
        changes, publisher = self.table.changes, self.publisher
        since = changes.appends_since(self.table.applied)
        if not all(changes.is_append(parent, snapshot) for parent, snapshot in since):
            return None
        appends = [snapshot for parent, snapshot in since if parent is None or changes.added_rows(snapshot)]
        keys = publisher.carry_out(lambda: publisher.by_clone(appends, APPLIED.entry(head)))
        if keys is None:
            return None
        self.table.applied = head
        return Published(keys, 0, publisher.current.head())

    def bring(self, news: Sequence[Append]) -> list[Published]:
        """Apply appends. They are read again, one by one, if a key has changes in several partitions of `several`."""
        done = [self.apply(append) for append in news]
        if None in done:
            return self.bring(self._appends(None))
        return [one for one in done if one is not None]

    def _appends(self, since: int | None) -> list[Append]:
        """The appends that have rows: one whose records are all unreadable has none."""
        changes = self.table.changes
        appends = changes.appends_since(since)
        return [self._appended(parent, one) for parent, one in appends if parent is None or changes.added_rows(one)]

    def _appended(self, parent: int | None, snapshot: int) -> Append:
        changes = self.table.changes
        frame = self.publisher.appended(parent, snapshot, changes.added_bytes(snapshot))
        return Append(frame, FEW_ROWS + 1 if parent is None else changes.added_rows(snapshot))

    def apply(self, append: Append) -> Published | None:
        """Delete the keys that changed, append what they are now. None if that needs the order of the appends."""
        keys = keys_of(self.table.layout, self.publisher.timezone)
        rows = placed(append.frame)
        if append.rows <= FEW_ROWS and keys.few_are_literals:
            few = self._apply_few(keys, rows)
            if few is not None:
                return few
        return self._apply_many(keys, rows, several=append.several)

    def _apply_few(self, keys: Keys, rows: DataFrame) -> Published | None:
        """A handful of rows, their keys and places as literals. None if a key has changes in two partitions."""
        last = keys.few_last_places(_halves(self.table.layout, rows.coalesce(1)))
        if last is None:
            return None
        concerned = len(last)
        self.publisher.delete_few(keys, [key for key, _, _ in last])
        self.publisher.step("keys-deleted")
        if self.table.layout.before:
            last = [(key, source, place >> 1) for key, source, place in last if place & 1]
        here = at_places((source, place) for _, source, place in last)
        if here:
            self.publisher.append(rows.where(here), keys)
        return Published(concerned)

    def _apply_many(self, keys: Keys, rows: DataFrame, *, several: bool) -> Published | None:
        publisher = self.publisher
        halves = _halves(self.table.layout, rows)
        last = keys.last_places(halves).persist(StorageLevel.MEMORY_AND_DISK_DESER)
        view = f"keys_{publisher.operation}_{publisher.table.uuid.replace('-', '')}"
        last.createOrReplaceTempView(view)
        try:
            facts = facts_of(keys, last, F.count_if(F.expr("s_low <> s_high")).alias("conflicts"))
            if facts["keys"] == 0:
                return Published()
            if facts["conflicts"] and several:
                return None
            if not publisher.current.is_empty(publisher.branch):
                publisher.delete(keys, view, facts)
            publisher.step("keys-deleted")
            winners = self._by_arrival(keys, halves) if facts["conflicts"] else last
            winners = _with_a_row(winners) if self.table.layout.before else winners
            publisher.append(at_winners(rows, winners, facts), keys)
            return Published(facts["keys"], facts["conflicts"])
        finally:
            last.unpersist()
            publisher.spark.catalog.dropTempView(view)  # not before: it uncaches what the view shows

    def _by_arrival(self, keys: Keys, rows: DataFrame) -> DataFrame:
        return keys.last_arrivals(rows, None if self.arrivals is None else self.arrivals())


def _halves(layout: Layout, rows: DataFrame) -> DataFrame:
    """What each placed row does to its key, and an update that carries the row as it was, to that row's key before it.

    The latter is for tables that have such updates. Places are twice those of the rows then, and one more where a row
    may be left.
    """
    if not layout.before:
        return rows
    place = F.shiftleft(F.col(PLACE), 1)
    after = rows.withColumn(PLACE, place + 1)
    updates = (F.col(change.OP) == Op.UPDATE.value) & F.col(change.BEFORE).isNotNull()
    kept = [F.col(name) for name in (*_OWN, SOURCE)]
    was = rows.where(updates).select(*kept, place.alias(PLACE), *as_it_was(layout))
    return after.select(*map(quoted, was.columns)).unionByName(was)


def _with_a_row(last: DataFrame) -> DataFrame:
    """The places of rows, of those of halves."""
    return last.where(F.col(LAST).bitwiseAND(F.lit(1)) == 1).withColumn(LAST, F.shiftright(LAST, 1))


def publish(  # noqa: PLR0913 - the session, what, how, and two ways of doing it
    spark: SparkSession,
    table: TablePair,
    timezone: str,
    operation: str,
    step: Callable[[str], None],
    arrivals: Callable[[], DataFrame] | None = None,
    *,
    afresh: bool = False,
) -> Published:
    """Bring the current table up to the changes table. Nothing is done where nothing is new.

    `arrivals` gives (`_topic, _kafka_partition, _offset, _arrived_at`), the order of keys in two partitions.
    `afresh`: as if the current table were empty; readers see the old rows until the new ones are complete.
    """
    if table.current is None:
        return Published()
    publisher = Publisher(spark, table, table.current, timezone, operation, step)
    work = _ByOffset(publisher, arrivals)
    head = table.changes.head()
    due_backfills = [] if afresh else publisher.due_backfills()
    truncated = table.by_offset.truncated_at > table.by_offset.truncated_done
    if head is not None and head != table.applied and not (due_backfills or truncated or afresh):
        cloned = work.cloned(head)
        if cloned is not None:
            return cloned
    news = work.everything(head) if afresh else work.news(head)
    if not (news or due_backfills or truncated or afresh):
        return Published()

    def staged() -> Published:
        publisher.begin(due_backfills, afresh=afresh, truncated=truncated)
        published = work.bring(news)
        publisher.show({} if head is None else APPLIED.entry(head))
        conflicts = sum(p.order_unknown for p in published)
        return Published(sum(p.keys for p in published), conflicts, publisher.current.head())

    done = publisher.carry_out(staged)
    table.applied = head
    return done
