"""Statements that a later batch brings, and that rows of this one may come after (decision 013).

Some protocols have a statement in partition 0 alone, and a run that catches up may read a row of another partition
before it. TiCDC sends nothing of what comes after a statement until that is acknowledged. So partition 0 has by now
every statement that a row of this batch may come after: in the batch, or behind it. The latter are kept in
`_pipeline.held` before the batch is read. From there on they wait as statements of an earlier batch do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.ingest import reading
from pipeline.ingest.by_commit_ts.ordering import ByCommitTs
from pipeline.ingest.by_commit_ts.timeline import understood
from pipeline.ingest.set_aside import pending
from pipeline.ingest.set_aside.pending import DDL_PENDING, WAS_PENDING
from pipeline.model.frontier import NEVER, after_ddl
from pipeline.model.places import Partition
from pipeline.protocols.ddl import MOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.routed import RawBatch
    from pipeline.model.messages import Ddl


def foresee(context: PipelineContext, raw: RawBatch) -> None:
    """Keep the statements that partition 0 has behind a batch; what was searched before is not read again."""
    protocol, source = context.protocol, context.source
    if protocol.first_partition_statements(raw.frame) is None:
        return
    protocol.foresee(())
    behind = _behind(context, raw)
    context.run.foreseen |= behind
    ahead = source.ahead(behind)
    candidates = protocol.first_partition_statements(ahead.raw.select(*source.columns)) if ahead else None
    if ahead is None or candidates is None:
        return
    reading.describe_job(context, "statements behind the batch")
    records = candidates.limit(MOST).toArrow()
    if records.num_rows and _keep(context, context.spark.createDataFrame(records)):
        foresee(context, raw)  # some were compressed inside: now they are read
    context.run.foreseen |= ahead.ends


def _behind(context: PipelineContext, raw: RawBatch) -> dict[Partition, int]:
    """From where on partition 0 of each stream that has several was not read.

    A partition of which nothing has been read had nothing when the batch was planned.
    """
    streams, planned = context.source.streams(), raw.planned.end if raw.planned else {}
    firsts = [Partition(name, 0) for name, stream in streams.items() if len(stream.partitions) > 1]
    committed = context.run.ledger.committed.of(streams)
    ends = {at: max(each.get(at, 0) for each in (planned, committed, context.run.foreseen)) for at in firsts}
    return {at: end for at, end in ends.items() if end > 0}


def _keep(context: PipelineContext, records: DataFrame) -> bool:
    """Keep those that are statements, unless they are kept, or were applied. True: prepare them again."""
    prepared = context.protocol.prepare(records).withColumn(WAS_PENDING, F.lit(False))
    messages = reading.routed(context, prepared, dict(context.source.stream_ids()), ByCommitTs(context).reader())
    if messages.prepare_again:
        return True
    news = [statement for statement in messages.ddl if _is_news(statement, context.run.ledger.progress.frontiers)]
    context.protocol.foresee(news)
    kept = [(understood(context, ddl), ddl.table, f"{DDL_PENDING}: {ddl.sql}") for ddl in news]
    if kept:
        pending.keep(context, pending.not_kept(context, prepared), context.run.batch_id, {}, kept)
        context.run.has_pending = True
    return False


def _is_news(statement: Ddl, frontiers: Mapping[Partition, int]) -> bool:
    return any(after_ddl(statement.commit_ts) > frontiers.get(at, NEVER) for at in statement.at)
