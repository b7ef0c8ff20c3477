"""RENAME TABLE.

- The pair: it gets the new name, rows and all. Where the new name is taken, the pair is held under a name that no table
  has (`Tables.hold_rename`), until the name is free or a person releases it.
- Names: the old name means nothing from here on, the new one means the pair.
- Rows: what is set aside goes along. TiCDC sends the statement to the stream of the old name alone, so rows of the new
  name may have to wait until that stream is read as far (`by_commit_ts.routing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ingest.ddl.done import Done
from pipeline.ingest.ddl.drop import dropped
from pipeline.warehouse import held_names
from pipeline.warehouse.held import NAME_TAKEN, taken
from pipeline.warehouse.pairs import State

if TYPE_CHECKING:
    from pipeline import ddl as text
    from pipeline.ddl.statement import Clause
    from pipeline.ingest.ddl.named_tables import NamedTables
    from pipeline.warehouse.pairs import StoredBinding, TablePair

_ALSO = "; and "


def apply(action: text.RenameTable, clause: Clause, names: NamedTables) -> Done:
    """Rename a table."""
    commit_ts, records = clause.commit_ts, names.context.records
    pair = names.pair(action.old, commit_ts) or names.displaced(action.old, commit_ts)
    if pair is None:
        return Done("no such table")
    if not names.is_renamed(pair, action, commit_ts):
        held_names.forget(records, action.new)
        if pair.is_displaced:
            held_names.forget(records, action.old)
        bindings = names.bindings_after(pair, action, clause)
        outdated = names.outdated(action.new, commit_ts)
        if outdated is not None and outdated is not pair and outdated.state is not State.DROPPED:
            dropped(names, action.new.key, outdated, commit_ts)
        _give_name(names, pair, action, clause, bindings)
    return Done.held(pair.wanted_name) if pair.wanted_name else Done(f"renamed to {pair.name}")


def _give_name(
    names: NamedTables,
    pair: TablePair,
    action: text.RenameTable,
    clause: Clause,
    bindings: tuple[StoredBinding, ...],
) -> None:
    """Rename a pair, or hold it; what is set aside of it goes along."""
    context, new, commit_ts = names.context, action.new, clause.commit_ts
    tables, until = context.tables, names.rows_until(clause.commit_ts)
    obstacle = tables.obstacle(new, pair)
    first = first_reason(pair.held_reason) if pair.state is State.HELD else ""
    if obstacle is None:
        context.records.rename_set_aside(pair.source, new, until)
        why = f"its name was taken until it became {new}; to go on: ticdc-warehouse tables release {new}"
        tables.rename(pair, new, commit_ts, bindings, also(first, taken(why)) if pair.wanted_name else "")
    else:
        context.records.rename_set_aside(pair.source, tables.stand_in_name(pair, new, commit_ts), until)
        why = taken(f"{obstacle}: {clause.statement.ddl.sql}")
        tables.hold_rename(pair, new, commit_ts, also(first, why), bindings)


def first_reason(reason: str) -> str:
    """Why a pair was held before its name was taken; else all that there is."""
    return reason.partition(f"{_ALSO}{NAME_TAKEN}: ")[0]


def also(first: str, name_taken: str) -> str:
    """Why a table is held whose name is, or was, taken; `first`: what held it before, if anything did."""
    return name_taken if not first or first.startswith(NAME_TAKEN) else f"{first}{_ALSO}{name_taken}"
