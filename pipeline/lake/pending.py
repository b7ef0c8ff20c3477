"""What waits in `_pipeline.held` and belongs to no held table, as sentences: how much, since when, and for what."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.lake.catalog import records
from pipeline.model.names import PIPELINE_NAMESPACE, TableName, WarehouseName
from pipeline.settings.durations import written
from pipeline.warehouse.records import LET_IN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pipeline.lake.catalog import Reader

_BY = ["schema_name", "table_name", "reason"]
_HELD = WarehouseName(PIPELINE_NAMESPACE, "held")


class PendingRecords(NamedTuple):
    """What waits of a table for one reason, as a sentence; `by_itself`: until a schema or a statement comes."""

    table: TableName
    by_itself: bool
    sentence: str


def pending_sentences(reader: Reader, held: Collection[TableName] = (), now: datetime | None = None) -> list[str]:
    """A sentence for each table and reason, but for `held` tables: those have `table_metadata.sentences`."""
    return [wait.sentence for wait in found(reader, held, now)]


def found(reader: Reader, held: Collection[TableName] = (), now: datetime | None = None) -> list[PendingRecords]:
    """What waits by table and reason.

    Some wait by themselves, for a schema or a statement; others are of tables that have no place in the warehouse.
    """
    if _HELD not in reader.names() or reader.metadata(_HELD).current_snapshot() is None:
        return []  # nothing has waited yet; reading is what takes the time
    now = now or datetime.now(UTC)
    return [
        PendingRecords(_table(row), str(row["reason"]).startswith(LET_IN), _sentence(row, now))
        for row in _grouped(reader, {name.key for name in held})
    ]


def _grouped(reader: Reader, held: Collection[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    open_rows = records(reader, "held", (*_BY, "recorded_at"), "status = 'open'")
    groups = open_rows.group_by(_BY).aggregate([("recorded_at", "min"), ("recorded_at", "count")])
    for row in sorted(groups.to_pylist(), key=lambda row: tuple(str(row[name]) for name in _BY)):
        if str(row["reason"]).startswith(LET_IN) or _table(row).key not in held:
            yield row


def _table(row: dict[str, Any]) -> TableName:
    return TableName(row["schema_name"] or "", row["table_name"] or "")


def _sentence(row: dict[str, Any], now: datetime) -> str:
    since: datetime = row["recorded_at_min"]
    count = f"{row['recorded_at_count']:,} record{'s' if row['recorded_at_count'] != 1 else ''}"
    return f"{_table(row)}: {count} waiting for {written((now - since).total_seconds())} ({row['reason']})"
