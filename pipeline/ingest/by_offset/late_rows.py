"""Rows that stand before a late copy of a statement about names: they go to the table that had the name then.

See `warehouse.former_names`. A batch has such rows if an earlier one has applied the statement, by its copy in another
partition.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.ddl.table_ref import PairRef, UnseenTable
from pipeline.ingest.by_offset.stages import Stage, StagedRows, restricted, with_statement, with_unseen
from pipeline.ingest.phases import PropertyNote
from pipeline.model.names import TableName
from pipeline.model.places import Partition
from pipeline.warehouse.former_names import END, FormerNames, ended, table_of
from pipeline.warehouse.state import FORMER_NAMES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pipeline.ddl.bindings import Heirs
    from pipeline.ddl.statement import Statement
    from pipeline.ddl.table_ref import TableRef
    from pipeline.ingest.by_offset.names import NamesByOffset
    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.routed import RoutedBatch
    from pipeline.warehouse.stored import FormerName
    from pipeline.warehouse.tables import Tables


def former_names(
    routed: RoutedBatch, statements: Sequence[Statement], names: NamesByOffset, heirs: Heirs
) -> tuple[FormerNames, tuple[PropertyNote, ...]]:
    """The names that earlier batches have ended, and what is to be noted of those that these statements end, too."""
    context = names.context
    history = context.records.tables["ddl_history"]
    noted = history.property_of(FORMER_NAMES) or ()
    naming = [statement for statement in statements if statement.naming]
    before = with_unseen(naming, names.before, heirs)
    meanings = {name: _pair_of(table_ref, names) for name, table_ref in before.items()}
    news = ended(naming, meanings, heirs, routed.stream_ids, _unread(context, routed) if naming else ())
    former = FormerNames(noted, routed.stream_ids).after(news, routed.messages.ddl, context.run.ledger.ends)
    note = PropertyNote(history, FORMER_NAMES.entry(former.names), inherited=False)
    return former.without(news), () if former.names == noted else (note,)


def _pair_of(table_ref: TableRef, names: NamesByOffset) -> TableRef:
    """The same, or the pair that a first try of the batch has made of a table that nobody had seen."""
    pair = names.made_since(TableName(*table_ref.name)) if isinstance(table_ref, UnseenTable) else None
    return table_ref if pair is None else PairRef(pair.uuid)


def _unread(context: PipelineContext, routed: RoutedBatch) -> Collection[Partition]:
    """The partitions that may have rows before a late copy: TiCDC sends it when all rows before it are acknowledged."""
    streams = context.source.streams()
    partitions = {Partition(name, number): 0 for name, stream in streams.items() for number in stream.partitions}
    reached = {**partitions, **context.run.ledger.committed.of(streams), **routed.messages.ends}
    return context.source.unread(reached)


def with_late_rows(stages: Sequence[Stage], former: FormerNames, tables: Tables) -> tuple[Stage, ...]:
    """The stages, and before them one for each part of the late rows: two of them may be of one table."""
    former = replace(former, names=tuple(one for one in former.names if table_of(tables, one, former.names)))
    if not former.names:
        return tuple(stages)
    statements = [pair for stage in stages for pair in _late_statements(stage, former)]
    applied = [statement for _, statement in statements]
    late: list[StagedRows] = []
    own: list[Stage] = []
    for stage in stages:
        parts = [part for staged in stage.rows for part in _by_table(staged, former)]
        late += [part for part in parts if part.former]
        left = Stage((), tuple(part for part in parts if part.former is None))
        for statement in stage.statements:
            left = left if statement in applied else with_statement(left, statement)
        own.append(left)
    late.sort(key=lambda part: part.former.commit_ts if part.former else 0)
    with_theirs = (part._replace(late=tuple(one for of, one in statements if of == part.former)) for part in late)
    return (*(Stage((), (part,)) for part in with_theirs), *own)


def _late_statements(stage: Stage, former: FormerNames) -> Iterator[tuple[FormerName, Statement]]:
    """The statements about columns whose copies stand where their name is a former one."""
    for statement in stage.statements:
        for partition, position in statement.ddl.at.items() if not statement.naming else ():
            for (start, stop), of in former.pieces(statement.ddl.table.key, partition):
                if of is not None and start <= position < stop:
                    yield of, statement


def _by_table(staged: StagedRows, former: FormerNames) -> Iterator[StagedRows]:
    """The same rows, those apart that have a former name."""
    messages, bounds = staged.messages, staged.bounds
    ranges = {at: (0, END) if bounds is None else bounds.get(at, (0, 0)) for at in messages.partitions}
    parts = former.parts(messages.table.key, ranges)
    if not any(parts):
        yield staged
        return
    for of, within in parts.items():
        part = restricted(messages, within)
        if part is not None:
            yield part._replace(former=of)
