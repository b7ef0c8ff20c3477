"""A report from the rows of the pipeline's own tables: a pure function, the same rows give the same report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.report.facts import BatchTime, Listing, Report, TableFacts, Volume
from pipeline.report.history import cuts, statements, versions
from pipeline.report.judged import Judged
from pipeline.report.ledger import ALL_THERE, Spelling, Window, by_column, columns, moment, of_pipeline
from pipeline.report.set_aside import WAITING_STATES, SetAside
from pipeline.report.verdict import verdict
from pipeline.report.wording import NAME, clean, utc

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pipeline.report.facts import ReportColumn
    from pipeline.report.history import NewestPoint
    from pipeline.report.ledger import Records, Row, Totals

TABLES_SHOWN = 60


def assemble(records: Records, pipeline: str, now: datetime, totals: Totals = ALL_THERE) -> Report:
    """Make the report of one pipeline from rows with the columns of `ledger.COLUMNS`; ages are as of `now`."""
    names = Spelling()
    records = {**records, "tables": list(records.get("tables", ()))}  # looked at twice
    states = {names.of(row): row for row in of_pipeline(records, "tables", pipeline)}
    window = Window.of(of_pipeline(records, "batches", pipeline), totals.get("batches", 0))
    judged = Judged.of(records, pipeline, window, names)
    set_aside = SetAside.of(records, pipeline, names, totals)
    newest_cuts, shown = cuts(records, pipeline, window, names)
    lines = _TableLines(columns(judged.times), judged, set_aside, states, shown)
    moments = [moment(row) for row in window.batches]
    first, last = (moments[0], moments[-1]) if moments else (None, None)
    now = utc(now)
    return Report(
        clean(pipeline, NAME), now, window.total, first, last, verdict(window, judged, set_aside, now),
        judged.timeline(lines.columns), _volume(window, lines.columns), lines.tables(), set_aside.quarantine,
        statements(records, pipeline, names), versions(records, pipeline, names), newest_cuts,
    )  # fmt: skip


def _volume(window: Window, shown: tuple[ReportColumn, ...]) -> tuple[Volume, ...]:
    batches = {int(row["batch_id"]): row for row in window.batches}
    return tuple(_sum(c, [row for number, row in batches.items() if c.first <= number <= c.last]) for c in shown)


def _sum(column: ReportColumn, rows: list[Row]) -> Volume:
    def total(*names: str) -> int:
        return sum(int(row[name] or 0) for row in rows for name in names)

    changes = (total("rows_in"), total("inserts"), total("updates"), total("deletes"))
    seconds = sum(float(row["seconds"] or 0) for row in rows)
    return Volume(column, *changes, total("quarantined", "dead_letters"), round(seconds, 3))


@dataclass(frozen=True, slots=True)
class _TableLines:
    """The tables, each with what is known of it."""

    columns: tuple[ReportColumn, ...]
    judged: Judged
    set_aside: SetAside
    states: Mapping[str, Row]
    shown: Mapping[str, NewestPoint]

    def tables(self) -> Listing[TableFacts]:
        """Give them by name; where there are too many, those with trouble and the busiest of the others."""
        checks: Counter[str] = Counter(c.table for c in self.judged.checks.values() if not c.retired)
        failing: Counter[str] = Counter(c.table for c in self.judged.checks.values() if not c.retired and c.mark.is_bad)
        waiting = {held.table: held.records for held in self.set_aside.held}
        names = {*self.states, *self.shown, *self.judged.rows, *self.set_aside.by_table, *waiting} - {""}

        def weight(table: str) -> tuple[int, int, int, str]:
            rows = sum(self.judged.rows.get(table, {}).values())
            return -(table in waiting), -self.set_aside.by_table[table] - failing[table], -rows, table

        listing = Listing.of(sorted(names, key=weight), TABLES_SHOWN)
        made = (self._table(t, checks[t], failing[t], waiting) for t in sorted(listing.items))
        return Listing(tuple(made), listing.left_out)

    def _table(self, table: str, checks: int, failing: int, waiting: Mapping[str, int]) -> TableFacts:
        row, rows, cut = self.states.get(table, {}), self.judged.rows.get(table), self.shown.get(table)
        recorded_state = clean(row.get("state"), NAME)
        is_old = (recorded_state in WAITING_STATES) != (table in waiting)  # the copy of the state, see `set_aside`
        state = recorded_state if not is_old else "held" if table in waiting else "live"
        return TableFacts(
            table=table,
            warehouse_name=clean(row.get("warehouse_name"), NAME),
            state=state,
            checks=checks,
            failing=failing,
            rows=None if rows is None else sum(rows.values()),
            aside=self.set_aside.by_table[table],
            waiting=waiting.get(table, 0),
            last=self._last(rows, cut),
            complete_to=None if cut is None else cut.time,
            lag=None if cut is None else max(0.0, (cut.recorded - cut.time).total_seconds()),
            volume=by_column(self.columns, rows or {}),
        )

    def _last(self, rows: Mapping[int, int] | None, cut: NewestPoint | None) -> BatchTime | None:
        """Tell the newest batch that had rows of the table, as its checks or its cuts know it."""
        seen = [BatchTime(batch, self.judged.times[batch]) for batch, count in (rows or {}).items() if count]
        seen += [] if cut is None else [BatchTime(cut.batch, cut.recorded)]
        return max(seen, key=lambda one: one.batch, default=None)
