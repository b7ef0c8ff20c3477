"""How far records close a changefeed, and which of TiDB's states must show then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from golden.expected import ExpectedTable, expected_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from golden.corpus import GoldenCase, Record


class Frontier(NamedTuple):
    """Everything up to a commit ts, and whether the DDL of that ts is behind it."""

    commit_ts: int
    ddl: bool


def resolved(records: Iterable[Record]) -> Frontier | None:
    """What a reader that has read all partitions up to their ends knows to be complete: the greatest moment sent."""
    return max((found for record in records if (found := _said(record))), default=None)


def _said(record: Record) -> Frontier | None:
    return Frontier(record.commit_ts, record.kind == "ddl") if record.kind in ("resolved", "ddl") else None


def step_at(case: GoldenCase, moment: Frontier) -> dict[str, Any] | None:
    """The last step that must show. Of a step without a commit ts (CREATE SEQUENCE) TiCDC sends nothing."""
    assert case.steps_agree
    sent = (step for step in case.steps if step["commit_ts"])
    shown = (
        step
        for step in sent
        if step["commit_ts"] < moment.commit_ts
        or (step["commit_ts"] == moment.commit_ts and (moment.ddl or step["kind"] == "txn"))
    )
    return max(shown, key=lambda step: step["commit_ts"], default=None)


def tables_at(case: GoldenCase, moment: Frontier) -> dict[str, ExpectedTable] | None:
    """TiDB's tables at a moment; None where TiDB was not asked."""
    step = step_at(case, moment)
    if step is None or "tables" not in step:
        return None
    return {source: expected_table(case, source, dump) for source, dump in step["tables"].items()}


def torn(case: GoldenCase, sent: Iterable[Record]) -> bool:
    """Whether a DDL that consists of several messages was sent only in part (RENAME TABLE of two tables)."""
    sent = list(sent)
    moment = resolved(sent)
    here = {record.value for record in sent if record.kind == "ddl"}
    return any(
        record.kind == "ddl" and moment == Frontier(record.commit_ts, ddl=True) and record.value not in here
        for record in case.records
    )
