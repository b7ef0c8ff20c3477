"""Tables that are to be held, though there is no pair of theirs yet: a statement about them was not understood.

They are remembered beside the history until there is a pair to hold, or a person lets the name go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pipeline.model.messages import EVER
from pipeline.model.names import TableName
from pipeline.warehouse.state import HOLDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline.warehouse.records import Records


class HeldName(NamedTuple):
    """One of them. `commit_ts`: of the statement."""

    schema: str
    table: str
    reason: str
    commit_ts: int

    @property
    def name(self) -> TableName:
        """The table."""
        return TableName(self.schema, self.table)


def remembered(records: Records) -> tuple[HeldName, ...]:
    """All held names."""
    holds = HOLDS.read(records.tables["ddl_history"].properties) or ()
    return tuple(HeldName(*hold) for hold in holds)


def remember(records: Records, hold: HeldName) -> None:
    """Add one; the first of each name counts."""
    holds = remembered(records)
    if hold.name.key not in {earlier.name.key for earlier in holds}:
        _write(records, (*holds, hold))


def forget(records: Records, table: TableName, until: int = EVER) -> bool:
    """Forget a name; whether it was there. `until`: not one of a statement after this commit ts."""
    holds = remembered(records)
    left = [hold for hold in holds if hold.name.key != table.key or hold.commit_ts > until]
    if len(left) == len(holds):
        return False
    _write(records, left)
    return True


def _write(records: Records, holds: Iterable[HeldName]) -> None:
    records.tables["ddl_history"].set_properties(HOLDS.entry(tuple(holds)))
