"""Tables that are to be held, though there is no pair of theirs yet: a statement about them was not understood.

They are remembered beside the history until there is a pair to hold, or a person lets the name go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pipeline.model.names import TableName
from pipeline.warehouse.state import HOLDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline.warehouse.records import Records


class HeldName(NamedTuple):
    """One of them. `at`: commit ts of the statement."""

    schema: str
    table: str
    reason: str
    at: int

    @property
    def name(self) -> TableName:
        """The table."""
        return TableName(self.schema, self.table)


def remembered(records: Records) -> tuple[HeldName, ...]:
    """All of them."""
    holds = HOLDS.read(records.tables["ddl_history"].properties) or ()
    return tuple(HeldName(*hold) for hold in holds)


def remember(records: Records, hold: HeldName) -> None:
    """Add one; the first of a name counts."""
    known = remembered(records)
    if hold.name.key not in {one.name.key for one in known}:
        _write(records, (*known, hold))


def forget(records: Records, table: TableName) -> bool:
    """Let a name go; whether it was there."""
    known = remembered(records)
    left = [one for one in known if one.name.key != table.key]
    if len(left) == len(known):
        return False
    _write(records, left)
    return True


def _write(records: Records, holds: Iterable[HeldName]) -> None:
    records.tables["ddl_history"].set_properties(HOLDS.entry(tuple(holds)))
