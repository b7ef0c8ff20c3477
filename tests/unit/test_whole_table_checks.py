"""Checks of whole tables after a run that takes everything: what they hold, what they end, and when nobody looks."""

from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from pipeline.ingest.run_state import Ledger, RunState
from pipeline.model.names import TableName
from pipeline.operations import whole_table_checks
from pipeline.quality.gate import Gate, QualityStop
from pipeline.quality.rules import RuleResult
from pipeline.quality.suites import Severity
from pipeline.service import pipeline
from pipeline.service.telemetry import Telemetry
from pipeline.warehouse.pairs import State


class Tables(list):
    def set_state(self, table, state, reason):
        table.state, table.held_reason = state, reason


@pytest.fixture
def context():
    tables = Tables(
        SimpleNamespace(source=TableName("bank", name), state=State.LIVE, held_reason="")
        for name in ("account", "note")
    )
    return SimpleNamespace(tables=tables, records=None, gate=Gate(), run=RunState(Ledger(3)), viewed=[])


@pytest.fixture
def found(context, monkeypatch):
    """What the checks of a whole table find: by table, severity and whether all is well; the rest has no checks."""
    results = {}

    def audit(_context, tables, *, only):
        assert only
        return {
            str(table.source): (RuleResult("two_owners", severity, 3, 1, success, 3),)
            for table in tables if str(table.source) in results
            for severity, success in [results[str(table.source)]]
        }  # fmt: skip

    monkeypatch.setattr(whole_table_checks, "audit", audit)
    monkeypatch.setattr(
        whole_table_checks, "write_tables_view", lambda _tables, _records, batch: context.viewed.append(batch)
    )
    return results


def states(context):
    return {table.source.table: table.state for table in context.tables}


ALL = frozenset({"bank.account", "bank.note"})


def test_a_whole_table_that_breaks_a_check_waits_from_then_on(context, found):
    found["bank.account"] = Severity.HOLD, False
    whole_table_checks.audit_after(context, ALL)
    assert states(context) == {"account": State.HELD, "note": State.LIVE}
    assert "two_owners" in context.tables[0].held_reason
    assert context.viewed == [3]


def test_a_whole_table_that_breaks_a_check_ends_a_run_whose_rows_are_in(context, found):
    """What is to be held is held before."""
    found |= {"bank.account": (Severity.FAIL, False), "bank.note": (Severity.HOLD, False)}
    with pytest.raises(QualityStop, match=r"bank\.account as a whole: two_owners: ") as ended:
        whole_table_checks.audit_after(context, ALL)
    assert "the rows are in the table already" in ended.value.hint
    assert states(context) == {"account": State.LIVE, "note": State.HELD}


@pytest.mark.parametrize(
    ("severity", "success"), [(Severity.WARN, False), (Severity.HOLD, True), (Severity.FAIL, True)]
)
def test_what_warns_or_is_right_holds_and_ends_nothing(context, found, severity, success):
    found["bank.account"] = severity, success
    whole_table_checks.audit_after(context, ALL)
    assert states(context) == {"account": State.LIVE, "note": State.LIVE}


def test_a_table_to_which_nothing_came_is_not_looked_at(context, found):
    found["bank.account"] = Severity.FAIL, False
    whole_table_checks.audit_after(context, frozenset({"bank.note"}))


@pytest.mark.parametrize("stopped", [False, True])
def test_a_run_that_is_stopped_on_its_way_judges_no_whole_table(monkeypatch, tmp_path, stopped):
    """A table that has half of its changes is not one to judge."""
    judged = []
    monkeypatch.setattr(pipeline, "audit_after", lambda _context, tables: judged.append(tables))
    settings = SimpleNamespace(name="bank", warehouse=SimpleNamespace(path=tmp_path, maintenance=None))
    context = SimpleNamespace(settings=settings, spark=None, step=None)
    run = pipeline.Pipeline(context, ExitStack(), lambda *_: None, Telemetry())
    run._left = True

    def land(*_):
        run._left = False
        if stopped:
            run.stop()

    monkeypatch.setattr(pipeline.pending, "nothing", lambda _context: None)
    monkeypatch.setattr(run, "_land", land)
    run._take_the_rest()
    assert judged == ([] if stopped else [frozenset()])
