"""Rows that go with their partition: TRUNCATE PARTITION and DROP PARTITION send no deletes.

A layout keeps the definitions of the partitions and what was removed with them; a publish lets the rows go that lie in
them at that commit ts (`advance`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pipeline.model import change, ddl
from pipeline.model.ddl.partitions import applied, from_json, predicate, to_json
from pipeline.model.names import quoted
from pipeline.warehouse.layout import Removal
from pipeline.warehouse.partitions import rows_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column

    from pipeline.model.ddl import Action
    from pipeline.model.ddl.partitions import PartitionScheme, RowPredicate
    from pipeline.warehouse.layout import Layout


def removed(layout: Layout, removal: Removal) -> Column:
    """Which rows of the current table went."""
    found = _predicate(removal.scheme, removal.names, {name: kind for name, _, kind in removal.columns})
    if isinstance(found, ddl.NotUnderstood):
        raise AssertionError(found.reason)  # noqa: TRY004 - it was understood when the removal was noted
    today = {name: layout.column(number).name for name, number, _ in removal.columns}
    columns = {name: F.col(quoted(stored)) for name, stored in today.items()}
    lost = {name: F.col(change.UNREPRESENTABLE)[stored] for name, stored in today.items()}
    return rows_in(found, columns, lost)


def _predicate(
    scheme: Mapping[str, Any] | None, names: tuple[str, ...] | None, types: Mapping[str, str]
) -> RowPredicate | ddl.NotUnderstood:
    return predicate(None if scheme is None else from_json(dict(scheme)), names, types)


def defined(layout: Layout, scheme: PartitionScheme | None) -> Layout:
    """The layout with these partitions."""
    return replace(layout, partitions=None if scheme is None else to_json(scheme))


def obey_partitions(layout: Layout, action: Action, at: int, other: str = "") -> tuple[Layout, str]:
    """The layout behind a clause about partitions, and why the table has to be held, if it has.

    `other`: the pair with which EXCHANGE PARTITION swaps rows.
    """
    why = ""
    if isinstance(action, ddl.DropPartitions | ddl.TruncatePartitions | ddl.ExchangePartition):
        names = (action.name,) if isinstance(action, ddl.ExchangePartition) else action.names
        columns = tuple((c.source, c.id, c.tidb_type) for c in layout.columns if c.live)
        found = _predicate(layout.partitions, names, {name: kind for name, _, kind in columns})
        if isinstance(found, ddl.NotUnderstood):
            why = found.reason
        else:
            removal = Removal(at, names, layout.partitions, columns, other)
            layout = replace(layout, removals=(*layout.removals, removal))
    scheme = None if layout.partitions is None else from_json(dict(layout.partitions))
    return defined(layout, applied(scheme, action)), why
