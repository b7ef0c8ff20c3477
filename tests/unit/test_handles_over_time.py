"""Changes go by the key of their time, in one batch and in many: also by one that the table has had before."""

from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from types import SimpleNamespace

import pytest
from unit.test_evolution import KEEP, NAME, column

from pipeline.ddl import ActionType, parse
from pipeline.ddl.statement import Statement
from pipeline.ingest.by_commit_ts.table_ordering import TableByCommitTs
from pipeline.ingest.ddl import key
from pipeline.ingest.run_state import Ledger, RunState
from pipeline.ingest.table_work import TableWork
from pipeline.ingest.table_writer import TableWriter
from pipeline.model import types
from pipeline.model.columns import SchemaId, TableVersion
from pipeline.model.messages import Ddl, SeenVersion, TableMessages
from pipeline.model.places import Partition
from pipeline.warehouse.advance import segments
from pipeline.warehouse.layout import Layout
from pipeline.warehouse.pairs import PairByCommitTs, State

AT = {Partition("t", 0): 7}
FIRST, SECOND = 100, 200
A, B = (), ("a",)
PAIR, SHORT = ("a", "b"), ("c",)
COLUMNS = tuple(column(name, types.INT) for name in ("a", "b", "c"))


def seen(number, handle, since, until=None, *, key_only=False):
    columns = tuple(one for one in COLUMNS if not key_only or one.name in handle)
    version = TableVersion(NAME, SchemaId(number), columns, handle)
    return SeenVersion(version, AT, AT, 1, key_only=key_only, since=since, until=until or since)


def statement(ts, kind, sql):
    ddl = Ddl(ts, NAME, kind, sql, AT)
    return Statement(ddl, parse(kind, sql, NAME, keys=True))


ADD = statement(FIRST, ActionType.ADD_PRIMARY_KEY, "ALTER TABLE t ADD PRIMARY KEY (a)")
DROP = statement(SECOND, ActionType.DROP_PRIMARY_KEY, "ALTER TABLE t DROP PRIMARY KEY")


@dataclass
class Warehouse:
    """One table, and batches that evolve it."""

    by_time: bool = True
    table: SimpleNamespace | None = None
    numbers: list[int] = field(default_factory=list)

    def batch(self, *entries):
        versions = tuple(entry for entry in entries if isinstance(entry, SeenVersion))
        statements = [entry for entry in entries if isinstance(entry, Statement)]
        protocol = SimpleNamespace(is_newest=lambda _seen: self.by_time, sends_before=True)
        context = SimpleNamespace(protocol=protocol, policy=KEEP, tables=self, run=RunState(Ledger(), recovering=False))
        messages = TableMessages(NAME, versions)
        ordering, routed = TableByCommitTs(context), SimpleNamespace(batch_id=1, stream_ids={})
        work = TableWork(routed, messages, tuple(statements), self.table, ordering)
        TableWriter(context, work, self.table).evolve()

    def create(self, _source, layout, *_):
        self.table = SimpleNamespace(
            layout=layout,
            state=State.LIVE,
            current=None,
            by_commit_ts=PairByCommitTs(),
            renamed_at=0,
            not_ours=(),
            not_ours_in_current=(),
        )
        return self.table

    def evolve(self, table, layout, _):
        table.layout = Layout.from_json(layout.to_json())

    def handle(self, ts):
        """The columns by which a change of this commit ts goes, however far each publish comes."""
        layout = self.table.layout
        edges = [0, *sorted({ts, FIRST, SECOND, 999})]
        found = {
            segment.handle
            for low, high in ((0, 999), *pairwise(edges))
            for segment in segments(layout, low, high)
            if low < ts and segment.low < ts <= segment.high
        }
        (handle,) = found
        return tuple(column.name for column in replace(layout, handle=handle).key)


WHOLE = [seen(1, A, 50), ADD, seen(2, B, 150), DROP, seen(3, A, 250, 260)]
"""Each statement makes a version, as TiDB's numbers and `version_of` say."""


@pytest.mark.parametrize("by_time", [True, False], ids=["open", "simple"])
@pytest.mark.parametrize("several", [True, False], ids=["many batches", "one batch"])
@pytest.mark.parametrize(("first", "second"), [(A, B), (PAIR, SHORT)], ids=["no key", "a shorter key"])
def test_a_key_that_comes_back_is_the_handle_again(by_time, several, first, second):
    warehouse = Warehouse(by_time)
    keys = [replace(e, version=replace(e.version, handle=first if e.version.handle == A else second))
            if isinstance(e, SeenVersion) else e for e in WHOLE]  # fmt: skip
    for part in [[one] for one in keys] if several else [keys]:
        warehouse.batch(*part)
    moments = (50, FIRST, FIRST + 1, 150, SECOND, SECOND + 1, 250)
    assert [warehouse.handle(ts) for ts in moments] == [first, first, *[second] * 3, *[first] * 2]


def test_rows_behind_a_statement_go_by_its_key_though_later_ones_came_before_them():
    warehouse = Warehouse()
    warehouse.batch(seen(1, A, 50), ADD, seen(2, B, 150))
    warehouse.batch(seen(2, B, 120))
    assert [warehouse.handle(ts) for ts in (100, 101, 120, 150)] == [A, B, B, B]


def test_a_key_that_comes_back_without_its_statement_is_the_handle_from_its_rows_on():
    warehouse = Warehouse()
    for one in (seen(1, A, 50), seen(2, B, 150), seen(1, A, 250), seen(1, A, 300)):
        warehouse.batch(one)
    assert [warehouse.handle(ts) for ts in (50, 149, 150, 249, 250, 300)] == [A, A, B, B, A, A]


def test_rows_from_before_a_statement_that_come_late_leave_the_handle():
    warehouse = Warehouse()
    warehouse.batch(*WHOLE)
    before = warehouse.table.layout
    warehouse.batch(seen(1, A, 60), seen(2, B, 160))
    assert warehouse.table.layout == before
    warehouse.batch(seen(4, PAIR, 170))
    assert (warehouse.table.layout.handle, warehouse.table.layout.by_commit_ts) == (before.handle, before.by_commit_ts)


@pytest.mark.parametrize("several", [True, False], ids=["many batches", "one batch"])
def test_a_delete_of_the_handle_alone_tells_the_new_key_before_any_other_row(several):
    warehouse = Warehouse()
    entries = [seen(1, B, 50), ADD, seen(2, SHORT, 150, key_only=True)]
    for part in [[one] for one in entries] if several else [entries]:
        warehouse.batch(*part)
    assert [warehouse.handle(ts) for ts in (50, 100, 101, 150)] == [B, B, SHORT, SHORT]
    warehouse.batch(seen(3, B, 60, key_only=True))
    warehouse.batch(seen(4, SHORT, 160))
    assert [warehouse.handle(ts) for ts in (100, 101, 160)] == [B, SHORT, SHORT]


# ---- planted faults: each is found by one of the tests above


def a_key_is_noted_once(plant):
    noted = key.noted
    plant.setattr(key, "noted", lambda layout, ts: layout if layout.by_commit_ts.handles else noted(layout, ts))


def a_key_holds_for_all_time(plant):
    noted = key.noted
    plant.setattr(key, "noted", lambda layout, _ts: noted(layout, 0))


def a_key_holds_from_its_first_row_on_and_not_from_its_statement(plant):
    plant.setattr(key, "holds_after", lambda _layout, ts: ts)


def a_key_holds_from_the_newest_statement_on_whenever_its_rows_come(plant):
    plant.setattr(key, "holds_after", lambda layout, _ts: layout.ddl_at)


def a_row_from_before_a_statement_tells_the_key(plant):
    plant.setattr(key, "is_of_now", lambda _layout, _seen: True)


def nothing_but_a_statement_tells_the_key(plant):
    plant.setattr(key, "is_of_now", lambda _layout, _seen: False)


FAULTS = (
    a_key_is_noted_once, a_key_holds_for_all_time, a_key_holds_from_its_first_row_on_and_not_from_its_statement,
    a_key_holds_from_the_newest_statement_on_whenever_its_rows_come, a_row_from_before_a_statement_tells_the_key,
    nothing_but_a_statement_tells_the_key,
)  # fmt: skip


def all_of_them():
    for by_time, several, handles in product((True, False), (True, False), ((A, B), (PAIR, SHORT))):
        test_a_key_that_comes_back_is_the_handle_again(by_time, several, *handles)
    test_rows_behind_a_statement_go_by_its_key_though_later_ones_came_before_them()
    test_a_key_that_comes_back_without_its_statement_is_the_handle_from_its_rows_on()
    test_rows_from_before_a_statement_that_come_late_leave_the_handle()
    for several in (True, False):
        test_a_delete_of_the_handle_alone_tells_the_new_key_before_any_other_row(several)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(fault, monkeypatch):
    all_of_them()
    fault(monkeypatch)
    with pytest.raises((AssertionError, ValueError)):
        all_of_them()
