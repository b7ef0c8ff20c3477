"""The statements of a batch by commit ts: what each is about, and which are applied now (decision 004).

Those that wait do so because a live partition has not shown them, or because tables exchange rows before them.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from pipeline import ddl as text
from pipeline.model.names import TableName, folded
from pipeline.protocols.overrides import overridden
from pipeline.streaming.epochs import Statement
from pipeline.streaming.frontier import NEVER, after_ddl
from pipeline.streaming.name_bindings import NameHistory, cause_of, recorded_bindings
from pipeline.streaming.rename_steps import executable
from pipeline.warehouse.exchange import exchanges
from pipeline.warehouse.pairs import State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pipeline.model.messages import Ddl, DdlIdentity, Messages
    from pipeline.streaming.context import PipelineContext
    from pipeline.streaming.epochs import Name
    from pipeline.streaming.frontier import Frontier
    from pipeline.streaming.namesakes import Namesakes
    from pipeline.warehouse.pairs import TablePair

_OF_COLUMNS = (text.AddColumn, text.DropColumn, text.RenameColumn, text.ModifyColumn)
_ENDS = (*_OF_COLUMNS, text.RenameTable)
_NEED_ROWS = (*_OF_COLUMNS, text.DropTable, text.DropDatabase)


class DdlTimeline(NamedTuple):
    """The statements of a batch by whether they are applied in it, each in the order of commit ts."""

    now: list[Statement]
    later: list[Statement]
    barrier: Statement | None
    """The first of `later` whose time has come, and which waits for the next batch all the same (`_barrier`)."""
    recorded: set[str]
    """Those that the history has already, by `cause_of`."""


def classified(
    context: PipelineContext,
    messages: Messages,
    applied_up_to: Callable[[Ddl], Frontier],
    from_held: frozenset[DdlIdentity],
    namesakes: Namesakes,
) -> DdlTimeline:
    """The statements understood, and told apart; those that are sent again are left out.

    `applied_up_to`: up to which frontier a statement is applied. `from_held`: those that come from `held`; the
    rest is sent again, if the ledger has passed it (see `_is_redelivered`). `namesakes`: tells what other streams send
    about a table of the same name.
    """
    sent = sorted((understood(context, ddl) for ddl in messages.ddl), key=lambda statement: statement.ddl.commit_ts)
    recorded = _recorded(context, [s for s in sent if not s.ddl.at])
    new = [s for s in sent if s.ddl.identity in from_held or not _is_redelivered(s, context, recorded)]
    news = namesakes.statements(_in_order(new, context, {table.table.key for table in messages.tables}), context.tables)
    now = [s for s in news if after_ddl(s.ddl.commit_ts) <= applied_up_to(s.ddl)]
    until_exchanged = after_exchanges(now, _exchanging(context), _held(context))
    now = [s for s in now if s not in until_exchanged]
    barrier = _barrier(now)
    now = now if barrier is None else now[: now.index(barrier)]
    return DdlTimeline(now, [s for s in news if s not in now], barrier, _recorded_causes(context, news))


def _in_order(statements: Sequence[Statement], context: PipelineContext, seen: Collection[Name]) -> list[Statement]:
    """The statements, by commit ts, RENAMEs of one commit ts in an order that can have been executed (`executable`).

    What counts are the names of before that commit ts: a try that died may have applied some of the statements. `seen`:
    the names of rows of this batch.
    """
    names = NameHistory.of(recorded_bindings(context))
    ordered: list[Statement] = []
    for commit_ts, group in groupby(statements, key=lambda statement: statement.ddl.commit_ts):
        step = executable(list(group), names.live(commit_ts) | {*seen})
        for statement in step:
            for number, action in enumerate(statement.actions):
                clause = f"{cause_of(statement)}/{number}"
                if clause not in names.causes:
                    names.act(action, commit_ts, clause)
        ordered += step
    return ordered


def understood(context: PipelineContext, ddl: Ddl) -> Statement:
    """A message with what its text asks for, in the types that the settings give."""
    read = text.parse(ddl.kind, ddl.sql, ddl.table, old=ddl.old, partitions=True, keys=True)
    return Statement(ddl, overridden(read, context.overrides, ddl.table))


def named(ddl: Ddl) -> tuple[TableName, ...]:
    """The tables that a text names after the word TABLE, and the one that its message is sent for."""
    return text.named_tables(ddl.sql, ddl.table, ddl.old)


def concerned(statement: Statement) -> tuple[TableName, ...]:
    """Every table that a statement names, whatever it does to it."""
    names = {name.key: name for name in named(statement.ddl)}
    for action in statement.actions:
        if isinstance(action, text.RenameTable):
            names |= {name.key: name for name in (action.old, action.new)}
    return tuple(names.values())


def dropped_databases(statement: Statement) -> set[str]:
    """The databases that a statement drops, in the form of `TableName.key`."""
    return {folded(action.name) for action in statement.actions if isinstance(action, text.DropDatabase)}


def _names_in(statement: Statement) -> set[Name]:
    return {name.key for name in concerned(statement) if name.table}


def _is_redelivered(statement: Statement, context: PipelineContext, recorded: Collection[DdlIdentity]) -> bool:
    """Whether a statement is sent again, or is none of this time for the tables that it names.

    A statement without a place among the rows, as a storage changefeed writes it, is sent again if the history has it.
    In a stream that came later than the others an old one may be new: it is, for tables of that stream. Those that
    other streams bring have been shown beyond it, and what they became after it too.
    """
    frontier, places = after_ddl(statement.ddl.commit_ts), statement.ddl.at
    if frontier >= context.ledger.resolved:
        return False
    if not places:
        return statement.ddl.identity in recorded
    if all(frontier < context.ledger.frontiers.get(partition, NEVER) for partition in places):
        return True
    here = {partition.stream for partition in places}
    names = {stream: name for stream, name in context.ledger.streams.items() if name not in here}
    streams_of_pairs = (pair.streams_at(statement.ddl.commit_ts) for pair in _pairs_of(statement, context))
    return any(stream in names for streams in streams_of_pairs for stream in streams)


def _pairs_of(statement: Statement, context: PipelineContext) -> Iterator[TablePair]:
    """The pairs that have, or had, a name that a statement names."""
    names, schemas = _names_in(statement), dropped_databases(statement)
    for pair in context.tables:
        keys = [TableName(binding.schema, binding.table).key for binding in pair.bindings]
        if any(key in names or key[0] in schemas for key in keys):
            yield pair


def _barrier(statements: Sequence[Statement]) -> Statement | None:
    """The first statement about the columns or name of a table that has exchanged rows before it, in the same batch.

    It waits with all after it: rows change places between tables whose columns are those of that time. So does an
    exchange of a table that has got its name in this batch. A name that is taken holds the table (`give_name`), and
    one that is held notes no exchange.
    """
    exchanged: set[Name] = set()
    renamed: set[Name] = set()
    for statement in statements:
        names_in = _names_in(statement)
        if (names_in & exchanged and _has(statement, _ENDS)) or (_exchanged(statement) & renamed):
            return statement
        for action in statement.actions:
            match action:
                case text.ExchangePartition(table, _, other):
                    exchanged |= {table.key, other.key}
                case text.RenameTable(_, new):
                    renamed.add(new.key)
                case text.DropTable(table):
                    exchanged.discard(table.key)
    return None


def _exchanging(context: PipelineContext) -> dict[Name, int]:
    """The names of tables whose exchange of rows an earlier batch has noted and could not do yet, and its commit ts."""
    undone = [one for one in exchanges(context.tables) if not one.done]
    pairs = [(pair, one.removal.at) for one in reversed(undone) for pair in (one.table, one.other)]
    return {pair.source.key: at for pair, at in pairs if pair.state is not State.DROPPED}


def _held(context: PipelineContext) -> set[Name]:
    """The names of tables that are held."""
    return {(pair.wanted_name or pair.source).key for pair in context.tables if pair.state is State.HELD}


def after_exchanges(
    statements: Sequence[Statement], exchanging: Mapping[Name, int], held: Iterable[Name] = ()
) -> list[Statement]:
    """The statements about the columns of such tables, those that drop them, and all about the same tables after them.

    They wait as if their time had not come, and the rows after them, until the tables have exchanged theirs: those
    have the columns of that time. So does an exchange of partitions of a table that is held: it cannot note it yet, and
    the other one must show nothing after it either.
    """
    since, waits_for = dict(exchanging), dict.fromkeys(held, 0)
    blocked: set[Name] = set()
    databases: set[str] = set()
    waiting: list[Statement] = []
    for statement in statements if since or waits_for else ():
        waiting_names = [name for name, at in since.items() if at < statement.ddl.commit_ts]
        after = _concerns(statement, blocked) or any(name[0] in databases for name in _names_in(statement))
        needs = _has(statement, _NEED_ROWS) and _concerns(statement, waiting_names)
        if after or needs or _exchanged(statement) & waits_for.keys():
            blocked |= _names_in(statement)
            databases |= dropped_databases(statement)
            waiting.append(statement)
            continue
        _follow(statement, since)
        _follow(statement, waits_for)
    return waiting


def _follow(statement: Statement, names: dict[Name, int]) -> None:
    """Let names be those that tables have after a statement."""
    for action in statement.actions:
        match action:
            case text.RenameTable(old, new) if old.key in names:
                names[new.key] = names.pop(old.key)
            case text.DropTable(table):
                names.pop(table.key, None)


def _exchanged(statement: Statement) -> set[Name]:
    """The tables of which it exchanges partitions."""
    return {action.table.key for action in statement.actions if isinstance(action, text.ExchangePartition)}


def _concerns(statement: Statement, names: Iterable[Name]) -> bool:
    """Whether a statement is about one of these tables, or drops the database of one."""
    names_in, schemas = _names_in(statement), dropped_databases(statement)
    return any(name in names_in or name[0] in schemas for name in names)


def _has(statement: Statement, kinds: tuple[type, ...]) -> bool:
    return any(isinstance(action, kinds) for action in statement.actions)


def _recorded_causes(context: PipelineContext, statements: Sequence[Statement]) -> set[str]:
    """Those of these statements that the history of earlier batches has."""
    recorded = _recorded(context, statements)
    return {cause_of(s) for s in statements if s.ddl.identity in recorded}


def _recorded(context: PipelineContext, statements: Sequence[Statement]) -> set[DdlIdentity]:
    """What the history of earlier batches has from the oldest of these statements on."""
    if not statements:
        return set()
    oldest = min(s.ddl.commit_ts for s in statements)
    history = context.records.read("ddl_history").where(F.col("commit_ts") >= oldest)
    return {
        (row["commit_ts"], TableName(row["schema_name"], row["table_name"]).key, row["sql"])
        for row in history.collect()
    }
