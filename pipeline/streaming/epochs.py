"""Where DDL stands among the messages of a batch (design.md, rules 4 and 5).

Statements that change which table a name means (CREATE, DROP, RENAME, of a database too) cut the batch into epochs.
A DDL message is sent to the stream of the name that it ends, so a message after it in the same partition belongs to
a later epoch: the first from there on in which its name means a table. Statements about columns do not cut: they and
the versions of the table form one timeline, in the order of the partition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pipeline import ddl as text
from pipeline.model.messages import SeenVersion, TableMessages
from pipeline.model.names import folded
from pipeline.streaming.batch import Epoch
from pipeline.warehouse.pairs import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pipeline.ddl import Action
    from pipeline.model.messages import Ddl
    from pipeline.model.names import TableName
    from pipeline.model.places import Partition
    from pipeline.warehouse.layout import Layout

Name = tuple[str, str]


class Birth(NamedTuple):
    """What a name means from its CREATE TABLE on, until the first row makes the pair.

    One commit ts may create many tables (a restore by BR, a batch CREATE), so it takes the table's name as well: the
    one that the statement gave, whatever a later RENAME has made of it.
    """

    commit_ts: int
    name: Name


Bindings = dict[Name, "str | Birth"]
"""Which table a name means: a pair by its uuid, or one that has no row yet."""

APPLIED, HELD = "applied", "held"

_NAMING = (text.CreateTable, text.DropTable, text.RenameTable, text.DropDatabase)


class Done(NamedTuple):
    """What was done for a statement. `status`: `applied`, or `held`, where it waits with its table for a person."""

    action: str
    status: str = APPLIED

    @staticmethod
    def held(table: TableName) -> Done:
        """It holds a table."""
        return Done(f"held; to go on: ticdc-warehouse tables release {table}", HELD)

    @staticmethod
    def stays(table: TableName, state: State) -> Done:
        """A table that is not live, or knows better, stays as it is."""
        return Done(f"{table}: {state}", HELD if state is State.HELD else APPLIED)

    @staticmethod
    def of_all(some: Sequence[Done]) -> Done:
        """What was done to several tables."""
        is_held = any(done.status == HELD for done in some)
        return Done("; ".join(done.action for done in some), HELD if is_held else APPLIED)


@dataclass(frozen=True, slots=True)
class Statement:
    """A DDL message and what its text asks for.

    `tables`: those that it names. `sources`: what the source calls the tables that it is about, by their names here
    (`TableName.key`), where a protocol spells names otherwise.
    """

    ddl: Ddl
    actions: tuple[Action, ...]
    tables: tuple[TableName, ...] = ()
    sources: tuple[tuple[Name, TableName], ...] = ()

    @property
    def naming(self) -> bool:
        """Whether it changes which table a name means."""
        return any(isinstance(action, _NAMING) for action in self.actions)

    def repeated(self, names: Bindings) -> bool:
        """Whether it creates what is there: a later copy in another partition, or a redelivery."""
        return all(isinstance(action, text.CreateTable) and action.table.key in names for action in self.actions)

    def history_row(self, action: Action, done: Done) -> dict[str, object]:
        """A row of `ddl_history`: one of its actions, and what was done."""
        return {
            "commit_ts": self.ddl.commit_ts, "schema_name": self.ddl.table.schema, "table_name": self.ddl.table.table,
            "ddl_type": type(action).__name__, "sql": self.ddl.sql, "action": done.action, "status": done.status,
        }  # fmt: skip


def rebound(bindings: Bindings, statement: Statement) -> Bindings:
    """What names mean after a statement."""
    for action in statement.actions:
        bindings = bound_after(bindings, action, statement.ddl.commit_ts)
    return bindings


def bound_after(bindings: Bindings, action: Action, commit_ts: int) -> Bindings:
    """What names mean after one action of a statement; a CREATE TABLE of what is there changes nothing."""
    names = dict(bindings)
    match action:
        case text.CreateTable(table):
            names.setdefault(table.key, Birth(commit_ts, table.key))
        case text.DropTable(table):
            names.pop(table.key, None)
        case text.RenameTable(old, new):
            if old.key in names:
                names[new.key] = names.pop(old.key)
        case text.DropDatabase(name):
            names = {key: uuid for key, uuid in names.items() if key[0] != folded(name)}
    return names


def split_at_ddl(
    statements: Sequence[Statement], tables: Sequence[TableMessages], bindings: Bindings
) -> tuple[Epoch, ...]:
    """The batch as epochs, in order. Without a naming statement it is one."""
    cuts: list[Statement] = []
    others: list[Ddl] = []
    meanings = [_with_unmade(statements, bindings)]
    for statement in statements:
        if not statement.naming or statement.repeated(meanings[-1]):
            others.append(statement.ddl)
        else:
            cuts.append(statement)
            meanings.append(rebound(meanings[-1], statement))
    if not cuts:
        return _with_others([Epoch((), tuple(tables))], (), meanings, others)
    parts: list[list[TableMessages]] = [[] for _ in meanings]
    for table in tables:
        for number, part in _placed(table, cuts, meanings):
            parts[number].append(part)
    epochs = [Epoch((), tuple(parts[0]))]
    for number, statement in enumerate(cuts, start=1):
        epochs.append(Epoch((statement.ddl,), tuple(parts[number])))
    return _with_others(epochs, cuts, meanings, others)


def _with_unmade(statements: Sequence[Statement], bindings: Bindings) -> Bindings:
    """The names, and those that a statement takes from a table that we do not have yet: its first rows may be here."""
    before, names = dict(bindings), dict(bindings)
    for statement in statements:
        for action in statement.actions:
            taken = {text.RenameTable: "old", text.DropTable: "table"}.get(type(action))
            if taken is not None and (name := getattr(action, taken).key) not in names:
                before[name] = names[name] = ""
        names = rebound(names, statement)
    return before


def _with_others(
    epochs: list[Epoch], cuts: Sequence[Statement], meanings: Sequence[Bindings], others: Sequence[Ddl]
) -> tuple[Epoch, ...]:
    """Each other statement at the beginning of the epoch to which the messages around it belong."""
    for ddl in others:
        after = [n for n, s in enumerate(cuts, 1) if any(s.ddl.at.get(at, end) < end for at, end in ddl.at.items())]
        number = _meaningful(ddl.table.key, max(after, default=0), meanings)
        epochs[number] = with_statement(epochs[number], ddl)
    return tuple(epochs)


def with_statement(epoch: Epoch, ddl: Ddl) -> Epoch:
    """The epoch with one more statement; its table is worked on even if no row of it is there."""
    tables = epoch.tables
    if ddl.table.table and all(table.table.key != ddl.table.key for table in tables):
        tables = (*tables, TableMessages(ddl.table, ()))
    return Epoch((*epoch.ddl, ddl), tables)


def _placed(
    table: TableMessages, cuts: Sequence[Statement], meanings: Sequence[Bindings]
) -> Iterable[tuple[int, TableMessages]]:
    """The table's messages in pieces, each with the number of its epoch."""
    pieces: dict[int, dict[Partition, tuple[int, int]]] = {}
    for partition in table.partitions:
        copies = [(statement.ddl.at.get(partition), number) for number, statement in enumerate(cuts, 1)]
        edges = [(0, 0), *sorted((position, number) for position, number in copies if position is not None)]
        least = 0
        for index, (low, epoch) in enumerate(edges):
            least = max(least, epoch)  # RENAMEs of one commit ts may stand in another order than they are applied in
            high = edges[index + 1][0] if index + 1 < len(edges) else 2**62
            number = _meaningful(table.table.key, least, meanings)
            earlier = pieces.setdefault(number, {}).get(partition)
            pieces[number][partition] = (min(low, earlier[0]), max(high, earlier[1])) if earlier else (low, high)
    for number, bounds in sorted(pieces.items()):
        part = restricted(table, bounds)
        if part is not None:
            yield number, part


def _meaningful(name: Name, least: int, meanings: Sequence[Bindings]) -> int:
    """The first epoch from `least` on in which the name means a table; `least` where it never does."""
    return next((n for n in range(least, len(meanings)) if name in meanings[n]), least)


def restricted(table: TableMessages, bounds: Mapping[Partition, tuple[int, int]]) -> TableMessages | None:
    """The table's messages within position ranges [from, to); None where there are none."""
    versions = []
    for seen in table.versions:
        inside = {
            partition: max(first, bounds[partition][0])
            for partition, first in seen.first.items()
            if partition in bounds and first < bounds[partition][1] and seen.last[partition] >= bounds[partition][0]
        }
        if inside:
            last = {partition: min(seen.last[partition], bounds[partition][1] - 1) for partition in inside}
            versions.append(replace(seen, first=inside, last=last))
    return replace(table, versions=tuple(versions), bounds=dict(bounds)) if versions else None


def timeline(table: TableMessages, statements: Sequence[Statement]) -> list[SeenVersion | Statement]:
    """Versions and statements of one table in the order in which they hold.

    A version comes after a statement when it first stands after it in some partition. Versions of equal standing
    keep the order of their ids, which a registry gives in the order of registration; one that stands in partitions
    without a statement (a renamed table's other stream) goes with the id before it.
    """
    ordered = sorted(statements, key=lambda s: s.ddl.commit_ts)
    slots: list[tuple[int, int, SeenVersion | Statement]] = [
        (number, 1, statement) for number, statement in enumerate(ordered)
    ]
    slot = 0
    for seen in sorted(table.versions, key=lambda seen: (seen.key_only, seen.version.version)):
        after = [n for n, s in enumerate(ordered) if _after(seen, s.ddl)]
        if after or any(at in s.ddl.at for s in ordered for at in seen.first):
            slot = max(after) + 1 if after else 0
        slots.append((slot, 0, seen))
    slots.sort(key=lambda slot: slot[:2])
    return [entry for _, _, entry in slots]


def _after(seen: SeenVersion, ddl: Ddl) -> bool:
    return any(at in ddl.at and first > ddl.at[at] for at, first in seen.first.items())


def is_stale(layout: Layout, seen: SeenVersion, statements: Sequence[Statement]) -> bool:
    """Whether all messages of a version stand before the newest statement that has changed the layout.

    Each partition has a copy of the statement: partitions may be read unevenly, and a batch may be taken twice.
    """
    copies = next((s.ddl.at for s in statements if s.ddl.commit_ts == layout.altered_at), {})
    return layout.altered_at > 0 and not any(
        last > copies[partition] if partition in copies else partition in layout.altered_in
        for partition, last in seen.last.items()
    )
