"""A DDL event need not stand among the rows: a storage changefeed writes statements into files of their own."""

from types import SimpleNamespace

import pytest

from pipeline.ingest.by_commit_ts import timeline
from pipeline.ingest.by_commit_ts.frontier import Frontier, closed_by_watermark
from pipeline.ingest.by_commit_ts.namesakes import Namesakes
from pipeline.ingest.by_commit_ts.timeline import classified
from pipeline.ingest.run_state import ChangefeedProgress, Ledger, RunState
from pipeline.model.columns import CommitTs
from pipeline.model.messages import Ddl, Messages
from pipeline.model.names import TableName
from pipeline.model.places import Partition

ORDERS = TableName("shop", "orders")
SQL = "ALTER TABLE orders ADD COLUMN note INT"
RESOLVED = 100
AT = Partition("shop/orders", 0)


def ddl(ts, at=()):
    return Ddl(CommitTs(ts), ORDERS, 5, SQL, dict.fromkeys(at, 0))


def split(monkeypatch, event, *, recorded=(), frontiers=()):
    """Which statements of a batch are applied now and later, and which are sent again: neither."""
    monkeypatch.setattr(timeline.F, "col", lambda _: _Any())
    rows = [
        {"commit_ts": one.commit_ts, "schema_name": one.table.schema, "table_name": one.table.table, "sql": one.sql}
        for one in recorded
    ]
    history = SimpleNamespace(where=lambda _: SimpleNamespace(collect=lambda: rows))
    context = SimpleNamespace(
        tables=[], overrides={},
        records=SimpleNamespace(read=lambda _: history, tables={"ddl_history": SimpleNamespace(properties={})}),
        run=RunState(Ledger(progress=ChangefeedProgress(dict(frontiers), closed_by_watermark(RESOLVED)))),
    )  # fmt: skip
    due = Frontier(closed_by_watermark(RESOLVED + 10))
    found = classified(context, Messages(ddl=(event,)), lambda _: due, frozenset(), Namesakes({}))
    return [s.ddl for s in found.now], [s.ddl for s in found.later]


class _Any:
    """A column, where none is looked at."""

    def __ge__(self, other):
        return self


@pytest.mark.parametrize("ts", [RESOLVED - 50, RESOLVED, RESOLVED + 5])
def test_one_that_no_history_has_is_applied_whenever_it_comes(monkeypatch, ts):
    assert split(monkeypatch, ddl(ts)) == ([ddl(ts)], [])


def test_one_that_the_history_has_is_sent_again(monkeypatch):
    assert split(monkeypatch, ddl(50), recorded=[ddl(50)]) == ([], [])


def test_one_whose_time_has_not_come_is_applied_later(monkeypatch):
    assert split(monkeypatch, ddl(RESOLVED + 20)) == ([], [ddl(RESOLVED + 20)])


def test_one_among_rows_is_sent_again_where_its_partition_has_been_read_past_it(monkeypatch):
    event = ddl(50, [AT])
    assert split(monkeypatch, event, frontiers={AT: closed_by_watermark(RESOLVED)}.items()) == ([], [])
    assert split(monkeypatch, event) == ([event], [])
