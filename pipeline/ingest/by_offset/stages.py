"""Where DDL stands among the messages of a batch (design.md, rules 4 and 5).

Statements that change which table a name means (CREATE, DROP, RENAME, of a database too) divide the batch into stages.
A DDL message is sent to the stream of the name that it ends, so a message after it in the same partition belongs to
a later stage: the first from there on in which its name means a table. Statements about columns divide nothing: they
and the versions of the table form one timeline, in the order of the partition.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pipeline import ddl as text
from pipeline.ddl.statement import followed
from pipeline.ddl.table_ref import CreatedTable, TableRef, UnseenTable
from pipeline.model.messages import SeenVersion, TableMessages

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.ddl.statement import Statement
    from pipeline.model.messages import Ddl
    from pipeline.model.names import Name
    from pipeline.model.places import Partition, Range, Ranges
    from pipeline.warehouse.layout import Layout

Bindings = dict["Name", TableRef]
"""Which table a name means."""


class StagedRows(NamedTuple):
    """Messages of one table name. `bounds`: the positions [from, to) at which they stand; None: the whole batch."""

    messages: TableMessages
    bounds: Ranges | None = None


class Stage(NamedTuple):
    """Statements, and the messages of tables that come after them."""

    statements: tuple[Statement, ...]
    rows: tuple[StagedRows, ...]


def rebound(bindings: Bindings, statement: Statement) -> Bindings:
    """What names mean after a statement; a CREATE TABLE of what is there changes nothing."""
    for action in statement.actions:
        bindings = bound_after(bindings, action, statement.commit_ts)
    return bindings


def bound_after(bindings: Bindings, action: text.Action, commit_ts: int) -> Bindings:
    """What names mean after one action of a statement."""
    created = CreatedTable(commit_ts, action.table.key) if isinstance(action, text.CreateTable) else None
    return followed(bindings, action, created)


def _repeats(statement: Statement, names: Bindings) -> bool:
    """Whether it creates what is there: a later copy in another partition, or a redelivery."""
    return all(isinstance(action, text.CreateTable) and action.table.key in names for action in statement.actions)


def split_at_ddl(
    statements: Sequence[Statement], tables: Sequence[TableMessages], bindings: Bindings
) -> tuple[Stage, ...]:
    """The batch in stages, in order. Without a naming statement it is one."""
    dividing: list[Statement] = []
    others: list[Statement] = []
    meanings = [_with_unseen(statements, bindings)]
    for statement in statements:
        if not statement.naming or _repeats(statement, meanings[-1]):
            others.append(statement)
        else:
            dividing.append(statement)
            meanings.append(rebound(meanings[-1], statement))
    if not dividing:
        return _with_others([Stage((), tuple(map(StagedRows, tables)))], (), meanings, others)
    parts: list[list[StagedRows]] = [[] for _ in meanings]
    for table in tables:
        for number, part in _divided(table, dividing, meanings):
            parts[number].append(part)
    stages = [Stage((), tuple(parts[0]))]
    for number, statement in enumerate(dividing, start=1):
        stages.append(Stage((statement,), tuple(parts[number])))
    return _with_others(stages, dividing, meanings, others)


def _with_unseen(statements: Sequence[Statement], bindings: Bindings) -> Bindings:
    """The names, and those that a statement takes from a table that we do not have yet: its first rows may be here."""
    before, names = dict(bindings), dict(bindings)
    for statement in statements:
        for action in statement.actions:
            taken = {text.RenameTable: "old", text.DropTable: "table"}.get(type(action))
            if taken is not None and (name := getattr(action, taken).key) not in names:
                before[name] = names[name] = UnseenTable(0, name)
        names = rebound(names, statement)
    return before


def _with_others(
    stages: list[Stage], dividing: Sequence[Statement], meanings: Sequence[Bindings], others: Sequence[Statement]
) -> tuple[Stage, ...]:
    """Each other statement at the beginning of the stage to which the messages around it belong."""
    for statement in others:
        places, name = statement.ddl.at, statement.ddl.table.key
        after = [n for n, s in enumerate(dividing, 1) if any(s.ddl.at.get(at, end) < end for at, end in places.items())]
        number = _meaningful(name, max(after, default=0), meanings)
        stages[number] = _with_statement(stages[number], statement)
    return tuple(stages)


def _with_statement(stage: Stage, statement: Statement) -> Stage:
    """The stage with one more statement; its table is worked on even if no row of it is there."""
    rows, table = stage.rows, statement.ddl.table
    if table.table and all(mine.messages.table.key != table.key for mine in rows):
        rows = (*rows, StagedRows(TableMessages(table, ())))
    return Stage((*stage.statements, statement), rows)


def _divided(
    table: TableMessages, dividing: Sequence[Statement], meanings: Sequence[Bindings]
) -> Iterable[tuple[int, StagedRows]]:
    """The table's messages in pieces, each with the number of its stage."""
    pieces: dict[int, dict[Partition, Range]] = {}
    for partition in table.partitions:
        copies = [(statement.ddl.at.get(partition), number) for number, statement in enumerate(dividing, 1)]
        edges = [(0, 0), *sorted((position, number) for position, number in copies if position is not None)]
        least = 0
        for index, (low, stage) in enumerate(edges):
            least = max(least, stage)  # RENAMEs of one commit ts may stand in another order than they are applied in
            high = edges[index + 1][0] if index + 1 < len(edges) else 2**62
            number = _meaningful(table.table.key, least, meanings)
            earlier = pieces.setdefault(number, {}).get(partition)
            pieces[number][partition] = (min(low, earlier[0]), max(high, earlier[1])) if earlier else (low, high)
    for number, bounds in sorted(pieces.items()):
        part = restricted(table, bounds)
        if part is not None:
            yield number, part


def _meaningful(name: Name, least: int, meanings: Sequence[Bindings]) -> int:
    """The first stage from `least` on in which the name means a table; `least` where it never does."""
    return next((n for n in range(least, len(meanings)) if name in meanings[n]), least)


def restricted(table: TableMessages, bounds: Ranges) -> StagedRows | None:
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
    return StagedRows(replace(table, versions=tuple(versions)), dict(bounds)) if versions else None


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

    Each partition has a copy of the statement: partitions may be read unevenly, and a batch may be taken twice. Where a
    changefeed has sent rows and statement again, what stands between the copies is from before it, too.
    """
    newest = (s.ddl for s in statements if s.ddl.commit_ts == layout.altered_at)
    copies = next(({**ddl.at, **ddl.redelivered_at} for ddl in newest), {})
    return layout.altered_at > 0 and not any(
        last > copies[partition] if partition in copies else partition in layout.by_offset.altered_in
        for partition, last in seen.last.items()
    )
