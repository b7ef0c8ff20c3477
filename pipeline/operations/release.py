"""Releasing a held table: its records are replayed in order before newer ones (design.md, rule 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline import ddl as text
from pipeline.errors import Refused
from pipeline.ingest.by_commit_ts import namesakes
from pipeline.ingest.by_offset.origins import Origins
from pipeline.ingest.by_offset.statements import understood
from pipeline.ingest.by_offset.table_ordering import TableByOffset
from pipeline.ingest.ordering import chosen, take_batch
from pipeline.ingest.routed import RawBatch, RoutedBatch
from pipeline.ingest.set_aside.dead_letters import of_table, set_aside_refused
from pipeline.ingest.set_aside.pending import let_next_batch_take, nothing, released
from pipeline.ingest.table_work import TableWork
from pipeline.ingest.table_writer import TableWriter
from pipeline.model.holding import GET_A_KEY, NAMELESS, NO_KEY, WITHOUT_KEY
from pipeline.model.messages import Messages, TableMessages, Undecodable
from pipeline.model.names import TableName, WarehouseName
from pipeline.observe.logs import bound
from pipeline.warehouse import held_names
from pipeline.warehouse.alterations import COLUMNS_CHANGED
from pipeline.warehouse.altered import refuse, restore
from pipeline.warehouse.held import NAME_TAKEN, taken
from pipeline.warehouse.pairs import State
from pipeline.warehouse.raw_records import as_raw, places_since, without
from pipeline.warehouse.records import AT
from pipeline.warehouse.state import OPERATION
from pipeline.warehouse.tables_view import write_tables_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from pipeline.ddl.statement import Statement
    from pipeline.ingest.context import PipelineContext
    from pipeline.model.messages import SeenVersion
    from pipeline.warehouse.pairs import TablePair

NOT_HELD = "NOT_HELD"


def release(context: PipelineContext, source: TableName) -> int:
    """Replay what a held table waits with, then let it live; how many records that were.

    Each step is durable and marked with the operation's id, so that a second try after a crash goes on where the
    first one ended. Raises `Refused` if the table is not held, or the reason for holding it is still there.
    """
    _describe_job(context, source)
    return chosen(context, by_offset=_replayed, by_commit_ts=_let_in)(context, source)


def _replayed(context: PipelineContext, source: TableName) -> int:
    """By offset: replay the records here and now, before any batch takes newer ones."""
    table = context.tables.find(source)
    _columns_back(table)
    if table is not None and table.wanted_name is not None:
        source = _renamed(context, table, table.wanted_name)
    held_records = _held_records(context, source)
    records = held_records.count()
    if records == 0 and (table is None or table.state == State.LIVE):
        if heir := context.tables.heir_of(source):
            _check_name(context, source, heir)
        raise Refused(NOT_HELD, f"{source} is not held", "ticdc-warehouse tables list shows every table's state")
    if table is None:
        _check_name(context, source)
    named, messages, nameless = _named_rows(context, source, held_records, table)
    operation = _begun(context, table)
    _set_aside_refused(context, held_records, (*messages.refused, *nameless), table)
    held_records, part = named, TableMessages(source, _versions(messages))
    statements = _statements(context, messages)
    if part.versions or (statements and table is not None):
        table = _replay(context, _work(context, held_records, part, statements, table, operation))
    if table is not None:
        context.cuts.unrecorded.add(table.uuid)
        nothing_more = TableMessages(table.source, ())
        work = _work(context, held_records, nothing_more, (), table, operation)
        TableWriter(context, work, table).publish()
    _describe_job(context, source)
    context.records.mark_held(source, "released")
    if table is not None:
        context.tables.set_state(table, State.LIVE)
    write_tables_view(context.tables, context.records, max(0, context.run.ledger.batch_id))
    context.step("released")
    return records


def _let_in(context: PipelineContext, source: TableName) -> int:
    """By commit ts: let the records go the way of those that wait by themselves, in a batch that has nothing else.

    If the table is not held but waits for a schema, the rows that still have none become dead letters.
    """
    table = context.tables.find(source)
    _columns_back(table)
    if table is None:
        _check_name(context, source)
    elif table.wanted_name is not None:
        source = _renamed(context, table, table.wanted_name)
    live = table is None or table.state == State.LIVE
    given_up = live and source.key not in released(context.records)  # nor is that the second try of a release
    streams = namesakes.streams_to_let_in(context, source)
    records = let_next_batch_take(context, source)
    named = held_names.forget(context.records, source)
    if records == 0 and live and not named:
        raise Refused(NOT_HELD, f"{source} is not held", "ticdc-warehouse tables list shows every table's state")
    if table is not None:
        context.tables.set_state(table, State.LIVE)
    else:
        context.tables.make_way(source)  # the batch reads tables by name: none is to be another in the middle of it
    context.step("release-begun")
    context.run.has_pending = True
    raw = RawBatch(nothing(context), f"release of {source}", given_up=source.key if given_up else None)
    with bound(batch=context.run.batch_id):
        take_batch(context, raw)
    namesakes.accept(context, source, streams)
    _describe_job(context, source)
    write_tables_view(context.tables, context.records, max(0, context.run.ledger.batch_id))
    context.step("released")
    return records


def _named_rows(
    context: PipelineContext, source: TableName, held_records: DataFrame, table: TablePair | None
) -> tuple[DataFrame, Messages, tuple[Undecodable, ...]]:
    """What waits without the rows that no key names, and these: they are to be dead letters.

    Raises `Refused` (NO_HANDLE_KEY) where the table has no key then: its current table cannot be built.
    """
    messages = context.protocol.read(held_records)
    nameless = tuple(seen for seen in _versions(messages) if seen.version.handle == ())
    keyed = table is not None and bool(table.layout.handle)
    dead_letters: tuple[Undecodable, ...] = ()
    if nameless:
        part = TableMessages(source, nameless)
        without_key = context.protocol.where(part) & F.col("key").isNull()
        dead_letters = (Undecodable(NO_KEY, WITHOUT_KEY, without_key, part.rows),)
        held_records, keyed = held_records.where(~without_key), False
        messages = context.protocol.read(held_records)
    if not keyed and not any(seen.version.handle for seen in _versions(messages)):
        raise Refused(NO_KEY, f"{source} cannot be released: {WITHOUT_KEY}", GET_A_KEY)
    return held_records, messages, dead_letters


def _versions(messages: Messages) -> tuple[SeenVersion, ...]:
    return tuple(seen for named in messages.tables for seen in named.versions)


def _describe_job(context: PipelineContext, source: TableName) -> None:
    """Describe what Spark does from here on, until a batch or a table's writer says otherwise."""
    context.spark.sparkContext.setJobDescription(f"release: {source}")


def _columns_back(table: TablePair | None) -> None:
    """Raise `Refused` where the columns of a table are not what its layout says; else let it find its values again."""
    if table is not None:
        refuse(table, "released")
        restore(table)


def _check_name(context: PipelineContext, source: TableName, renamed: TablePair | None = None) -> None:
    """Raise `Refused` where a table's name in the warehouse is taken."""
    obstacle = context.tables.obstacle(source, renamed)
    if obstacle:
        named = source if renamed is None else renamed.source
        raise Refused(NAME_TAKEN, f"{named} cannot be released: {obstacle}", _way_on(context, source, renamed))


def _way_on(context: PipelineContext, source: TableName, renamed: TablePair | None) -> str:
    """What a person can do about a warehouse name that is taken."""
    owner, apart = context.tables.owner(source, renamed), "or choose another warehouse.namespace"
    if renamed is not None and renamed.is_displaced:
        return "wait for the DDL event that takes the name from that table in the source"
    if owner is None:
        return f"move what is in the way, {apart}"
    if owner.wanted_name is not None:
        return f"first let that table have its own name: {_release_of(owner.wanted_name)}"
    return f"rename or drop {'one of the two' if renamed else owner.source} in the source, {apart}"


def _renamed(context: PipelineContext, table: TablePair, to: TableName) -> TableName:
    """Do the rename that holds a table; gives its name. A second try is begun by the state that says so."""
    cycle = _cycle(context, table)
    if cycle:
        _let_change_names(context, table, cycle)
    _check_name(context, to, table)
    _begun(context, table)
    if table.source.key != to.key:
        context.records.rename_set_aside(table.source, to)
    context.tables.rename(table, to, table.renamed_at)
    return table.source


def _cycle(context: PipelineContext, table: TablePair) -> list[TablePair]:
    """The held tables of a cycle of names, without the table itself: each has the name that the one before waits for.

    It is empty without a cycle. Tables change names in the source by DDL events of one commit ts. If a batch ends
    between two of these, each table finds its new name taken.
    """
    passed: list[TablePair] = []
    owner = context.tables.owner(table.wanted_name, table) if table.wanted_name else None
    while owner is not None and owner is not table and owner.wanted_name is not None and owner not in passed:
        passed.append(owner)
        owner = context.tables.owner(owner.wanted_name, owner)
    return passed if owner is table else []


def _let_change_names(context: PipelineContext, table: TablePair, cycle: Sequence[TablePair]) -> None:
    """Give the tables of a cycle their names: this one steps aside, the others are renamed and stay held."""
    context.tables.move(table, WarehouseName(table.name.namespace, f"{table.name.name}~{table.renamed_at}"))
    context.step("release-stepped-aside")
    for other in reversed(cycle):
        if other.wanted_name is not None:
            why = f"its name was taken until another table was released; to go on: {_release_of(other.wanted_name)}"
            context.tables.rename(other, other.wanted_name, other.renamed_at, reason=taken(why))


def _release_of(table: TableName) -> str:
    return f"ticdc-warehouse tables release {table}"


def unfinished(context: PipelineContext) -> None:
    """Finish the releases that a crash has interrupted. One that can no longer be finished holds its table again.

    That is a rename whose name has been taken since. An earlier version began to release tables without a key, too.
    What it has appended to such a table is deleted, since the same records are still waiting.
    """
    for table in context.tables:
        if table.state != State.RELEASING:
            continue
        if table.altered:  # the release goes on when a person asks for it again
            continue
        obstacle = context.tables.obstacle(table.wanted_name, table) if table.wanted_name else None
        if obstacle is not None:
            _hold_again(context, table, taken(obstacle))
        elif chosen(context, by_offset=not table.layout.handle, by_commit_ts=False):
            if table.changes.head() is not None:
                context.spark.sql(f"DELETE FROM {table.name.changes.sql}")  # noqa: S608 - a name of ours
                table.changes.refresh()
            _hold_again(context, table, NAMELESS)
        else:
            _go_on(context, table)


def _hold_again(context: PipelineContext, table: TablePair, reason: str) -> None:
    context.tables.set_state(table, State.HELD, reason)
    write_tables_view(context.tables, context.records, max(0, context.run.ledger.batch_id))


def _go_on(context: PipelineContext, table: TablePair) -> None:
    """Release a table. It is held again if columns of users are in the way."""
    try:
        release(context, table.source)
    except Refused as refused:
        if refused.code != COLUMNS_CHANGED:
            raise


def _held_records(context: PipelineContext, source: TableName) -> DataFrame:
    held = context.records.read("held").where(of_table(source) & (F.col("status") == "open"))
    place = [*AT[:3]]
    for name in ("dead_letters", "quarantine"):  # a first try's; older ones may be of a stream that was made again
        done = context.records.read(name).where(F.col("batch_id") >= context.run.ledger.batch_id).select(*place)
        held = held.join(done, place, "left_anti")
    return held.select(*as_raw(context.source.restored()))


def _set_aside_refused(
    context: PipelineContext, held_records: DataFrame, refused: Sequence[Undecodable], table: TablePair | None
) -> None:
    """What has become undecodable while it waited goes to the dead letters, but for what a first try has appended."""
    if refused:
        if table is not None:
            appended = places_since(context.spark, table, context.run.ledger.batch_id)
            held_records = without(held_records, appended)
        set_aside_refused(context, held_records, refused, context.run.ledger.batch_id)


def _begun(context: PipelineContext, table: TablePair | None) -> str:
    """The operation's id. The table's state has it until the release has ended."""
    if table is not None and table.state == State.RELEASING:
        return table.held_reason
    operation = f"release{context.records.tables['held'].head()}"
    if table is not None:
        context.tables.set_state(table, State.RELEASING, operation)
        context.step("release-begun")
    return operation


def _statements(context: PipelineContext, messages: Messages) -> list[Statement]:
    """The statements that came while the table was held; what was not understood is passed over now."""
    streams = context.run.ledger.streams
    read = understood(context, messages, Origins.of(context.tables, streams, streams.values()))
    return [s for s in read if not s.naming and not any(isinstance(a, text.NotUnderstood) for a in s.actions)]


def _replay(context: PipelineContext, work: TableWork) -> TablePair:
    """Land the records; a second try appends nothing again."""
    writer = TableWriter(context, work, work.pair)
    writer.evolve()
    if writer.table is not None:
        refuse(writer.table, "released")
    if writer.table is None:
        raise AssertionError(f"{work.messages.table} has records but was not made")
    appended = writer.table.changes.inherited(OPERATION) == work.operation
    counts = {"errors": 1, "quarantined": 1} if appended else writer.append(None)
    context.step("release-appended")
    if counts.get("errors"):
        writer.set_aside_unreadable(None)
    if counts.get("quarantined"):
        writer.quarantine(None, again=appended)
    return writer.table


def _work(
    context: PipelineContext,
    held_records: DataFrame,
    messages: TableMessages,
    statements: Sequence[Statement],
    table: TablePair | None,
    operation: str,
) -> TableWork:
    """The table's part of what waits; a person wants it in."""
    raw = RawBatch(held_records, "release")
    routed = RoutedBatch(raw, context.run.ledger.batch_id, held_records, Messages(), {})
    return TableWork(routed, messages, tuple(statements), table, TableByOffset(context), forced=True, named=operation)
