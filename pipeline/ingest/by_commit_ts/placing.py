"""Which table takes which rows of a batch, once its statements are applied; what no table takes is set aside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.ddl.table_ref import RemovedTable
from pipeline.ingest.by_commit_ts import left_over, redeliveries
from pipeline.ingest.by_commit_ts.pending_records import undescribed
from pipeline.ingest.by_commit_ts.routing import Router
from pipeline.ingest.reading import describe_job
from pipeline.ingest.set_aside.dead_letters import set_aside_refused
from pipeline.ingest.set_aside.pending import rows_of
from pipeline.model.conditions import any_of
from pipeline.model.messages import Undecodable
from pipeline.warehouse.records import SUPERSEDED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

    from pipeline.ingest.by_commit_ts.names import NamesByCommitTs
    from pipeline.ingest.by_commit_ts.redeliveries import Deliveries
    from pipeline.ingest.by_commit_ts.routing import PlacedRows
    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.routed import RoutedBatch
    from pipeline.model.messages import Part

TABLE_REMOVED = "TABLE_REMOVED"


@dataclass(frozen=True, slots=True)
class PlacedBatch:
    """Which table takes which rows. `routed`: the batch without rows that nothing will describe (`undescribed`).

    `pending`: the rows that cannot be placed yet, with the reason. `dead_letters`: by table; `of_removed`: how many of
    tables that are gone. `left_some`: whether a try that died has held rows back.
    """

    routed: RoutedBatch
    rows: tuple[PlacedRows, ...]
    pending: Mapping[Part, str]
    deliveries: Deliveries
    dead_letters: Mapping[str, int]
    of_removed: int
    undescribed: Column | None
    left_some: bool


def place(
    context: PipelineContext, routed: RoutedBatch, names: NamesByCommitTs, unseen: int | None, *, late: bool
) -> PlacedBatch:
    """Find the table of each row. `unseen`, `late`: see `Router`."""
    left = left_over.parts(context, routed) if context.run.recovering else {}
    router = Router(names, unseen, late, left)
    pending = router.pending_parts()
    routed, not_described, dead_letters = _set_aside_undescribed(context, routed, router)
    rows = router.placed(pending)
    gone = [mine for mine in rows if isinstance(mine.table_ref, RemovedTable)]
    of_removed = _set_aside_gone(context, routed, gone)
    placed = tuple(mine for mine in rows if mine not in gone)
    deliveries = redeliveries.seen(context, routed, placed, pending)
    return PlacedBatch(routed, placed, pending, deliveries, dead_letters, of_removed, not_described, bool(left))


def _set_aside_undescribed(
    context: PipelineContext, routed: RoutedBatch, router: Router
) -> tuple[RoutedBatch, Column | None, Mapping[str, int]]:
    """Make dead letters of undescribed rows of dropped tables: no message will describe them any more.

    Gives the batch without them, which rows they are, and how many dead letters there are by table.
    """
    protocol = context.protocol
    refused = [
        undescribed(protocol, rows, "dropped", rows.where & rows_of(protocol, [part]))
        for rows, part in router.undescribed()
    ]
    if not refused:
        return routed, None, {}
    dead_letters = set_aside_refused(context, routed.frame, refused, routed.batch_id, SUPERSEDED)
    where = any_of([F.coalesce(undecodable.where, F.lit(False)) for undecodable in refused])
    return replace(routed, frame=routed.frame.where(~where), small=None), where, dead_letters


def _set_aside_gone(context: PipelineContext, routed: RoutedBatch, gone: Sequence[PlacedRows]) -> int:
    """Make dead letters of rows of tables that are removed, or were never known; how many."""
    protocol = context.protocol
    why = "the table that had this name then is gone: a run removed it (warehouse.drop_table: drop), or never knew it"
    refused = [
        Undecodable(TABLE_REMOVED, why, rows_of(protocol, part.parts), part.messages.rows, protocol.header())
        for part in gone
    ]
    if not refused:
        return 0
    describe_job(context, "dead letters")
    return sum(set_aside_refused(context, routed.frame, refused, routed.batch_id, SUPERSEDED).values())
