"""Publishing by commit ts: a current table shows exactly what its changes table has up to one commit ts.

A key's last change is the greatest by (commit ts, delete before upsert, position). An update that moves a key is also
the delete of the old key. A change at or below the table's cut is a redelivery and shows nothing, unless it was set
aside when its time came (`changes.Entry.late`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.change import Op
from pipeline.model.messages import EVER
from pipeline.warehouse import multiset
from pipeline.warehouse.clone.publish import Within
from pipeline.warehouse.keys import LAST, ORDER, PLACE, SOURCE, Key, Keys, as_it_was, placed
from pipeline.warehouse.pairs import TablePair, backfills_of
from pipeline.warehouse.publisher import FEW_ROWS, Published, Publisher, at_places, at_winners, facts_of, keys_of
from pipeline.warehouse.removals import removed, taken
from pipeline.warehouse.state import APPLIED, CUT, LATE, LATE_SHOWN, OPERATION, REMOVED, TIMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, SparkSession

    from pipeline.warehouse.iceberg import Table
    from pipeline.warehouse.layout import Layout, Removal


_LATE = "_late"
_OLDER = f"t.{change.COMMIT_TS} < shiftright(s.{ORDER} + 1, 1)"
"""Whether a change takes a row away, in SQL: of a key that a late one moved away, a newer one may be there.

A delete leaves a row of its own commit ts, which is later: two keys may have changed places, and only one of the
updates come late.
"""


@dataclass(frozen=True, slots=True)
class _Append:
    """One append of the changes table; `low`, `high`: what its commit ts lie between."""

    parent: int | None
    snapshot: int
    low: int
    high: int
    late: bool
    rows: int
    bytes: int


@dataclass(slots=True)
class _News:
    """What a publish up to `until` finds beyond `applied`."""

    table: TablePair
    until: int
    appends: list[_Append] = field(default_factory=list)

    @classmethod
    def of(cls, table: TablePair, until: int) -> _News:
        """All appends that the current table may not show in full."""
        news = cls(table, until)
        if table.changes.head() != table.applied:
            news.appends = list(_appends(table))
        return news

    @property
    def fresh(self) -> list[_Append]:
        """Those that may have rows whose time has come."""
        if self.until <= self.table.by_commit_ts.cut:
            return []
        return [a for a in self.appends if a.rows and a.high > self.table.by_commit_ts.cut and a.low <= self.until]

    @property
    def late(self) -> list[_Append]:
        """Those with rows that came when the cut had already passed them."""
        unseen = [a for a in self.appends if a.late and a.rows and a.snapshot not in self.table.by_commit_ts.late_shown]
        return [a for a in unseen if a.low <= self.table.by_commit_ts.cut]

    def passed(self) -> int | None:
        """The append up to which all is shown after this publish."""
        passed = self.table.applied
        for append in self.appends:
            if append.high > self.until and append.rows:
                break
            passed = append.snapshot
        return passed

    def late_shown(self, passed: int | None) -> frozenset[int]:
        """Late appends that are shown, of those beyond `passed`."""
        snapshots = [append.snapshot for append in self.appends]
        beyond = set(snapshots[snapshots.index(passed) + 1 :]) if passed in snapshots else set(snapshots)
        return frozenset(a.snapshot for a in self.appends if a.late and a.snapshot in beyond)


def _appends(table: TablePair) -> Iterator[_Append]:
    changes = table.changes
    for parent, snapshot in changes.appends_since(table.applied):
        summary = changes.summary(snapshot)
        rows, size = int(summary.get("added-records", 0)), int(summary.get("added-files-size", 0))
        low, high = _times(changes, snapshot, summary)
        expired = table.applied is not None or not changes.is_first(snapshot)
        if parent is None and expired:  # all that is left of what was before
            _, newest = changes.shown_between(snapshot, change.COMMIT_TS) or (0, EVER)
            low, high, rows = 0, newest, FEW_ROWS + 1
        yield _Append(parent, snapshot, low, high, LATE.is_in(summary), rows, size)


def _times(changes: Table, snapshot: int, summary: Mapping[str, str]) -> tuple[int, int]:
    """What the commit ts of an append lie between, by its commit or, where that was made too early, by its files."""
    return TIMES.read(summary) or changes.added_between(snapshot, change.COMMIT_TS) or (0, EVER)


def appended_up_to(table: TablePair, batch_id: int) -> int | None:
    """The greatest commit ts that appends of batches from `batch_id` on had let in; None where there are none."""
    ends = [
        _times(table.changes, snapshot, summary)[1]
        for _, snapshot in table.changes.appends_since(table.applied)
        if _batch_of(summary := table.changes.summary(snapshot)) >= batch_id
    ]
    return max(ends, default=None)


def _batch_of(summary: Mapping[str, str]) -> int:
    """The number of the batch that an append is of; -1 where it is of something else."""
    number = (OPERATION.read(summary) or "").removeprefix("batch")
    return int(number) if number.isdecimal() else -1


def is_due(table: TablePair, until: int) -> bool:
    """Whether `advance` would do anything."""
    until = min(until, table.dropped_at) if table.dropped_at else until
    if table.current is None or until < table.by_commit_ts.cut or until == 0:
        return False
    news = _News.of(table, until)
    due = backfills_of(table.layout).keys() - table.backfilled
    gone = table.by_offset.truncated_at > table.by_offset.truncated_done or _removals(
        table, table.by_commit_ts.removed_done, until
    )
    return bool(news.fresh or news.late or due or gone)


def _removals(table: TablePair, done: int, until: int) -> list[Removal]:
    return [
        removal for removal in table.layout.by_commit_ts.removals if done < removal.at <= until and not removal.other
    ]


def advance(  # noqa: PLR0913 - the session, what, how far, how
    spark: SparkSession,
    table: TablePair,
    timezone: str,
    operation: str,
    step: Callable[[str], None],
    until: int,
    *,
    afresh: bool = False,
) -> Published:
    """Let the current table show its changes up to the commit ts `until`. Nothing is done where nothing is new.

    `afresh`: as if it were empty; readers see the old rows until the new ones are complete.
    """
    until = min(until, table.dropped_at) if table.dropped_at else until
    if table.current is None or until < table.by_commit_ts.cut or (until == 0 and not afresh):
        return Published()
    publisher = Publisher(spark, table, table.current, timezone, operation, step)
    news = _News.of(table, until)
    due_backfills = [] if afresh else publisher.due_backfills()
    truncated = table.by_offset.truncated_at > table.by_offset.truncated_done
    fresh, late = news.fresh, news.late
    removals = _removals(table, 0 if afresh else table.by_commit_ts.removed_done, until)
    if not (fresh or late or due_backfills or truncated or removals or afresh):
        return Published()
    cut = 0 if afresh else table.by_commit_ts.cut
    few = not (afresh or late) and sum(a.rows for a in fresh) <= FEW_ROWS
    passed = news.passed()
    shown = news.late_shown(passed)
    gone = max((removal.at for removal in removals), default=table.by_commit_ts.removed_done)
    summary = CUT.entry(until) | LATE_SHOWN.entry(shown) | REMOVED.entry(gone)

    path = segments(table.layout, cut, until, removals)
    if passed is not None:
        summary |= APPLIED.entry(passed)

    def staged() -> Published:
        if fresh and not (late or due_backfills or truncated or removals or afresh) and _is_plain(table, path, fresh):
            changed = publisher.by_clone([append.snapshot for append in fresh], summary, Within(cut, until))
            if changed is not None:
                return Published(changed, 0, publisher.current.head())
        publisher.begin(due_backfills, afresh=afresh, truncated=truncated)
        keyed = sent = None
        if any(segment.handle for segment in path):
            keyed = _everything(publisher) if afresh else _rows(publisher, fresh, late, cut)
        if any(not segment.handle for segment in path) and (fresh or late or afresh):
            sent = _sent(publisher, news, afresh=afresh)
        keys = sum(_bring(publisher, segment, keyed if segment.handle else sent, few=few) for segment in path)
        publisher.show(summary)
        return Published(keys, 0, publisher.current.head())

    done = publisher.carry_out(staged)
    table.applied = passed
    over_time = table.by_commit_ts
    over_time.cut, over_time.late_shown, over_time.removed_done = until, shown, gone
    return done


def _is_plain(table: TablePair, path: Sequence[Segment], fresh: Sequence[_Append]) -> bool:
    """Whether all changes have today's key, and each append is one of which the files are known."""
    whole = all(table.changes.is_append(append.parent, append.snapshot) for append in fresh)
    return whole and len(path) == 1 and path[0].handle == table.layout.handle


@dataclass(frozen=True, slots=True)
class Segment:
    """Changes with a commit ts in (`low`, `high`], with this handle as the key; without one the rows are a multiset.

    The first segment also has what is older: rows that come late.
    """

    low: int
    high: int
    handle: tuple[int, ...]
    removals: tuple[Removal, ...] = ()
    """What goes at its end."""

    @property
    def empties(self) -> bool:
        """Whether the table is empty at its end."""
        return any(removal.empties for removal in self.removals)


def segments(layout: Layout, cut: int, until: int, removals: Sequence[Removal] = ()) -> list[Segment]:
    """The time from `cut` to `until`, divided where the handle changed and where rows went.

    Segments before the last one that empties the table are left out.
    """
    handles = layout.by_commit_ts.handles or ((0, layout.handle or ()),)
    edges = {since for since, _ in handles[1:] if cut < since < until} | {removal.at for removal in removals} | {until}
    path: list[Segment] = []
    low = -1
    for high in sorted(edges):
        handle = next((handle for since, handle in reversed(handles) if since < high), handles[0][1])
        path.append(Segment(low, high, handle, tuple(r for r in removals if r.at == high)))
        low = high
    last = max((index for index, segment in enumerate(path) if segment.empties), default=0)
    return path[last:]


def _bring(publisher: Publisher, segment: Segment, rows: DataFrame | None, *, few: bool) -> int:
    """Apply a segment to the branch, with the removals at its end; how many keys that concerned."""
    if segment.empties:
        publisher.empty(segment.high)
        return 0
    keys = 0 if rows is None else _show(publisher, segment, rows, few=few)
    for removal in segment.removals:
        _remove(publisher, segment, removal)
    return keys


def _remove(publisher: Publisher, segment: Segment, removal: Removal) -> None:
    """Let rows go with their partition."""
    layout = publisher.table.layout.keyed(segment.handle)
    rows = publisher.spark.table(publisher.target)
    gone = removed(layout, removal) & (F.col(change.COMMIT_TS) <= removal.at)
    publisher.remove(keys_of(layout, publisher.timezone), rows, gone)
    publisher.step("partitions-removed")


def _everything(publisher: Publisher) -> DataFrame | None:
    head = publisher.table.changes.head()
    if head is None:
        return None
    rows = publisher.appended(None, head, publisher.table.changes.totals()["files-size"])
    return rows.withColumn(ORDER, _order(_is_there()))


def _rows(publisher: Publisher, fresh: Sequence[_Append], late: Sequence[_Append], cut: int) -> DataFrame | None:
    """The rows of these appends: those beyond the cut of fresh ones, those up to it of late ones.

    The table may already show a removal by which a late row has gone since. Such a row deletes what the table has of
    its key.
    """
    beyond, there = F.col(change.COMMIT_TS) > cut, _is_there()
    frames = [publisher.appended(first, last, size).where(beyond) for first, last, size in _joined(fresh)]
    frames = [frame.withColumn(ORDER, _order(there)) for frame in frames]
    if late:
        order = _order(there & ~_is_gone(publisher.table, publisher.timezone))
        passed = [publisher.appended(a.parent, a.snapshot, a.bytes).where(~beyond) for a in late]
        frames += [frame.withColumn(ORDER, order) for frame in passed]
    return reduce(DataFrame.unionByName, frames) if frames else None


def _sent(publisher: Publisher, news: _News, *, afresh: bool) -> DataFrame | None:
    """What `_everything` or `_rows` gives, with the number of its delivery.

    The number depends on all rows between two equal changes, so all of these are read.
    """
    if afresh:
        rows = _everything(publisher)
        return None if rows is None else multiset.by_delivery(publisher, rows)
    late_snapshots = {append.snapshot for append in news.late}
    frames = [
        publisher.appended(first, last, size).withColumn(_LATE, F.lit(late))
        for late in (False, True)
        for first, last, size in _joined([a for a in news.appends if (a.snapshot in late_snapshots) is late])
    ]
    beyond, there = F.col(change.COMMIT_TS) > publisher.table.by_commit_ts.cut, _is_there()
    order = _order(there)
    if late_snapshots:
        order = F.when(beyond, order).otherwise(_order(there & ~_is_gone(publisher.table, publisher.timezone)))
    rows = multiset.by_delivery(publisher, reduce(DataFrame.unionByName, frames))
    return rows.where(beyond | F.col(_LATE)).withColumn(ORDER, order)


def _is_gone(table: TablePair, timezone: str) -> Column:
    """Whether the row of a late change has gone with its partition, or with all rows, as the table shows already."""
    moves = [removal.at for removal in table.layout.by_commit_ts.removals if removal.other]
    taken_at = taken(table.layout, timezone, table.by_commit_ts.removed_done)
    return taken_at.isNotNull() & ~taken_at.isin(*moves)


def _joined(appends: Sequence[_Append]) -> list[tuple[int | None, int, int]]:
    """Appends that follow each other, read as one."""
    ranges: list[tuple[int | None, int, int]] = []
    for append in appends:
        if ranges and ranges[-1][1] == append.parent:
            first, _, size = ranges.pop()
            ranges.append((first, append.snapshot, size + append.bytes))
        else:
            ranges.append((append.parent, append.snapshot, append.bytes))
    return ranges


def _show(publisher: Publisher, segment: Segment, rows: DataFrame, *, few: bool) -> int:
    """Bring the branch from one end of a segment to the other; how many keys that concerned."""
    mine = rows.where(F.col(change.COMMIT_TS) <= segment.high)
    if segment.low >= 0:
        mine = mine.where(F.col(change.COMMIT_TS) > segment.low)
    layout = publisher.table.layout.keyed(segment.handle)
    keys = keys_of(layout, publisher.timezone)
    if not keys.columns:
        return multiset.show(publisher, keys, mine)
    ordered = placed(mine)
    if few and keys.few_are_literals:
        return _show_few(publisher, keys, ordered.coalesce(1))
    return _show_many(publisher, keys, ordered)


def _is_there() -> Column:
    """Whether a change leaves a row."""
    return F.col(change.OP) != Op.DELETE.value


def _order(there: Column) -> Column:
    return F.shiftleft(F.col(change.COMMIT_TS), 1) + F.when(there, 1).otherwise(0)


def events(publisher: Publisher, keys: Keys, ordered: DataFrame) -> DataFrame:
    """Key, order, source and place of every change; an update that carries the row as it was is two."""
    after = keys.ordered(ordered)
    layout = publisher.table.layout
    if not layout.before:
        return after
    updates = (F.col(change.OP) == Op.UPDATE.value) & F.col(change.BEFORE).isNotNull()
    order = F.shiftleft(F.col(change.COMMIT_TS), 1).alias(ORDER)
    own = [F.col(name) for name in (change.SCHEMA_ID, SOURCE, PLACE)]
    before = ordered.where(updates).select(*own, order, *as_it_was(layout))
    return after.unionByName(keys.ordered(before))


def _show_few(publisher: Publisher, keys: Keys, ordered: DataFrame) -> int:
    """A handful of changes, their keys and places as literals."""
    last: dict[Key, tuple[int, int, int]] = {}
    for row in events(publisher, keys, ordered).collect():
        key = keys.literal(row)
        if key is None:
            return _show_many(publisher, keys, ordered)
        last[key] = max(last.get(key, (-1, 0, 0)), (row[ORDER], row[PLACE], row[SOURCE]))
    publisher.delete_few(keys, list(last))
    publisher.step("keys-deleted")
    here = at_places((source, place) for order, place, source in last.values() if order & 1)
    if here:
        publisher.append(ordered.where(here), keys)
    return len(last)


def _show_many(publisher: Publisher, keys: Keys, ordered: DataFrame) -> int:
    best = [
        F.max(ORDER).alias(ORDER),
        F.max_by(PLACE, ORDER).alias(LAST),
        F.max_by(SOURCE, ORDER).alias("s_high"),
    ]  # fixed-width numbers, which Spark aggregates in a hash table; of equal orders both take the same row
    last = events(publisher, keys, ordered).groupBy(*keys.expressions).agg(*best)
    last = last.persist(StorageLevel.MEMORY_AND_DISK_DESER)
    view = f"keys_{publisher.operation}_{publisher.table.uuid.replace('-', '')}"
    last.createOrReplaceTempView(view)
    try:
        facts = facts_of(keys, last)
        if facts["keys"] and not publisher.current.is_empty(publisher.branch):
            publisher.delete(keys, view, facts, _OLDER)
        publisher.step("keys-deleted")
        if facts["keys"]:
            there = last.where(F.col(ORDER).bitwiseAND(F.lit(1)) == 1)
            publisher.append(at_winners(ordered, there, facts), keys)
        return int(facts["keys"])
    finally:
        last.unpersist()
        publisher.spark.catalog.dropTempView(view)  # not before: it uncaches what the view shows
