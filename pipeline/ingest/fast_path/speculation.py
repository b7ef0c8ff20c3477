"""Appending a large batch before it has been read, on the prediction that it is like the one before.

Which tables and schema versions a batch has is known when it has been read, and reading it for that alone takes a
large batch of one table a fifth of its time. So it is appended on a branch of the changes table as if it were like
the one before, and what it has is counted in the same pass. Where the prediction was right in every point, main shows
the branch when it is the append's turn; where it was not, the branch goes and the batch is read first, as any other.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pipeline.ingest.routed import RoutedBatch, SpeculativeAppend
from pipeline.model.messages import EVER
from pipeline.model.names import TableName
from pipeline.observe.logs import bound
from pipeline.warehouse import changes
from pipeline.warehouse.altered import may_be_written
from pipeline.warehouse.changes import Entry
from pipeline.warehouse.pairs import State
from pipeline.warehouse.staged import stage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack

    from pyspark.sql import DataFrame

    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.reading import EventReader
    from pipeline.ingest.routed import RawBatch
    from pipeline.model.columns import SchemaId
    from pipeline.model.messages import Kind, Messages, Prediction
    from pipeline.model.places import Partition, Range
    from pipeline.sources.source import Planned
    from pipeline.warehouse.changes import Appended
    from pipeline.warehouse.pairs import TablePair

LEAST_ROWS = 10_000
"""A smaller batch is read sooner than a branch is made and shown."""


def append_while_reading(
    context: PipelineContext, reader: EventReader, raw: RawBatch, resources: ExitStack
) -> RoutedBatch | None:
    """Append the batch while it is read; None where it has to be read first. `resources` drops an append of no use.

    It is read first after a crash, while pending records may come in, where it is small, and where it is not expected
    to be like the ones before, or was not.
    """
    if context.run.recovering or reader.may_have_pending:
        return None
    stream_ids = context.source.stream_ids()
    speculation = _speculate(context, raw.frame, raw.planned, stream_ids)
    if speculation is None:
        return None
    resources.callback(speculation.drop)
    messages = reader.sifted(speculation.messages, stream_ids)
    frame = reader.prepared(raw.frame)
    return RoutedBatch(raw, context.run.batch_id, frame, messages, stream_ids, speculation)


def _speculate(
    context: PipelineContext, raw: DataFrame, planned: Planned | None, stream_ids: Mapping[str, str]
) -> SpeculativeAppend | None:
    """Append the batch on a branch as if it were as expected; None if none is expected, or it turned out otherwise."""
    batch_id = context.run.batch_id
    versions = planned.versions if planned else None
    name, kinds = _expected(context, versions)
    table = context.tables.find(name) if name else None
    committed = context.run.ledger.committed.of_names({stream_id: name for name, stream_id in stream_ids.items()})
    ranges = _ranges(planned, committed) if planned else {}
    if context.source.count(ranges) < LEAST_ROWS:
        ranges = {}
    streams = {stream_ids[at.stream] for at in ranges}
    if table is None or table.state != State.LIVE or not table.layout.settled or not ranges:
        return None
    # Rows without a key are read first, to see whether they are sent again. An append says in which streams rows of the
    # table are: other streams may have watermarks alone, or rows of another table of this name (`origins`).
    is_its_own = versions is not None or streams <= table.streams_at()
    if not table.layout.handle or not is_its_own or not may_be_written(context.tables, table):
        return None
    mapping = table.layout.mapping
    prediction = context.protocol.predict(raw, kinds, ranges, mapping)
    if prediction is None:
        return None
    rules = context.rules_of(prediction.table, table.layout)
    if rules.gates and context.settings.quality.fenced == "hold":
        return None  # which keys wait is known when the batch has been read
    context.spark.sparkContext.setJobDescription(f"batch {batch_id}: {table.source}: append changes while reading")
    ends = {(stream_ids[at.stream], at.number): end for at, (_, end) in ranges.items()}
    with bound(table=str(table.source)):
        entry = Entry(batch_id, ends, f"batch{batch_id}", rules, prediction.odd)
        staged = stage(table, entry, partial(changes.append, table, prediction.frame, entry))
        context.step("speculated")
    messages = prediction.messages() if _is_right(prediction, staged.appended) else None
    if messages is not None and _is_of(table, messages):
        return SpeculativeAppend(staged, mapping, rules, messages)
    staged.drop()
    return None


def _expected(
    context: PipelineContext, versions: frozenset[tuple[TableName, SchemaId]] | None
) -> tuple[TableName | None, frozenset[Kind]]:
    """The table whose rows a batch is expected to have, and the kinds: as the source says, else as the last ones."""
    profile = context.run.profile
    if versions is None:
        return profile.table, profile.kinds
    if len(versions) != 1:
        return None, frozenset()
    table = next(iter(versions))[0] if profile.begins else profile.table
    return table, context.protocol.kinds_of_rows(versions)


def _is_right(prediction: Prediction, appended: Appended) -> bool:
    """Whether every message was of an expected kind, and none is missing; a damaged message is not another kind.

    A pass that has not counted each row once has counted nothing of use (`protocols.event_counter`).
    """
    counted = appended.rows + appended.errors + appended.quarantined
    return not (appended.odd or appended.recounted) and prediction.rows in {counted, None}


def _is_of(table: TablePair, messages: Messages) -> bool:
    """Whether the name has meant this table at the time of every row (ordering by commit ts)."""
    names = {part.table.key for part in messages.tables}
    begun = [
        binding.since
        for binding in table.by_commit_ts.bindings
        if TableName(binding.schema, binding.table).key in names and binding.until == EVER
    ]
    return all(seen.since > since for since in begun for part in messages.tables for seen in part.versions)


def _ranges(planned: Planned, committed: Mapping[Partition, int]) -> dict[Partition, Range]:
    """The ranges that are new; none if one of them begins before what is committed."""
    start, end = planned.start, planned.end
    news = {at: (start.get(at, 0), until) for at, until in end.items() if until > start.get(at, 0)}
    return {} if any(at not in committed or begin < committed[at] for at, (begin, _) in news.items()) else news
