"""The statements of a batch by offset: what each asks for, of which table, and what names mean before the first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline import ddl as text
from pipeline.ddl.spelling import spelled
from pipeline.ddl.statement import Statement
from pipeline.ddl.table_ref import PairRef
from pipeline.ingest.by_offset.shared_names import checked
from pipeline.ingest.phases import PropertyNote
from pipeline.model.messages import Origin
from pipeline.model.names import TableName
from pipeline.model.places import Partition
from pipeline.protocols.overrides import overridden
from pipeline.warehouse.pairs import State
from pipeline.warehouse.state import BINDINGS, CALLED
from pipeline.warehouse.stored import SourceNames, StoredNames

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.ingest.by_offset.names import PastDdl
    from pipeline.ingest.by_offset.origins import Origins
    from pipeline.ingest.by_offset.stages import Bindings
    from pipeline.ingest.context import PipelineContext
    from pipeline.model.messages import Ddl, Messages
    from pipeline.model.names import Name


def understood(context: PipelineContext, messages: Messages, origins: Origins) -> tuple[Statement, ...]:
    """The statements of a batch with what they ask for, of tables and columns as the rows will have them."""
    as_text = {t.source.key: any(c.tidb_type == "DECIMAL" for c in t.layout.columns) for t in context.tables}
    statements = (_understood(context, ddl, origins, as_text) for ddl in messages.ddl)
    return tuple(_placed(context, statement) for statement in statements)


def _understood(context: PipelineContext, ddl: Ddl, origins: Origins, as_text: Mapping[Name, bool]) -> Statement:
    spell, source = context.protocol.as_sent, ddl.in_source or ddl.table
    origin = Origin(min(ddl.at, default=Partition("", 0)).stream)

    def here(table: TableName) -> TableName:
        sent = TableName(spell(table.schema), spell(table.table))
        return origins.name_of(origin, sent) if sent.table else sent

    decimals_as_text = as_text.get(ddl.table.key, context.protocol.decimals_as_text)
    read = text.parse(ddl.kind, ddl.sql, source, decimals_as_text=decimals_as_text)
    renames = [action.old for action in read if isinstance(action, text.RenameTable)]
    sent = replace(ddl, table=ddl.table if renames else here(source))
    actions = overridden([spelled(action, spell, here) for action in read], context.overrides, sent.table)
    tables = tuple(here(table) for table in text.named_tables(ddl.sql, source))
    named = renames or [source] * bool(source.table)
    sources = tuple((here(table).key, table) for table in named) if ddl.in_source else ()
    return Statement(sent, actions, tables, sources)


def _placed(context: PipelineContext, statement: Statement) -> Statement:
    """The statement; where nothing tells which rows of other partitions come after it, one that is not understood."""
    streams = context.source.streams() if statement.needs_place else {}
    crowded = [one for at in statement.ddl.at if (one := streams.get(at.stream)) and len(one.partitions) > 1]
    if not crowded:
        return statement
    why = f"{context.source.stream_noun} {crowded[0].name} has {len(crowded[0].partitions)} partitions"
    return statement.not_understood(f"{why}, and {statement.ddl.alone}", [table.source for table in context.tables])


def names_before(
    context: PipelineContext, batch_id: int, statements: Sequence[Statement]
) -> tuple[Bindings, tuple[PropertyNote, ...]]:
    """What names meant before the first statement of this batch, also in a second try of it; and what is to be noted.

    It is noted beside the history, where statements change what names mean.
    """
    if not statements:
        return {}, ()
    history = context.records.tables["ddl_history"]
    saved = history.inherited(BINDINGS)
    if saved is not None and saved.batch == batch_id:
        return {name: PairRef(uuid) for name, uuid in saved.names.items()}, ()
    names = {t.source.key: t.uuid for t in context.tables if t.state is not State.DROPPED}
    notes = [PropertyNote(history, BINDINGS.entry(StoredNames(batch_id, names)), inherited=True)]
    before: Bindings = {name: PairRef(uuid) for name, uuid in names.items()}
    return before, tuple(notes) if any(statement.naming for statement in statements) else ()


def attributed(
    context: PipelineContext, batch_id: int, statements: tuple[Statement, ...], past: PastDdl, names: Bindings
) -> tuple[tuple[Statement, ...], tuple[PropertyNote, ...]]:
    """The statements without doubts of whose they are (`shared_names`); what the source calls tables is to be noted."""
    is_new = [statement.ddl.in_source is not None and not past.has(statement.ddl) for statement in statements]
    news = [statement for statement, new in zip(statements, is_new, strict=True) if new]
    if not news:
        return statements, ()
    history = context.records.tables["ddl_history"]
    saved = history.inherited(CALLED) or SourceNames(-1, {}, {})
    called = dict(saved.before if saved.batch == batch_id else saved.after)
    displaced = {table.source.key for table in context.tables if table.is_displaced}
    safe, after = checked(news, called, names.keys() - displaced)
    rest = iter(safe)
    checked_statements = tuple(next(rest) if new else s for s, new in zip(statements, is_new, strict=True))
    is_noted = after == called and (not after or saved.batch == batch_id)
    noted = CALLED.entry(SourceNames(batch_id, called, after))  # anew with each batch: an expiry stops at the newest
    return checked_statements, () if is_noted else (PropertyNote(history, noted, inherited=True),)
