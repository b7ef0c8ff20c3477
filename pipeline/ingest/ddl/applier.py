"""Applies the DDL events of a batch, one after the other, in either ordering.

What a clause does to tables is said in a module for its kind: `create`, `drop`, `database`, `rename`, `truncate`,
`columns`, `partitions`, `exchange`, and `hold` for what is not understood. What it does to the columns of its table is
applied when the table is written, though no row of it is in the batch: `TableOrdering.evolved` calls
`columns.on_layout`, and by commit ts `partitions.on_layout`. A changed primary key is told by the versions of rows, not
by statements. So `key` is asked there, too, and has no entry here.

A second try of a batch applies its statements again. Nothing is done twice, and each kind sees to that in its own way:

- By commit ts, `done_before` answers for a clause that an earlier try has applied.
- By offset, a statement about names finds what they meant before the first try (`by_offset.statements.names_before`).
  `create` finds the name in use, `drop` the pair marked with its commit ts, `rename` the pair under its new name.
- `truncate`, `partitions` and `exchange` note a commit ts, and noting it again changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline import ddl as text
from pipeline.ingest.ddl import columns, create, database, drop, exchange, hold, partitions, rename, truncate
from pipeline.ingest.ddl.done import history_row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pipeline.ddl.statement import Clause, Statement
    from pipeline.ingest.ddl.done import Done, Row
    from pipeline.ingest.ddl.named_tables import NamedTables

_KINDS: Mapping[type[text.Action], Callable[[Any, Clause, Any], Done]] = {
    text.CreateTable: create.apply,
    text.DropTable: drop.apply,
    text.DropDatabase: database.apply,
    text.RenameTable: rename.apply,
    text.TruncateTable: truncate.apply,
    text.DropPartitions: partitions.apply,
    text.TruncatePartitions: partitions.apply,
    text.ExchangePartition: exchange.apply,
    text.NotUnderstood: hold.apply,
}
"""Any other kind moves no rows and no names: columns, indexes, options, new partitions (`columns.apply`)."""


@dataclass(slots=True)
class DdlApplier:
    """The DDL of one batch. `names` follows the statements as they are applied."""

    names: NamedTables
    history: list[Row] = field(default_factory=list)
    """Rows of `_pipeline.ddl_history`: what was done."""

    def apply(self, statement: Statement) -> None:
        """Do what a statement asks for. A second time it does nothing."""
        done = [self._apply(action, clause) for action, clause in statement.clauses]
        self.names.passed(statement)
        recorded = self.names.recorded(statement, done)
        rows = zip(statement.actions, recorded, strict=False)  # `recorded` gives none where the history has all of them
        self.history += [history_row(statement, action, what) for action, what in rows]

    def _apply(self, action: text.Action, clause: Clause) -> Done:
        before = self.names.done_before(action, clause)
        if before is not None:
            return before
        done = _KINDS.get(type(action), columns.apply)(action, clause, self.names)
        self.names.follow(action, clause)
        return done
