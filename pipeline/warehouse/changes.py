"""Appending to a changes table: the durable record of what was sent."""

from __future__ import annotations

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

    from pipeline.warehouse.tables import TopicIdPartition, WarehouseTable

ERRORS = "errors"


@dataclass(frozen=True, slots=True)
class Appended:
    """What one append wrote, counted in the same pass. `errors` rows could not be decoded and are not in it."""

    counts: Mapping[str, int] = field(default_factory=dict)

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
    observed = Observation()
    made = _recipe(tuple(column.name for column in table.layout.columns))
    reached = {**table.ends, **ends}
    counted = frame.observe(observed, *made.counters).where(made.readable)
    stamped = counted.withColumns({change.BATCH_ID: F.lit(batch_id).cast("bigint")})
    (
        made.rows.of(stamped)
        .writeTo(table.name.changes.sql)
        .option(f"snapshot-property.{ENDS}", write_ends(reached))
        .option(f"snapshot-property.{OPERATION}", operation)
        .append()
    )
    table.changes.refresh()
    table.ends = reached
    return Appended({name: count for name, count in observed.get.items() if count})


@dataclass(frozen=True, slots=True)
class _Recipe:
    counters: tuple[Column, ...]
    readable: Column
    rows: Projection


@lru_cache(maxsize=1024)
def _recipe(columns: tuple[str, ...]) -> _Recipe:
    """What an append takes: it depends on nothing but the table's columns."""
    stamped = {change.INGESTED_AT: F.current_timestamp().alias(change.INGESTED_AT)}
    names = (*change.ENVELOPE, *columns)
    rows = Projection(stamped.get(name, F.col(quoted(name))) for name in names)
    return _Recipe(tuple(_counters()), F.col(ERROR).isNull(), rows)


def _counters() -> Iterator[Column]:
    good = F.col(ERROR).isNull()
    yield F.count_if(~good).alias(ERRORS)
    for op in Op:
        yield F.count_if(good & (F.col(change.OP) == op.value)).alias(op.value)
