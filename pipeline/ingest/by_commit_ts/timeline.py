"""The statements of a batch by commit ts: which are applied in it, and which wait (docs/explanation/ordering.md).

Those that wait do so because a live partition has not shown them, because tables exchange rows before them, or with the
rows of a table that is held.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline import ddl as text
from pipeline.ddl.name_history import NameHistory
from pipeline.ddl.rename_steps import executable
from pipeline.ddl.statement import Statement, concerned, dropped_databases
from pipeline.ddl.table_ref import PairRef
from pipeline.ingest.ddl import exchange
from pipeline.model.frontier import NEVER, after_ddl
from pipeline.model.names import TableName, folded
from pipeline.protocols.overrides import overridden
from pipeline.warehouse.name_bindings import recorded_bindings
from pipeline.warehouse.pairs import State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from pipeline.ddl.table_ref import TableRef
    from pipeline.ingest.by_commit_ts.namesakes import Namesakes
    from pipeline.ingest.context import PipelineContext
    from pipeline.model.frontier import Frontier
    from pipeline.model.messages import Ddl, DdlIdentity, Messages
    from pipeline.model.names import Name
    from pipeline.warehouse.pairs import TablePair


@dataclass(frozen=True, slots=True)
class DdlTimeline:
    """The statements of a batch by whether they are applied in it, each in the order of commit ts."""

    now: tuple[Statement, ...] = ()
    later: tuple[Statement, ...] = ()
    """Those of a later batch."""
    blocked: tuple[tuple[Statement, str], ...] = ()
    """Those about tables that are held, with the reason of that."""
    barrier: Statement | None = None
    """The first of `later` whose time has come, and which waits for the next batch all the same (`exchange`)."""
    recorded: frozenset[str] = frozenset()
    """Those that the history has already, by `Statement.cause`."""

    @property
    def all(self) -> tuple[Statement, ...]:
        """All statements."""
        return (*self.now, *self.later, *(statement for statement, _ in self.blocked))

    def drops(self, name: Name) -> set[int]:
        """The commit ts of the statements that this batch applies, and that drop what has a name."""
        times: set[int] = set()
        for statement in self.now:
            for action in statement.actions:
                match action:
                    case text.DropTable(table) if table.key == name:
                        times.add(statement.commit_ts)
                    case text.DropDatabase(schema) if folded(schema) == name[0]:
                        times.add(statement.commit_ts)
        return times

    def exchanges(self, names: NameHistory, table_ref: TableRef, besides: int) -> bool:
        """Whether a statement that this batch applies exchanges partitions of a table, but for those of a commit ts."""
        exchanged = (
            (statement.commit_ts, action.table.key)
            for statement in self.now if statement.commit_ts != besides
            for action in statement.actions if isinstance(action, text.ExchangePartition)
        )  # fmt: skip
        return any(names.at(name, commit_ts).table_ref == table_ref for commit_ts, name in exchanged)


def about(names: NameHistory, table_ref: TableRef, statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Those of the statements that are about the columns of a table, in their order."""
    return tuple(statement for statement in statements if _is_about(names, table_ref, statement))


def _is_about(names: NameHistory, table_ref: TableRef, statement: Statement) -> bool:
    table = statement.ddl.table
    if not table.table or any(isinstance(a, text.CreateTable | text.DropTable) for a in statement.actions):
        return False
    return names.at(table.key, statement.commit_ts + bool(statement.naming)).table_ref == table_ref


def classified(
    context: PipelineContext,
    messages: Messages,
    applied_up_to: Callable[[Ddl], Frontier],
    from_held: Collection[DdlIdentity],
    namesakes: Namesakes,
) -> DdlTimeline:
    """The statements understood, and told apart; those that are sent again are left out.

    `applied_up_to`: up to which frontier a statement is applied. `from_held`: those that come from `held`; the
    rest is sent again, if the ledger has passed it (see `_is_redelivered`). `namesakes`: tells what other streams send
    about a table of the same name.
    """
    sent = sorted((understood(context, ddl) for ddl in messages.ddl), key=lambda statement: statement.commit_ts)
    recorded = _recorded(context, [s for s in sent if not s.ddl.at])
    new = [s for s in sent if s.ddl.identity in from_held or not _is_redelivered(s, context, recorded)]
    news = namesakes.checked(_in_order(new, context, {table.table.key for table in messages.tables}), context.tables)
    due = [s for s in news if after_ddl(s.commit_ts) <= applied_up_to(s.ddl)]
    until_exchanged = exchange.after_exchanges(due, exchange.undone(context), exchange.held(context))
    due = [s for s in due if s not in until_exchanged]
    barrier = exchange.barrier(due)
    due = due if barrier is None else due[: due.index(barrier)]
    recorded = _recorded(context, news)
    causes = frozenset(s.cause for s in news if s.ddl.identity in recorded)
    blocked = tuple(_blocked(context, due, causes))
    waiting = [statement for statement, _ in blocked]
    now, later = (s for s in due if s not in waiting), (s for s in news if s not in due)
    return DdlTimeline(tuple(now), tuple(later), blocked, barrier, causes)


def _blocked(
    context: PipelineContext, statements: Iterable[Statement], recorded: Iterable[str]
) -> Iterator[tuple[Statement, str]]:
    """Those that wait with the rows of their tables, by what names will mean when it is their turn."""
    names = NameHistory.of(recorded_bindings(context.tables, context.records), recorded)
    for statement in statements:
        table_ref = names.at(statement.ddl.table.key, statement.commit_ts).table_ref
        pair = context.tables.by_uuid(table_ref.uuid) if isinstance(table_ref, PairRef) else None
        if pair is not None and pair.state is State.HELD and pair.held_reason and not statement.naming:
            yield statement, pair.held_reason
            continue
        for action, clause in statement.clauses:
            if not {statement.cause, clause.mark} & names.causes:
                names.act(action, clause.commit_ts, clause.mark)


def _in_order(statements: Sequence[Statement], context: PipelineContext, seen: Collection[Name]) -> list[Statement]:
    """The statements, by commit ts, RENAMEs of one commit ts in an order that can have been executed (`executable`).

    What counts are the names of before that commit ts: a try that died may have applied some. `seen`: names of rows.
    """
    names = NameHistory.of(recorded_bindings(context.tables, context.records))
    ordered: list[Statement] = []
    for commit_ts, group in groupby(statements, key=lambda statement: statement.commit_ts):
        step = executable(list(group), names.live(commit_ts) | {*seen})
        for statement in step:
            for action, clause in statement.clauses:
                if clause.mark not in names.causes:
                    names.act(action, commit_ts, clause.mark)
        ordered += step
    return ordered


def understood(context: PipelineContext, ddl: Ddl) -> Statement:
    """A message with what its text asks for, in the types that the settings give."""
    read = text.parse(ddl.kind, ddl.sql, ddl.table, old=ddl.old, partitions=True, keys=True)
    return Statement(ddl, overridden(read, context.overrides, ddl.table))


def _is_redelivered(statement: Statement, context: PipelineContext, recorded: Collection[DdlIdentity]) -> bool:
    """Whether a statement is sent again, or is none of this time for the tables that it names.

    A statement without a place among the rows, as a storage changefeed writes it, is sent again if the history has it.
    In a stream that came later than the others an old one may be new: it is, for tables of that stream. Those that
    other streams bring have been shown beyond it, and what they became after it too.
    """
    frontier, places, ledger = after_ddl(statement.commit_ts), statement.ddl.at, context.run.ledger
    if frontier >= ledger.progress.resolved:
        return False
    if not places:
        return statement.ddl.identity in recorded
    if all(frontier < ledger.progress.frontiers.get(partition, NEVER) for partition in places):
        return True
    here = {partition.stream for partition in places}
    names = {stream: name for stream, name in ledger.streams.items() if name not in here}
    streams_of_pairs = (pair.streams_at(statement.commit_ts) for pair in _pairs_of(statement, context))
    return any(stream in names for streams in streams_of_pairs for stream in streams)


def _pairs_of(statement: Statement, context: PipelineContext) -> Iterator[TablePair]:
    """The pairs that have, or had, a name that a statement names."""
    names, schemas = {name.key for name in concerned(statement) if name.table}, dropped_databases(statement)
    for pair in context.tables:
        keys = [TableName(binding.schema, binding.table).key for binding in pair.by_commit_ts.bindings]
        if any(key in names or key[0] in schemas for key in keys):
            yield pair


def _recorded(context: PipelineContext, statements: Sequence[Statement]) -> set[DdlIdentity]:
    """What the history of earlier batches has from the oldest of these statements on."""
    if not statements:
        return set()
    oldest = min(s.commit_ts for s in statements)
    history = context.records.read("ddl_history").where(F.col("commit_ts") >= oldest)
    return {
        (row["commit_ts"], TableName(row["schema_name"], row["table_name"]).key, row["sql"])
        for row in history.collect()
    }
