"""Which tables wait for a person, and with how many records: also those that no warehouse table is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.warehouse import held_names
from pipeline.warehouse.pairs import State
from pipeline.warehouse.records import LET_IN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.model.names import TableName
    from pipeline.warehouse.records import HeldCounts, Records
    from pipeline.warehouse.tables import Tables

NAME_TAKEN = "TABLE_NAME_TAKEN"
_RELEASED = LET_IN[-1]


def taken(obstacle: str | None) -> str:
    """Why records wait whose table's name in the warehouse is taken (`Tables.obstacle`); nothing, if it is not."""
    return f"{NAME_TAKEN}: {obstacle}" if obstacle else ""


def why_not_created(tables: Tables, records: Records, name: TableName) -> str:
    """Why no pair is made for a new table (by commit ts).

    Its name is taken, or it was, and its records wait for a release.
    """
    why = taken(tables.obstacle(name))
    if why or not _count(last_held(tables, records), name) or not _count(held_tables(tables, records), name):
        return why
    return taken(f"its name was taken, and is free now; to go on: ticdc-warehouse tables release {name}")


def _count(held: Mapping[TableName, int], name: TableName) -> int:
    return sum(count for one, count in held.items() if one.key == name.key)


def held_tables(tables: Tables, records: Records) -> dict[TableName, int]:
    """As it is now: by source name, how many records wait for a release.

    A table that lives may be among them: its older records were held when its name was taken.
    """
    return _held(tables, records, records.held_counts())


def last_held(tables: Tables, records: Records) -> dict[TableName, int]:
    """The same without a look at the records: as many as there were when they were last counted."""
    return _held(tables, records, records.counted)


def _held(tables: Tables, records: Records, held_counts: HeldCounts) -> dict[TableName, int]:
    stopped = {t.source.key: t.source for t in tables if t.state in (State.HELD, State.RELEASING)}
    stopped |= {hold.name.key: hold.name for hold in held_names.remembered(records)}
    counts, names = dict.fromkeys(stopped, 0), dict(stopped)
    for (source, code), count in held_counts.items():
        if code == "" or (code == _RELEASED and source.key in stopped):
            names.setdefault(source.key, source)
            counts[source.key] = counts.get(source.key, 0) + count
    return {names[key]: counts[key] for key in sorted(counts)}


def counted(held: Mapping[TableName, int]) -> str:
    """`shop.orders (12 records), shop.items (1 record)`."""
    return ", ".join(f"{source} ({records:,} record{'' if records == 1 else 's'})" for source, records in held.items())
