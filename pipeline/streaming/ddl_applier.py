"""Applies DDL events in the order of commit ts, and knows which table a name means before and after each.

An event is applied when every live partition has shown it, or a later resolved ts (decision 004). Until then it is
deferred, and later rows of the tables that it concerns are pending. What was applied is recorded in the table pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from pipeline import ddl as text
from pipeline.ddl.partitions import applied, created_like, from_json, partitioning
from pipeline.model.messages import EVER, Part
from pipeline.model.names import TableName, folded
from pipeline.streaming.epochs import HELD, Done, Statement
from pipeline.streaming.name_bindings import GONE as REMOVED
from pipeline.streaming.name_bindings import NameBinding, NameHistory, cause_of, recorded_bindings
from pipeline.streaming.renames import also, first_reason, give_name
from pipeline.streaming.set_aside import held_names, pending
from pipeline.streaming.set_aside.held import last_held, why_not_created
from pipeline.streaming.statements import classified, named
from pipeline.warehouse.evolution import meet
from pipeline.warehouse.exchange import exchanges
from pipeline.warehouse.layout import Layout
from pipeline.warehouse.pairs import State, written_state
from pipeline.warehouse.pairs import StoredBinding as Kept
from pipeline.warehouse.removals import defined
from pipeline.warehouse.state import EXCHANGED, GONE, NAME_BINDINGS, WANTED_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pipeline.ddl.partitions import PartitionScheme
    from pipeline.model.columns import TableVersion
    from pipeline.model.messages import Ddl, DdlIdentity, Messages, SeenVersion
    from pipeline.streaming.context import PipelineContext
    from pipeline.streaming.epochs import Name
    from pipeline.streaming.frontier import Frontier
    from pipeline.streaming.namesakes import Namesakes
    from pipeline.warehouse.pairs import TablePair

NOT_UNDERSTOOD = "DDL_NOT_UNDERSTOOD"
TO_BE_REMOVED = "to be removed"


@dataclass(slots=True)
class DdlApplier:
    """The statements of one batch, and what names mean before and after them."""

    context: PipelineContext
    messages: Messages
    names: NameHistory
    applied: tuple[Statement, ...]
    """Those that this batch applies, in the order of commit ts."""
    later: tuple[Statement, ...]
    """Those of a later batch: deferred ones, and what waits for an exchange of rows."""
    blocked: tuple[tuple[Statement, str], ...] = ()
    """Those about tables that are held, with the reason of that."""
    pairs: dict[str, TablePair] = field(default_factory=dict)
    """Pairs made in this batch, by what made them."""
    ambiguous: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Why a pair is to be held that is not made yet, or has not noted an exchange of rows; and since when."""
    partners: dict[int, str] = field(default_factory=dict)
    """By commit ts of an EXCHANGE PARTITION: the pair that is not partitioned."""
    history: list[dict[str, object]] = field(default_factory=list)
    """Rows of `_pipeline.ddl_history`: what was done."""
    clause: str = ""
    """The clause that is being applied, as a mark that the name which it gives keeps."""
    recorded: set[str] = field(default_factory=set)
    """The statements that the history has already."""
    late: bool = False
    """Whether streams are read that have a history of their own: what they tell of the past is new."""
    unseen: int | None = None
    """After this commit ts another stream may yet tell of a RENAME; None where there is no other stream."""
    left_over: dict[Part, str] = field(default_factory=dict)
    """Rows that a try which died has held back, with the reason: they come in with the next batch."""
    barrier: Statement | None = None
    """The first of those that wait for the next batch though their time has come (`statements`)."""

    @classmethod
    def begin(
        cls,
        context: PipelineContext,
        messages: Messages,
        applied_up_to: Callable[[Ddl], Frontier],
        from_held: frozenset[DdlIdentity],
        namesakes: Namesakes,
    ) -> DdlApplier:
        """The statements of a batch (`statements.classified`). Those about tables that are held wait with theirs."""
        now, later, barrier, recorded = classified(context, messages, applied_up_to, from_held, namesakes)
        names = NameHistory.of(recorded_bindings(context), recorded)
        holds = held_names.remembered(context.records)
        ambiguous = {
            names.at(hold.name.key, hold.commit_ts + 1).table_ref: (hold.reason, hold.commit_ts) for hold in holds
        }
        made = cls(context, messages, names, (), tuple(later), ambiguous=ambiguous, recorded=recorded, barrier=barrier)
        made.blocked = tuple(made._blocked(now))
        blocked = [s for s, _ in made.blocked]
        made.applied = tuple(s for s in now if s not in blocked)
        return made

    def _blocked(self, statements: Iterable[Statement]) -> Iterator[tuple[Statement, str]]:
        """Those that wait with the rows of their tables, by what names will mean when it is their turn."""
        names = NameHistory(
            {name: list(bindings) for name, bindings in self.names.bindings.items()}, set(self.names.causes)
        )
        for statement in statements:
            ddl = statement.ddl
            why = self._held_with(statement, self.pair_of(names.at(ddl.table.key, ddl.commit_ts).table_ref))
            if why:
                yield statement, why
            elif cause_of(statement) not in names.causes:
                for number, action in enumerate(statement.actions):
                    names.act(action, ddl.commit_ts, f"{cause_of(statement)}/{number}")

    @staticmethod
    def _held_with(statement: Statement, table: TablePair | None) -> str:
        """Why a statement waits with the rows of its table, which is held; nothing, if it does not."""
        held = table is not None and table.state is State.HELD and not statement.naming
        return table.held_reason if table is not None and held else ""

    def statements_to_keep(self) -> list[tuple[Statement, TableName, str]]:
        """Those that go to `_pipeline.held`: each with the name of its table after this batch, and the reason."""
        later = [(s, s.ddl.table, f"{pending.DDL_PENDING}: {s.ddl.sql}") for s in self.later]
        return [
            *later,
            *(
                (s, table.source, why)
                for s, table, why in self._blocked_statements()
                if table.state is not State.DROPPED
            ),
        ]

    def _blocked_statements(self) -> Iterator[tuple[Statement, TablePair, str]]:
        """Those about tables that are held, with the table as this batch leaves it."""
        for statement, why in self.blocked:
            table = self.pair(statement.ddl.table.key, statement.ddl.commit_ts)
            if table is not None:
                yield statement, table, why

    def drops(self, name: Name) -> set[int]:
        """The commit ts of the statements of this batch that drop what has a name."""
        times: set[int] = set()
        for statement in self.applied:
            for action in statement.actions:
                match action:
                    case text.DropTable(table) if table.key == name:
                        times.add(statement.ddl.commit_ts)
                    case text.DropDatabase(schema) if folded(schema) == name[0]:
                        times.add(statement.ddl.commit_ts)
        return times

    def pair(self, name: Name, commit_ts: int) -> TablePair | None:
        """The pair that a name means for a change of this commit ts, if it has been made."""
        return self.pair_of(self.names.at(name, commit_ts).table_ref)

    def pair_of(self, table_ref: str) -> TablePair | None:
        """The pair of a table ref, if it has been made."""
        return self.pairs.get(table_ref) or self.context.tables.by_uuid(table_ref)

    # ---- what is applied

    def apply(self, statement: Statement) -> None:
        """Do what a statement asks for. A second time it does nothing."""
        cause = cause_of(statement)
        done = [self._before(action, statement) for action in statement.actions]
        if cause not in self.names.causes:
            for number, action in enumerate(statement.actions):
                self.clause = f"{cause}/{number}"
                if self.clause not in self.names.causes:
                    done[number] = self._act(action, statement)
                    self.names.act(action, statement.ddl.commit_ts, self.clause)
            self.names.causes.add(cause)
        if self.is_blocked_by_name(statement):
            done = [Done.held(statement.ddl.table)] * len(done)
        for action, result in zip(statement.actions, done, strict=True) if cause not in self.recorded else ():
            result_of_clause = result if len(done) == 1 or result.status == HELD else Done("done")
            self.history.append(statement.history_row(action, result_of_clause))

    def is_blocked_by_name(self, statement: Statement) -> bool:
        """Whether a statement is about a table that has no pair because its name is taken: it waits as its rows do."""
        name, commit_ts = statement.ddl.table, statement.ddl.commit_ts
        if statement.naming or not name.table:
            return False
        binding = self.names.at(name.key, commit_ts)
        is_known = binding.until < EVER or binding.table_ref == REMOVED or self.pair_of(binding.table_ref) is not None
        return not is_known and bool(why_not_created(self.context, name))

    def history_rows(self) -> list[dict[str, object]]:
        """The rows of `ddl_history`. A statement about partitions may hold its table only when the table is written."""
        tables = [t for t in self.context.tables if t.state is State.HELD and t.held_reason.startswith(NOT_UNDERSTOOD)]
        ended = [s for s, table, _ in self._blocked_statements() if table.state is State.DROPPED]
        rows = [s.history_row(a, Done("nothing: its table was held, and is dropped")) for s in ended for a in s.actions]
        for row in self.history:
            why = f": {row['sql']}"
            held = [Done.held(table.source) for table in tables if first_reason(table.held_reason).endswith(why)]
            done = Done.of_all(held) if held and row["status"] != HELD else None
            rows.append(row if done is None else {**row, **done._asdict()})
        return rows

    def _before(self, action: text.Action, statement: Statement) -> Done:
        """What there is to say of a clause that was applied by a try that did not get to say it."""
        if isinstance(action, text.RenameTable):
            commit_ts = statement.ddl.commit_ts
            pair = self.pair(action.new.key, commit_ts + 1)
            if pair is not None and pair.wanted_name is not None and pair.renamed_at == commit_ts:
                return Done.held(pair.source)
        return Done("applied before")

    def _act(self, action: text.Action, statement: Statement) -> Done:
        commit_ts = statement.ddl.commit_ts
        match action:
            case text.CreateTable(table):
                return self._create(table, statement)
            case text.DropTable() | text.DropDatabase():
                return Done(
                    "; ".join(self._drop(key, commit_ts) for key in self._dropped(action, commit_ts)) or "no tables"
                )
            case text.RenameTable(old, new):
                return self._rename(old, new, statement)
            case text.TruncateTable(table):
                has_pair = self._ensure(table, commit_ts) is not None
                return Done("rows up to this commit ts leave the current table" if has_pair else "no rows yet")
        return self._act_on_rows(action, statement)

    def _act_on_rows(self, action: text.Action, statement: Statement) -> Done:
        match action:
            case text.DropPartitions() | text.TruncatePartitions():
                return Done("rows of these partitions leave the current table")
            case text.ExchangePartition(table, name, other):
                return self._exchange(statement, table, name, other)
            case text.NotUnderstood(reason):
                return self._hold_all(statement, reason)
        return Done("done")

    def _exchange(self, statement: Statement, table: TableName, name: str, other: TableName) -> Done:
        commit_ts = statement.ddl.commit_ts
        pair, partner = self._ensure(table, commit_ts), self._ensure(other, commit_ts)
        if (
            pair is None
            or partner is None
            or not all(_was_there(table_pair, commit_ts) for table_pair in (pair, partner))
        ):
            return self._hold_all(statement, "EXCHANGE PARTITION needs both tables")
        for table_pair in (pair, partner):
            table_pair.changes.set_properties(EXCHANGED.entry(commit_ts))
        self.partners[commit_ts] = partner.uuid
        if partner.state is State.HELD:  # it is noted, and done when both live
            return Done.held(other)
        return Done(f"rows of {name} and those of {other} change places")

    def _hold_all(self, statement: Statement, reason: str) -> Done:
        """Hold every table that a statement names, or those of the database that it names, or else all there are."""
        ddl = statement.ddl
        why, commit_ts = f"{NOT_UNDERSTOOD}: {reason}: {ddl.sql}", ddl.commit_ts
        everything = ddl.kind == text.ActionType.FLASHBACK_CLUSTER
        tables = [] if everything else [name for name in named(ddl) if name.table]
        database = "" if everything else folded(text.named_database(ddl.sql, ddl.table))
        concerned = tables or [name for name in self._living(commit_ts) if database in ("", name.key[0])]
        done = Done.of_all([self._hold(name, why, commit_ts) for name in concerned])
        return done if done.action else Done("names no table of this warehouse: none is held")

    def _living(self, commit_ts: int) -> list[TableName]:
        """The tables that there are at a commit ts, also those of which this batch has the first rows."""
        pairs = [pair.source for pair in self.context.tables if pair.state is not State.DROPPED]
        first_seen = [(table.table, version.since) for table in self.messages.tables for version in table.versions]
        first_seen += [(table.table, table.since) for table in self.messages.unknown]
        seen = [
            name for name, since in first_seen
            if since <= commit_ts and (self.names.open(name.key) is not None or not self.names.bindings.get(name.key))
        ]  # fmt: skip
        return list({name.key: name for name in (*seen, *pairs)}.values())

    def _dropped(self, action: text.DropTable | text.DropDatabase, commit_ts: int) -> list[Name]:
        if isinstance(action, text.DropTable):
            return [action.table.key]
        for name in self._names_without_pair(commit_ts):
            if name[0] == folded(action.name):
                self.names.bind(name, commit_ts)
        names = set(self.names.bindings) | {table.table.key for table in self.messages.tables}
        return sorted(name for name in names if name[0] == folded(action.name))

    def _names_without_pair(self, commit_ts: int) -> set[Name]:
        """Names that had tables before a commit ts, though pairs may not have been made."""
        first_seen = [(table.table, version.since) for table in self.messages.tables for version in table.versions]
        first_seen += [
            (statement.ddl.table, statement.ddl.commit_ts)
            for statement in self.applied
            if not statement.naming and statement.ddl.table.table
        ]
        names = {name.key for name, since in first_seen if since < commit_ts}
        return (
            names | {rows.table.key for rows in self.messages.unknown} | {name.key for name in last_held(self.context)}
        )

    def _create(self, table: TableName, statement: Statement) -> Done:
        commit_ts, version = statement.ddl.commit_ts, statement.ddl.version
        if self.names.open(table.key) is not None:
            return Done("there already")
        table_ref = f"new@{commit_ts}:{table.key[0]}.{table.key[1]}"
        born = next(
            (pair for pair in self.context.tables if pair.created_at == commit_ts and pair.source.key == table.key),
            None,
        )
        if born is not None:
            self.pairs[table_ref] = born
        elif self.context.tables.obstacle(table) is not None:
            return Done.held(table)
        elif version is not None:
            binding = Kept(table.schema, table.table, commit_ts, EVER, self.clause)
            self.make(table_ref, table, version, binding, self._partitioned(statement.ddl, table))
        return Done("created")

    def _partitioned(self, ddl: Ddl, table: TableName) -> PartitionScheme | None:
        """How a new table is partitioned, by the text that creates it, or like which."""
        like = created_like(ddl.sql, table)
        return partitioning(ddl.sql, table) if like is None else self._partitions(like.key, ddl.commit_ts)

    def _partitions(self, name: Name, commit_ts: int) -> PartitionScheme | None:
        """How a table is partitioned at a commit ts, also by statements that its layout has yet to note."""
        table_ref = self.names.at(name, commit_ts).table_ref
        pair = self.pair_of(table_ref)
        if pair is None:
            return None
        scheme = None if pair.layout.partitions is None else from_json(dict(pair.layout.partitions))
        statements = [*self.applied, *self.later, *(statement for statement, _ in self.blocked)]
        for statement in sorted(statements, key=lambda one: one.ddl.commit_ts):
            if pair.layout.ddl_at < statement.ddl.commit_ts < commit_ts and self._is_about(statement, table_ref):
                scheme = reduce(applied, statement.actions, scheme)
        return scheme

    def make(
        self,
        table_ref: str,
        table: TableName,
        version: TableVersion,
        binding: Kept,
        scheme: PartitionScheme | None = None,
    ) -> TablePair:
        """A new pair, with the columns of a version."""
        layout = Layout(before=self.context.protocol.sends_before, ddl_at=binding.since)
        layout, _ = meet(layout, version, self.context.policy)
        layout = defined(with_handles(layout, binding.since), scheme)
        created = binding.since if binding.cause else 0
        made = self.context.tables.create(table, layout, created, NAME_BINDINGS.entry((binding,)))
        if table_ref not in self.ambiguous:
            held_names.forget(self.context.records, table)
        self.pairs[table_ref] = made
        return made

    def _ensure(self, name: TableName | Name, commit_ts: int) -> TablePair | None:
        """The pair of a name at a time; made, where rows of this batch show that there is one."""
        key = name if isinstance(name, tuple) else name.key
        binding = self.names.now(key, commit_ts)
        pair = self.pair_of(binding.table_ref)
        if pair is not None or binding.table_ref == REMOVED:
            return pair
        seen = self._first(key, binding, commit_ts)
        if seen is None or why_not_created(self.context, seen.version.table):
            return None
        table = seen.version.table
        self.names.bind(key, commit_ts)
        return self.make(
            binding.table_ref, table, seen.version, Kept(table.schema, table.table, binding.since, EVER, binding.cause)
        )

    def _first(self, key: Name, binding: NameBinding, commit_ts: int) -> SeenVersion | None:
        """The first version under a name within a binding, up to a commit ts."""
        named = (table for table in self.messages.tables if table.table.key == key)
        seen = [v for table in named for v in table.versions if v.since <= commit_ts and v.until > binding.since]
        return min(seen, key=lambda version: version.since, default=None)

    def _rename(self, old: TableName, new: TableName, statement: Statement) -> Done:
        commit_ts = statement.ddl.commit_ts
        pair = self._ensure(old, commit_ts) or self._displaced(old, commit_ts)
        if pair is None:
            return Done("no such table")
        bindings = (
            *_ended(pair.bindings, old.key, commit_ts),
            Kept(new.schema, new.table, commit_ts, EVER, self.clause),
        )
        held_names.forget(self.context.records, new)
        if pair.is_displaced:
            held_names.forget(self.context.records, old)
        binding = self.names.open(new.key)  # not what the name meant before a clause of this statement gave it away
        taken = self.pair_of(binding.table_ref) if binding is not None and binding.since <= commit_ts else None
        if taken is not None and taken is not pair and taken.state is not State.DROPPED:
            self._drop(new.key, commit_ts)
        give_name(self.context, pair, new, statement.ddl, bindings, until=commit_ts)
        return Done.held(new) if pair.wanted_name else Done(f"renamed to {pair.name}")

    def _displaced(self, name: TableName, commit_ts: int) -> TablePair | None:
        """A pair for a table that has none because its name is taken; None where nothing of it waits, or it is free.

        It waits for that name under one that no table has, and gets another one instead (`give_name`). What columns it
        has, the rows that wait will tell when it is released.
        """
        binding, records, own = (
            self.names.now(name.key, commit_ts),
            self.context.records,
            TableName(name.schema, f"{name.table}@{commit_ts}"),
        )
        why = why_not_created(self.context, name) or why_not_created(self.context, own)
        held = {table.key for table in last_held(self.context)}
        with_records = held & {name.key, own.key}  # the latter in a second try
        has_rows = with_records or self._first(name.key, binding, commit_ts) is not None
        if not has_rows or not why or binding.table_ref == REMOVED or self.context.tables.find(name) is not None:
            return None
        records.rename_set_aside(name, own, commit_ts)
        first, _ = self.ambiguous.pop(binding.table_ref, ("", 0))
        why = also(first, why)
        bindings = (Kept(name.schema, name.table, binding.since, EVER, binding.cause),)
        noted = written_state(State.HELD, why) | WANTED_NAME.entry(name) | NAME_BINDINGS.entry(bindings)
        pair = self.context.tables.create(own, Layout(before=self.context.protocol.sends_before), noted=noted)
        pair.state, pair.held_reason, pair.wanted_name = State.HELD, why, name
        self.pairs[binding.table_ref] = pair
        return pair

    def _drop(self, key: Name, commit_ts: int) -> str:
        pair = self._ensure(key, commit_ts)
        for name in (name for name in last_held(self.context) if pair is None and name.key == key):
            self.context.records.mark_dropped(name, commit_ts)  # its name is taken, and it waits for nothing any more
            held_names.forget(self.context.records, name)
        if pair is None or (pair.state is State.DROPPED and pair.dropped_at != commit_ts):
            return "no such table"
        why = TO_BE_REMOVED if self.context.settings.warehouse.drop_table == "drop" else ""
        if pair.state is not State.DROPPED:  # else a first try has done this
            self.context.records.mark_dropped(pair.source, commit_ts)
            self.context.tables.set_state(
                pair, State.DROPPED, why, dropped_at=commit_ts, bindings=_ended(pair.bindings, key, commit_ts)
            )
        return "dropped" if why else "kept, marked dropped"

    def _hold(self, name: TableName, reason: str, commit_ts: int) -> Done:
        binding = self.names.now(name.key, commit_ts)
        pair = self._ensure(name, commit_ts)
        if pair is not None and not (pair.state is State.LIVE and pair.layout.ddl_at < commit_ts):
            return Done.stays(name, pair.state)
        if pair is None or self._exchanges(binding.table_ref, besides=commit_ts):
            self.ambiguous[binding.table_ref] = (reason, commit_ts)
            held_names.remember(self.context.records, held_names.HeldName(name.schema, name.table, reason, commit_ts))
        else:
            self.context.tables.set_state(pair, State.HELD, reason)
        return Done.held(name)

    def hold_rows(self, name: Name, reason: str, commit_ts: int) -> None:
        """Hold the table that a name means at a commit ts, whether it has a pair yet or not."""
        self._hold(TableName(*name), reason, commit_ts)

    def _exchanges(self, table_ref: str, besides: int) -> bool:
        """Whether another statement of this batch exchanges partitions of a table, which is held when it is noted."""
        exchanged = (
            (s.ddl.commit_ts, action.table.key)
            for s in self.applied
            for action in s.actions
            if isinstance(action, text.ExchangePartition)
        )
        return any(self.names.at(name, ts).table_ref == table_ref for ts, name in exchanged if ts != besides)

    def dead_letters_follow(self) -> None:
        """Let dead letters of this batch that were sent again go where the tables that they name have gone."""
        for name in {table.key: table for refused in self.messages.refused for table in refused.tables}.values():
            for binding in (binding for binding in self.names.bindings.get(name.key, ()) if binding.until < EVER):
                pair = self.pair_of(binding.table_ref)
                gone = binding.table_ref == REMOVED or (pair is not None and pair.state is State.DROPPED)
                if not gone and (pair is None or pair.source.key == name.key):
                    continue
                to = None if gone or pair is None else pair.source
                when, since_batch = (binding.since, binding.until), self.context.ledger.unfinished
                self.context.records.dead_letters_follow(name, to, when, since_batch)

    def statements_of(self, table_ref: str) -> list[Statement]:
        """The statements of this batch about the columns of a pair, in their order."""
        return [statement for statement in self.applied if self._is_about(statement, table_ref)]

    def _is_about(self, statement: Statement, table_ref: str) -> bool:
        ddl = statement.ddl
        if not ddl.table.table or any(isinstance(a, text.CreateTable | text.DropTable) for a in statement.actions):
            return False
        return self.names.at(ddl.table.key, ddl.commit_ts + bool(statement.naming)).table_ref == table_ref


def _was_there(pair: TablePair, commit_ts: int) -> bool:
    """Whether a pair has a table at a commit ts: a DROP after it may have been applied by a try that died."""
    return pair.state is not State.DROPPED or pair.dropped_at > commit_ts


def with_handles(layout: Layout, commit_ts: int) -> Layout:
    """The layout with its handle noted, where it has changed; nothing, as long as no message has told it."""
    if layout.handle is None:
        return layout
    handle = layout.handle
    if layout.handles and layout.handles[-1][1] == handle:
        return layout
    since = commit_ts if layout.handles else 0
    return replace(layout, handles=(*layout.handles, (since, handle)))


def made_by_rows(context: PipelineContext, table: TableName, commit_ts: int) -> Kept | None:
    """The name of the pair that rows of this commit ts will make; None where the name means another one then."""
    binding = NameHistory.of(recorded_bindings(context)).at(table.key, commit_ts)
    is_taken = binding.table_ref == REMOVED or context.tables.by_uuid(binding.table_ref) is not None
    return None if is_taken or binding.until != EVER else Kept(table.schema, table.table, binding.since, EVER)


def _ended(bindings: Sequence[Kept], key: Name, commit_ts: int) -> tuple[Kept, ...]:
    """The bindings of a pair, that of a name ended."""
    return tuple(
        s._replace(until=commit_ts) if TableName(s.schema, s.table).key == key and s.until == EVER else s
        for s in bindings
    )


def remove_dropped(context: PipelineContext) -> int:
    """Remove pairs that were dropped, where that is the policy; how many. What their names meant is remembered.

    One whose rows are yet to change places with another one's stays until they have.
    """
    history = context.records.tables["ddl_history"]
    needed = {pair.uuid for one in exchanges(context.tables) if not one.done for pair in (one.table, one.other)}
    dropped = [pair for pair in context.tables if pair.state is State.DROPPED and pair.held_reason == TO_BE_REMOVED]
    removable = [pair for pair in dropped if pair.uuid not in needed]
    for pair in removable:
        mine = (binding._replace(pair=pair.uuid) for binding in pair.bindings)
        gone = (*(GONE.read(history.properties) or ()), *mine)
        history.set_properties(GONE.entry(gone))
        context.tables.forget(pair)
    return len(removable)
