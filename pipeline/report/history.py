"""What changed at the source, and which moments of it can be read: statements, schema versions, cuts."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.report.facts import HistoryEntry, Listing, PointFacts, SchemaVersion
from pipeline.report.ledger import Spelling, of_pipeline, recorded
from pipeline.report.wording import NAME, clean, committed, utc

if TYPE_CHECKING:
    from datetime import datetime

    from pipeline.report.ledger import Records, Row, Window

SHOWN, CUTS_SHOWN = 15, 8


def statements(records: Records, pipeline: str, names: Spelling) -> Listing[HistoryEntry]:
    """Give the newest DDL statements."""
    rows = list(of_pipeline(records, "ddl_history", pipeline))
    rows.sort(key=lambda row: (row["batch_id"], row["commit_ts"] or 0), reverse=True)
    return Listing(tuple(_statement(row, names) for row in rows[:SHOWN]), max(0, len(rows) - SHOWN))


def _statement(row: Row, names: Spelling) -> HistoryEntry:
    kind, action, sql = clean(row["ddl_type"], NAME), clean(row["action"]), clean(row["sql"])
    return HistoryEntry(committed(row["commit_ts"]), int(row["batch_id"]), names.of(row), kind, action, sql)


def versions(records: Records, pipeline: str, names: Spelling) -> Listing[SchemaVersion]:
    """Give the newest versions of all tables, each with what it changed."""
    by_table: dict[str, list[Row]] = defaultdict(list)
    for row in of_pipeline(records, "schemas", pipeline):
        by_table[names.of(row)].append(row)
    made: list[SchemaVersion] = []
    for table, rows in by_table.items():
        rows.sort(key=lambda row: (row["batch_id"], row["version"] or 0))
        before: dict[str, str] | None = None
        for row in rows:
            columns = _columns(row["columns"])
            changes = _difference(before, columns)
            made.append(
                SchemaVersion(recorded(row), int(row["batch_id"]), table, row["version"] or 0, len(columns), changes)
            )
            before = columns
    made.sort(key=lambda version: (version.batch, version.table, version.version), reverse=True)
    return Listing.of(made, SHOWN)


def _columns(text: Any) -> dict[str, str]:
    """Types by column name, virtual columns left out; empty where the text is no list of columns."""
    try:
        parsed = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    listed = parsed if isinstance(parsed, list) else []
    sent = [c for c in listed if isinstance(c, dict) and not c.get("virtual")]
    return {str(c.get("name")): str(c.get("tidb_type") or c.get("type")) for c in sent}


def _difference(before: dict[str, str] | None, after: dict[str, str]) -> str:
    if before is None:
        return "first seen"
    differences = [f"added {name} {kind}" for name, kind in after.items() if name not in before]
    differences += [f"dropped {name}" for name in before if name not in after]
    differences += [f"{n} from {before[n]} to {kind}" for n, kind in after.items() if n in before and before[n] != kind]
    return clean("; ".join(differences)) or "the same columns"


@dataclass(frozen=True, slots=True)
class NewestPoint:
    """A table's newest cut: the source time up to which it is complete, and when that was recorded."""

    time: datetime
    batch: int
    recorded: datetime


def cuts(
    records: Records, pipeline: str, window: Window, names: Spelling
) -> tuple[Listing[PointFacts], dict[str, NewestPoint]]:
    """Give the window's newest cuts, and each table's newest of all."""
    newest: dict[str, Row] = {}
    grouped: dict[int, list[Row]] = defaultdict(list)
    for row in of_pipeline(records, "cuts", pipeline):
        if not isinstance(row["cut_ts"], int) or row["cut_time"] is None:
            continue
        table = names.of(row)
        if table not in newest or _order(newest[table]) < _order(row):
            newest[table] = row
        if row["batch_id"] >= window.first:
            grouped[row["cut_ts"]].append(row)
    listing = Listing.of(sorted(grouped, reverse=True), CUTS_SHOWN)
    shown = {
        table: NewestPoint(utc(row["cut_time"]), int(row["batch_id"]), recorded(row)) for table, row in newest.items()
    }
    return Listing(tuple(_cut(ts, grouped[ts]) for ts in listing.items), listing.left_out), shown


def _order(row: Row) -> tuple[int, int]:
    return row["cut_ts"], row["batch_id"]


def _cut(ts: int, rows: list[Row]) -> PointFacts:
    last = max(rows, key=_order)
    tables = len({(row["schema_name"], row["table_name"]) for row in rows})
    level, reason = clean(last["level"], NAME), clean(last["reason"])
    return PointFacts(ts, utc(last["cut_time"]), int(last["batch_id"]), tables, level, reason)
