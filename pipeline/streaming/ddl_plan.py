"""The DDL of one micro-batch: which table a name means at each point of it, and what each statement does.

What a name means is kept in the warehouse before the first statement of a batch is applied, so that a second try of
the batch begins with the same meanings as the first, whatever that one has renamed or dropped since.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline import ddl as text
from pipeline.ddl.spelling import spelled
from pipeline.model.messages import Origin
from pipeline.model.names import TableName, folded
from pipeline.model.places import Partition
from pipeline.protocols.overrides import overridden
from pipeline.streaming.epochs import HELD, Birth, Done, Statement, bound_after, split_at_ddl
from pipeline.streaming.rename_steps import executable
from pipeline.streaming.renames import give_name
from pipeline.streaming.shared_names import checked
from pipeline.streaming.table_writer import TableWriter
from pipeline.warehouse.pairs import State
from pipeline.warehouse.state import BINDINGS, BORN, CALLED, NAMED
from pipeline.warehouse.stored import BoundAt, SourceNames, StoredNames

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from pipeline.model.messages import Ddl, DdlIdentity, Messages, TableMessages
    from pipeline.streaming.batch import Epoch
    from pipeline.streaming.context import PipelineContext
    from pipeline.streaming.epochs import Bindings, Name
    from pipeline.streaming.origins import Origins
    from pipeline.warehouse.pairs import TablePair

NOT_UNDERSTOOD = "DDL_NOT_UNDERSTOOD"


@dataclass(slots=True)
class DdlPlan:
    """The statements of one micro-batch, applied one after the other."""

    context: PipelineContext
    batch_id: int
    statements: tuple[Statement, ...]
    epochs: Sequence[Epoch]
    bindings: Bindings
    before: Bindings
    """What names meant before the first statement."""
    past: _Past
    entered: int = 0
    """Commit ts of the newest statement about names that was applied."""
    history: list[dict[str, object]] = field(default_factory=list)
    """Rows of `_pipeline.ddl_history`: what was done."""
    ambiguous: dict[tuple[str, str], str] = field(default_factory=dict)
    """Why tables that do not exist yet are to be held."""
    truncated: dict[tuple[str, str], int] = field(default_factory=dict)
    """When tables were truncated that do not exist yet: the rows before it are in the same batch."""
    epoch: Epoch = field(init=False)

    @classmethod
    def begin(cls, context: PipelineContext, batch_id: int, messages: Messages, origins: Origins) -> DdlPlan:
        """The statements understood, and the messages cut into epochs where names change their meaning."""
        statements = understood(context, messages, origins)
        past = _Past.of(context, statements)
        # The name of one that was applied may mean another table by now, which must not be dropped or renamed for it.
        statements = tuple(s for s in statements if not (s.naming and past.has(s.ddl)))
        before = cls._meanings(context, batch_id, statements) if statements else {}
        statements = _attributed(context, batch_id, statements, past, before)
        statements = tuple(executable(statements, {*before, *(table.table.key for table in messages.tables)}))
        made = cls(
            context, batch_id, statements, split_at_ddl(statements, messages.tables, before), before, before, past
        )
        made.epoch = made.epochs[0]
        made._bind_made()
        return made

    @staticmethod
    def _meanings(context: PipelineContext, batch_id: int, statements: Sequence[Statement]) -> Bindings:
        """What names meant before the first statement of this batch, also in a second try of it."""
        history = context.records.tables["ddl_history"]
        saved = history.inherited(BINDINGS)
        if saved is not None and saved.batch == batch_id:
            return dict(saved.names)
        names = {t.source.key: t.uuid for t in context.tables if t.state != State.DROPPED}
        if any(statement.naming for statement in statements):
            history.mark(BINDINGS.entry(StoredNames(batch_id, names)), "main")
        return dict(names)

    def writer(self, raw: DataFrame, messages: TableMessages, stream_ids: Mapping[str, str]) -> TableWriter:
        """The part of the batch that belongs to the table which a name means now."""
        key = messages.table.key
        table_ref = self.bindings.get(key, "")
        table = self._bound(messages.table) if table_ref else self.context.tables.find(messages.table)
        statements = [s for s in self.statements if s.ddl in self.epoch.ddl and s.ddl.table.key == key and not s.naming]
        writer = TableWriter(self.context, raw, self.batch_id, messages, stream_ids, statements, table)
        writer.birth = table_ref if isinstance(table_ref, Birth) else None
        writer.applied_until = self.past.newest.get(key, 0) if table is None else 0
        writer.entered = self.entered
        writer.ambiguous = self.ambiguous.get(key, "")
        writer.truncated_at = self.truncated.get(key, 0)
        return writer

    def apply(self, ddl: Ddl, writers: Sequence[TableWriter]) -> None:
        """Apply one statement; `writers` are those of the messages before it."""
        statement = next(s for s in self.statements if s.ddl is ddl)
        self.epoch = next(epoch for epoch in self.epochs if ddl in epoch.ddl)
        self.bindings = dict(self.bindings)
        for writer in writers:  # pairs that rows have made since
            table, name = writer.table, writer.messages.table.key
            if table is not None and table.source.key == name and table.state != State.DROPPED:
                self.bindings[name] = table.uuid
        for action in statement.actions:
            self._act(action, statement)
            self.bindings = bound_after(self.bindings, action, ddl.commit_ts)
        if statement.naming:
            self.entered = statement.ddl.commit_ts
            self._pass_on_names()
            self._bind_made()

    def _pass_on_names(self) -> None:
        """Give free names to the pairs that wait for them; a name that another pair still has goes on meaning that."""
        for table in sorted(self.context.tables, key=lambda table: table.renamed_at):
            if table.wanted_name is None or not table.is_displaced or table.state is State.DROPPED:
                continue
            holder = self.context.tables.find(table.wanted_name)
            if holder is not None and self.bindings.get(table.wanted_name.key) == table.uuid:
                self.bindings[table.wanted_name.key] = holder.uuid
            elif holder is None and self.bindings.get(table.wanted_name.key) in (None, table.uuid):
                self.context.records.rename_set_aside(table.source, table.wanted_name)
                self.bindings[table.wanted_name.key] = table.uuid
                named = BoundAt(self.batch_id, self.entered, *table.wanted_name.key)
                self.context.tables.take_name(table, NAMED.entry(named))

    def _bind_made(self) -> None:
        """Bind the names that pairs got here in an unfinished try, from rows or from other pairs.

        The pairs may have new names since.
        """
        for table in self.context.tables if self.statements and self.context.recovering else ():
            for key in (BORN, NAMED):
                bound = key.read(table.changes.properties)
                if bound is not None and (bound.batch, bound.entered) == (self.batch_id, self.entered):
                    self.bindings = {(bound.schema, bound.table): table.uuid, **self.bindings}

    def _act(self, action: text.Action, statement: Statement) -> None:
        commit_ts = statement.ddl.commit_ts
        table = self._bound(statement.ddl.table)
        at_once = statement.naming or isinstance(action, text.TruncateTable)
        is_held = table is not None and table.state is State.HELD and not at_once
        done = Done("waits with its table", HELD) if is_held else Done("done")
        match action:
            case text.RenameTable(old, new):
                done = self._rename(old, new, statement)
            case text.DropTable(name):
                done = Done(self._drop(self._bound(name), commit_ts))
            case text.DropDatabase(name):
                for dropped in self.context.tables:
                    if folded(dropped.source.schema) == folded(name):
                        self._drop(dropped, commit_ts)
            case text.TruncateTable(name) if table is None:
                self.truncated[name.key] = commit_ts
            case text.TruncateTable() if table is not None and table.truncated_at < commit_ts:
                self.context.tables.truncate(table, commit_ts)
                done = Done("rows up to this commit ts leave the current table")
            case text.NotUnderstood(reason):
                why = f"{NOT_UNDERSTOOD}: {reason}: {statement.ddl.sql}"
                done = Done.of_all([self._hold(name, why, commit_ts) for name in statement.tables])
        self.history.append(statement.history_row(action, done))

    def _bound(self, name: TableName) -> TablePair | None:
        table_ref = self.bindings.get(name.key, "")
        if isinstance(table_ref, Birth):
            return self.context.tables.born(*table_ref) or self._made_since(name)
        return self.context.tables.by_uuid(table_ref)

    def _made_since(self, name: TableName) -> TablePair | None:
        """The table of this name, where an unfinished try that did not see the CREATE TABLE has made it."""
        table = self.context.tables.find(name)
        return None if table is None or table.uuid in self.before.values() else table

    def _rename(self, old: TableName, new: TableName, statement: Statement) -> Done:
        table = self._bound(old)
        if table is None:
            return Done("no such table")
        commit_ts = statement.ddl.commit_ts
        # A second try finds what the first has done, be it a whole chain of names in which this one is taken again.
        is_new = table.renamed_at < commit_ts or (table.renamed_at == commit_ts and table.source.key == old.key)
        if table.source.key != new.key and is_new and table.layout.ddl_at <= commit_ts:
            give_name(self.context, table, new, statement.ddl)
        return Done.held(table.wanted_name) if table.wanted_name else Done(f"renamed to {table.name}")

    def _drop(self, table: TablePair | None, commit_ts: int) -> str:
        if table is None or table.state == State.DROPPED:
            return "no such table"
        self.context.records.mark_dropped(table.source)
        if self.context.settings.warehouse.drop_table == "drop":
            self.context.tables.forget(table)
            return "dropped"
        self.context.tables.set_state(table, State.DROPPED, dropped_at=commit_ts)
        return "kept, marked dropped"

    def _hold(self, name: TableName, reason: str, commit_ts: int) -> Done:
        """Hold a table from here on; a table without rows is held as soon as its first rows make it."""
        table = self._bound(name)
        if table is not None and (table.state != State.LIVE or table.layout.ddl_at >= commit_ts):
            return Done.stays(name, table.state)
        if table is None:
            self.ambiguous[name.key] = reason
        else:
            self.context.tables.set_state(table, State.HELD, reason)
        return Done.held(name)


def understood(context: PipelineContext, messages: Messages, origins: Origins) -> tuple[Statement, ...]:
    """The statements of a batch with what they ask for, of tables and columns as the rows will have them."""
    as_text = {t.source.key: any(c.tidb_type == "DECIMAL" for c in t.layout.columns) for t in context.tables}
    return tuple(_understood(context, ddl, origins, as_text) for ddl in messages.ddl)


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


def _attributed(
    context: PipelineContext, batch_id: int, statements: tuple[Statement, ...], past: _Past, names: Bindings
) -> tuple[Statement, ...]:
    """The statements without doubts of whose they are (`shared_names`); what the source calls tables is kept."""
    news = [statement for statement in statements if statement.ddl.in_source and not past.has(statement.ddl)]
    if not news:
        return statements
    history = context.records.tables["ddl_history"]
    saved = history.inherited(CALLED) or SourceNames(-1, {}, {})
    called = dict(saved.before if saved.batch == batch_id else saved.after)
    displaced = {table.source.key for table in context.tables if table.is_displaced}
    safe, after = checked(news, called, names.keys() - displaced)
    if after != called or (after and saved.batch != batch_id):  # anew with each batch: an expiry stops at the newest
        history.mark(CALLED.entry(SourceNames(batch_id, called, after)), "main")
    by_id = {id(statement): new for statement, new in zip(news, safe, strict=True)}
    return tuple(by_id.get(id(statement), statement) for statement in statements)


@dataclass(frozen=True, slots=True)
class _Past:
    """What earlier batches have done, as far as the statements of this one go back."""

    applied: frozenset[DdlIdentity] = frozenset()
    newest: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Commit ts of the newest statement about a name."""

    @classmethod
    def of(cls, context: PipelineContext, statements: Sequence[Statement]) -> _Past:
        if not statements:
            return cls()
        oldest = min(statement.ddl.commit_ts for statement in statements)
        history = context.records.read("ddl_history").where(F.col("batch_id") < context.ledger.unfinished)
        rows = history.where(F.col("commit_ts") >= oldest).collect()
        newest: dict[tuple[str, str], int] = {}
        applied: set[DdlIdentity] = set()
        spell = context.protocol.as_sent
        for row in rows:
            schema, table = row["schema_name"], row["table_name"]
            for name in {TableName(schema, table), TableName(spell(schema), spell(table))}:  # the latter: of old
                newest[name.key] = max(row["commit_ts"], newest.get(name.key, 0))
                applied.add((row["commit_ts"], name.key, row["sql"]))
        return cls(frozenset(applied), newest)

    def has(self, ddl: Ddl) -> bool:
        """Whether a statement was applied: this is another partition's copy, or a redelivery."""
        return ddl.identity in self.applied
