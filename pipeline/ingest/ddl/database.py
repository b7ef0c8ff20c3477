"""DROP DATABASE; CREATE DATABASE changes nothing here.

- The pairs: as by a DROP TABLE of each table of the database. No message names them.
- Names: all names of the database mean nothing from here on.
- Rows after it: by commit ts they wait with the statement, where that is not applied yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ingest.ddl.done import Done
from pipeline.ingest.ddl.drop import dropped

if TYPE_CHECKING:
    from pipeline import ddl as text
    from pipeline.ddl.statement import Clause
    from pipeline.ingest.ddl.named_tables import NamedTables


def apply(action: text.DropDatabase, clause: Clause, names: NamedTables) -> Done:
    """Drop all tables of a database."""
    tables = names.in_database(action.name, clause.commit_ts)
    done = [dropped(names, name, pair, clause.commit_ts) for name, pair in tables]
    return Done("; ".join(done) or "no tables")
