"""TRUNCATE TABLE.

- The pair: the rows that it had up to the commit ts leave its current table when that is published next. No deletes are
  sent. Its changes table keeps them.
- Names: they mean what they meant.
- Rows after it: by commit ts they wait with the statement, where that is not applied yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ingest.ddl.done import Done

if TYPE_CHECKING:
    from pipeline import ddl as text
    from pipeline.ddl.statement import Clause
    from pipeline.ingest.ddl.named_tables import NamedTables


def apply(action: text.TruncateTable, clause: Clause, names: NamedTables) -> Done:
    """Empty a table."""
    pair = names.pair(action.table, clause.commit_ts)
    names.truncate(pair, action.table, clause.commit_ts)
    return Done("no rows yet" if pair is None else "rows up to this commit ts leave the current table")
