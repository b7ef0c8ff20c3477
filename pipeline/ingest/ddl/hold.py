"""A statement that is not understood: what it did is not guessed (design.md, rule 5).

- The pair: held from here on, with every other table that the statement may be about. A table that has no pair yet is
  held as soon as it has one.
- Names: they mean what they meant.
- Rows after it: they wait in `_pipeline.held` until a person releases the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ingest.ddl.done import Done
from pipeline.model.holding import NOT_UNDERSTOOD

if TYPE_CHECKING:
    from pipeline import ddl as text
    from pipeline.ddl.statement import Clause
    from pipeline.ingest.ddl.named_tables import NamedTables


def apply(action: text.NotUnderstood, clause: Clause, names: NamedTables) -> Done:
    """Hold the tables that a statement may be about."""
    return all_concerned(action.reason, clause, names)


def all_concerned(reason: str, clause: Clause, names: NamedTables) -> Done:
    """Hold them for this reason."""
    statement = clause.statement
    why = f"{NOT_UNDERSTOOD}: {reason}: {statement.ddl.sql}"
    done = [names.hold(name, why, clause.commit_ts) for name in names.concerned(statement)]
    return Done.of_all(done) if done else Done("the statement names no table of this warehouse, so no table is held")
