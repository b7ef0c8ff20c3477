"""What names mean by offset: after each statement of a batch what the ones before it have made of them.

What names meant before the first statement of a batch is noted in the warehouse before that one is applied. So a second
try of the batch begins with the same names as the first, whatever that one has renamed or dropped since.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.ddl.table_ref import CreatedTable, PairRef
from pipeline.ingest.by_offset.stages import bound_after
from pipeline.ingest.ddl.done import Done
from pipeline.ingest.ddl.named_tables import NamedTables
from pipeline.model.names import TableName, folded
from pipeline.warehouse.pairs import State
from pipeline.warehouse.state import BORN, NAMED
from pipeline.warehouse.stored import BoundAt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pipeline import ddl as text
    from pipeline.ddl import Action
    from pipeline.ddl.statement import Clause, Statement
    from pipeline.ingest.by_offset.stages import Bindings
    from pipeline.ingest.context import PipelineContext
    from pipeline.model.messages import Ddl, DdlIdentity
    from pipeline.model.names import Name
    from pipeline.warehouse.pairs import TablePair


@dataclass(frozen=True, slots=True)
class PastDdl:
    """What earlier batches have applied, as far as the statements of this one go back."""

    applied: frozenset[DdlIdentity] = frozenset()
    newest: Mapping[Name, int] = field(default_factory=dict)
    """Commit ts of the newest statement about a name."""

    @staticmethod
    def of(context: PipelineContext, statements: Sequence[Statement]) -> PastDdl:
        """What `_pipeline.ddl_history` says."""
        if not statements:
            return PastDdl()
        oldest = min(statement.commit_ts for statement in statements)
        history = context.records.read("ddl_history").where(F.col("batch_id") < context.run.ledger.unfinished)
        newest: dict[Name, int] = {}
        applied: set[DdlIdentity] = set()
        spell = context.protocol.as_sent
        for row in history.where(F.col("commit_ts") >= oldest).collect():
            schema, table = row["schema_name"], row["table_name"]
            for name in {TableName(schema, table), TableName(spell(schema), spell(table))}:  # the latter: of old
                newest[name.key] = max(row["commit_ts"], newest.get(name.key, 0))
                applied.add((row["commit_ts"], name.key, row["sql"]))
        return PastDdl(frozenset(applied), newest)

    def has(self, ddl: Ddl) -> bool:
        """Whether a statement was applied: this is another partition's copy, or a redelivery."""
        return ddl.identity in self.applied


@dataclass(slots=True)
class NamesByOffset(NamedTables):
    """Names at the point of a batch that has been reached."""

    context: PipelineContext
    batch_id: int
    bindings: Bindings
    before: Bindings
    """What names meant before the first statement."""
    past: PastDdl
    has_statements: bool
    entered: int = 0
    """Commit ts of the newest statement about names that was applied."""
    ambiguous: dict[Name, str] = field(default_factory=dict)
    """Why tables that do not exist yet are to be held."""
    truncated: dict[Name, int] = field(default_factory=dict)
    """When tables were truncated that do not exist yet: the rows before it are in the same batch."""

    def __post_init__(self) -> None:
        self._bind_made()

    def of(self, name: TableName) -> TablePair | None:
        """The pair that rows under a name belong to now."""
        return self.pair(name) if name.key in self.bindings else self.context.tables.find(name)

    def made(self, name: Name, pair: TablePair) -> None:
        """Let a name mean the pair that its rows have made."""
        if pair.source.key == name and pair.state is not State.DROPPED:
            self.bindings = {**self.bindings, name: PairRef(pair.uuid)}

    def has(self, table: TableName) -> bool:
        """See `NamedTables.has`."""
        return table.key in self.bindings

    def pair(self, name: TableName, _commit_ts: int = 0) -> TablePair | None:
        """See `NamedTables.pair`."""
        match self.bindings.get(name.key):
            case PairRef(uuid):
                return self.context.tables.by_uuid(uuid)
            case CreatedTable(commit_ts, created_as):
                return self.context.tables.born(commit_ts, created_as) or self._made_since(name)
        return None

    def _made_since(self, name: TableName) -> TablePair | None:
        """The table of this name, where an unfinished try that did not see the CREATE TABLE has made it."""
        table = self.context.tables.find(name)
        return None if table is None or PairRef(table.uuid) in self.before.values() else table

    def in_database(self, schema: str, _commit_ts: int) -> Iterator[tuple[Name, TablePair | None]]:
        """See `NamedTables.in_database`."""
        for pair in self.context.tables:
            if folded(pair.source.schema) == folded(schema):
                yield pair.source.key, pair

    def is_renamed(self, pair: TablePair, rename: text.RenameTable, commit_ts: int) -> bool:
        """See `NamedTables.is_renamed`.

        A second try finds what the first has done, be it a whole chain of names in which the old one is taken again.
        """
        first = pair.renamed_at < commit_ts or (pair.renamed_at == commit_ts and pair.source.key == rename.old.key)
        return pair.source.key == rename.new.key or not first or pair.layout.ddl_at > commit_ts

    def truncate(self, pair: TablePair | None, name: TableName, commit_ts: int) -> None:
        """See `NamedTables.truncate`."""
        if pair is None:
            self.truncated[name.key] = commit_ts
        elif pair.by_offset.truncated_at < commit_ts:
            self.context.tables.truncate(pair, commit_ts)

    def concerned(self, statement: Statement) -> Sequence[TableName]:
        """See `NamedTables.concerned`."""
        return statement.tables

    def hold(self, name: TableName, reason: str, commit_ts: int) -> Done:
        """See `NamedTables.hold`; a table without rows is held as soon as its first rows make it."""
        pair = self.pair(name)
        if pair is not None and (pair.state != State.LIVE or pair.layout.ddl_at >= commit_ts):
            return Done.stays(name, pair.state)
        if pair is None:
            self.ambiguous[name.key] = reason
        else:
            self.context.tables.set_state(pair, State.HELD, reason)
        return Done.held(name)

    def waits(self, statement: Statement) -> bool:
        """See `NamedTables.waits`."""
        pair = self.pair(statement.ddl.table)
        return pair is not None and pair.state is State.HELD and not statement.naming

    def follow(self, action: Action, clause: Clause) -> None:
        """See `NamedTables.follow`."""
        self.bindings = bound_after(self.bindings, action, clause.commit_ts)

    def passed(self, statement: Statement) -> None:
        """See `NamedTables.passed`."""
        if statement.naming:
            self.entered = statement.commit_ts
            self._pass_on_names()
            self._bind_made()

    def _pass_on_names(self) -> None:
        """Give free names to the pairs that wait for them; a name that another pair still has goes on meaning that."""
        for pair in sorted(self.context.tables, key=lambda pair: pair.renamed_at):
            if pair.wanted_name is None or not pair.is_displaced or pair.state is State.DROPPED:
                continue
            wanted, own = pair.wanted_name, PairRef(pair.uuid)
            holder = self.context.tables.find(wanted)
            if holder is not None and self.bindings.get(wanted.key) == own:
                self.bindings[wanted.key] = PairRef(holder.uuid)
            elif holder is None and self.bindings.get(wanted.key) in (None, own):
                self.context.records.rename_set_aside(pair.source, wanted)
                self.bindings[wanted.key] = own
                named = BoundAt(self.batch_id, self.entered, *wanted.key)
                self.context.tables.take_name(pair, NAMED.entry(named))

    def _bind_made(self) -> None:
        """Bind the names that pairs got here in an unfinished try, from rows or from other pairs.

        The pairs may have new names since.
        """
        for pair in self.context.tables if self.has_statements and self.context.run.recovering else ():
            for key in (BORN, NAMED):
                bound = key.read(pair.changes.properties)
                if bound is not None and (bound.batch, bound.entered) == (self.batch_id, self.entered):
                    self.bindings = {(bound.schema, bound.table): PairRef(pair.uuid), **self.bindings}
