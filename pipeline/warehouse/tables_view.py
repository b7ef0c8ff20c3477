"""`_pipeline.tables`: the readable copy of what the tables say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.warehouse.records import Records
    from pipeline.warehouse.tables import Tables


def is_outdated(tables: Tables, records: Records) -> bool:
    """Whether the copy has another state of a table than the table itself: a try that died has changed it."""
    written = records.read("tables").select("uuid", "state", "held_reason").collect()
    actual = {(t.uuid, t.state.value, t.held_reason) for t in tables}
    return {(row["uuid"], row["state"], row["held_reason"]) for row in written} != actual


def write_tables_view(tables: Tables, records: Records, number: int) -> None:
    """Write the copy anew, with the number of a batch."""
    rows = [
        {
            "schema_name": t.source.schema, "table_name": t.source.table, "warehouse_name": str(t.name),
            "uuid": t.uuid, "location": t.changes.location,
            "handle_columns": [c.name for c in t.layout.key], "state": t.state.value, "held_reason": t.held_reason,
        }
        for t in tables
    ]  # fmt: skip
    records.replace("tables", number, rows)
    tables.view_is_old = False
