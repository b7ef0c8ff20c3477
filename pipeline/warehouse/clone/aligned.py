"""Field ids that both tables of a pair have in common, so that a file of one is a file of the other.

A pair is made so: the current table has had every column of the changes table, of which it keeps its own. A column that
comes later gets the id that the changes table will give it. Pairs of earlier versions are not aligned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pipeline.model import change

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.warehouse.iceberg import SchemaChange, Table

SHARED = (change.COMMIT_TS, change.UNREPRESENTABLE)
"""Columns of the envelope that both tables have."""


def field_ids(table: Table) -> dict[str, int]:
    """The field ids of a table's columns, by name."""
    return {field["name"]: int(field["id"]) for field in table.schema()["fields"]}


class FieldIds(NamedTuple):
    """The field ids of a table's columns, by name, and the greatest that it has given."""

    by_name: Mapping[str, int]
    last: int

    def fit(self, changes: FieldIds) -> bool:
        """Whether each column has the id that the changes table has for it, and no other ever will."""
        same = all(changes.by_name.get(name) == number for name, number in self.by_name.items())
        return same and self.last >= changes.last


def are_aligned(changes: Table, current: Table) -> bool:
    """Whether the ids of a current table `fit` those of its changes table."""
    of_changes = FieldIds(field_ids(changes), changes.last_column_id)
    return FieldIds(field_ids(current), current.last_column_id).fit(of_changes)


def evolve_current(
    current: Table, changes: Table, of_current: SchemaChange, of_changes: SchemaChange, own: Mapping[str, str]
) -> None:
    """Change the columns of a current table before those of its changes table, so that they stay aligned."""
    if not are_aligned(changes, current):
        current.evolve(of_current, own)
        return
    last = changes.last_column_id
    ids = field_ids(changes) | {name: last + place for place, (name, _) in enumerate(of_changes.add, start=1)}
    places = 2 if of_changes.also_in else 1
    current.evolve_as(of_current, ids, last + places * len(of_changes.add), own)
