"""Phrases that the page and the Markdown share: what a mark, a strip of marks and a moment are called."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pipeline.report.facts import CheckMark, PipelineState
from pipeline.report.wording import count, stamp

if TYPE_CHECKING:
    from pipeline.report.facts import BatchTime, CheckRow, Report, ReportCell, ReportColumn

MARKS = {
    CheckMark.PASSED: "passed",
    CheckMark.VIOLATED: "violated",
    CheckMark.QUARANTINED: "quarantined",
    CheckMark.HELD: "held",
    CheckMark.STOPPED: "refused",
    CheckMark.NONE: "nothing to judge",
}
_CROSS, _DASH = "\N{MULTIPLICATION SIGN}", "\N{EN DASH}"
GLYPHS = {
    CheckMark.PASSED: "",
    CheckMark.VIOLATED: "!",
    CheckMark.QUARANTINED: "◆",
    CheckMark.HELD: "‖",
    CheckMark.STOPPED: _CROSS,
    CheckMark.NONE: "",
}
"""Beside the colours: for those who can't tell them apart, and for paper."""
SIGNS = {
    PipelineState.NOTHING: (_DASH, "no batch yet"),
    PipelineState.RIGHT: ("✓", "right"),
    PipelineState.WARNED: ("!", "warnings"),
    PipelineState.SET_ASIDE: ("◆", "rows set aside"),
    PipelineState.HELD: ("‖", "a table waits"),
    PipelineState.STOPPED: (_CROSS, "stopped"),
}


def strip(check: CheckRow) -> str:
    """Say in words what a row of marks shows."""
    marks = Counter(cell.mark for cell in check.cells)
    phrases = [
        f"{MARKS[mark]} in {marks[mark]}" for mark in reversed(CheckMark) if mark is not CheckMark.NONE and marks[mark]
    ]
    return f"{check.table} {check.rule}, {count(len(check.cells), 'column')}: " + (
        ", ".join(phrases) or "nothing judged"
    )


def cell_title(cell: ReportCell, column: ReportColumn) -> str:
    """Say what one mark shows."""
    if cell.mark is CheckMark.NONE:
        return f"{column.label}: nothing to judge"
    return f"{column.label}: {MARKS[cell.mark]}, {cell.unexpected:,} of {cell.evaluated:,} rows"


def since(moment: BatchTime | None) -> str:
    """`since batch 12, 2026-11-21 11:40:07 UTC`; nothing where that is not known."""
    if moment is None:
        return ""
    return f"since batch {moment.batch}{' or earlier' if moment.earlier else ''}, {stamp(moment.at)}"


def window(report: Report) -> str:
    """Say which batches the report looked at."""
    shown = report.timeline.columns
    if not shown:
        return "no batch yet"
    return f"batches {shown[0].first} to {shown[-1].last}" + (
        f", of {report.batches:,} in the ledger" if report.batches > report.looked_at else ""
    )


def figures(report: Report) -> str:
    """Say the figures of the page's head in one line."""
    aside = report.quarantine
    return ", ".join(
        (
            window(report),
            count(report.changes, "change"),
            f"{report.timeline.passing:,} of {count(report.timeline.current, 'check')} passing",
            f"{aside.quarantined + aside.dead_letters:,} set aside",
            f"{count(report.tables.total, 'table')}, {aside.held.total:,} waiting",
        )
    )
