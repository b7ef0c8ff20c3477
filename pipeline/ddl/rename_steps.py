"""RENAMEs of one commit ts as the one statement that they were, in an order in which they can be applied.

TiCDC sends `RENAME TABLE orders TO orders_backup, orders_new TO orders` as a DDL event for each table, all of one
commit ts. From v6.5 to v8.5.3 they may come in an order in which nobody can have executed them: `orders_new` to
`orders` first, while another table still has that name.

A name that one RENAME gives and another one takes away is mostly that of two tables: one leaves it before the other one
comes. It may also be a name on the way, as `t` is where `a` becomes `t`, `b` becomes `a` and `t` becomes `b`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from pipeline import ddl as text
from pipeline.ddl.statement import followed
from pipeline.model.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.ddl.statement import Statement
    from pipeline.model.names import Name


def executable(statements: Sequence[Statement], live: Iterable[Name]) -> list[Statement]:
    """The statements (by commit ts), those RENAMEs of one commit ts in an order that can have been executed.

    `live`: the names that tables have before the first statement, or in rows of this batch. RENAMEs of which nobody can
    tell whether a name is one on the way are not understood: they hold their tables.
    """
    names = dict.fromkeys(live, True)
    ordered: list[Statement] = []
    for _, group in groupby(statements, key=lambda statement: statement.ddl.commit_ts):
        step = _in_order(list(group), set(names))
        for action in (action for statement in step for action in statement.actions):
            if isinstance(action, text.RenameTable):
                names.setdefault(action.old.key, True)
            names = followed(names, action, created=True)
        ordered += step
    return ordered


def _in_order(group: list[Statement], live: set[Name]) -> list[Statement]:
    """The statements of one commit ts: RENAMEs in their order, at the places where RENAMEs are."""
    renames = [_Rename(statement, action) for statement in group if (action := _rename_of(statement))]
    if len(renames) < 2:  # noqa: PLR2004 - nothing to order
        return group
    links = [_link(one, other, renames, live) for one in renames for other in renames if _meet(one, other)]
    unordered = [link.name for link in links if link.first is None]
    if unordered:
        name = unordered[0][1]
        why = (
            f"RENAMEs at one commit ts give the name {name} and take it away: "
            "it is not clear whether they mean one table or two"
        )
        return [replace(s, actions=(text.NotUnderstood(why),)) if _rename_of(s) else s for s in group]
    ordered = iter(_ordered(renames, links))
    return [next(ordered) if _rename_of(statement) else statement for statement in group]


class _Rename(NamedTuple):
    """A DDL event that renames one table."""

    statement: Statement
    action: text.RenameTable

    @property
    def table_id(self) -> int:
        return self.statement.ddl.table_id


class _Link(NamedTuple):
    """A name that one RENAME gives and another one takes away; `first` comes before `then`, None: nobody can tell."""

    name: Name
    first: _Rename | None
    then: _Rename


def _meet(giving: _Rename, taking: _Rename) -> bool:
    return giving is not taking and giving.action.new.key == taking.action.old.key


def _link(giving: _Rename, taking: _Rename, renames: Sequence[_Rename], live: set[Name]) -> _Link:
    """Which of two comes first. A table that has the name leaves it; else the table that gets it passes it on."""
    name = giving.action.new.key
    if giving.table_id and taking.table_id:
        is_on_the_way = giving.table_id == taking.table_id
    elif name in live or renames.index(taking) < renames.index(giving) or taking.action.new == giving.action.old:
        is_on_the_way = False
    elif _others_live(giving, taking, renames, live):
        is_on_the_way = True
    else:
        return _Link(name, None, giving)
    return _Link(name, giving, taking) if is_on_the_way else _Link(name, taking, giving)


def _others_live(giving: _Rename, taking: _Rename, renames: Sequence[_Rename], live: set[Name]) -> bool:
    """Whether the RENAMEs from one to the other are a cycle of three or more, whose other names tables have."""
    by_old = {one.action.old.key: one for one in renames}
    name, passed = taking.action.new.key, 0
    while name in live and name in by_old and name != giving.action.old.key:
        name, passed = by_old[name].action.new.key, passed + 1
    return passed > 0 and name in live and name == giving.action.old.key


def _ordered(left: list[_Rename], links: Sequence[_Link]) -> list[Statement]:
    """Each RENAME after those that come first; a cycle of tables that leave for each other is opened (`_opened`)."""
    ordered: list[Statement] = []
    closing: list[text.RenameTable] = []
    while left:
        blocked = [link.then for link in links if link.first in left]
        free = next((rename for rename in left if rename not in blocked), None)
        if free is None:
            free = left[0]
            opened, last = _opened(free)
            ordered.append(opened)
            closing.append(last)
        else:
            ordered.append(free.statement)
        left = [rename for rename in left if rename is not free]
    if closing:
        ordered[-1] = replace(ordered[-1], actions=(*ordered[-1].actions, *closing))
    return ordered


def _opened(rename: _Rename) -> tuple[Statement, text.RenameTable]:
    """A RENAME of a cycle in two halves, by a name that no table of the source has."""
    old, new = rename.action.old, rename.action.new
    between = TableName(old.schema, f"{old.table}@{rename.statement.ddl.commit_ts}~")
    return replace(rename.statement, actions=(text.RenameTable(old, between),)), text.RenameTable(between, new)


def _rename_of(statement: Statement) -> text.RenameTable | None:
    """What a DDL event renames that renames one table; None for every other."""
    match statement.actions:
        case (text.RenameTable() as rename,):
            return rename
    return None
