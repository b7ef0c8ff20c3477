"""The one place that asks how the changes of a pipeline are ordered."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pipeline.ingest.batch import micro_batch
from pipeline.ingest.by_commit_ts.foreseen import foresee
from pipeline.ingest.by_commit_ts.ordering import ByCommitTs
from pipeline.ingest.by_offset.ordering import ByOffset
from pipeline.model.messages import Ordering

if TYPE_CHECKING:
    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.phases import CommittedBatch
    from pipeline.ingest.routed import RawBatch
    from pipeline.model.messages import SourceProtocol

T = TypeVar("T")


def chosen(context: PipelineContext, *, by_offset: T, by_commit_ts: T) -> T:
    """One of two things, by the ordering of the pipeline's protocol."""
    return by_commit_ts if context.protocol.ordering is Ordering.BY_COMMIT_TS else by_offset


def may_have_pending(protocol: SourceProtocol) -> bool:
    """Whether records may wait by themselves: by offset they wait for a person alone."""
    return protocol.ordering is Ordering.BY_COMMIT_TS


def take_batch(context: PipelineContext, raw: RawBatch) -> CommittedBatch | None:
    """Take one micro-batch (`batch.micro_batch`) in the ordering of the pipeline's protocol."""
    context.protocol.begin(context.run.ledger.ordering, raw.frame)
    if context.protocol.ordering is Ordering.BY_COMMIT_TS:
        foresee(context, raw)
        return micro_batch(ByCommitTs(context), raw)
    return micro_batch(ByOffset(context), raw)
