"""DROP PARTITION and TRUNCATE PARTITION; and what all statements about partitions do to a layout.

All of it by commit ts: by offset, a statement that takes rows away with their partition is not understood.

- The pair: the rows of the partitions leave its current table when that is published up to the statement
  (`warehouse.removals`). Its layout keeps how the table is partitioned.
- Names: they mean what they meant.
- Rows after it: they wait with the statement, where that is not applied yet. A table is held where it cannot be said
  which rows are in a partition.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pipeline.ddl.partitions import applied, from_json
from pipeline.ingest.ddl.done import Done
from pipeline.warehouse.removals import apply_to_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline import ddl as text
    from pipeline.ddl.partitions import PartitionScheme
    from pipeline.ddl.statement import Clause, Statement
    from pipeline.ingest.ddl.named_tables import NamedTables
    from pipeline.warehouse.layout import Layout


def apply(_action: text.DropPartitions | text.TruncatePartitions, _clause: Clause, _names: NamedTables) -> Done:
    """Say what becomes of it."""
    return Done("rows of these partitions leave the current table")


def on_layout(layout: Layout, statement: Statement, other: str) -> tuple[Layout, str]:
    """The layout after a statement's clauses about rows and partitions, and why the table has to be held, if it has.

    `other`: the pair (uuid) with which EXCHANGE PARTITION swaps rows.
    """
    reasons = []
    for action in statement.actions:
        layout, why = apply_to_rows(layout, action, statement.commit_ts, other)
        reasons += [why] if why else []
    return layout, next(iter(reasons), "")


def scheme_after(layout: Layout, statements: Iterable[Statement]) -> PartitionScheme | None:
    """How a table is partitioned after statements that its layout has yet to note, in the order of commit ts."""
    scheme = None if layout.partitions is None else from_json(dict(layout.partitions))
    for statement in sorted(statements, key=lambda one: one.commit_ts):
        scheme = reduce(applied, statement.actions, scheme)
    return scheme
