"""What users have changed about the columns of a pair, found by comparing its schemas with its layout.

A table is looked at when a process begins, and before a batch writes it. A look asks the catalog once. The log
says what is not ours, or the table is held (COLUMNS_CHANGED). A change between the look and the write fails the batch,
and the next start says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import Refused
from pipeline.model.names import confusable
from pipeline.observe.logs import get_logger
from pipeline.warehouse.alterations import (
    COLUMNS_CHANGED,
    IN_CHANGES,
    IN_CURRENT,
    NOTHING_NOTED,
    Alterations,
    Noted,
    compared,
    fields,
    former_ids,
    of_changes,
    of_current,
    reason,
    undone_by,
    with_ids,
)
from pipeline.warehouse.pairs import State
from pipeline.warehouse.state import COLUMNS, LAYOUT, NOT_OURS
from pipeline.warehouse.tables_view import write_tables_view

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.warehouse.alterations import Place
    from pipeline.warehouse.iceberg import Table
    from pipeline.warehouse.layout import Layout
    from pipeline.warehouse.pairs import TablePair
    from pipeline.warehouse.records import Records
    from pipeline.warehouse.tables import Tables

_log = get_logger(__name__)


def look_at_all(tables: Tables, records: Records, batch_id: int) -> None:
    """Look at all tables, just after they were loaded. `batch_id`: of the newest batch."""
    for pair in tables:
        look(pair)
        _decide(tables, pair)
    if tables.view_is_old:
        write_tables_view(tables, records, batch_id)


def may_be_written(tables: Tables, pair: TablePair) -> bool:
    """Look at a pair that is to be written, and hold it from now on if that cannot be."""
    refreshed(pair)
    _decide(tables, pair)
    return not pair.altered


def makes_room(tables: Tables, pair: TablePair, layout: Layout) -> bool:
    """Whether the columns of a new layout have names that are free; if not, the pair is held."""
    claimed = clashing(pair, layout)
    if claimed:
        remember(pair, claimed)
        _hold(tables, pair)
    return not claimed


def _decide(tables: Tables, pair: TablePair) -> None:
    _say(pair)
    if not pair.altered or pair.state is State.DROPPED:
        return
    if pair.state is State.LIVE or not pair.changes.property_of(COLUMNS):
        remember(pair)
    if pair.state is State.LIVE:
        _hold(tables, pair)


def _hold(tables: Tables, pair: TablePair) -> None:
    tables.set_state(pair, State.HELD, pair.altered)
    tables.view_is_old = True
    _log.warning("held", table=str(pair.source), why=pair.altered)


def _say(pair: TablePair) -> None:
    """Log once which columns belong to users."""
    names = sorted({*pair.not_ours, *pair.not_ours_in_current})
    if {*names} != (pair.changes.property_of(NOT_OURS) or set()):
        pair.changes.set_properties(NOT_OURS.entry(frozenset(names)))
        if names:
            consequence = "they stay; a run leaves them NULL in new rows"
            _log.warning("columns that are not ours", table=str(pair.source), columns=names, said=consequence)


def refreshed(pair: TablePair) -> None:
    """See what users have committed, and `look`."""
    pair.changes.refresh()
    if pair.current is not None:
        pair.current.refresh()
    look(pair)


def look(pair: TablePair) -> None:
    """Compare the schemas with the layout, if either is another than last time."""
    current = pair.current
    seen = (pair.changes.schema_id, current and current.schema_id, pair.layout)
    if seen == pair.looked_at and not pair.altered:
        return
    alterations = _compared(pair)
    pair.altered = reason([fault for of_table in alterations.values() for fault in of_table.faults])
    pair.not_ours, pair.not_ours_in_current = alterations[IN_CHANGES].not_ours, alterations[IN_CURRENT].not_ours
    pair.looked_at = seen


def _compared(pair: TablePair) -> dict[str, Alterations]:
    claimed = (pair.changes.property_of(COLUMNS) or NOTHING_NOTED).claimed
    alterations = {IN_CHANGES: _of(pair.changes, of_changes(pair.layout), claimed.get(IN_CHANGES, ()))}
    current = pair.current
    if current is None:
        return {**alterations, IN_CURRENT: Alterations()}
    # A process that died between the two tables has evolved the current one alone, so each table has its own layout.
    layout = current.property_of(LAYOUT) or pair.layout
    return {**alterations, IN_CURRENT: _of(current, of_current(layout), claimed.get(IN_CURRENT, ()))}


def _of(table: Table, wanted: dict[Place, str], claimed: Sequence[str]) -> Alterations:
    now = fields(table.schema())
    former = former_ids(table.former_schemas()) if wanted.keys() - now.keys() else {}
    return compared(table.name, wanted, now, former, claimed)


def clashing(pair: TablePair, layout: Layout) -> dict[str, list[str]]:
    """The columns of users that have names which a new layout needs, by role of the table."""
    needed = {
        IN_CHANGES: _among(pair.not_ours, of_changes(layout)),
        IN_CURRENT: _among(pair.not_ours_in_current, of_current(layout)),
    }
    return {role: names for role, names in needed.items() if names}


def _among(not_ours: tuple[str, ...], wanted: dict[Place, str]) -> list[str]:
    needed = {confusable(place[0]) for place in wanted} if not_ours else set()
    return [name for name in not_ours if confusable(name) in needed]


def remember(pair: TablePair, claimed: Mapping[str, list[str]] | None = None) -> None:
    """Let a pair that is held for its columns say what a release has to know (`claimed` as `clashing` gives it)."""
    lost = {role: of_table.lost for role, of_table in _compared(pair).items() if of_table.lost}
    pair.changes.set_properties(COLUMNS.entry(Noted(claimed or {}, lost)))
    pair.looked_at = ()
    look(pair)


def refuse(pair: TablePair, what: str) -> None:
    """Raise `Refused` if the columns of a pair keep it from being written. `what`: what is not done with it, then."""
    refreshed(pair)
    if pair.altered:
        alterations = _compared(pair)
        faults = [fault for of_table in alterations.values() for fault in of_table.faults]
        sentences = "; ".join(fault.sentence for fault in faults)
        raise Refused(
            COLUMNS_CHANGED,
            f"{pair.source} was not {what}: {sentences}",
            f"run this in Spark SQL first: {undone_by(faults)}",
        )


def restore(pair: TablePair) -> None:
    """Give columns that were added again, in the place of dropped ones, the field ids that the files know them by."""
    noted = pair.changes.property_of(COLUMNS)
    if noted is None:
        return
    for role, table in ((IN_CHANGES, pair.changes), (IN_CURRENT, pair.current)):
        schema = table.schema() if table is not None else {}
        with_old = with_ids(schema, noted.ids[role]) if role in noted.ids else schema
        if table is not None and with_old != schema:
            table.set_schema(with_old)
    pair.changes.set_properties(COLUMNS.entry(None))
    pair.looked_at = ()
    look(pair)
