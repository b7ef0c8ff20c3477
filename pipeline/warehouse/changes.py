"""Appending to a changes table: the durable record of what was sent."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.change import ERROR, Op
from pipeline.model.names import quoted
from pipeline.model.projection import Projection
from pipeline.warehouse.tables import ENDS, OPERATION, write_ends

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame

    from pipeline.model.messages import Guess
    from pipeline.warehouse.tables import TopicIdPartition, WarehouseTable

ERRORS = "errors"
_ODD = "odd"
_STAMP = "_stamp"
"""Batch number and time as one array, read by an index that is no constant: Spark would write constants into the code
that it generates, and every batch would compile and warm up the decoding of every table anew."""


@dataclass(frozen=True, slots=True)
class Appended:
    """What one append wrote, counted in the same pass.

    `errors` rows could not be decoded and are not in it; `odd` ones are messages of another kind than was guessed.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    odd: int = 0

    @property
    def rows(self) -> int:
        """Changes appended."""
        return sum(count for op, count in self.counts.items() if op != ERRORS)

    @property
    def errors(self) -> int:
        """Messages that are not in the table because they cannot be decoded."""
        return self.counts.get(ERRORS, 0)


def append(
    table: WarehouseTable,
    frame: DataFrame,
    batch_id: int,
    ends: Mapping[TopicIdPartition, int],
    operation: str,
) -> Appended:
    """Append a change frame in one commit that also carries how far the table has come.

    `ends`: end offset (exclusive) per topic id and partition, for the partitions of this append alone.
    """
    observed, reached = Observation(), {**table.ends, **ends}
    _write(_rows(table, frame, observed, batch_id), table.name.changes.sql, reached, operation)
    table.changes.refresh()
    table.ends = reached
    return _appended(observed)


def append_on_branch(
    table: WarehouseTable,
    branch: str,
    guess: Guess,
    batch_id: int,
    ends: Mapping[TopicIdPartition, int],
    operation: str,
) -> Appended:
    """As `append`, but on a branch: main has it, and the table its ends, when the branch is published."""
    observed = Observation()
    rows = _rows(table, guess.frame, observed, batch_id, guess.odd)
    _write(rows, table.name.changes.branch(branch), {**table.ends, **ends}, operation)
    table.changes.refresh()
    return _appended(observed)


def _rows(
    table: WarehouseTable, frame: DataFrame, observed: Observation, batch_id: int, odd: Column | None = None
) -> DataFrame:
    """The rows that a change frame adds, counted on the way."""
    made = _recipe(tuple(column.name for column in table.layout.columns))
    counters = made.counters if odd is None else (*made.counters, F.count_if(odd).alias(_ODD))
    counted = frame.observe(observed, *counters).where(made.readable)
    stamp = F.array(F.lit(batch_id), F.lit(time.time_ns() // 1000)).cast("array<bigint>")
    return made.rows.of(counted.withColumns({_STAMP: stamp}))


def _write(rows: DataFrame, target: str, reached: dict[TopicIdPartition, int], operation: str) -> None:
    writer = rows.writeTo(target)
    for name, value in {ENDS: write_ends(reached), OPERATION: operation}.items():
        writer = writer.option(f"snapshot-property.{name}", value)
    writer.append()


def _appended(observed: Observation) -> Appended:
    counts = {name: count for name, count in observed.get.items() if count}
    return Appended(counts, counts.pop(_ODD, 0))


@dataclass(frozen=True, slots=True)
class _Recipe:
    counters: tuple[Column, ...]
    readable: Column
    rows: Projection


@lru_cache(maxsize=1024)
def _recipe(columns: tuple[str, ...]) -> _Recipe:
    """What an append takes: it depends on nothing but the table's columns."""
    zero = F.least(F.col(change.PARTITION), F.lit(0))
    stamped = {
        change.BATCH_ID: F.col(_STAMP)[zero].alias(change.BATCH_ID),
        change.INGESTED_AT: F.timestamp_micros(F.col(_STAMP)[zero + 1]).alias(change.INGESTED_AT),
    }
    rows = Projection(stamped.get(name, F.col(quoted(name))) for name in (*change.ENVELOPE, *columns))
    return _Recipe(tuple(_counters()), F.col(ERROR).isNull(), rows)


def _counters() -> Iterator[Column]:
    good = F.col(ERROR).isNull()
    yield F.count_if(~good).alias(ERRORS)
    for op in Op:
        yield F.count_if(good & (F.col(change.OP) == op.value)).alias(op.value)
