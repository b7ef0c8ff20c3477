"""Cuts: up to which commit ts the tables are complete (DESIGN rule 4).

In the offset regime a cut is `bounded`: every change up to its ts is in the tables, later ones may be too.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipeline.model.columns import LOGICAL_BITS
from pipeline.warehouse.tables import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.model.columns import CommitTs
    from pipeline.model.messages import TopicPartition
    from pipeline.streaming.batch import Outcome
    from pipeline.streaming.workbench import Workbench
    from pipeline.warehouse.tables import WarehouseTable

BOUNDED, PARTIAL, NONE = "bounded", "partial", "none"


def resolved(
    watermarks: Mapping[TopicPartition, int],
    reached: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> int | None:
    """The least watermark of the partitions that are live; None while there is none.

    A partition is stale, and left out, where everything up to an end offset that was fetched after another partition
    showed the higher watermark has been read: TiCDC sends a watermark only when all before it is acknowledged, so
    what a stale partition is yet to get is newer.
    """
    if not watermarks:
        return None
    high = max(watermarks.values())
    live = [
        watermarks.get(at, 0)
        for at, end in reached.items()
        if watermarks.get(at, 0) < high and end < latest.get(at, end + 1)
    ]
    return min([high, *live]) or None


def _head(table: WarehouseTable) -> int | None:
    return None if table.current is None else table.current.head()


def record(
    bench: Workbench,
    batch_id: int,
    outcome: Outcome,
    watermarks: Mapping[TopicPartition, CommitTs],
    topic_ids: Mapping[str, str],
) -> str:
    """Write the cut of this batch, a row per table whose snapshot changed; gives the batch's level."""
    if not watermarks:
        return NONE
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    reached = bench.ledger.committed.of_names(names) | dict(outcome.messages.ends)
    latest = bench.cluster.latest(reached)
    cut_ts = resolved(watermarks, reached, latest)
    if cut_ts is None:
        return NONE
    held = sorted(str(t.source) for t in bench.tables if t.state in (State.HELD, State.RELEASING))
    level, reason = (PARTIAL, f"held: {', '.join(held)}") if held else (BOUNDED, "offset regime")
    cut_time = datetime.fromtimestamp((cut_ts >> LOGICAL_BITS) / 1000, UTC)
    snapshots = {landed.table: landed.snapshot for landed in outcome.landed if landed.snapshot is not None}
    if bench.recovering:  # what a try that died, a release or a rebuild has published is in no cut yet
        snapshots = {str(t.source): head for t in bench.tables if (head := _head(t)) is not None} | snapshots
    rows = [
        {
            "cut_ts": cut_ts, "cut_time": cut_time, "table_uuid": t.uuid, "schema_name": t.source.schema,
            "table_name": t.source.table, "snapshot_id": snapshots[str(t.source)], "level": level, "reason": reason,
        }
        for t in bench.tables if str(t.source) in snapshots
    ]  # fmt: skip
    bench.records.write("cuts", batch_id, rows)
    return level
