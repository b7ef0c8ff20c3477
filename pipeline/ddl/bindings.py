"""Which table each name means, after the statements of a stream one by one (by offset)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipeline import ddl as text
from pipeline.ddl.statement import followed
from pipeline.ddl.table_ref import CreatedTable, TableRef

if TYPE_CHECKING:
    from pipeline.ddl.statement import Statement
    from pipeline.model.names import Name

Bindings = dict["Name", TableRef]
"""Which table a name means."""
Heirs = Mapping["Name", "Name"]
"""The names that tables get as soon as these are free, by those under which they stand until then."""


def rebound(bindings: Bindings, statement: Statement, heirs: Heirs) -> Bindings:
    """What names mean after a statement; a CREATE TABLE of what is there changes nothing."""
    for action in statement.actions:
        bindings = bound_after(bindings, action, statement.commit_ts)
    for own, wanted in heirs.items():
        if own in bindings and wanted not in bindings:
            bindings = {wanted if name == own else name: table_ref for name, table_ref in bindings.items()}
    return bindings


def bound_after(bindings: Bindings, action: text.Action, commit_ts: int) -> Bindings:
    """What names mean after one action of a statement."""
    created = CreatedTable(commit_ts, action.table.key) if isinstance(action, text.CreateTable) else None
    return followed(bindings, action, created)
