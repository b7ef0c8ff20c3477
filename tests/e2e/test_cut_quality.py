"""Suites at work by commit ts: what is set aside or held makes cuts partial, and comes back where it belongs."""

import dataclasses
from decimal import Decimal

import pytest
from e2e.bank import ACCOUNT, SCHEMA
from e2e.till import NAME, RENAME_TABLE, Death, Till
from support.slow import EVERY, few

from pipeline.errors import Refused, SettingsError
from pipeline.model.columns import LOGICAL_BITS
from pipeline.observe.metrics import PREFIX, Metrics
from pipeline.operations.redrive import Redriven
from pipeline.service.dispatch import CHECK, REBUILD, REDRIVE
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable
from pipeline.warehouse.tables import Tables

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


def no_debt(severity, least=0):
    return {
        "expect_column_values_to_be_between": {"column": "balance", "min_value": least},
        "name": "no_debt",
        "severity": severity,
    }


def numbers(metrics):
    """Name and labels → value, of all that Prometheus is told."""
    samples = [sample for family in metrics.registry.collect() for sample in family.samples]
    return {(s.name.removeprefix(f"{PREFIX}_"), *sorted(s.labels.values())): s.value for s in samples}


def dies(*_):
    raise Death


def physical(commit_ts):
    """Milliseconds since the epoch."""
    return commit_ts >> LOGICAL_BITS


PROTOCOLS = ("simple", "open-protocol") if EVERY else ("simple",)
DROP_TABLE, ALTER, TRUNCATE_TABLE, TRUNCATE_PARTITION = 4, 5, 11, 23
REDRIVE_STEPS = ("redrive-begun", "redrive-appended", "redrive-marked") if EVERY else ("redrive-appended",)
RELEASE_STEPS = (
    ("release-begun", "changes-appended", "published", "ledger-appended") if EVERY else ("changes-appended",)
)


@pytest.fixture(params=PROTOCOLS)
def till(request, stack, tmp_path):
    made = Till(stack, tmp_path, request.param)
    yield made
    made.feed.close()


@pytest.fixture
def simple(stack, tmp_path):
    made = Till(stack, tmp_path, "simple")
    yield made
    made.feed.close()


def partitioned(till):
    """A table whose rows lie in `p` or `q` by their `part`, and what inserts rows into it."""
    columns = tuple(SimulatedColumn(name, "bigint", nullable=False) for name in ("id", "part", "balance"))
    parts = SimulatedTable("bank", "parts", columns, primary_key=("id",))
    made = till.database.create_table(parts)
    more = " PARTITION BY RANGE (`part`) (PARTITION `p` VALUES LESS THAN (10),PARTITION `q` VALUES LESS THAN (90))"
    till._tell(dataclasses.replace(made, ddl=dataclasses.replace(made.ddl, query=made.ddl.query + more)))

    def insert(*rows):
        for number, part, balance in rows:
            row = {"id": number, "part": part, "balance": balance}
            till._commit(lambda writer, row=row: writer.insert("bank", "parts", row))

    return parts, insert


class TestQuarantine:
    @pytest.mark.slow
    def test_rows_come_back_when_the_suite_is_mended_and_until_then_cuts_are_partial(self, till):
        till.expect(no_debt("quarantine"))
        till.accounts((1, 500), (2, -500), (3, -90000))
        till.run()
        assert sorted(till.balances()) == [1]
        assert till.cut() == ("partial", "2 in quarantine")
        till.expect(no_debt("quarantine", least=-1000))
        assert till.redrive() == Redriven(redriven=1, open=1)
        assert sorted(till.balances()) == [1, 2]
        till.expect()
        assert till.redrive(rule="no_debt") == Redriven(redriven=1)
        till.assert_right()
        till.note("later")
        till.run()
        assert till.cut() == ("exact", "")
        till.assert_right()

    @pytest.mark.slow
    def test_a_key_that_has_moved_away_is_not_brought_back(self, till):
        till.accounts((1, 500))
        till.run()
        till.expect(no_debt("quarantine"))
        till.change(1, balance=-1)
        till.run()
        was = {"id": 1, "owner": "o1", "balance": Decimal(-1)}
        till.row(ACCOUNT, was, {**was, "id": 9, "balance": Decimal(5)})  # raw: one event of an update
        till.run()
        assert till.balances() == {9: 5}
        till.expect()
        assert till.redrive() == Redriven(superseded=1)
        assert till.balances() == {9: 5}

    @pytest.mark.slow
    def test_what_is_older_than_its_key_is_superseded(self, till):
        till.accounts((1, 500), (2, 500), (3, 500), (4, 1))
        till.run()
        till.expect(no_debt("quarantine"))
        for number in (1, 2, 3, 4):
            till.change(number, balance=-number)
        till.run()
        assert till.balances() == {1: 500, 2: 500, 3: 500, 4: 1}
        till.delete(1)
        till.change(2, balance=7)
        till.change(3, id=30, balance=9)
        till.run()
        till.expect()
        assert till.redrive() == Redriven(redriven=1, superseded=3)
        till.assert_right()

    @pytest.mark.slow
    @pytest.mark.parametrize("truncated", few("PARTITION", "TABLE"))
    def test_rows_that_went_with_their_partition_or_all_are_superseded(self, simple, truncated):
        """Also where it was decided by a column that has left the current table since."""
        simple.set("warehouse", drop_column="drop")
        parts, insert = partitioned(simple)
        simple.expect(no_debt("quarantine"), table="bank.parts")

        def shown():
            return sorted(row.values["id"] for row in simple.warehouse.current("bank.parts").rows)

        insert((1, 1, -1), (2, 20, -2), (3, 3, 3))
        simple.run()
        whole = truncated == "TABLE"
        sql = "TRUNCATE TABLE `bank`.`parts`" if whole else "ALTER TABLE `bank`.`parts` TRUNCATE PARTITION `p`"
        simple.say(sql, TRUNCATE_TABLE if whole else TRUNCATE_PARTITION, parts)
        insert((4, 4, -4), (5, 5, 5))
        simple.run()
        assert shown() == [5]
        simple.say("ALTER TABLE `bank`.`parts` REMOVE PARTITIONING", ALTER, parts)
        left = dataclasses.replace(parts, columns=(parts.columns[0], parts.columns[2]))
        simple.say("ALTER TABLE `bank`.`parts` DROP COLUMN `part`", ALTER, parts, left)
        simple.run()
        simple.expect(table="bank.parts")
        assert simple.redrive() == Redriven(redriven=1 if whole else 2, superseded=2 if whole else 1)
        assert shown() == ([4, 5] if whole else [2, 4, 5])
        with simple.living() as (pipeline, _):
            pipeline.operation(REBUILD, ["bank", "parts"])
        assert shown() == ([4, 5] if whole else [2, 4, 5])

    @pytest.mark.slow
    def test_updates_of_rows_that_went_with_their_partition_end_what_their_table_shows(self, simple):
        """A row that moved there, and one whose key did, and is another row's by now."""
        parts, insert = partitioned(simple)
        insert((1, 20, 1), (2, 20, 2), (6, 20, 6), (7, 1, 7))
        simple.run()
        simple.expect(no_debt("quarantine"), table="bank.parts")

        def update(before, after):
            simple.row(parts, *(dict(zip(("id", "part", "balance"), row, strict=True)) for row in (before, after)))

        update((1, 20, 1), (1, 1, -1))
        update((6, 20, 6), (8, 1, -8))
        update((7, 1, 7), (7, 20, -7))
        simple.run()
        simple.say("ALTER TABLE `bank`.`parts` TRUNCATE PARTITION `p`", TRUNCATE_PARTITION, parts)
        simple.row(parts, None, {"id": 6, "part": 1, "balance": 60})
        simple.run()

        def shown():
            rows = (row.values for row in simple.warehouse.current("bank.parts").rows)
            return sorted((row["id"], row["part"], row["balance"]) for row in rows)

        assert shown() == [(1, 20, 1), (2, 20, 2), (6, 1, 60)]
        simple.expect(table="bank.parts")
        assert simple.redrive() == Redriven(redriven=3)
        assert shown() == [(2, 20, 2), (6, 1, 60), (7, 20, -7)]
        with simple.living() as (pipeline, _):
            pipeline.operation(REBUILD, ["bank", "parts"])
        assert shown() == [(2, 20, 2), (6, 1, 60), (7, 20, -7)]

    @pytest.mark.slow
    def test_rows_of_a_table_that_was_renamed_come_back_under_its_new_name(self, simple):
        simple.expect(no_debt("quarantine"))
        simple.accounts((1, 500), (2, -500))
        simple.run()
        table = simple.database.table("bank", ACCOUNT.name)
        renamed = dataclasses.replace(table, name="customer")
        simple.say("RENAME TABLE `bank`.`account` TO `bank`.`customer`", RENAME_TABLE, table, renamed)
        simple.expect(no_debt("quarantine"), table="bank.customer")
        simple.row(renamed, None, {"id": 3, "owner": "behind it", "balance": -5})
        simple.run()
        simple.expect(table="bank.customer")
        assert simple.redrive() == Redriven(redriven=2)
        simple.note("with the next batch the table goes on to where the third row is")
        simple.run()
        assert sorted(row.values["id"] for row in simple.warehouse.current("bank.customer").rows) == [1, 2, 3]

    @pytest.mark.slow
    @pytest.mark.parametrize("dies_at", few("redrive-appended", ""))
    def test_rows_without_a_key_that_the_source_has_deleted_since_do_not_come_back(self, till, dies_at):
        heap = SimulatedTable("bank", "heap", (SimulatedColumn("a", "int"), SimulatedColumn("balance", "int")))
        till._tell(till.database.create_table(heap))
        till.expect(no_debt("quarantine"), table="bank.heap")
        debts = [{"a": number, "balance": -5} for number in (1, 2, 2, 3, 4)]
        till.row(heap, None, {"a": 9, "balance": 1})
        for row in debts:
            till.row(heap, None, row)
        till.run()
        till.row(heap, debts[0], None)
        till.row(heap, debts[1], None)
        till.row(heap, debts[3], {"a": 3, "balance": 5})
        till.run()
        till.expect(table="bank.heap")
        if dies_at:
            with pytest.raises(Death):
                till.redrive(dies_at)
            till.run()
        else:
            assert till.redrive() == Redriven(redriven=5)
        found = till.warehouse.current("bank.heap").rows
        shown = sorted((row.values["a"], row.values["balance"]) for row in found)
        assert shown == [(2, -5), (3, 5), (4, -5), (9, 1)]

    @pytest.mark.slow
    def test_keys_that_their_column_cannot_hold_are_told_apart(self, till):
        columns = (SimulatedColumn("id", "decimal(12,2)", nullable=False), SimulatedColumn("balance", "int"))
        account = SimulatedTable("bank", "dear", columns, primary_key=("id",), clustered=False)
        till.set("warehouse", columns={"bank.dear.id": "decimal(5,2)"})
        till.expect(no_debt("quarantine"), table="bank.dear")
        till._tell(till.database.create_table(account))

        def change(*steps):
            for before, after in steps:
                rows = [None if row is None else {"id": Decimal(row[0]), "balance": row[1]} for row in (before, after)]
                till.row(account, *rows)
            till.run()

        def keys():
            found = till.warehouse.current("bank.dear").rows
            return sorted((row.lost.get("id") or str(row.values["id"]), row.values["balance"]) for row in found)

        large, larger, largest, small = ("100000.00", 1), ("200000.00", 2), ("300000.00", 3), ("4.00", 4)
        change((None, large), (None, larger))
        change((None, largest), (None, small))
        assert keys() == sorted([large, larger, largest, small])
        change((large, (large[0], 10)), (larger, None), (small, (small[0], 40)))
        assert keys() == sorted([(large[0], 10), largest, (small[0], 40)])
        change((largest, ("400000.00", 5)))
        change((None, ("500000.00", -5)))
        change((None, ("600000.00", 6)))
        till.expect(table="bank.dear")
        assert till.redrive() == Redriven(redriven=1)
        last = [("500000.00", -5), ("600000.00", 6), ("400000.00", 5)]
        assert keys() == sorted([(large[0], 10), (small[0], 40), *last])

    @pytest.mark.parametrize("step", REDRIVE_STEPS)
    def test_a_redrive_that_dies_is_ended_by_the_next_run(self, simple, step):
        simple.expect(no_debt("quarantine"))
        simple.accounts((1, -500), (2, 500), (3, -1))
        simple.run()
        simple.expect()
        with pytest.raises(Death):
            simple.redrive(dies_at=step)
        simple.run()
        simple.assert_right()
        assert [row["status"] for row in simple.own("quarantine")] == ["redriven"] * 2


class TestOperationsOfALivingRun:
    @pytest.mark.slow
    def test_a_redrive_goes_by_the_suites_of_now_and_is_in_the_next_cut(self, till):
        till.expect(no_debt("quarantine"))
        till.accounts((1, 500), (2, -500))
        with till.living() as (pipeline, takes):
            takes()
            assert till.cut() == ("partial", "1 in quarantine")
            till.expect({**no_debt("quarantine"), "severity": "nonsense"})
            with pytest.raises(SettingsError, match="SUITE_INVALID"):
                pipeline.operation(REDRIVE, ["quarantine"])
            till.expect(no_debt("warn", least=-1))
            (told,) = pipeline.operation(CHECK, [])[str(NAME)]
            assert (told["severity"], told["unexpected"]) == ("warn", 0)
            assert pipeline.operation(REDRIVE, ["quarantine"])["redriven"] == 1
            till.note("later")
            takes()
            newest = max(till.own("cuts", table_name="account"), key=lambda row: row["cut_ts"])
            assert (newest["cut_ts"], newest["level"]) == (till.last_ts, "exact")
            assert len(till.warehouse.current(str(NAME), newest["snapshot_id"]).rows) == 2
            till.accounts((3, -1))
            till.note("and later")
            takes()
            assert sorted(till.balances()) == [1, 2]  # batches go by the suites of the run's start
            assert till.cut() == ("partial", "1 in quarantine")
            till.expect()
            assert pipeline.operation(REDRIVE, ["quarantine"])["redriven"] == 1
            till.note("again")
            takes()
        assert till.cut() == ("exact", "")
        till.assert_right()


class TestHold:
    def test_a_table_whose_rows_are_forbidden_waits_while_others_go_on_and_is_released_as_a_whole(self, till):
        till.accounts((1, 500))
        till.run()
        till.expect(no_debt("hold"))
        till.accounts((2, -500), (3, 100))
        till.note("second")
        till.run()
        assert till.balances() == {1: 500}
        assert len(till.warehouse.current("bank.note").rows) == 1
        waiting = len(till.own("held", status="open"))
        assert till.cut() == ("partial", f"held: bank.account ({waiting} records)")
        till.change(3, balance=4)
        till.delete(1)
        till.run()
        assert till.balances() == {1: 500}
        held = len(till.own("held", status="open"))
        assert till.release() == held > 0
        till.assert_right()
        (batch,) = till.own("batches", query_id="release of bank.account")
        assert [batch[name] for name in ("rows_in", "inserts", "updates", "deletes")] == [4, 2, 1, 1]
        assert {row["status"] for row in till.own("held")} == {"released"}
        till.run()
        till.note("third")
        till.expect()
        till.run()
        assert till.cut() == ("exact", "")
        till.assert_right()

    @pytest.mark.slow
    def test_a_statement_that_nobody_understands_holds_its_table_until_it_is_released(self, till):
        till.accounts((1, 500))
        till.puzzle()
        till.accounts((2, 500))
        till.note("first")
        till.run()
        (table,) = till.own("tables", table_name="account")
        assert table["state"] == "held"
        till.release()
        till.assert_right()
        till.accounts((3, 1))
        till.run()
        till.assert_right()

    @pytest.mark.slow
    def test_a_statement_that_holds_its_table_does_so_too_where_the_process_dies_with_it(self, simple, monkeypatch):
        simple.accounts((1, 500))
        simple.run()
        account = simple.database.table(SCHEMA, ACCOUNT.name)
        simple.say("ALTER TABLE `bank`.`account` TRUNCATE PARTITION `p`", TRUNCATE_PARTITION, account)
        simple.accounts((2, 500))
        with monkeypatch.context() as patch:
            patch.setattr(Tables, "set_state", dies)  # its layout has noted the statement by then
            with pytest.raises(Death):
                simple.run()
        simple.run()
        (table,) = simple.own("tables", table_name="account")
        assert table["state"] == "held"
        assert simple.balances() == {1: 500}
        simple.release()
        simple.assert_right()

    @pytest.mark.slow
    def test_a_table_that_is_dropped_behind_rows_that_are_forbidden_is_no_table_any_more(self, till):
        till.accounts((1, 500))
        till.note("first")
        till.run()
        till.expect(no_debt("hold"))
        till.accounts((2, -500))
        till.say("DROP TABLE `bank`.`account`", DROP_TABLE, till.database.table(SCHEMA, ACCOUNT.name))
        till.run()
        (table,) = till.own("tables", table_name="account")
        assert table["state"] == "dropped"
        assert {row["status"] for row in till.own("held")} == {"dropped"}
        assert till.balances() == {1: 500}
        assert till.cut() == ("exact", "")
        assert max(row["cut_ts"] for row in till.own("cuts")) == till.last_ts  # though no table shows anything new
        with pytest.raises(Refused, match="is not held"):
            till.release()

    @pytest.mark.slow
    @pytest.mark.parametrize("step", RELEASE_STEPS)
    def test_a_release_that_dies_is_ended_by_the_next_one_or_the_next_run(self, simple, step):
        simple.accounts((1, 500))
        simple.run()
        simple.expect(no_debt("hold"))
        simple.accounts((2, -500), (3, 100))
        simple.change(3, balance=5)
        simple.run()
        with pytest.raises(Death):
            simple.release(dies_at=step)
        simple.accounts((4, 100))
        simple.run()
        simple.assert_right()
        assert {row["status"] for row in simple.own("held")} == {"released"}


@pytest.mark.slow
def test_what_a_run_does_is_counted_and_what_waits_is_told(till):
    metrics = Metrics("till", "1.2.3")
    till.expect(no_debt("quarantine"), {**no_debt("hold", least=-1000), "name": "no_bankruptcy"})
    till.accounts((1, 500), (2, -500))
    till.note("first")
    till.run(metrics)
    told = numbers(metrics)
    assert told["changes_total", "bank.account", "insert"] == 1
    assert told["changes_total", "bank.note", "insert"] == 1
    assert told["quarantined_total", "bank.account"] == 1
    assert told["rows_in_total",] == sum(batch["rows_in"] for batch in till.own("batches"))
    assert told["last_cut_timestamp_seconds",] == physical(till.last_ts) / 1000
    assert ("table_held", "bank.account") not in told
    assert told["lag_seconds", "bank.note"] > 0
    till.accounts((3, -90000))
    till.run(metrics)
    told = numbers(metrics)
    assert told["table_held", "bank.account"] == 1
    assert ("table_held", "bank.note") not in told
    assert told["held_records_total", "bank.account"] == 1
    assert told["batches_total",] == len(till.own("batches"))
    till.expect()
    till.release()
    till.run(metrics)
    assert ("table_held", "bank.account") not in numbers(metrics)
