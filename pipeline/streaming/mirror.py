"""`_pipeline.tables`: the readable copy of what the tables say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.streaming.workbench import Workbench


def is_behind(bench: Workbench) -> bool:
    """Whether a table is in another state than is written there: a try that died has changed it."""
    told = bench.records.read("tables").select("uuid", "state", "held_reason").collect()
    known = {(t.uuid, t.state.value, t.held_reason) for t in bench.tables}
    return {(row["uuid"], row["state"], row["held_reason"]) for row in told} != known


def mirror(bench: Workbench, number: int) -> None:
    """Write it anew, with the number of a batch."""
    rows = [
        {
            "schema_name": t.source.schema, "table_name": t.source.table, "warehouse_name": str(t.name),
            "uuid": t.uuid, "location": t.changes.location,
            "handle_columns": [c.name for c in t.layout.key], "state": t.state.value, "held_reason": t.held_reason,
        }
        for t in bench.tables
    ]  # fmt: skip
    bench.records.replace("tables", number, rows)
