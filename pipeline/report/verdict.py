"""Is it right, since when, which table, which rule, which rows, what now: the answer that a report begins with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.model.holding import before_release
from pipeline.report import commands
from pipeline.report.facts import CheckMark, Listing, PipelineState, ReportFinding, ReportVerdict
from pipeline.report.ledger import recorded
from pipeline.report.wording import ago, count, enumerated, named, stamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from pipeline.report.facts import Held, SetAsideGroup
    from pipeline.report.judged import Judged, JudgedCheck
    from pipeline.report.ledger import Window
    from pipeline.report.set_aside import SetAside

FINDINGS_SHOWN = 6
NO_TABLE = "an unknown table"


def verdict(window: Window, judged: Judged, set_aside: SetAside, now: datetime) -> ReportVerdict:
    """Judge; the worst finding decides."""
    findings = list(_Findings.of(window, judged, set_aside).all())
    findings.sort(key=lambda one: (-one.standing.rank, -one.rows, one.table, one.rule))
    facts = _Facts(window, judged, set_aside, now, findings)
    standing = findings[0].standing if findings else PipelineState.RIGHT if window.batches else PipelineState.NOTHING
    headline, detail = {
        PipelineState.NOTHING: facts.nothing,
        PipelineState.RIGHT: facts.right,
        PipelineState.WARNED: facts.warned,
        PipelineState.SET_ASIDE: facts.rows_set_aside,
        PipelineState.HELD: facts.held,
        PipelineState.STOPPED: facts.stopped,
    }[standing]()
    return ReportVerdict(standing, headline, detail, Listing.of(findings, FINDINGS_SHOWN))


@dataclass(frozen=True, slots=True)
class _Findings:
    """Everything that is not right, in no order."""

    window: Window
    judged: Judged
    set_aside: SetAside
    committed: int
    held: frozenset[str]
    holding: Mapping[str, JudgedCheck]
    """Checks of severity `hold` that found something, by table."""
    quarantining: frozenset[str]

    @staticmethod
    def of(window: Window, judged: Judged, set_aside: SetAside) -> _Findings:
        """Look up what each finding asks."""
        holding = {check.table: check for check in judged.checks.values() if check.mark is CheckMark.HELD}
        held = frozenset(held.table for held in set_aside.held)
        quarantining = frozenset(table for table, rule in set_aside.rules if rule)
        return _Findings(window, judged, set_aside, window.committed, held, holding, quarantining)

    def all(self) -> Iterator[ReportFinding]:
        """Give the findings."""
        yield from self._uncommitted()
        yield from (self._of_held(held) for held in self.set_aside.held)
        for group in self.set_aside.rules.values():
            if group.rule:
                yield self._of_rule(group)
            elif group.table not in self.quarantining:
                yield _of_fenced(group)
        yield from (_of_dead_letters(group) for group in self.set_aside.dead_letters.values())
        for check in self.judged.checks.values():
            yield from self._of_check(check)

    def _uncommitted(self) -> Iterator[ReportFinding]:
        """Give a finding for a batch that is not committed although no check is known to refuse it."""
        last = self.window.batches[-1] if self.window.batches else None
        if last is not None and last["committed"] is False and not any(map(self._stops, self.judged.checks.values())):
            title = f"Batch {last['batch_id']} was not committed"
            detail = "The next run repeats it and says why it fails."
            yield ReportFinding(
                PipelineState.STOPPED, "", "", title, None, 0, detail=detail, commands=(commands.run(),)
            )

    def _stops(self, check: JudgedCheck) -> bool:
        return check.mark is CheckMark.STOPPED and check.newest.batch > self.committed

    def _of_check(self, check: JudgedCheck) -> Iterator[ReportFinding]:
        """Give a finding for a check whose newest result is bad, but none if its rows are settled or have another."""
        key = (check.table, check.rule)
        holds = check.mark in {CheckMark.HELD, CheckMark.QUARANTINED} and check.table in self.held
        settled = check.mark is CheckMark.QUARANTINED and (
            key in self.set_aside.rules or key in self.set_aside.settled_rules
        )
        if check.retired or not check.mark.is_bad or holds or settled:
            return
        stops = self._stops(check)
        title = f"{check.table} breaks {named(check.rule)}" + (
            f": batch {check.newest.batch} is refused" if stops else ""
        )
        ways = (commands.history(check.table), commands.run()) if stops else (commands.history(check.table),)
        yield _finding(
            PipelineState.STOPPED if stops else PipelineState.WARNED, check, title, check.newest.unexpected, ways
        )

    def _of_held(self, held: Held) -> ReportFinding:
        holding = self.holding.get(held.table)
        title = f"{held.table or NO_TABLE} waits"
        waiting = f"{count(held.records, 'record')} of it {_are(held.records)} in no table yet."
        first = before_release(held.reason)
        todo = f" Before its release: {first}." if first else ""
        detail = f"{waiting if held.records else 'No record of it has come since.'} {held.reason}".strip() + todo
        if held.state == "releasing":
            title, detail = f"{held.table} is being released", f"It goes on with the next run. {held.reason}".strip()
        finding = ReportFinding(
            PipelineState.HELD, held.table, "", title, held.since, held.records, detail=detail, commands=held.commands
        )
        if holding is None:
            return finding
        sample = holding.sample
        because, owner, since = sample.because, sample.owner, held.since or holding.since
        return replace(finding, rule=holding.rule, since=since, because=because, owner=owner, examples=sample.examples)

    def _of_rule(self, group: SetAsideGroup) -> ReportFinding:
        title = f"{count(group.rows, 'change')} of {group.table or NO_TABLE} {_break(group.rows)} {named(group.rule)}"
        ways = (commands.show(group.table, group.rule), group.command)
        check = self.judged.checks.get((group.table, group.rule))
        if check is not None and check.sample.examples:
            return replace(_finding(PipelineState.SET_ASIDE, check, title, group.rows, ways), since=group.since)
        return _of_group(group, title, ways)


def _finding(
    standing: PipelineState, check: JudgedCheck, title: str, rows: int, ways: tuple[str, ...]
) -> ReportFinding:
    sample = check.sample
    return ReportFinding(
        standing, check.table, check.rule, title, check.since, rows, sample.because, sample.owner, _seen(check),
        sample.examples, ways,
    )  # fmt: skip


def _seen(check: JudgedCheck) -> str:
    newest = check.newest
    if check.sample.observed:
        return f"In batch {newest.batch} the check saw {check.sample.observed}."
    return f"In batch {newest.batch}: {newest.unexpected:,} of {count(newest.evaluated, 'row')}."


def _of_fenced(group: SetAsideGroup) -> ReportFinding:
    """Give a finding for changes that waited for an earlier one which is no longer in quarantine."""
    title = f"{count(group.rows, 'change')} of {group.table or NO_TABLE} waited for an older, quarantined change"
    return _of_group(group, title, (group.command,))


def _of_dead_letters(group: SetAsideGroup) -> ReportFinding:
    whose = f" of {group.table}" if group.table else ""
    title = f"{count(group.rows, 'message')}{whose} can't be read: {group.rule}"
    return _of_group(group, title, (group.command,))


def _of_group(group: SetAsideGroup, title: str, ways: tuple[str, ...]) -> ReportFinding:
    return ReportFinding(
        PipelineState.SET_ASIDE, group.table, group.rule, title, group.since, group.rows,
        detail=group.message, examples=(group.example,), commands=ways,
    )  # fmt: skip


def _break(rows: int) -> str:
    return "breaks" if rows == 1 else "break"


@dataclass(frozen=True, slots=True)
class _Facts:
    """The headline and the sentence below it, per standing."""

    window: Window
    judged: Judged
    set_aside: SetAside
    now: datetime
    findings: list[ReportFinding]

    def nothing(self) -> tuple[str, str]:
        return "Nothing has run yet.", f"There is no batch yet. The first run makes one: {commands.run()}"

    def right(self) -> tuple[str, str]:
        checks = [check for check in self.judged.checks.values() if not check.retired]
        last = self.window.batches[-1]
        fresh = f"The newest batch, {last['batch_id']}, was committed {ago(recorded(last), self.now)}."
        if not checks:
            headline = "Every change is in the warehouse; no check has judged it."
            return headline, f"No row is set aside and no table waits. {fresh}"
        past = sum(bool(check.bad) for check in checks)
        before = f" {count(past, 'check')} found something earlier; that is over." if past else ""
        tables = count(len({check.table for check in checks}), "table")
        passed = f"{_all(len(checks))} of {tables} passed. No row is set aside, no table waits."
        return "All is right.", f"{passed}{before} {fresh}"

    def warned(self) -> tuple[str, str]:
        findings = self._of_standing(PipelineState.WARNED)
        warn = f"{count(len(findings), 'check')} {'warns' if len(findings) == 1 else 'warn'}"
        where = f"In {enumerated(_tables(findings))}. A warning sets no row aside."
        return f"Every change is in the warehouse; {warn}.", self._since(findings, where)

    def rows_set_aside(self) -> tuple[str, str]:
        fenced, rows = self.set_aside.counts["fenced"], self.set_aside.rows
        kinds = (
            (self.set_aside.counts["quarantined"] - fenced, "quarantined"),
            (fenced, "waiting for these"),
            (self.set_aside.counts["dead_letters"], "unreadable"),
        )
        numbers = ", ".join(f"{number:,} {kind}" for number, kind in kinds if number)
        findings = self._of_standing(PipelineState.SET_ASIDE)
        headline = f"{count(rows, 'change')} {_are(rows)} set aside; the rest is in the warehouse."
        return headline, self._since(findings, f"Of {enumerated(_tables(findings))}: {numbers}.")

    def held(self) -> tuple[str, str]:
        tables = [held.table or NO_TABLE for held in self.set_aside.held]
        records, rows = sum(held.records for held in self.set_aside.held), self.set_aside.rows
        headline = f"{enumerated(tables)} {'waits' if len(tables) == 1 else 'wait'} for a decision."
        waiting = f"{count(records, 'record')} {_are(records)} in no table yet"
        sentence = f"{waiting if records else 'No record has come since'}; other tables go on."
        sentence += f" Besides, {count(rows, 'change')} {_are(rows)} set aside." if rows else ""
        return headline, self._since(self._of_standing(PipelineState.HELD), sentence)

    def stopped(self) -> tuple[str, str]:
        worst = self.findings[0]
        why = f": {worst.table} breaks {named(worst.rule)}" if worst.rule else ""
        before = f"The tables are as batch {self.window.committed} left them; n" if self.window.committed >= 0 else "N"
        return f"The pipeline has stopped{why}.", self._since([worst], f"{before}othing newer is in the warehouse.")

    def _of_standing(self, standing: PipelineState) -> list[ReportFinding]:
        return [one for one in self.findings if one.standing is standing]

    def _since(self, findings: list[ReportFinding], sentence: str) -> str:
        """Put before the sentence since when the oldest finding has been there."""
        moments = [finding.since for finding in findings if finding.since is not None]
        if not moments:
            return sentence
        oldest = min(moments, key=lambda moment: moment.batch)
        earlier = " or earlier" if oldest.earlier else ""
        return f"Since {stamp(oldest.at)}{earlier}, {ago(oldest.at, self.now)}. {sentence}"


def _tables(findings: list[ReportFinding]) -> list[str]:
    return sorted({one.table or NO_TABLE for one in findings})


def _all(checks: int) -> str:
    return "The one check" if checks == 1 else f"All {checks:,} checks"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
