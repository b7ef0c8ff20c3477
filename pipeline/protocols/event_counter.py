"""What the events of a batch are, counted while they are appended (`SourceProtocol.predict`, by commit ts).

A batch of this ordering has more than rows: watermarks, repeated descriptions. They are no changes, so that they leave
the frame before it is appended; what they say is counted before that, in the same pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from pipeline.model.columns import CommitTs
from pipeline.model.conditions import how_many
from pipeline.model.messages import Messages, SeenVersion
from pipeline.model.places import stands_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from pipeline.model.columns import TableVersion
    from pipeline.model.messages import Kind, TableMessages
    from pipeline.model.places import Partition, Range

MOST_PARTITIONS = 64
"""The watermarks of each partition are a counter of their own."""


@dataclass(frozen=True, slots=True)
class EventKinds:
    """Which of a batch's events are what: conditions on a prepared frame, of which NULL is no.

    `row` and `other` are of the kinds that are expected; an event that is none of these makes the prediction wrong.
    """

    row: Column
    watermark: Column
    other: Column
    commit_ts: Column


@dataclass(slots=True)
class EventCounter:
    """The events within these ranges."""

    ranges: Mapping[Partition, Range]
    _observation: Observation = field(default_factory=Observation)

    def rows(self, prepared: DataFrame, sorts: EventKinds) -> DataFrame:
        """The events that are rows; where this frame is read, all events are counted."""
        row, mark, other = (F.coalesce(sort, F.lit(False)) for sort in (sorts.row, sorts.watermark, sorts.other))
        counted = prepared.observe(
            self._observation,
            F.count(F.lit(1)).alias("events"),
            how_many(row).alias("rows"),
            how_many(mark | other).alias("control"),
            F.min(F.when(row, sorts.commit_ts)).alias("since"),
            F.max(F.when(row, sorts.commit_ts)).alias("until"),
            *(
                F.max(F.when(mark & stands_in(partition), sorts.commit_ts)).alias(f"mark{number}")
                for number, partition in enumerate(self.ranges)
            ),
        )
        return counted.where(row)

    def seen(self, version: TableVersion, *, key_only: bool = False) -> SeenVersion:
        """A version as if it had rows everywhere at any time."""
        first = {at: low for at, (low, _) in self.ranges.items()}
        last = {at: high - 1 for at, (_, high) in self.ranges.items()}
        return SeenVersion(version, first, last, 0, key_only)

    def messages(self, table: TableMessages, kinds: frozenset[Kind]) -> Messages | None:
        """What the batch has, when it has been read; None where an event was of no kind expected."""
        counts = self._observation.get
        if counts["events"] != counts["rows"] + counts["control"]:
            return None
        since, until = counts["since"] or 0, counts["until"] or 0
        first, *others = (replace(one, since=since, until=until) for one in table.versions)
        seen = (replace(first, rows=counts["rows"]), *others)
        marks = {at: counts[f"mark{number}"] for number, at in enumerate(self.ranges)}
        return Messages(
            tables=(replace(table, versions=seen),) if counts["rows"] else (),
            watermarks={at: CommitTs(mark) for at, mark in marks.items() if mark is not None},
            starts={at: low for at, (low, _) in self.ranges.items()},
            ends={at: high for at, (_, high) in self.ranges.items()},
            events=counts["events"],
            control=counts["control"],
            kinds=kinds,
        )
