"""What the checks found, batch by batch, and the timeline that shows it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from pipeline.quality.suites import SETTING_ASIDE, Severity
from pipeline.report.facts import BatchTime, CheckMark, CheckRow, Listing, ReportCell, Timeline
from pipeline.report.ledger import ReportSample, Spelling, column_of, of_pipeline, recorded
from pipeline.report.wording import NAME, clean

if TYPE_CHECKING:
    from datetime import datetime

    from pipeline.quality.suites import SeverityPolicy
    from pipeline.report.facts import ReportColumn
    from pipeline.report.ledger import Records, Row, Window

CHECKS_SHOWN = 60
COMPILED = "compiled"
_LOOKED_AT = 10
"""Results that are searched for rows: not each has some."""


def _marked(policy: SeverityPolicy) -> CheckMark:
    if policy.ends_stream:
        return CheckMark.STOPPED
    if policy.holds_table:
        return CheckMark.HELD
    return CheckMark.QUARANTINED if policy.sets_row_aside else CheckMark.VIOLATED


_FAILED = {severity.value: _marked(severity.policy) for severity in Severity}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found in one batch."""

    batch: int
    time: datetime
    mark: CheckMark
    severity: str
    engine: str
    evaluated: int
    unexpected: int
    sample: str | None

    @staticmethod
    def of(row: Row) -> CheckResult:
        """Read a row of `quality_results`."""
        severity, engine = clean(row["severity"], NAME), clean(row["engine"], NAME)
        evaluated, unexpected = row["evaluated"] or 0, row["unexpected"] or 0
        mark = _mark(severity, engine, evaluated, unexpected, success=row["success"])
        time, number = recorded(row), int(row["batch_id"])
        return CheckResult(number, time, mark, severity, engine, evaluated, unexpected, row["sample"])


def _mark(severity: str, engine: str, evaluated: int, unexpected: int, *, success: Any) -> CheckMark:
    """The mark of a result. A quarantining check takes each row that breaks it, even so few that it does not fail."""
    if success is False or (unexpected and (success is None or severity in SETTING_ASIDE)):
        return _FAILED.get(severity, CheckMark.VIOLATED)
    return CheckMark.NONE if engine == COMPILED and not evaluated else CheckMark.PASSED


@dataclass(slots=True)
class JudgedCheck:
    """One check of one table and all its results in the window, the newest first."""

    table: str
    rule: str
    reaches_back: int
    """The oldest batch, if there are older ones that were not looked at; else -1."""
    results: list[CheckResult] = field(default_factory=list)
    retired: bool = False

    @property
    def newest(self) -> CheckResult:
        """Its newest word: the newest result that had rows to judge, if there is one."""
        return next((result for result in self.results if result.mark is not CheckMark.NONE), self.results[0])

    @property
    def mark(self) -> CheckMark:
        """Its newest word in short."""
        return self.newest.mark

    @property
    def failing(self) -> list[CheckResult]:
        """The unbroken run of results that found something, the newest first; batches without rows break nothing."""
        judged = (result for result in self.results if result.mark is not CheckMark.NONE)
        return list(takewhile(lambda result: result.mark.is_bad, judged))

    @property
    def since(self) -> BatchTime | None:
        """When the present trouble began."""
        if not self.failing:
            return None
        oldest = self.failing[-1]
        return BatchTime(oldest.batch, oldest.time, oldest.batch == self.reaches_back)

    @property
    def bad(self) -> list[CheckResult]:
        """The results that found something."""
        return [result for result in self.results if result.mark.is_bad]

    @property
    def sample(self) -> ReportSample:
        """The newest rows that broke it, and what the suite says of it."""
        samples = [
            ReportSample.of(result.sample) for result in (self.bad or self.results)[:_LOOKED_AT] if result.sample
        ]
        rows = next((sample.examples for sample in samples if sample.examples), ())
        return replace(samples[0], examples=rows) if samples else ReportSample()

    @property
    def severity(self) -> str:
        """What it does with a row, or with a batch, that breaks it."""
        return self.results[0].severity

    @property
    def order(self) -> tuple[Any, ...]:
        """The worst first."""
        now = 0 if self.retired else self.mark.rank * self.mark.is_bad
        return -now, -len(self.bad), self.table, self.rule

    def row(self, columns: tuple[ReportColumn, ...]) -> CheckRow:
        """Put it into the timeline."""
        sample, judged = self.sample, [result for result in self.results if result.mark is not CheckMark.NONE]
        evaluated, unexpected = (sum(getattr(r, name) for r in judged) for name in ("evaluated", "unexpected"))
        return CheckRow(
            self.table, self.rule, self.severity, self.mark, self.since, evaluated, unexpected,
            len(self.bad), len(judged), self.retired, sample.because, sample.owner, sample.observed,
            sample.examples if self.bad else (), _cells(self.results, columns),
        )  # fmt: skip


def _cells(results: list[CheckResult], columns: tuple[ReportColumn, ...]) -> tuple[ReportCell, ...]:
    cells = [ReportCell()] * len(columns)
    for result in results:
        place = column_of(columns, result.batch)
        was = cells[place]
        worst = max(was.mark, result.mark, key=lambda mark: mark.rank)
        cells[place] = ReportCell(worst, was.evaluated + result.evaluated, was.unexpected + result.unexpected)
    return tuple(cells)


@dataclass(slots=True)
class Judged:
    """All checks, the worst first, and how many rows they saw: by table and batch."""

    checks: dict[tuple[str, str], JudgedCheck]
    rows: dict[str, dict[int, int]]
    times: dict[int, datetime]
    """When each batch was committed; of one that was not, when it was judged."""

    @staticmethod
    def of(records: Records, pipeline: str, window: Window, names: Spelling) -> Judged:
        """Read the results of the window's batches, and of a newer one that was not committed."""
        newest: dict[tuple[str, str], dict[int, Row]] = defaultdict(dict)
        for row in of_pipeline(records, "quality_results", pipeline):
            if row["batch_id"] >= window.first:
                of_check = newest[names.of(row), clean(row["rule"], NAME)]
                before = of_check.get(row["batch_id"])
                if before is None or recorded(before) <= recorded(row):
                    of_check[row["batch_id"]] = row
        edge = window.first if window.reaches_back else -1
        checks = [_check(*key, edge, rows) for key, rows in newest.items()]
        _retire(checks)
        checks.sort(key=lambda check: check.order)
        judged = Judged(
            {(c.table, c.rule): c for c in checks}, _rows(checks), {r.batch: r.time for c in checks for r in c.results}
        )
        judged.times.update({int(row["batch_id"]): recorded(row) for row in window.batches})
        return judged

    def timeline(self, columns: tuple[ReportColumn, ...]) -> Timeline:
        """Show the worst checks, those of one table together."""
        checks = list(self.checks.values())
        worst: dict[str, int] = {}
        for place, check in enumerate(checks):
            worst.setdefault(check.table, place)
        shown = sorted(checks[:CHECKS_SHOWN], key=lambda check: (worst[check.table], check.order))
        listing = Listing(tuple(check.row(columns) for check in shown), max(0, len(checks) - CHECKS_SHOWN))
        current = [check for check in checks if not check.retired]
        return Timeline(columns, listing, len(current), sum(not check.mark.is_bad for check in current))


def _check(table: str, rule: str, edge: int, rows: dict[int, Row]) -> JudgedCheck:
    return JudgedCheck(table, rule, edge, [CheckResult.of(rows[batch]) for batch in sorted(rows, reverse=True)])


def _retire(checks: list[JudgedCheck]) -> None:
    """Mark the checks that no suite has any more: a compiled check has a result for every batch of its table."""
    newest: dict[str, int] = {}
    for check in checks:
        if check.results[0].engine == COMPILED:
            newest[check.table] = max(check.results[0].batch, newest.get(check.table, -1))
    for check in checks:
        newest_result = check.results[0]
        check.retired = newest_result.engine == COMPILED and newest_result.batch < newest[check.table]


def _rows(checks: list[JudgedCheck]) -> dict[str, dict[int, int]]:
    """Rows by table and batch: what the check that saw most of them saw, judged or not."""
    rows: dict[str, dict[int, int]] = defaultdict(dict)
    for check in checks:
        seen = rows[check.table]
        for result in check.results:
            count = result.evaluated + (ReportSample.of(result.sample).not_checked if result.sample else 0)
            seen[result.batch] = max(count, seen.get(result.batch, 0))
    return rows
