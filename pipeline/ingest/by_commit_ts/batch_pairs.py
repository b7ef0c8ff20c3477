"""Making the pairs of tables by commit ts: by a CREATE TABLE, by first rows, or under a name that no table has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.ddl.partitions import created_like, partitioning
from pipeline.ddl.table_ref import CreatedTable, PairRef, RemovedTable
from pipeline.ingest.by_commit_ts.timeline import about
from pipeline.ingest.ddl import key
from pipeline.ingest.ddl.done import Done
from pipeline.ingest.ddl.partitions import scheme_after
from pipeline.ingest.ddl.rename import also
from pipeline.model.messages import EVER
from pipeline.model.names import TableName
from pipeline.warehouse import held_names
from pipeline.warehouse.evolution import meet
from pipeline.warehouse.held import last_held, why_not_created
from pipeline.warehouse.layout import Layout
from pipeline.warehouse.pairs import State, StoredBinding, written_state
from pipeline.warehouse.removals import defined
from pipeline.warehouse.state import NAME_BINDINGS, WANTED_NAME

if TYPE_CHECKING:
    from pipeline.ddl.name_history import NameBinding, NameHistory
    from pipeline.ddl.partitions import PartitionScheme
    from pipeline.ddl.statement import Clause
    from pipeline.ddl.table_ref import TableRef
    from pipeline.ingest.by_commit_ts.timeline import DdlTimeline
    from pipeline.ingest.context import PipelineContext
    from pipeline.model.columns import TableVersion
    from pipeline.model.messages import Ddl, Messages, SeenVersion
    from pipeline.model.names import Name
    from pipeline.warehouse.pairs import TablePair


@dataclass(slots=True)
class BatchPairs:
    """The pairs of tables by what names mean: those of the warehouse, and those that this batch makes."""

    context: PipelineContext
    messages: Messages
    timeline: DdlTimeline
    history: NameHistory
    made: dict[TableRef, TablePair] = field(default_factory=dict)
    """Pairs made in this batch, by what made them."""
    ambiguous: dict[TableRef, tuple[str, int]] = field(default_factory=dict)
    """Why a pair is to be held that is not made yet, or has not noted an exchange of rows; and since when."""

    def of(self, table_ref: TableRef) -> TablePair | None:
        """The pair of a table, if it has been made."""
        if isinstance(table_ref, PairRef):
            return self.context.tables.by_uuid(table_ref.uuid)
        return self.made.get(table_ref)

    def create(self, table: TableName, clause: Clause) -> Done:
        """See `NamedTables.create`."""
        statement, commit_ts, tables = clause.statement, clause.commit_ts, self.context.tables
        table_ref, version = CreatedTable(commit_ts, table.key), statement.ddl.version
        made = (pair for pair in tables if pair.created_at == commit_ts and pair.source.key == table.key)
        earlier = next(made, None)
        if earlier is not None:
            self.made[table_ref] = earlier
        elif tables.obstacle(table) is not None:
            return Done.held(table)
        elif version is not None:
            binding = StoredBinding(table.schema, table.table, commit_ts, EVER, clause.mark)
            self.make(table_ref, version, binding, self._partitioned(statement.ddl, table))
        return Done("created")

    def _partitioned(self, ddl: Ddl, table: TableName) -> PartitionScheme | None:
        """How a new table is partitioned, by the text that creates it, or like which."""
        like = created_like(ddl.sql, table)
        if like is None:
            return partitioning(ddl.sql, table)
        table_ref = self.history.at(like.key, ddl.commit_ts).table_ref
        pair = self.of(table_ref)
        if pair is None:
            return None
        statements = about(self.history, table_ref, self.timeline.all)
        return scheme_after(pair.layout, [s for s in statements if pair.layout.ddl_at < s.commit_ts < ddl.commit_ts])

    def make(
        self,
        table_ref: TableRef,
        version: TableVersion,
        binding: StoredBinding,
        scheme: PartitionScheme | None = None,
    ) -> TablePair:
        """A new pair under the name of a binding, with the columns of a version."""
        context, table = self.context, TableName(binding.schema, binding.table)
        layout = Layout(before=context.protocol.sends_before, ddl_at=binding.since)
        layout, _ = meet(layout, version, context.policy)
        layout = defined(key.noted(layout, binding.since), scheme)
        created = binding.since if binding.cause else 0
        made = context.tables.create(table, layout, created, NAME_BINDINGS.entry((binding,)))
        if table_ref not in self.ambiguous:
            held_names.forget(context.records, table)
        self.made[table_ref] = made
        return made

    def first_version(self, name: Name, binding: NameBinding, commit_ts: int) -> SeenVersion | None:
        """The first version under a name within a binding, up to a commit ts."""
        of_name = (table for table in self.messages.tables if table.table.key == name)
        seen = [v for table in of_name for v in table.versions if v.since <= commit_ts and v.until > binding.since]
        return min(seen, key=lambda version: version.since, default=None)

    def displaced(self, name: TableName, commit_ts: int) -> TablePair | None:
        """See `NamedTables.displaced`.

        The pair waits for its name under one that no table has. Its columns will be those of the rows that wait,
        once it is released.
        """
        binding, context = self.history.now(name.key, commit_ts), self.context
        own = TableName(name.schema, f"{name.table}@{commit_ts}")
        tables, records = context.tables, context.records
        why = why_not_created(tables, records, name) or why_not_created(tables, records, own)
        held = {table.key for table in last_held(tables, records)}
        with_records = held & {name.key, own.key}  # the latter in a second try
        has_rows = with_records or self.first_version(name.key, binding, commit_ts) is not None
        is_removed = isinstance(binding.table_ref, RemovedTable)
        if not has_rows or not why or is_removed or tables.find(name) is not None:
            return None
        records.rename_set_aside(name, own, commit_ts)
        first, _ = self.ambiguous.pop(binding.table_ref, ("", 0))
        why = also(first, why)
        bindings = (StoredBinding(name.schema, name.table, binding.since, EVER, binding.cause),)
        noted = written_state(State.HELD, why) | WANTED_NAME.entry(name) | NAME_BINDINGS.entry(bindings)
        pair = tables.create(own, Layout(before=context.protocol.sends_before), noted=noted)
        pair.state, pair.held_reason, pair.wanted_name = State.HELD, why, name
        self.made[binding.table_ref] = pair
        return pair
