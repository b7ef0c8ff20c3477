"""`_pipeline.tables`: the readable copy of what the tables say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.streaming.context import PipelineContext


def is_behind(context: PipelineContext) -> bool:
    """Whether a table is in another state than is written there: a try that died has changed it."""
    told = context.records.read("tables").select("uuid", "state", "held_reason").collect()
    known = {(t.uuid, t.state.value, t.held_reason) for t in context.tables}
    return {(row["uuid"], row["state"], row["held_reason"]) for row in told} != known


def write_tables_view(context: PipelineContext, number: int) -> None:
    """Write it anew, with the number of a batch."""
    rows = [
        {
            "schema_name": t.source.schema, "table_name": t.source.table, "warehouse_name": str(t.name),
            "uuid": t.uuid, "location": t.changes.location,
            "handle_columns": [c.name for c in t.layout.key], "state": t.state.value, "held_reason": t.held_reason,
        }
        for t in context.tables
    ]  # fmt: skip
    context.records.replace("tables", number, rows)
