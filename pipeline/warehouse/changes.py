"""Appending to a changes table: the durable record of what was sent.

The rows of an append are counted in the pass that writes them (`observe`). Spark counts each row once if the count is
in the last stage of the job. The driver takes one success of each task there; failed attempts and speculative copies
count nothing (`DAGScheduler.handleTaskCompletion`; an `AggregatingAccumulator` leaves failed ones out). Below a shuffle
a row may count twice. A map stage counts again when it is run again for a lost executor. A range partitioning, which
`WRITE ORDERED BY` asks for, runs everything once before, to sample it. So an append is written without a shuffle,
whatever the table's distribution is, and the count is compared with what was committed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.change import ERROR, Op
from pipeline.model.conditions import how_many
from pipeline.model.names import quoted
from pipeline.model.projection import Projection, walled
from pipeline.quality.rules import RuleSet
from pipeline.quality.suites import SETTING_ASIDE
from pipeline.warehouse.iceberg import MAIN
from pipeline.warehouse.state import ENDS, LATE, OPERATION, TIMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from pipeline.model.places import PartitionId
    from pipeline.quality.rules import RuleResult
    from pipeline.warehouse.pairs import TablePair

ERRORS = "errors"
QUARANTINED = "aside"
_ODD = "odd"
_NEWEST = "newest"
STAMP = "_ticdc#stamp"
"""Batch number and time as one array, read by an index that is no constant: Spark would write constants into the code
that it generates, and every batch would compile and warm up the decoding of every table anew."""
NO_RULES = RuleSet()
IN_ONE_STAGE = {"distribution-mode": "none"}
"""Each task writes its own rows, in the table's sort order if it has one: no shuffle comes after the count."""


@dataclass(frozen=True, slots=True)
class Appended:
    """What one append wrote, counted in the same pass.

    `errors` rows could not be decoded and `quarantined` ones broke a rule: they are not in it. `odd` ones are messages
    of another kind than was predicted. `results`: what the rules say. `newest`: the greatest commit ts, 0 where none
    is known. `recounted`: whether the pass that wrote them has not counted each row once.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    errors: int = 0
    quarantined: int = 0
    odd: int = 0
    results: tuple[RuleResult, ...] = ()
    newest: int = 0
    recounted: bool = False

    @property
    def rows(self) -> int:
        """Changes appended."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Entry:
    """What an append is, besides its rows.

    `ends`: end position (exclusive) that the table has with it, of the partitions of this batch alone.
    `odd` says of a row that it is counted as such.
    """

    batch_id: int
    ends: Mapping[PartitionId, int]
    operation: str
    rules: RuleSet = NO_RULES
    odd: Column | None = None
    fenced: bool = False
    """Whether the frame is judged already, and says of rows that they are `_fenced`: they go aside too."""
    times: tuple[int, int] | None = None
    """By commit ts: no row has a commit ts below the first or above the second."""
    late: bool = False
    """Whether its rows show although their time may be over: they were set aside when it came."""

    @property
    def summary(self) -> dict[str, str]:
        """What its commit says of itself, besides how far the table has come."""
        summary = OPERATION.entry(self.operation)
        if self.times is not None:
            summary |= TIMES.entry(self.times)
        return summary | LATE.entry(True) if self.late else summary


def append(table: TablePair, frame: DataFrame, entry: Entry, branch: str | None = None) -> Appended:
    """Judge a change frame and append it in one commit, which also carries how far the table has come.

    On a branch: main has it, and the table its ends, when that is published.
    """
    observed, reached = Observation(), {**table.ends, **entry.ends}
    target = table.name.changes.branch(branch) if branch else table.name.changes.sql
    mine = judged(table, frame, entry)
    rows = mine.rows(mine.frame.observe(observed, *mine.counters).withColumns({STAMP: stamp(entry.batch_id)}))
    _write(rows, target, {**ENDS.entry(reached), **entry.summary})
    table.changes.refresh()
    if not branch:
        table.ends = reached
    appended = appended_by(observed.get, entry.rules)
    committed = table.changes.added_by(OPERATION, entry.operation, branch or MAIN)
    return appended if appended.rows == committed else _recounted(mine, entry, committed)


@dataclass(frozen=True, slots=True)
class JudgedChanges:
    """A change frame with the bits of the rules, and what is counted of it."""

    frame: DataFrame
    counters: Sequence[Column]
    _enters: Column
    _rows: Projection

    def rows(self, stamped: DataFrame) -> DataFrame:
        """The rows that are added of such a frame, with `STAMP`."""
        return self._rows.of(stamped.where(self._enters))


def judged(table: TablePair, frame: DataFrame, entry: Entry) -> JudgedChanges:
    """What an append makes of a change frame."""
    own = tuple(column.name for column in table.layout.columns)
    columns = (*own, change.BEFORE) if table.layout.before else own
    made = _recipe(columns, table.not_ours, entry.rules, entry.fenced)
    odd = [] if entry.odd is None else [how_many(entry.odd).alias(_ODD)]
    rows = frame if entry.fenced else entry.rules.judged(frame)
    return JudgedChanges(rows, [*made.counters, *odd], made.enters, made.rows)


def as_written(spark: SparkSession, table: TablePair) -> DataFrame:
    """A changes table with the columns that its newest snapshot was written with.

    Somebody may have altered them since (`TablePair.altered`): a table that is held for that can still be asked what a
    try that died has appended to it. Conditions stay above the scan: Iceberg looks for their columns among today's.
    """
    name, head = table.name.changes.sql, table.changes.head() if table.altered else None
    if head is None:
        return spark.table(name)
    return walled(spark.sql(f"SELECT * FROM {name} VERSION AS OF {head:d}"))  # noqa: S608 - a name and a number of ours


def _write(rows: DataFrame, target: str, summary: Mapping[str, str]) -> None:
    writer = rows.writeTo(target)
    for name, value in IN_ONE_STAGE.items():
        writer = writer.option(name, value)
    for name, value in summary.items():
        writer = writer.option(f"snapshot-property.{name}", value)
    writer.append()


def stamp(batch_id: int) -> Column:
    """The value of `STAMP` for what is appended now."""
    return F.array(F.lit(batch_id), F.lit(time.time_ns() // 1000)).cast("array<bigint>")


def _recounted(mine: JudgedChanges, entry: Entry, committed: int) -> Appended:
    """Count in a pass of its own: an aggregate, unlike an observation, has each row once, however often Spark runs."""
    counted = mine.frame.agg(*mine.counters).collect()[0].asDict()
    appended = replace(appended_by(counted, entry.rules), recounted=True)
    if appended.rows != committed:
        raise AssertionError(f"{entry.operation}: {committed} rows were committed of {appended.rows} that there are")
    return appended


def appended_by(counted: Mapping[str, Any], rules: RuleSet) -> Appended:
    """What an append was, by what its counters have counted."""
    counts = {op.value: counted[op.value] for op in Op if counted[op.value]}
    errors, quarantined, odd = (counted.get(name) or 0 for name in (ERRORS, QUARANTINED, _ODD))
    judged = sum(counts.values()) + quarantined - counts.get(Op.DELETE.value, 0)
    return Appended(counts, errors, quarantined, odd, rules.results(counted, judged), counted[_NEWEST] or 0)


@dataclass(frozen=True, slots=True)
class _Recipe:
    counters: tuple[Column, ...]
    enters: Column
    rows: Projection


@lru_cache(maxsize=1024)
def _recipe(columns: tuple[str, ...], not_ours: tuple[str, ...], rules: RuleSet, fenced: bool) -> _Recipe:  # noqa: FBT001
    """What an append takes: it depends on nothing but the table's columns and rules. `not_ours`: those of users."""
    readable, quarantined = F.col(ERROR).isNull(), rules.breaks(*SETTING_ASIDE)
    if fenced:
        quarantined = quarantined | F.col(change.FENCED)
    enters = readable & ~quarantined if rules.gates else readable
    zero = F.least(F.col(change.PARTITION), F.lit(0))
    stamped = {
        change.BATCH_ID: F.col(quoted(STAMP))[zero].alias(change.BATCH_ID),
        change.INGESTED_AT: F.timestamp_micros(F.col(quoted(STAMP))[zero + 1]).alias(change.INGESTED_AT),
    }
    ours = [stamped.get(name, F.col(quoted(name))) for name in (*change.ENVELOPE, *columns)]
    rows = Projection([*ours, *(F.lit(None).alias(name) for name in not_ours)])
    kept = [how_many(readable & quarantined).alias(QUARANTINED), *rules.counters] if rules.rules else []
    return _Recipe((*_counters(enters), *kept), enters, rows)


def _counters(enters: Column) -> Iterator[Column]:
    yield how_many(F.col(ERROR).isNotNull()).alias(ERRORS)
    for op in Op:
        yield how_many(enters & (F.col(change.OP) == op.value)).alias(op.value)
    yield F.max(F.when(enters, F.col(change.COMMIT_TS))).alias(_NEWEST)
