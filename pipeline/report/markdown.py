"""The report as Markdown (GitHub's dialect), for a ticket or a chat."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pipeline.report.phrases import MARKS, SIGNS, figures, since
from pipeline.report.wording import ago, count, duration, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from pipeline.report.facts import Listing, Report, ReportFinding, SetAsideGroup

_INLINE = re.compile(r"([\\`*\[\]<>|~&$@]|(?<!\w)_|_(?!\w)|(?<=:)/(?=/)|(?<=www)\.)", re.IGNORECASE)
_BLOCK = re.compile(r"^(\d*)([.)](?!\S)|(?<!\d)[-+#=])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "/": "&#47;", ".": "&#46;", "$": "&#36;"}


def markdown(report: Report) -> str:
    """Write it as Markdown; every value is escaped."""
    return "\n".join(_lines(report)) + "\n"


def escaped(value: Any) -> str:
    """Give text that Markdown shows as it is: no markup, no link, no mention, one line."""
    words = " ".join(str(value).split())
    inside = _INLINE.sub(lambda found: _ENTITIES.get(found[0], "\\" + found[0]), words)
    return _BLOCK.sub(r"\1\\\2", inside)


def code(text: str, *, in_table: bool = False) -> str:
    """Give text as a code span, with more backticks around it than it has inside."""
    plain = text.replace("|", "\\|") if in_table else text
    fence = "`" * (max(map(len, re.findall("`+", plain)), default=0) + 1)
    space = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{space}{plain}{space}{fence}" if plain else ""


def _lines(r: Report) -> Iterator[str]:
    verdict = r.verdict
    yield f"# {SIGNS[verdict.standing][0]} {escaped(verdict.headline)}"
    yield from ("", escaped(verdict.detail))
    yield from ("", f"{escaped(r.pipeline)}, {stamp(r.made_at)}: {figures(r)}.")
    for finding in verdict.findings.items:
        yield from _finding(finding, r.made_at)
    yield from _rest(verdict.findings, "finding")
    yield from _checks(r)
    yield from _tables(r)
    yield from _set_aside(r)
    yield from _changes(r)
    yield from _cuts(r)


def _finding(finding: ReportFinding, now: datetime) -> Iterator[str]:
    yield from ("", f"## {SIGNS[finding.standing][0]} {escaped(finding.title)}", "")
    if finding.since is not None:
        yield f"- {escaped(since(finding.since))} ({ago(finding.since.at, now)})"
    details = (
        finding.detail,
        finding.because and f"Why it is checked: {finding.because}",
        finding.owner and f"Ask: {finding.owner}",
    )
    yield from (f"- {escaped(text)}" for text in details if text)
    for row in finding.examples:
        yield "- " + ", ".join(escaped(part) for part in (row.key, row.values, row.at) if part)
    yield from (f"- now: {code(command)}" for command in finding.commands)


def _checks(r: Report) -> Iterator[str]:
    yield from _heading("Checks")
    if not r.timeline.checks.items:
        yield "No check has judged these batches."
        return
    cells = [
        (c.table, c.rule, c.severity, "no longer judged" if c.retired else MARKS[c.mark], f"{c.bad:,} of {c.judged:,}",
         f"{c.unexpected:,} of {c.evaluated:,}", since(c.since))
        for c in r.timeline.checks.items
    ]  # fmt: skip
    yield from _table(("table", "check", "severity", "now", "batches with findings", "rows", "since"), cells)
    yield from _rest(r.timeline.checks, "check")


def _tables(r: Report) -> Iterator[str]:
    yield from _heading("Freshness and volume")
    if not r.tables.items:
        yield "No table is known yet."
        return
    cells = [
        (t.table, t.state, "" if t.rows is None else f"{t.rows:,}", f"{t.aside:,}", f"{t.waiting:,}",
         "" if t.last is None else ago(t.last.at, r.made_at), "" if t.complete_to is None else stamp(t.complete_to),
         "" if t.lag is None else duration(t.lag))
        for t in r.tables.items
    ]  # fmt: skip
    titles = ("table", "state", "rows checked", "set aside", "waiting", "last batch", "complete up to", "lag")
    yield from _table(titles, cells)
    yield from _rest(r.tables, "table")


def _set_aside(r: Report) -> Iterator[str]:
    q = r.quarantine
    yield from _heading("Set aside")
    yield escaped(
        f"{count(q.quarantined, 'change')} in quarantine ({q.fenced:,} of them only wait for an older change of their "
        f"key), {count(q.dead_letters, 'dead letter')}, {count(q.settled, 'other')} settled since."
    )
    yield from _groups(q.by_rule, "rule")
    yield from _groups(q.by_code, "code")
    if q.keys.items:
        yield from ("", "Fenced keys:", "")
        keys = [(k.table, k.key, f"{k.changes:,}", k.rules, since(k.since)) for k in q.keys.items]
        yield from _table(("table", "key", "changes", "rules", "since"), keys)
        yield from _rest(q.keys, "key")
    if q.held.items:
        yield from ("", "Tables that wait:", "")
        held = [(h.table, h.state, f"{h.records:,}", h.reason, since(h.since)) for h in q.held.items]
        yield from _table(("table", "state", "records", "reason", "since"), held)
        yield from _rest(q.held, "table")


def _groups(listing: Listing[SetAsideGroup], name: str) -> Iterator[str]:
    if listing.items:
        yield ""
        cells = [(a.table, a.rule or a.code, f"{a.rows:,}", since(a.since), a.message) for a in listing.items]
        ways = [code(a.command, in_table=True) for a in listing.items]
        yield from _table(("table", name, "rows", "since", "because"), cells, ("now", ways))
        yield from _rest(listing, "group")


def _changes(r: Report) -> Iterator[str]:
    yield from _heading("Schema changes")
    if not r.statements.items and not r.versions.items:
        yield "None so far."
    if r.statements.items:
        statements = [
            ("" if s.at is None else stamp(s.at), s.table, s.kind, s.action, s.sql) for s in r.statements.items
        ]
        yield from _table(("committed", "table", "statement", "done", "text"), statements)
        yield from _rest(r.statements, "statement")
    if r.versions.items:
        yield ""
        versions = [(stamp(v.at), v.table, v.version, v.columns, v.changes) for v in r.versions.items]
        yield from _table(("seen", "table", "version", "columns", "changes"), versions)
        yield from _rest(r.versions, "version")


def _cuts(r: Report) -> Iterator[str]:
    yield from _heading("Cuts")
    if not r.cuts.items:
        yield "None: the changefeed sends no watermarks, or none has arrived in these batches."
        return
    yield from _table(
        ("source time", "ts", "batch", "tables", "level", "because"),
        [(stamp(c.time), c.ts, c.batch, c.tables, c.level, c.reason) for c in r.cuts.items],
    )
    yield from _rest(r.cuts, "cut")


def _heading(text: str) -> tuple[str, ...]:
    return "", f"## {text}", ""


def _table(
    titles: Sequence[str], rows: Iterable[Sequence[Any]], commands: tuple[str, Sequence[str]] | None = None
) -> Iterator[str]:
    heads = [*titles, *([commands[0]] if commands else [])]
    yield f"| {' | '.join(heads)} |"
    yield "|" + " --- |" * len(heads)
    for place, row in enumerate(rows):
        cells = [escaped(cell) for cell in row] + ([commands[1][place]] if commands else [])
        yield f"| {' | '.join(cells)} |"


def _rest(listing: Listing[Any], noun: str) -> Iterator[str]:
    if listing.left_out:
        yield from ("", f"And {count(listing.left_out, 'more ' + noun)}.")
