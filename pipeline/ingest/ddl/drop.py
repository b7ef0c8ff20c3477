"""DROP TABLE.

- The pair: marked as dropped. With `warehouse.drop_table: drop` it is removed when its batch is committed
  (`remove_dropped`), and when it has exchanged all rows that it is to exchange.
- Names: the name means nothing from here on; a table that is made under it is another.
- Rows: what is set aside, or waits, is superseded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ingest.ddl.done import Done
from pipeline.model.messages import EVER
from pipeline.model.names import TableName
from pipeline.warehouse.exchange import exchanges
from pipeline.warehouse.pairs import State
from pipeline.warehouse.state import GONE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline import ddl as text
    from pipeline.ddl.statement import Clause
    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.ddl.named_tables import NamedTables
    from pipeline.model.names import Name
    from pipeline.warehouse.pairs import StoredBinding, TablePair

TO_BE_REMOVED = "to be removed"
"""What a dropped pair that is not kept has in the place of a reason for which it is held (`TablePair.held_reason`)."""


def apply(action: text.DropTable, clause: Clause, names: NamedTables) -> Done:
    """Drop one table."""
    pair = names.pair(action.table, clause.commit_ts)
    return Done(dropped(names, action.table.key, pair, clause.commit_ts))


def dropped(names: NamedTables, name: Name, pair: TablePair | None, commit_ts: int) -> str:
    """Drop the table of a name; says what that did."""
    context = names.context
    if pair is None:
        names.drop_pending_of(name, commit_ts)
    if pair is None or (pair.state is State.DROPPED and pair.dropped_at != commit_ts):
        return "no such table"
    why = TO_BE_REMOVED if context.settings.warehouse.drop_table == "drop" else ""
    if pair.state is not State.DROPPED:  # else a first try has done this
        context.records.mark_dropped(pair.source, names.rows_until(commit_ts))
        bindings = ended(pair.by_commit_ts.bindings, name, commit_ts)
        context.tables.set_state(pair, State.DROPPED, why, dropped_at=commit_ts, bindings=bindings)
    return "dropped" if why else "kept, marked dropped"


def ended(bindings: Iterable[StoredBinding], name: Name, commit_ts: int) -> tuple[StoredBinding, ...]:
    """The bindings of a pair, that of a name ended."""
    return tuple(
        kept._replace(until=commit_ts)
        if TableName(kept.schema, kept.table).key == name and kept.until == EVER
        else kept
        for kept in bindings
    )


def remove_dropped(context: PipelineContext) -> int:
    """Remove pairs that were dropped, where that is the policy; how many. What their names meant is remembered.

    One whose rows are yet to change places with another one's stays until they have. It is called after the ledger is
    written, when no try of the batch will need the pair. A process that dies before it leaves that to the next batch,
    and `Books` finds then that `_pipeline.tables` still shows pairs that are gone.
    """
    dropped_pairs = [pair for pair in context.tables if pair.state is State.DROPPED]
    to_be_removed = [pair for pair in dropped_pairs if pair.held_reason == TO_BE_REMOVED]
    if not to_be_removed:
        return 0
    history = context.records.tables["ddl_history"]
    needed = {pair.uuid for one in exchanges(context.tables) if not one.done for pair in (one.table, one.other)}
    removable = [pair for pair in to_be_removed if pair.uuid not in needed]
    for pair in removable:
        mine = [binding._replace(pair=pair.uuid) for binding in pair.by_commit_ts.bindings]
        if mine:
            history.set_properties(GONE.entry((*(GONE.read(history.properties) or ()), *mine)))
        context.tables.forget(pair)
    return len(removable)
