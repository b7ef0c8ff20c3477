"""RENAME TABLE, for both orderings: the pair gets its source's new name, or waits where that is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.streaming.set_aside.held import NAME_TAKEN, taken
from pipeline.warehouse.pairs import State

if TYPE_CHECKING:
    from pipeline.model.messages import Ddl
    from pipeline.model.names import TableName
    from pipeline.streaming.context import PipelineContext
    from pipeline.warehouse.pairs import StoredBinding, TablePair

_ALSO = "; and "


def give_name(
    context: PipelineContext,
    pair: TablePair,
    new: TableName,
    ddl: Ddl,
    bindings: tuple[StoredBinding, ...] = (),
    until: int | None = None,
) -> None:
    """Rename a pair, or hold it (`Tables.hold_rename`); what is set aside of it goes along.

    `until`: see `mark_dropped`.
    """
    tables, commit_ts = context.tables, ddl.commit_ts
    obstacle = tables.obstacle(new, pair)
    first = first_reason(pair.held_reason) if pair.state is State.HELD else ""
    if obstacle is None:
        context.records.rename_set_aside(pair.source, new, until)
        why = f"its name was taken until it became {new}; to go on: ticdc-warehouse tables release {new}"
        tables.rename(pair, new, commit_ts, bindings, also(first, taken(why)) if pair.wanted_name else "")
    else:
        context.records.rename_set_aside(pair.source, tables.stand_in_name(pair, new, commit_ts), until)
        tables.hold_rename(pair, new, commit_ts, also(first, taken(f"{obstacle}: {ddl.sql}")), bindings)


def first_reason(reason: str) -> str:
    """Why a pair was held before its name was taken; else all that there is."""
    return reason.partition(f"{_ALSO}{NAME_TAKEN}: ")[0]


def also(first: str, name_taken: str) -> str:
    """Why a table is held whose name is, or was, taken; `first`: what held it before, if anything did."""
    return name_taken if not first or first.startswith(NAME_TAKEN) else f"{first}{_ALSO}{name_taken}"
