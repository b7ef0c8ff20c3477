"""Tables whose columns users have changed: the log says so, or the table is held (COLUMNS_CHANGED).

A table is looked at when the warehouse is opened, and before a batch writes it. A look asks the catalog once. A change
between the look and the write fails the batch, and the next start says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.observe.logs import get_logger
from pipeline.streaming.tables_view import write_tables_view
from pipeline.warehouse.altered import clashing, look, refreshed, remember
from pipeline.warehouse.pairs import State
from pipeline.warehouse.state import COLUMNS, NOT_OURS

if TYPE_CHECKING:
    from pipeline.streaming.context import PipelineContext
    from pipeline.warehouse.layout import Layout
    from pipeline.warehouse.pairs import TablePair

_log = get_logger(__name__)


def opened(context: PipelineContext) -> None:
    """Look at all tables, just after they were loaded."""
    for table in context.tables:
        look(table)
        _decide(context, table)
    if context.altered:
        write_tables_view(context, max(0, context.ledger.batch_id))
        context.altered = False


def may_be_written(context: PipelineContext, table: TablePair) -> bool:
    """Look at a table that is to be written, and hold it from now on if that cannot be."""
    refreshed(table)
    _decide(context, table)
    return not table.altered


def makes_room(context: PipelineContext, table: TablePair, layout: Layout) -> bool:
    """Whether the columns of a new layout have names that are free; if not, the table is held."""
    claimed = clashing(table, layout)
    if claimed:
        remember(table, claimed)
        _hold(context, table)
    return not claimed


def _decide(context: PipelineContext, table: TablePair) -> None:
    _tell(table)
    if not table.altered or table.state is State.DROPPED:
        return
    if table.state is State.LIVE or not table.changes.property_of(COLUMNS):
        remember(table)
    if table.state is State.LIVE:
        _hold(context, table)


def _hold(context: PipelineContext, table: TablePair) -> None:
    context.tables.set_state(table, State.HELD, table.altered)
    context.altered = True
    _log.warning("held", table=str(table.source), why=table.altered)


def _tell(table: TablePair) -> None:
    """Log once which columns belong to users."""
    names = sorted({*table.not_ours, *table.not_ours_in_current})
    if {*names} != (table.changes.property_of(NOT_OURS) or set()):
        table.changes.set_properties(NOT_OURS.entry(frozenset(names)))
        if names:
            consequence = "they stay, and are NULL in new rows"
            _log.warning("columns that are not ours", table=str(table.source), columns=names, said=consequence)
