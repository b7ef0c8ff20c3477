"""EXCHANGE PARTITION: the rows of a partition and all rows of another table change places. None of them is sent.

- The pairs: both current tables are published up to the statement, then the rows change places
  (`by_commit_ts.publishing`, `warehouse.exchange`). Neither shows anything after it as long as the other one is held,
  or waits.
- Names: they mean what they meant.
- Statements after it: one about the columns or names of these tables ends what the batch applies (`barrier`). In later
  batches, or if the other one is held, one about their columns, or a DROP, waits until the rows have changed places
  (`after_exchanges`). Rows have the columns of the time of the exchange.
- It holds both tables where one of them is not there, or where it cannot be said which rows are in the partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline import ddl as text
from pipeline.ddl.statement import concerned, dropped_databases, followed
from pipeline.ingest.ddl.done import Done
from pipeline.ingest.ddl.hold import all_concerned
from pipeline.warehouse.exchange import exchanges
from pipeline.warehouse.pairs import State
from pipeline.warehouse.state import EXCHANGED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pipeline.ddl.statement import Clause, Statement
    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.ddl.named_tables import NamedTables
    from pipeline.model.names import Name
    from pipeline.warehouse.pairs import TablePair

_OF_COLUMNS = (text.AddColumn, text.DropColumn, text.RenameColumn, text.ModifyColumn)
_END_THE_BATCH = (*_OF_COLUMNS, text.RenameTable)
_WAIT_FOR_THE_ROWS = (*_OF_COLUMNS, text.DropTable, text.DropDatabase)


def apply(action: text.ExchangePartition, clause: Clause, names: NamedTables) -> Done:
    """Note with both pairs that they exchange rows."""
    commit_ts = clause.commit_ts
    pair, partner = names.pair(action.table, commit_ts), names.pair(action.with_table, commit_ts)
    if pair is None or partner is None or not all(_was_there(one, commit_ts) for one in (pair, partner)):
        return all_concerned("EXCHANGE PARTITION needs both tables", clause, names)
    for table in (pair, partner):
        table.changes.set_properties(EXCHANGED.entry(commit_ts))
    names.partners[commit_ts] = partner.uuid
    if partner.state is State.HELD:  # it is noted, and done when both live
        return Done.held(action.with_table)
    return Done(f"rows of {action.name} and those of {action.with_table} change places")


def _was_there(pair: TablePair, commit_ts: int) -> bool:
    """Whether a pair has a table at a commit ts: a DROP after it may have been applied by a try that died."""
    return pair.state is not State.DROPPED or pair.dropped_at > commit_ts


def barrier(statements: Sequence[Statement]) -> Statement | None:
    """The first statement about the columns or name of a table that has exchanged rows before it, in the same batch.

    It waits with all after it: rows change places between tables whose columns are those of that time. So does an
    exchange of a partitioned table that has got its name in this batch. A name that is taken holds its table
    (`rename`), and the layout of one that is held notes no exchange. A DROP is no barrier: its pair stays
    until the rows have changed places.
    """
    exchanged: set[Name] = set()
    renamed: set[Name] = set()
    for statement in statements:
        names = _names_in(statement)
        if (names & exchanged and _has(statement, _END_THE_BATCH)) or (_exchanged(statement) & renamed):
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


def undone(context: PipelineContext) -> dict[Name, int]:
    """The names of tables whose exchange of rows an earlier batch has noted and could not do yet, and its commit ts."""
    noted = [one for one in exchanges(context.tables) if not one.done]
    pairs = [(pair, one.removal.at) for one in reversed(noted) for pair in (one.table, one.other)]
    return {pair.source.key: commit_ts for pair, commit_ts in pairs if pair.state is not State.DROPPED}


def held(context: PipelineContext) -> set[Name]:
    """The names of tables that are held."""
    return {(pair.wanted_name or pair.source).key for pair in context.tables if pair.state is State.HELD}


def after_exchanges(
    statements: Sequence[Statement], exchanging: Mapping[Name, int], held_tables: Iterable[Name] = ()
) -> list[Statement]:
    """The statements about the columns of such tables, those that drop them, and all about the same tables after them.

    They wait as if their time had not come, and the rows after them, until the tables have exchanged theirs: those
    have the columns of that time. So does an exchange of partitions of a table that is held: it cannot note it yet, and
    the other one must show nothing after it either.
    """
    since, waits_for = dict(exchanging), dict.fromkeys(held_tables, 0)
    blocked: set[Name] = set()
    databases: set[str] = set()
    waiting: list[Statement] = []
    for statement in statements if since or waits_for else ():
        waiting_names = [name for name, commit_ts in since.items() if commit_ts < statement.commit_ts]
        after = _concerns(statement, blocked) or any(name[0] in databases for name in _names_in(statement))
        needs = _has(statement, _WAIT_FOR_THE_ROWS) and _concerns(statement, waiting_names)
        if after or needs or _exchanged(statement) & waits_for.keys():
            blocked |= _names_in(statement)
            databases |= dropped_databases(statement)
            waiting.append(statement)
            continue
        for action in statement.actions:
            since, waits_for = followed(since, action), followed(waits_for, action)
            if isinstance(action, text.ExchangePartition) and action.with_table.key in waits_for:
                since |= dict.fromkeys((action.table.key, action.with_table.key), statement.commit_ts)
    return waiting


def _names_in(statement: Statement) -> set[Name]:
    return {name.key for name in concerned(statement) if name.table}


def _exchanged(statement: Statement) -> set[Name]:
    """The tables of which it exchanges partitions."""
    return {action.table.key for action in statement.actions if isinstance(action, text.ExchangePartition)}


def _concerns(statement: Statement, names: Iterable[Name]) -> bool:
    """Whether a statement is about one of these tables, or drops the database of one."""
    names_in, schemas = _names_in(statement), dropped_databases(statement)
    return any(name in names_in or name[0] in schemas for name in names)


def _has(statement: Statement, kinds: tuple[type, ...]) -> bool:
    return any(isinstance(action, kinds) for action in statement.actions)
