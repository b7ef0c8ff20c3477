"""What names mean by commit ts, and the pairs that the statements and rows of a batch make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline import ddl as text
from pipeline.ddl.name_history import NameHistory
from pipeline.ddl.statement import named
from pipeline.ddl.table_ref import PairRef, RemovedTable
from pipeline.ingest.by_commit_ts.batch_pairs import BatchPairs
from pipeline.ingest.ddl.done import HELD, Done, history_row
from pipeline.ingest.ddl.drop import ended
from pipeline.ingest.ddl.named_tables import NamedTables
from pipeline.ingest.ddl.rename import first_reason
from pipeline.model.holding import NOT_UNDERSTOOD
from pipeline.model.messages import EVER
from pipeline.model.names import TableName, folded
from pipeline.warehouse import held_names
from pipeline.warehouse.held import last_held, why_not_created
from pipeline.warehouse.name_bindings import recorded_bindings
from pipeline.warehouse.pairs import State, StoredBinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipeline.ddl import Action
    from pipeline.ddl.statement import Clause, Statement
    from pipeline.ingest.by_commit_ts.timeline import DdlTimeline
    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.ddl.done import Row
    from pipeline.model.messages import Messages
    from pipeline.model.names import Name
    from pipeline.warehouse.pairs import TablePair


@dataclass(slots=True)
class NamesByCommitTs(NamedTables):
    """Names at every commit ts, before and after the statements of one batch."""

    context: PipelineContext
    messages: Messages
    timeline: DdlTimeline
    history: NameHistory
    pairs: BatchPairs = field(init=False)
    partners: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pairs = BatchPairs(self.context, self.messages, self.timeline, self.history)
        for hold in held_names.remembered(self.context.records):
            table_ref = self.history.at(hold.name.key, hold.commit_ts + 1).table_ref
            self.pairs.ambiguous[table_ref] = (hold.reason, hold.commit_ts)

    def find(self, name: Name, commit_ts: int) -> TablePair | None:
        """The pair that a name means for a change of this commit ts, if it has been made."""
        return self.pairs.of(self.history.at(name, commit_ts).table_ref)

    def is_blocked_by_name(self, statement: Statement) -> bool:
        """Whether a statement is about a table that has no pair because its name is taken: it waits as its rows do."""
        name, commit_ts = statement.ddl.table, statement.commit_ts
        if statement.naming or not name.table:
            return False
        binding = self.history.at(name.key, commit_ts)
        is_removed = isinstance(binding.table_ref, RemovedTable)
        is_known = binding.until < EVER or is_removed or self.pairs.of(binding.table_ref) is not None
        return not is_known and bool(why_not_created(self.context.tables, self.context.records, name))

    def has(self, table: TableName) -> bool:
        """See `NamedTables.has`."""
        return self.history.open(table.key) is not None

    def pair(self, name: TableName, commit_ts: int) -> TablePair | None:
        """See `NamedTables.pair`."""
        binding = self.history.now(name.key, commit_ts)
        pair = self.pairs.of(binding.table_ref)
        if pair is not None or isinstance(binding.table_ref, RemovedTable):
            return pair
        seen = self.pairs.first_version(name.key, binding, commit_ts)
        if seen is None or why_not_created(self.context.tables, self.context.records, seen.version.table):
            return None
        table = seen.version.table
        self.history.bind(name.key, commit_ts)
        kept = StoredBinding(table.schema, table.table, binding.since, EVER, binding.cause)
        return self.pairs.make(binding.table_ref, seen.version, kept)

    def create(self, table: TableName, clause: Clause) -> Done:
        """See `NamedTables.create`."""
        return self.pairs.create(table, clause)

    def displaced(self, name: TableName, commit_ts: int) -> TablePair | None:
        """See `NamedTables.displaced`."""
        return self.pairs.displaced(name, commit_ts)

    def in_database(self, schema: str, commit_ts: int) -> Iterator[tuple[Name, TablePair | None]]:
        """See `NamedTables.in_database`."""
        for name in _names_without_pair(self, commit_ts):
            if name[0] == folded(schema):
                self.history.bind(name, commit_ts)
        names = set(self.history.bindings) | {table.table.key for table in self.messages.tables}
        for name in sorted(name for name in names if name[0] == folded(schema)):
            yield name, self.pair(TableName(*name), commit_ts)

    def outdated(self, name: TableName, commit_ts: int) -> TablePair | None:
        """See `NamedTables.outdated`."""
        binding = self.history.open(name.key)  # not what it meant before a clause of this statement gave it away
        return self.pairs.of(binding.table_ref) if binding is not None and binding.since <= commit_ts else None

    def bindings_after(self, pair: TablePair, rename: text.RenameTable, clause: Clause) -> tuple[StoredBinding, ...]:
        """See `NamedTables.bindings_after`."""
        new, before = rename.new, ended(pair.by_commit_ts.bindings, rename.old.key, clause.commit_ts)
        return (*before, StoredBinding(new.schema, new.table, clause.commit_ts, EVER, clause.mark))

    def rows_until(self, commit_ts: int) -> int:
        """See `NamedTables.rows_until`."""
        return commit_ts

    def drop_pending_of(self, name: Name, commit_ts: int) -> None:
        """See `NamedTables.drop_pending_of`. A pair of that name is a later table, and held records are of that one."""
        tables, records = self.context.tables, self.context.records
        for table in (table for table in last_held(tables, records) if table.key == name):
            if tables.find(table) is None:
                records.mark_dropped(table, commit_ts)
            held_names.forget(records, table, until=commit_ts)

    def concerned(self, statement: Statement) -> Sequence[TableName]:
        """See `NamedTables.concerned`: those that it names, or those of the database that it names, or all."""
        ddl = statement.ddl
        everything = ddl.kind == text.ActionType.FLASHBACK_CLUSTER
        tables = [] if everything else [name for name in named(ddl) if name.table]
        if tables:
            return tables
        database = "" if everything else folded(text.named_database(ddl.sql, ddl.table))
        return [name for name in _living(self, ddl.commit_ts) if database in ("", name.key[0])]

    def hold(self, name: TableName, reason: str, commit_ts: int) -> Done:
        """See `NamedTables.hold`."""
        binding = self.history.now(name.key, commit_ts)
        pair = self.pair(name, commit_ts)
        if pair is not None and not (pair.state is State.LIVE and pair.layout.ddl_at < commit_ts):
            return Done.stays(name, pair.state)
        exchanges = self.timeline.exchanges(self.history, binding.table_ref, besides=commit_ts)
        if pair is None or exchanges:
            self.pairs.ambiguous[binding.table_ref] = (reason, commit_ts)
            held_names.remember(self.context.records, held_names.HeldName(name.schema, name.table, reason, commit_ts))
        else:
            self.context.tables.set_state(pair, State.HELD, reason)
        return Done.held(name)

    def done_before(self, action: Action, clause: Clause) -> Done | None:
        """See `NamedTables.done_before`: by a try that did not get to say it."""
        if not {clause.statement.cause, clause.mark} & self.history.causes:
            return None
        if isinstance(action, text.RenameTable):
            pair = self.find(action.new.key, clause.commit_ts + 1)
            if pair is not None and pair.wanted_name is not None and pair.renamed_at == clause.commit_ts:
                return Done.held(pair.wanted_name)
        return Done("applied before")

    def follow(self, action: Action, clause: Clause) -> None:
        """See `NamedTables.follow`."""
        self.history.act(action, clause.commit_ts, clause.mark)

    def passed(self, statement: Statement) -> None:
        """See `NamedTables.passed`."""
        self.history.causes.add(statement.cause)

    def recorded(self, statement: Statement, done: Sequence[Done]) -> Sequence[Done]:
        """See `NamedTables.recorded`. What several clauses did is not said, unless it holds a table."""
        if statement.cause in self.timeline.recorded:
            return ()
        if self.is_blocked_by_name(statement):
            return [Done.held(statement.ddl.table)] * len(done)
        return [one if len(done) == 1 or one.status == HELD else Done("done") for one in done]


def blocked_tables(names: NamesByCommitTs) -> Iterator[tuple[Statement, TablePair, str]]:
    """The statements about tables that are held, with the table as this batch leaves it, and the reason."""
    for statement, why in names.timeline.blocked:
        table = names.find(statement.ddl.table.key, statement.commit_ts)
        if table is not None:
            yield statement, table, why


def _names_without_pair(names: NamesByCommitTs, commit_ts: int) -> set[Name]:
    """Names that had tables before a commit ts, though pairs may not have been made."""
    messages = names.messages
    first_seen = [(table.table, version.since) for table in messages.tables for version in table.versions]
    about_columns = (s for s in names.timeline.now if not s.naming and s.ddl.table.table)
    first_seen += [(statement.ddl.table, statement.commit_ts) for statement in about_columns]
    seen = {name.key for name, since in first_seen if since < commit_ts}
    return (
        seen
        | {rows.table.key for rows in messages.unknown}
        | {name.key for name in last_held(names.context.tables, names.context.records)}
    )


def _living(names: NamesByCommitTs, commit_ts: int) -> list[TableName]:
    """The tables that there are at a commit ts, also those of which this batch has the first rows."""
    pairs = [pair.source for pair in names.context.tables if pair.state is not State.DROPPED]
    first_seen = [(table.table, version.since) for table in names.messages.tables for version in table.versions]
    first_seen += [(table.table, table.since) for table in names.messages.unknown]
    seen = [
        name for name, since in first_seen
        if since <= commit_ts and (names.has(name) or not names.history.bindings.get(name.key))
    ]  # fmt: skip
    return list({name.key: name for name in (*seen, *pairs)}.values())


def history_rows(names: NamesByCommitTs, history: Sequence[Row]) -> list[Row]:
    """The rows of `ddl_history`. A statement about partitions may hold its table only when the table is written."""
    tables = [t for t in names.context.tables if t.state is State.HELD and t.held_reason.startswith(NOT_UNDERSTOOD)]
    blocked = [(s, table) for s, table, _ in blocked_tables(names) if s.cause not in names.timeline.recorded]
    ended = [statement for statement, table in blocked if table.state is State.DROPPED]
    nothing = Done("nothing: its table was held, and is dropped")
    rows = [history_row(statement, action, nothing) for statement in ended for action in statement.actions]
    for row in history:
        why = f": {row['sql']}"
        held = [Done.held(table.source) for table in tables if first_reason(table.held_reason).endswith(why)]
        done = Done.of_all(held) if held and row["status"] != HELD else None
        rows.append(row if done is None else {**row, **done._asdict()})
    return rows


def dead_letters_follow(names: NamesByCommitTs) -> None:
    """Let dead letters of this batch that were sent again go where the tables that they name have gone."""
    context = names.context
    named_tables = {table.key: table for refused in names.messages.refused for table in refused.tables}
    for name in named_tables.values():
        for binding in names.history.bindings.get(name.key, ()):
            pair = names.pairs.of(binding.table_ref)
            gone = isinstance(binding.table_ref, RemovedTable) or (pair is not None and pair.state is State.DROPPED)
            if binding.until == EVER or (not gone and (pair is None or pair.source.key == name.key)):
                continue
            to = None if gone or pair is None else pair.source
            when, since_batch = (binding.since, binding.until), context.run.ledger.unfinished
            context.records.dead_letters_follow(name, to, when, since_batch)


def made_by_rows(context: PipelineContext, table: TableName, commit_ts: int) -> StoredBinding | None:
    """The name of the pair that rows of this commit ts will make; None where the name means another one then."""
    binding = NameHistory.of(recorded_bindings(context.tables, context.records)).at(table.key, commit_ts)
    ref = binding.table_ref
    is_taken = isinstance(ref, RemovedTable) or (
        isinstance(ref, PairRef) and context.tables.by_uuid(ref.uuid) is not None
    )
    return None if is_taken or binding.until != EVER else StoredBinding(table.schema, table.table, binding.since, EVER)
