"""CREATE TABLE.

- The pair: made at once where the message describes the table, else by the table's first rows. Where the warehouse name
  is taken there is none until a person releases the table.
- Names: the name means the new table from here on. A name that means a table already is not created again: that is a
  redelivery, or another partition's copy.
- Rows after it: those of the new table wait only where an earlier statement of that name does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ingest.ddl.done import Done

if TYPE_CHECKING:
    from pipeline import ddl as text
    from pipeline.ddl.statement import Clause
    from pipeline.ingest.ddl.named_tables import NamedTables


def apply(action: text.CreateTable, clause: Clause, names: NamedTables) -> Done:
    """Create a table."""
    return Done("there already") if names.has(action.table) else names.create(action.table, clause)
