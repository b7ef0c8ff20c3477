"""Rows that go by TRUNCATE TABLE, or with their partition (TRUNCATE, DROP PARTITION): no deletes are sent.

A layout keeps the definitions of the partitions, and which were removed when. A publish deletes the rows that are in
them at that commit ts (`advance`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pipeline import ddl
from pipeline.ddl.partitions import applied, from_json, predicate, to_json
from pipeline.model import change
from pipeline.model.messages import EVER
from pipeline.model.names import folded, quoted
from pipeline.warehouse.layout import Removal
from pipeline.warehouse.partitions import rows_in
from pipeline.warehouse.shape import current_shape

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import Column

    from pipeline.ddl import Action
    from pipeline.ddl.partitions import PartitionScheme, RowPredicate
    from pipeline.warehouse.layout import Layout
    from pipeline.warehouse.shape import Shape


def removed(layout: Layout, removal: Removal, shape: Shape | None = None) -> Column:
    """Which rows of the current table went. With a `shape`: which changes, as it makes rows of them."""
    condition = _predicate(removal.scheme, removal.names, {name: kind for name, _, kind in removal.columns})
    if isinstance(condition, ddl.NotUnderstood):
        raise AssertionError(condition.reason)  # noqa: TRY004 - it was understood when the removal was noted
    today = {name: layout.column(number).name for name, number, _ in removal.columns}
    columns = {name: shape.columns[stored] if shape else F.col(quoted(stored)) for name, stored in today.items()}
    texts = shape.unrepresentable if shape else F.col(change.UNREPRESENTABLE)
    lost = {name: texts[stored] for name, stored in today.items()}
    return rows_in(condition, columns, lost)


def taken(layout: Layout, timezone: str, shown: int = EVER, moves: Collection[int] = ()) -> Column:
    """The commit ts of the statement that took the row of a change from its table; NULL if none did.

    That is the first after the change: a `Removal` up to `shown`, or one of the exchanges at `moves`, by which all rows
    went.
    """
    removals = [removal for removal in layout.by_commit_ts.removals if removal.at <= shown]
    named = {number for removal in removals for _, number, _ in removal.columns}
    columns = (replace(column, in_current=column.in_current or column.id in named) for column in layout.columns)
    shape = current_shape(replace(layout, columns=tuple(columns)), timezone)  # a dropped column decided then
    which = [(removal.at, F.lit(True) if removal.empties else removed(layout, removal, shape)) for removal in removals]
    which += [(at, F.lit(True)) for at in moves]
    when = [F.when((F.col(change.COMMIT_TS) <= at) & here, F.lit(at).cast("bigint")) for at, here in which]
    none = F.lit(None).cast("bigint")
    return F.least(none, none, *when)


def _predicate(
    scheme: Mapping[str, Any] | None, names: tuple[str, ...] | None, types: Mapping[str, str]
) -> RowPredicate | ddl.NotUnderstood:
    return predicate(None if scheme is None else from_json(dict(scheme)), names, types)


def defined(layout: Layout, scheme: PartitionScheme | None) -> Layout:
    """The layout with these partitions."""
    return replace(layout, partitions=None if scheme is None else to_json(scheme))


def apply_to_rows(layout: Layout, action: Action, commit_ts: int, other: str = "") -> tuple[Layout, str]:
    """The layout after TRUNCATE TABLE or a clause about partitions, and why the table has to be held, if it has.

    `other`: the pair with which EXCHANGE PARTITION swaps rows. Without it the table stays as it is.
    """
    why = ""
    if isinstance(action, ddl.TruncateTable):
        return _with(layout, Removal(commit_ts, None, None, ())), why
    if isinstance(action, ddl.DropPartitions | ddl.TruncatePartitions) or (
        isinstance(action, ddl.ExchangePartition) and other
    ):
        names = (action.name,) if isinstance(action, ddl.ExchangePartition) else action.names
        columns = tuple((c.source, c.id, c.tidb_type) for c in layout.columns if c.live)
        condition = _predicate(layout.partitions, names, {name: kind for name, _, kind in columns})
        if isinstance(condition, ddl.NotUnderstood):
            why = condition.reason
        else:
            removal = _decided(Removal(commit_ts, names, layout.partitions, columns, other))
            layout = _with(layout, removal)
    scheme = None if layout.partitions is None else from_json(dict(layout.partitions))
    return defined(layout, applied(scheme, action)), why


def _with(layout: Layout, removal: Removal) -> Layout:
    over_time = layout.by_commit_ts
    return layout.over_time(replace(over_time, removals=(*over_time.removals, removal)))


def _decided(removal: Removal) -> Removal:
    """The removal with no more than decides which rows went: it is kept as long as its changes are."""
    if removal.names is None or removal.scheme is None:
        return replace(removal, scheme=None, columns=())
    scheme = from_json(dict(removal.scheme)).deciding(removal.names)
    by = {folded(column.name) for column in scheme.columns}
    columns = tuple(column for column in removal.columns if folded(column[0]) in by)
    return replace(removal, scheme=to_json(scheme), columns=columns)


def forgotten(layout: Layout, shown: int) -> Layout:
    """The layout without the removals that make no difference, once the current table shows this commit ts.

    A removal before one that emptied the table makes no difference.
    """
    removals = layout.by_commit_ts.removals
    since = max((removal.at for removal in removals if removal.empties and removal.at <= shown), default=0)
    kept = tuple(removal for removal in removals if removal.other or removal.at >= since)
    return layout if kept == removals else layout.over_time(replace(layout.by_commit_ts, removals=kept))
