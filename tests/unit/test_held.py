"""Which tables wait for a person, with how many records, and how cuts, metrics and a run's end say so."""

from types import SimpleNamespace

import pytest
from support.memory_source import MemorySource

from pipeline.cli.run import held as told_by_a_run
from pipeline.ingest.run_state import Ledger, RunState
from pipeline.model.columns import time_of
from pipeline.model.messages import Part
from pipeline.model.names import TableName, WarehouseName
from pipeline.service.telemetry import batch_done
from pipeline.warehouse import records
from pipeline.warehouse.consistent_points import ConsistentPoints, Lag
from pipeline.warehouse.held import held_tables, last_held
from pipeline.warehouse.pairs import State
from pipeline.warehouse.records import Records
from pipeline.warehouse.tables import Tables

ORDERS, ITEMS, UPPER = TableName("shop", "orders"), TableName("shop", "items"), TableName("Shop!", "orders")
TAKEN = "TABLE_NAME_TAKEN: shop.orders already belongs to the source table shop.orders"
CUT = 450_000_000_000_000_000


class Held:
    """`_pipeline.held`, as far as it is counted: open records by table and reason."""

    def __init__(self):
        self.rows, self.snapshot, self.reads = {}, None, 0

    def have(self, rows):
        self.rows, self.snapshot = rows, (self.snapshot or 0) + 1

    def head(self):
        return self.snapshot

    def collect(self):
        self.reads += 1
        return [
            {"schema_name": source.schema, "table_name": source.table, "code": code, "count": count}
            for (source, code), count in self.rows.items()
        ]


def pair(source, state=State.LIVE, reason=""):
    name = WarehouseName("shop", source.table)
    current = SimpleNamespace(head=lambda: 7)
    return SimpleNamespace(
        source=source, name=name, state=state, held_reason=reason, uuid=str(source), current=current, dropped_at=0
    )


@pytest.fixture
def held(monkeypatch):
    made = Held()
    monkeypatch.setattr(records, "counts_in", lambda _: made)
    monkeypatch.setattr(Records, "read", lambda *_: None)
    monkeypatch.setattr(Records, "open_up_to", lambda *_: 0)
    monkeypatch.setattr(Records, "newest_cuts", lambda _: {})
    return made


@pytest.fixture
def context(held, monkeypatch):
    """Orders and items live; what is written of cuts is in `cuts`."""
    known = Tables(None, "file:/data", namespace="shop", with_current=True)
    known._tables = {one.uuid: one for one in (pair(ORDERS), pair(ITEMS))}
    written = []
    monkeypatch.setattr(Records, "write", lambda _self, _name, _batch, rows: written.extend(rows))
    own = Records(None, None, "file:/data", "shop", {"held": held, "ddl_history": SimpleNamespace(properties={})})
    return SimpleNamespace(
        tables=known, records=own, written=written, cuts=ConsistentPoints(known, own),
        run=RunState(Ledger(), has_pending=False),
        protocol=SimpleNamespace(ordering=None), source=MemorySource(list),
    )  # fmt: skip


def hold(context, source, reason="CHECK_FAILED: no_debt"):
    table = context.tables.find(source)
    table.state, table.held_reason = State.HELD, reason


def exact(context, shown, waits=(), late=frozenset()):
    lag = Lag(tuple(waits), frozenset(late))
    return context.cuts.exact(3, CUT, shown, lag, recovering=context.run.recovering)


def cut(context, waits=(), late=frozenset()):
    """The level, and what the rows of the cut say."""
    level = exact(context, [], waits, late)
    return level, {(row["level"], row["reason"]) for row in context.written}


class TestWhichTablesAreHeld:
    def test_each_held_table_is_there_with_its_records_and_what_waits_by_itself_is_not(self, context, held):
        hold(context, ORDERS)
        held.have({(TableName("SHOP", "Orders"), ""): 12, (ORDERS, "DDL_PENDING"): 5, (ITEMS, "SCHEMA_PENDING"): 4})
        assert held_tables(context.tables, context.records) == {ORDERS: 12}

    def test_a_held_table_of_which_no_record_has_come_has_none(self, context):
        hold(context, ITEMS)
        assert held_tables(context.tables, context.records) == {ITEMS: 0}

    def test_a_table_without_a_place_is_held_by_its_records(self, context, held):
        held.have({(UPPER, ""): 3})
        assert held_tables(context.tables, context.records) == {UPPER: 3}

    def test_one_that_got_a_place_since_stays_held_until_its_older_records_are_released(self, context, held):
        held.have({(ITEMS, ""): 3})
        assert held_tables(context.tables, context.records) == {ITEMS: 3}
        held.have({})
        assert held_tables(context.tables, context.records) == {}

    def test_what_a_person_has_let_go_counts_only_where_the_table_is_held_again(self, context, held):
        held.have({(ORDERS, "RELEASED"): 2})
        assert held_tables(context.tables, context.records) == {}
        hold(context, ORDERS)
        assert held_tables(context.tables, context.records) == {ORDERS: 2}

    def test_they_are_counted_when_they_change_and_never_again(self, context, held):
        assert (held_tables(context.tables, context.records), held.reads) == ({}, 0)
        held.have({(UPPER, ""): 3})
        assert last_held(context.tables, context.records) == {}
        assert (
            held_tables(context.tables, context.records)
            == held_tables(context.tables, context.records)
            == last_held(context.tables, context.records)
            == {UPPER: 3}
        )
        assert held.reads == 1
        held.have({(UPPER, ""): 5})
        assert (held_tables(context.tables, context.records), held.reads) == ({UPPER: 5}, 2)


class TestCuts:
    def test_a_cut_with_nothing_open_is_exact(self, context):
        assert cut(context) == ("exact", {("exact", "")})

    def test_a_table_without_a_place_makes_cuts_partial_and_is_named_in_later_batches_too(self, context, held):
        held.have({(UPPER, ""): 3})
        for _ in range(2):
            assert cut(context) == ("partial", {("partial", "held: Shop!.orders (3 records)")})
        assert held.reads == 1

    def test_held_tables_are_told_with_their_records(self, context, held):
        hold(context, ORDERS)
        hold(context, ITEMS)
        held.have({(ORDERS, ""): 1_200, (ITEMS, ""): 1})
        assert cut(context)[1] == {("partial", "held: shop.items (1 record), shop.orders (1,200 records)")}

    def test_tables_whose_rows_wait_up_to_the_cut_are_counted(self, context):
        waits = [Part(ORDERS, CUT - 1, CUT), Part(ITEMS, CUT - 9, CUT), Part(UPPER, CUT, CUT)]
        assert cut(context, waits)[1] == {("partial", "pending: 2 tables (shop.items, shop.orders)")}

    def test_a_table_of_a_late_topic_is_partial_and_the_others_are_not(self, context):
        level, said = cut(context, late={str(ITEMS)})
        assert level == "partial"
        assert said == {
            ("exact", ""),
            ("partial", "1 table of streams that were added later and have not been read that far"),
        }

    @pytest.mark.parametrize("recovering", [True, False])
    @pytest.mark.parametrize(("dropped_at", "told"), [(CUT, {str(ITEMS)}), (CUT + 1, {str(ITEMS), str(ORDERS)})])
    def test_a_table_that_was_dropped_up_to_a_cut_is_not_of_it(self, context, recovering, dropped_at, told):
        table = context.tables.find(ORDERS)
        table.state, table.dropped_at, context.run.recovering = State.DROPPED, dropped_at, recovering
        exact(context, [(one, 7) for one in context.tables])
        assert {row["table_uuid"] for row in context.written} == told

    def test_a_table_that_was_dropped_and_came_back_is_of_it(self, context):
        context.tables.find(ORDERS).dropped_at = 9
        cut(context)
        assert len(context.written) == 2

    def test_open_rows_are_counted_beside_held_tables(self, context, held, monkeypatch):
        monkeypatch.setattr(Records, "open_up_to", lambda _self, name, _ts: {"quarantine": 2, "dead_letters": 1}[name])
        held.have({(UPPER, ""): 3})
        assert cut(context)[1] == {("partial", "held: Shop!.orders (3 records); 2 in quarantine; 1 dead letters")}

    @pytest.mark.parametrize(
        ("rows", "said"),
        [
            ({}, ("bounded", "changes are ordered by offset")),
            ({(UPPER, ""): 3}, ("partial", "held: Shop!.orders (3 records)")),
        ],
    )
    def test_in_the_offset_regime_it_is_partial_instead_of_bounded(self, context, held, rows, said):
        held.have(rows)
        assert context.cuts.bounded(3, CUT, {}, recovering=context.run.recovering) == said[0]
        assert {(row["level"], row["reason"]) for row in context.written} == {said}
        assert {row["cut_time"] for row in context.written} == {time_of(CUT)}

    @pytest.mark.parametrize(
        ("told", "news"),
        [
            ({}, {str(ORDERS), str(ITEMS)}),
            ({str(ORDERS): (7, "exact"), str(ITEMS): (7, "bounded")}, set()),
            ({str(ORDERS): (6, "exact"), str(ITEMS): (7, "partial")}, {str(ORDERS), str(ITEMS)}),
        ],
    )
    def test_a_process_that_begins_tells_what_no_cut_has_told_or_what_holds_no_more(
        self, context, monkeypatch, told, news
    ):
        monkeypatch.setattr(Records, "newest_cuts", lambda _: told)
        cut(context)
        assert {row["table_uuid"] for row in context.written} == news

    def test_what_was_partial_in_another_process_and_stays_so_is_told_when_nothing_is_missing(
        self, context, held, monkeypatch
    ):
        monkeypatch.setattr(Records, "newest_cuts", lambda _: {str(table): (7, "partial") for table in (ORDERS, ITEMS)})
        held.have({(UPPER, ""): 3})
        cut(context)
        assert context.written == []
        held.have({})
        context.run.recovering = False
        assert cut(context) == ("exact", {("exact", "")})

    def test_when_nothing_is_missing_any_more_every_table_that_was_partial_is_told_again_once(self, context, held):
        held.have({(UPPER, ""): 3})
        cut(context)
        context.run.recovering = False
        held.have({(UPPER, ""): 5})
        assert cut(context)[0] == "partial"
        assert [row["level"] for row in context.written] == ["partial"] * 2
        held.have({})
        context.written.clear()
        assert cut(context) == ("exact", {("exact", "")})
        assert {row["table_uuid"] for row in context.written} == {str(ORDERS), str(ITEMS)}
        cut(context)
        assert len(context.written) == 2

    def test_a_table_that_has_changed_too_is_told_with_its_new_snapshot(self, context, held):
        held.have({(UPPER, ""): 3})
        cut(context)
        context.run.recovering = False
        held.have({})
        context.written.clear()
        context.tables.find(ORDERS).current.head = lambda: 8
        exact(context, [(context.tables.find(ORDERS), 8)])
        assert len(context.written) == 2
        assert {row["table_uuid"]: row["snapshot_id"] for row in context.written} == {str(ORDERS): 8, str(ITEMS): 7}

    def test_in_the_offset_regime_a_table_that_was_partial_is_told_again_too(self, context, held):
        for rows, told in [({(UPPER, ""): 3}, {"partial"}), ({}, {"bounded"}), ({}, set())]:
            held.have(rows)
            context.written.clear()
            context.cuts.bounded(3, CUT, {}, recovering=context.run.recovering)
            assert {row["level"] for row in context.written} == told
            context.run.recovering = False

    def test_what_an_operation_has_published_is_told_once(self, context):
        context.run.recovering, (table, _) = False, tuple(context.tables)
        context.cuts.unrecorded.add(table.uuid)
        assert cut(context, late=set())[0] == "exact"
        assert [row["table_uuid"] for row in context.written] == [table.uuid]
        cut(context, late=set())
        assert len(context.written) == 1


def test_metrics_tell_a_table_without_a_place_as_held(context, held):
    held.have({(UPPER, ""): 3})
    committed = SimpleNamespace(batch_id=1, tables=(), dead_letters=0, messages=SimpleNamespace(events=1))
    assert batch_done(context, committed, (0.1, 5.0)).held_tables == ["Shop!.orders"]


class TestTheEndOfARun:
    def test_it_tells_tables_without_a_place_also_where_nothing_new_has_come(self, context, held):
        held.have({(UPPER, ""): 3})
        held_tables(context.tables, context.records)
        (said,) = told_by_a_run(SimpleNamespace(context=context), SimpleNamespace(tables={}))
        assert said.startswith(f"Shop!.orders is held ({TAKEN}); 3 records of it wait, 0 of them new. To go on: ")

    def test_it_tells_held_tables_with_their_reason_and_what_is_new(self, context, held):
        hold(context, ORDERS)
        held.have({(ORDERS, ""): 12})
        held_tables(context.tables, context.records)
        progress = SimpleNamespace(tables={"shop.orders": {"held": 5}, "shop.items": {"held": 0}})
        (said,) = told_by_a_run(SimpleNamespace(context=context), progress)
        assert said == (
            "shop.orders is held (CHECK_FAILED: no_debt); 12 records of it wait, 5 of them new. "
            "To go on: ticdc-warehouse tables release shop.orders"
        )
