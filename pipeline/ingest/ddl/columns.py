"""Statements about columns, keys, indexes and defaults, and those that change nothing here.

- The pair: its columns follow when its rows are written (`on_layout`), in one order with the versions of the table.
- Names: they mean what they meant.
- Rows after it: by commit ts they wait with the statement, where that is not applied yet. It waits with the rows of a
  table that is held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ingest.ddl.done import HELD, Done
from pipeline.warehouse.evolution import apply_actions, exactly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline import ddl as text
    from pipeline.ddl.statement import Clause, Statement
    from pipeline.ingest.ddl.named_tables import NamedTables
    from pipeline.warehouse.evolution import Note, Policy
    from pipeline.warehouse.layout import Layout


def apply(_action: text.Action, clause: Clause, names: NamedTables) -> Done:
    """Say what becomes of it."""
    return Done("waits with its table", HELD) if names.waits(clause.statement) else Done("done")


def on_layout(layout: Layout, statement: Statement, policy: Policy) -> tuple[Layout, Sequence[Note]]:
    """The columns after a statement. What the message says of the table after it counts more than its text."""
    version = statement.ddl.version
    actions = statement.actions if version is None else exactly(statement.actions, version)
    return apply_actions(layout, actions, statement.commit_ts, policy)
