"""The rows of `warehouse._pipeline` as a report takes them in: which columns, which batches, whose names."""

from __future__ import annotations

import heapq
import json
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from pipeline.model.names import TableName
from pipeline.report.facts import BatchTime, Example, ReportColumn
from pipeline.report.wording import NAME, VALUE, clean, utc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Row: TypeAlias = "Mapping[str, Any]"
Records: TypeAlias = "Mapping[str, Iterable[Row]]"
"""Rows by the short name of their table; what is missing is empty."""

WINDOW = 144
"""The newest so many batches are looked at."""
Totals: TypeAlias = "Mapping[str, int]"
"""How many rows there are by the short name of their table, where not all are among `Records`: of `batches` the newest
must be, of `quarantine` and `dead_letters` the open ones and those of the window's batches."""
ALL_THERE: Totals = {}

COLUMNS_SHOWN = 48
_EXAMPLES = 3

_SHARED = ("pipeline", "batch_id", "recorded_at")
_TABLE = ("schema_name", "table_name")
_SET_ASIDE_COLUMNS = (*_TABLE, "topic", "kafka_partition", "offset", "code", "message", "rules", "key_values", "status")
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "batches": (*_SHARED, "rows_in", "inserts", "updates", "deletes", "quarantined", "dead_letters", "seconds",
                "committed"),
    "tables": (*_SHARED, *_TABLE, "warehouse_name", "state", "held_reason"),
    "quality_results": (*_SHARED, *_TABLE, "rule", "severity", "engine", "evaluated",
                        "unexpected", "success", "sample"),
    "quarantine": (*_SHARED, *_SET_ASIDE_COLUMNS),
    "dead_letters": (*_SHARED, *_SET_ASIDE_COLUMNS),
    "held": (*_SHARED, *_TABLE, "reason", "status"),
    "ddl_history": (*_SHARED, *_TABLE, "commit_ts", "ddl_type", "sql", "action", "status"),
    "schemas": (*_SHARED, *_TABLE, "version", "columns"),
    "cuts": (*_SHARED, *_TABLE, "cut_ts", "cut_time", "level", "reason"),
}  # fmt: skip
"""What a report reads of each table; no message bytes."""


@dataclass(slots=True)
class Spelling:
    """Spells a table in one way: names match without case. No table is the empty text."""

    _spelled: dict[tuple[str, str], str] = field(default_factory=dict)

    def of(self, row: Row) -> str:
        """Give the name of the row's table, as it was met first."""
        schema, table = row.get("schema_name"), row.get("table_name")
        if not schema and not table:
            return ""
        name = f"{schema or ''}.{table or ''}"
        return self._spelled.setdefault(TableName(str(schema), str(table)).key, clean(name, NAME))


@dataclass(frozen=True, slots=True)
class Window:
    """The batches that a report looks at, oldest first, and how many there are at all."""

    batches: tuple[Row, ...]
    total: int

    @staticmethod
    def of(rows: Iterable[Row], total: int = 0) -> Window:
        """Keep the newest batches, of each the row that was recorded last. `total`: all batches, if there are more."""
        counted = Counted(rows)
        by_batch: dict[int, Row] = {}
        for row in heapq.nlargest(2 * WINDOW, counted, key=lambda row: (row["batch_id"], recorded(row))):
            by_batch.setdefault(row["batch_id"], row)
        newest = [by_batch[number] for number in sorted(by_batch)[-WINDOW:]]
        return Window(tuple(newest), max(total, counted.seen))

    @staticmethod
    def begins_at(newest: int) -> int:
        """The oldest batch that a window may have, if that is the newest: they have numbers without gaps."""
        return max(0, newest - WINDOW + 1)

    @property
    def is_full(self) -> bool:
        """Whether no more rows could add to it."""
        return len(self.batches) >= min(WINDOW, self.total)

    @property
    def first(self) -> int:
        """The oldest batch; results of older ones are not looked at."""
        return int(self.batches[0]["batch_id"]) if self.batches else 0

    @property
    def reaches_back(self) -> bool:
        """Whether there are older batches than the first."""
        return self.total > len(self.batches)

    @property
    def committed(self) -> int:
        """The newest batch that was committed; -1 before there is one."""
        return max((int(row["batch_id"]) for row in self.batches if row["committed"] is not False), default=-1)


class Counted:
    """Rows that are counted while they are taken."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = rows
        self.seen = 0

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self.seen += 1
            yield row


def of_pipeline(records: Records, name: str, pipeline: str) -> Iterator[Row]:
    """Give one table's rows of one pipeline; a warehouse may serve several."""
    return (row for row in records.get(name, ()) if row["pipeline"] == pipeline)


def recorded(row: Row) -> datetime:
    """When the row was written."""
    time = row["recorded_at"]
    return utc(time) if isinstance(time, datetime) else datetime.fromtimestamp(0, UTC)


def moment(row: Row) -> BatchTime:
    """The batch and time of a row."""
    return BatchTime(int(row["batch_id"]), recorded(row))


def columns(times: Mapping[int, datetime]) -> tuple[ReportColumn, ...]:
    """Put batches into at most `COLUMNS_SHOWN` columns of equally many, the last ones full."""
    numbers = sorted(times)
    size = -(-len(numbers) // COLUMNS_SHOWN) or 1
    starts = range(len(numbers) % size - size if len(numbers) % size else 0, len(numbers), size)
    groups = [numbers[max(start, 0) : start + size] for start in starts]
    return tuple(ReportColumn(group[0], group[-1], len(group), times[group[-1]]) for group in groups)


def by_column(shown: Sequence[ReportColumn], rows: Mapping[int, int]) -> tuple[int, ...]:
    """Add up numbers of batches by the column that shows the batch."""
    sums = [0] * len(shown)
    for batch, number in rows.items():
        sums[column_of(shown, batch)] += number
    return tuple(sums)


def column_of(shown: Sequence[ReportColumn], batch: int) -> int:
    """Find the column that shows a batch."""
    return bisect_left(shown, batch, key=lambda column: column.last)


@dataclass(frozen=True, slots=True)
class ReportSample:
    """What a result says of its rows; each part may be missing."""

    examples: tuple[Example, ...] = ()
    not_checked: int = 0
    observed: str = ""
    because: str = ""
    owner: str = ""

    @staticmethod
    def of(text: Any) -> ReportSample:
        """Read the column `sample`; whatever is not as it should be is left out."""
        sample = _json(text)
        if not isinstance(sample, dict):
            return ReportSample()
        rows = sample.get("rows")
        number = sample.get("not_checked")
        return ReportSample(
            tuple(_example(row) for row in rows[:_EXAMPLES] if isinstance(row, dict)) if isinstance(rows, list) else (),
            number if isinstance(number, int) else 0,
            *(clean(sample.get(name)) for name in ("observed", "because", "owner")),
        )


def _example(row: Mapping[str, Any]) -> Example:
    return Example(place(row.get("at")), pairs(row.get("key")), pairs(row.get("values")))


def place(parts: Any) -> str:
    """`orders, partition 0, offset 17`: stream, partition and position of a record."""
    given: Sequence[Any] = parts if isinstance(parts, list | tuple) else ()
    stream, partition, position = (*given, None, None, None)[:3]
    return "" if stream is None else clean(f"{stream}, partition {partition}, offset {position}", NAME)


def pairs(values: Any) -> str:
    """`id = 5, line = 2` of an object, or of the JSON text of one."""
    decoded = _json(values) if isinstance(values, str) else values
    if isinstance(decoded, dict):
        return clean(", ".join(f"{clean(k, NAME)} = {_value(v)}" for k, v in list(decoded.items())[:8]), 3 * VALUE)
    return clean(values if isinstance(values, str) else decoded, VALUE)


def _value(value: Any) -> str:
    return "NULL" if value is None else clean(value, VALUE)


def _json(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
