"""Appends of a few rows, which the driver decodes, judges, counts and writes without a job (decision 012).

They are those that `changes.append` would make. The plan has the same expressions, made over a frame without rows;
Iceberg's writer and commit are those that a task and the driver of Spark would call.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.observe.logs import get_logger
from pipeline.runtime.driver.catalyst import Catalyst, NotInDriver
from pipeline.runtime.driver.kept import Kept
from pipeline.warehouse import changes
from pipeline.warehouse.changes import STAMP
from pipeline.warehouse.driver_write import begun, plan_of_append, written
from pipeline.warehouse.iceberg import MAIN
from pipeline.warehouse.state import ENDS, IN_DRIVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.model.messages import Recipe
    from pipeline.quality.rules import RuleSet
    from pipeline.runtime.driver.catalyst import DriverPlan, DriverRows
    from pipeline.warehouse.changes import Appended, Entry
    from pipeline.warehouse.pairs import TablePair

MOST_EVENTS = 20_000
MOST_BYTES = 64 << 20
"""A batch of more is for Spark's tasks: they run compiled code on all cores, and hold one row at a time."""
_WIDE = 1 << 20
"""A plan that has made a wider row is not kept: it keeps room for the widest."""


_log = get_logger(__name__)


class SmallBatch:
    """The prepared events of a small batch. They come to the driver when they are first asked for.

    `empty`: a frame with their columns and no rows. Plans are made over it.
    """

    def __init__(self, catalyst: Catalyst, frame: DataFrame, batch_id: int) -> None:
        self._frame = frame
        self._job = f"batch {batch_id}: few rows, for the driver"
        self._collecting = Lock()
        self._rows: DriverRows | None = None
        self.catalyst = catalyst
        self.empty = self.catalyst.empty(frame)

    @classmethod
    def of(
        cls, spark: SparkSession, frame: DataFrame, events: int, batch_id: int, *, is_read: bool = True
    ) -> SmallBatch | None:
        """A batch of so many events as a small one; None where it is not.

        `frame`: as Spark keeps it. How large it is Spark knows when it has read it.
        `spark`: the pipeline's own session. That of a stream's frame goes with the stream, and its plans with it.
        """
        if events > MOST_EVENTS:
            return None
        if not is_read:
            frame.count()
        catalyst = Catalyst.of(spark)
        return cls(catalyst, frame, batch_id) if catalyst.size(frame) <= MOST_BYTES else None

    @property
    def rows(self) -> DriverRows:
        """The events."""
        with self._collecting:  # tables are landed side by side
            if self._rows is None:
                self._rows = self.catalyst.collected(self._frame, self._job)
            return self._rows


class SmallRows(NamedTuple):
    """One table's rows: by `recipe`, of those events that `within` lets through, a frame over the `empty` one."""

    batch: SmallBatch
    within: DataFrame
    recipe: Recipe


def append(
    table: TablePair, mine: SmallRows, entry: Entry, branch: str | None, step: Callable[[str], None]
) -> Appended | None:
    """As `changes.append`. `step` is told when the rows are written, and not yet committed.

    None where that is left to Spark: frames that need more than conditions and select lists, and tables whose rows are
    to be in an order.
    """
    catalyst, reached = mine.batch.catalyst, {**table.ends, **entry.ends}
    summary = {**ENDS.entry(reached), **entry.summary, **IN_DRIVER.entry(True)}
    key = _PlanKey.of(table, mine, entry.rules)
    plan = _plans.get(key, _planned, len(key.columns))
    if plan is None:
        return None
    try:
        write, chosen = begun(table.changes, plan.rows), catalyst.plan(mine.within)
    except NotInDriver:
        return None
    stamp = catalyst.pair(entry.batch_id, time.time_ns() // 1000)
    rows, counts = catalyst.run(mine.batch.rows, chosen, plan.judged, stamp, plan.rows)
    if catalyst.widest(rows) > _WIDE:
        _plans.drop(key)
    appended = changes.appended_by(counts, entry.rules)
    if appended.rows != rows.count:
        raise AssertionError(f"{entry.operation}: {rows.count} rows come of {appended.rows} that were counted")
    files = written(catalyst, table.changes, write, rows)
    step("rows-written")
    table.changes.append_files(files, summary, branch or MAIN)
    table.changes.refresh()
    if not branch:
        table.ends = reached
    return appended


@dataclass(frozen=True, slots=True)
class _AppendPlan:
    """From events to judged changes, which are counted, and from these and `STAMP` to the rows that are added."""

    judged: DriverPlan
    rows: DriverPlan


@dataclass(frozen=True, slots=True)
class _PlanKey:
    """All that a plan depends on."""

    empty: DataFrame
    recipe: Recipe
    rules: RuleSet
    uuid: str
    schema_id: int
    columns: tuple[str, ...]
    """Ours, `_before` among them, and those of users."""
    table: TablePair = field(compare=False)

    @staticmethod
    def of(table: TablePair, mine: SmallRows, rules: RuleSet) -> _PlanKey:
        """The key of a table's appends."""
        ours, target = (column.name for column in table.layout.columns), table.changes
        columns = (*ours, *([change.BEFORE] if table.layout.before else ()), *table.not_ours)
        return _PlanKey(mine.batch.empty, mine.recipe, rules, target.uuid, target.schema_id, columns, table)


_plans: Kept[_PlanKey, _AppendPlan | None] = Kept(12_000)
"""None: such appends are left to Spark. So many columns of tables together: 30 KiB of heap each, as measured."""


def _planned(wanted: _PlanKey) -> _AppendPlan | None:
    """The plan of a table's appends."""
    catalyst = Catalyst.of(wanted.empty.sparkSession)
    mine = changes.judged(wanted.table, wanted.recipe.of(wanted.empty), changes.Entry(0, {}, "", wanted.rules))
    needed = mine.frame.drop(*_NOT_APPENDED, *wanted.rules.numbered)  # where nobody asks for a sum, none is computed
    stamped = catalyst.another_empty(needed.withColumn(STAMP, F.lit(None).cast("array<bigint>")))
    try:
        judged = catalyst.plan(catalyst.counting(needed, mine.counters))
        return _AppendPlan(judged, plan_of_append(catalyst, wanted.table.changes, mine.rows(stamped)))
    except NotInDriver as why:
        _log.info("small batches are left to Spark", table=str(wanted.table.source), why=str(why)[:200])
        return None


_NOT_APPENDED = (change.UNREAD, change.CHECKSUM, change.KEY_BYTES, change.VALUE_BYTES, change.ARRIVED_AT)
