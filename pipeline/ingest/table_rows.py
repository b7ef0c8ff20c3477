"""One table's rows of a batch: as frames, and appended, by Spark or, where the batch is small, by the driver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.ingest.set_aside.fence import fence
from pipeline.warehouse import changes, small_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.table_work import TableWork
    from pipeline.model.messages import Recipe, TableMessages
    from pipeline.model.places import Ranges
    from pipeline.quality.rules import RuleSet
    from pipeline.warehouse.changes import Appended, Entry
    from pipeline.warehouse.pairs import TablePair

NOTHING = (2**62, 2**62)
"""The range of a partition of which a table has everything."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of a table that is made. Of ranges, None means all; `pending`: with those that have waited."""

    context: PipelineContext
    work: TableWork
    table: TablePair

    @property
    def known(self) -> TableMessages:
        """The messages of versions that the table has met: all, unless it is held."""
        messages, layout = self.work.messages, self.table.layout
        met = tuple(seen for seen in messages.versions if layout.version(seen.version.version))
        return messages if met == messages.versions else replace(messages, versions=met)

    @property
    def rules(self) -> RuleSet:
        """What judges them."""
        return self.context.rules_of(self.known, self.table.layout)

    @property
    def fences(self) -> bool:
        """Whether changes wait that come after quarantined ones of their key; a redrive sees to that itself."""
        return self.context.settings.quality.fenced == "hold" and self.rules.gates and not self.work.forced

    def append(self, ranges: Ranges | None, entry: Entry, branch: str | None = None) -> Appended:
        """Append those of these ranges, in one commit (`changes.append`)."""
        small = self.work.routed.small
        if small is not None and not self.fences:
            within = self._events(small.empty, ranges, pending=True)
            mine = small_batch.SmallRows(small, within, self._recipe)
            appended = small_batch.append(self.table, mine, entry, branch, self.context.step)
            if appended is not None:
                return appended
        frame = self.judged(ranges) if self.fences else self.frame(ranges)
        return changes.append(self.table, frame, entry, branch)

    def judged(self, ranges: Ranges | None, *, pending: bool = True) -> DataFrame:
        """The change frame of these ranges, with the bits of every rule, and fenced."""
        judged = self.rules.judged(self.frame(ranges, pending=pending))
        if not self.fences:
            return judged
        return fence(self.context, judged, self.rules, self.table.layout, self.work.messages.table)

    def frame(self, ranges: Ranges | None, *, pending: bool = True) -> DataFrame:
        """The change frame of these ranges; see `TableOrdering.within`."""
        return self._recipe.of(self._events(self.work.routed.frame, ranges, pending=pending))

    def _events(self, events: DataFrame, ranges: Ranges | None, *, pending: bool) -> DataFrame:
        if ranges is not None:
            ranges = {**dict.fromkeys(self.work.messages.partitions, NOTHING), **ranges}
        return self.work.ordering.within(self.work, events, ranges, pending=pending)

    @property
    def _recipe(self) -> Recipe:
        return self.context.protocol.recipe(self.known, self.table.layout.mapping)
