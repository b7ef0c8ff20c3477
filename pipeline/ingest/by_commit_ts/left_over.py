"""Rows that a try of a batch held back and then died."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.ingest.set_aside import pending
from pipeline.ingest.set_aside.pending import DDL_PENDING, WAS_PENDING
from pipeline.model.conditions import any_of
from pipeline.model.messages import Part
from pipeline.model.names import TableName
from pipeline.model.places import POSITION, Partition, stands_in
from pipeline.warehouse import advance

if TYPE_CHECKING:
    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.routed import RoutedBatch


def parts(context: PipelineContext, routed: RoutedBatch) -> dict[Part, str]:
    """These rows, with the reason for which they wait.

    The appends of that try say how far they went, by position. So what they left out is found neither there nor beyond.
    It waits for the next batch, as it would have then.
    """
    raw, ledger = routed.frame.where(~F.col(WAS_PENDING)), context.run.ledger
    left: dict[Part, str] = {}
    for table in context.tables:
        begun = {at: (ledger.ends.get(at, 0), end) for at, end in table.ends.items()}
        if all(low >= end for low, end in begun.values()):
            continue
        high = advance.appended_up_to(table, ledger.unfinished)
        if high is None:
            continue
        within = any_of(
            stands_in(Partition(name, number)) & (F.col(POSITION) < end)
            for (stream, number), (_, end) in begun.items()
            for name, identity in routed.stream_ids.items() if identity == stream
        )  # fmt: skip
        for binding in table.by_commit_ts.bindings:
            if binding.until > high:
                part = Part(TableName(binding.schema, binding.table), max(binding.since, high), binding.until)
                if not raw.where(pending.rows_of(context.protocol, [part]) & within).isEmpty():
                    left[part] = f"{DDL_PENDING}: an earlier try of the batch left them for the next one"
    return left
