"""What users change about the tables of a warehouse: what they may, and what holds one table until it is undone."""

import re
from decimal import Decimal

import pytest
from e2e.bank import ACCOUNT, NOTE, SCHEMA, Bank
from e2e.till import NAME, Till
from golden.warehouse import Warehouse
from support.slow import few

from pipeline.cli.checkup import warehouse as checkup
from pipeline.errors import Refused
from pipeline.lake import table_metadata
from pipeline.lake.catalog import reader
from pipeline.model.names import TableName
from pipeline.operations.release import release
from pipeline.runtime.session import session
from pipeline.service import Pipeline
from pipeline.service.dispatch import MAINTAIN, REBUILD
from pipeline.settings import load
from pipeline.simulate.tables import SimulatedColumn
from pipeline.warehouse.alterations import COLUMNS_CHANGED

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

CURRENT, CHANGES = "`warehouse`.`bank`.`account`", "`warehouse`.`bank`.`account__changes`"
UPDATE = {table: f"UPDATE {table}" for table in (CURRENT, CHANGES)}
FEW_DEBTS = {
    "expect_column_values_to_be_between": {"column": "balance", "min_value": 0},
    "name": "no_debt",
    "severity": "quarantine",
}


@pytest.fixture
def till(stack, tmp_path):
    made = Till(stack, tmp_path, "simple")
    yield made
    made.feed.close()


def sql(file, *statements):
    """What a user does, with a session of their own."""
    spark = session(load(file))
    for statement in statements:
        spark.sql(statement)


def rows(till, name):
    return {row["id"]: row for row in till.warehouse.table(name).scan().to_arrow().to_pylist()}


def assert_right(till):
    """The accounts are the source's, whatever columns users have beside them."""
    want = {row["id"]: row for row in till.database.rows(SCHEMA, ACCOUNT.name)}
    have = rows(till, "bank.account")
    assert {number: {name: row[name] for name in want.get(number, {})} for number, row in have.items()} == want
    assert all(refs <= {"main", "mine"} for refs in till.warehouse.branches().values())


def state(till, name=NAME.table):
    return next((row["state"], row["held_reason"]) for row in till.own("tables") if row["table_name"] == name)


def undone(reason):
    """The statements that a sentence gives."""
    return re.split(r"; (?=ALTER)", reason.partition("to undo it: ")[2])


ALLOWED = [
    "ALTER TABLE {} ADD COLUMN reviewed boolean",
    "ALTER TABLE {} ADD COLUMN by struct<who: string, at: timestamp> AFTER id",
    "ALTER TABLE {} ALTER COLUMN balance AFTER id",
    "ALTER TABLE {} ALTER COLUMN owner COMMENT 'who has it'",
    "ALTER TABLE {} SET TBLPROPERTIES ('write.parquet.compression-codec' = 'snappy', 'mine' = 'yes')",
    "ALTER TABLE {} ADD PARTITION FIELD bucket(4, id)",
    "ALTER TABLE {} WRITE ORDERED BY owner DESC",
    "ALTER TABLE {} CREATE TAG mine",
]


class TestWhatUsersMay:
    @pytest.mark.slow
    def test_alter_goes_on_with_their_columns_null_in_new_rows(self, till):
        till.accounts((1, 100), (2, 200), (3, 300))
        till.run()
        sql(till.file, *(one.format(table) for table in (CURRENT, CHANGES) for one in ALLOWED))
        sql(till.file, *(f"{UPDATE[table]} SET reviewed = true WHERE id = 2" for table in (CURRENT, CHANGES)))
        till.accounts((4, 400))
        till.change(1, balance=110)
        till.delete(3)
        till.run()
        assert_right(till)
        assert state(till) == ("live", "")
        assert {number: row["reviewed"] for number, row in rows(till, "bank.account").items()} == {
            1: None, 2: True, 4: None
        }  # fmt: skip
        found = till.warehouse.changes()["bank.account"]
        assert {row["reviewed"] for row in found if row["id"] == 2} == {True}
        assert {row["reviewed"] for row in found if row["id"] != 2} == {None}
        till.feed.send(
            till.database.add_column(SCHEMA, ACCOUNT.name, SimulatedColumn("branch", "varchar(20)", default="main"))
        )
        till.accounts((5, 500))
        with till.living() as (pipeline, takes):
            takes()
            assert_right(till)
            pipeline.operation(MAINTAIN, ["bank.account", "bank.account__changes"])
            pipeline.operation(REBUILD, [SCHEMA, ACCOUNT.name])
            assert_right(till)
            till.accounts((6, 600))
            takes()
        assert_right(till)
        assert {row["reviewed"] for row in rows(till, "bank.account").values()} == {None}  # built again, they are new
        assert till.warehouse.table("bank.account").refs()["mine"]

    def test_add_is_said_once(self, till, caplog):
        till.accounts((1, 100))
        till.run()
        sql(till.file, f"ALTER TABLE {CHANGES} ADD COLUMN reviewed boolean")
        for number in (2, 3):
            till.accounts((number, 100))
            till.run()
        said = [record for record in caplog.records if "not ours" in str(record.msg)]
        assert len(said) == 1
        findings = [str(finding) for finding in checkup.examined(load(till.file))]
        assert any(
            "bank.account has 1 column that the pipeline did not make: bank.account__changes.reviewed" in f
            for f in findings
        )
        pair = table_metadata.pair_named(reader(load(till.file)), str(NAME))
        assert table_metadata.described(pair)["not ours"] == ["bank.account__changes.reviewed"]
        assert table_metadata.others(pair) == [("reviewed", "boolean", *[None] * 5, "not ours")]

    @pytest.mark.slow
    def test_sort_without_a_change_of_any_count(self, till):
        till.expect(FEW_DEBTS)
        till.accounts((0, 1))
        till.run()
        sql(till.file, f"ALTER TABLE {CHANGES} WRITE ORDERED BY balance")
        till.accounts(*((number, number * (-1 if number % 5 == 0 else 1)) for number in range(1, 23)))
        till.run()
        batch = max(till.own("batches"), key=lambda row: row["batch_id"])
        assert (batch["inserts"], batch["quarantined"]) == (18, 4)
        result = next(r for r in till.own("quality_results", rule="no_debt") if r["batch_id"] == batch["batch_id"])
        assert (result["evaluated"], result["unexpected"]) == (22, 4)
        assert len(till.own("quarantine")) == 4


FAULTS = {
    "renamed in current": (CURRENT, ["RENAME COLUMN balance TO money"]),
    "renamed in changes": (CHANGES, ["RENAME COLUMN balance TO money"]),
    "dropped in changes": (CHANGES, ["DROP COLUMN balance"]),
    "retyped in current": (CURRENT, ["ALTER COLUMN balance TYPE decimal(20,2)"]),
    "retyped in changes": (CHANGES, ["ALTER COLUMN balance TYPE decimal(20,2)"]),
    "of the row before": (CHANGES, ["RENAME COLUMN _before.balance TO money"]),
    "ours": (CHANGES, ["RENAME COLUMN _op TO op"]),
    "ours of places": (CHANGES, ["RENAME COLUMN _offset TO at", "RENAME COLUMN _batch_id TO batch"]),
    "ours of times": (CHANGES, ["RENAME COLUMN _commit_ts TO ts"]),
    "ours in current": (CURRENT, ["RENAME COLUMN _commit_ts TO ts"]),
}


class TestWhatHoldsATable:
    @pytest.mark.parametrize("fault", few(*FAULTS))
    def test_until_it_is_undone_while_others_go_on(self, till, fault):
        table, statements = FAULTS[fault]
        till.accounts((1, 100), (2, 200))
        till.note("a")
        till.run()
        sql(till.file, *(f"ALTER TABLE {table} {statement}" for statement in statements))
        till.accounts((3, 300))
        till.change(1, balance=110)
        till.note("b")
        till.run()
        held, reason = state(till)
        assert held == "held"
        assert reason.startswith(f"{COLUMNS_CHANGED}: ")
        findings = [finding for finding in checkup.examined(load(till.file)) if reason in finding.sentence]
        assert [finding.todo for finding in findings] == [
            f"run these statements in Spark SQL, then: ticdc-warehouse tables release {NAME}"
        ]
        assert {row.values["code"] for row in till.warehouse.current("bank.note").rows} == {"a", "b"}
        with pytest.raises(Refused, match="was not released") as refused:
            till.release()
        assert refused.value.code == COLUMNS_CHANGED
        assert refused.value.hint == f"run this in Spark SQL first: {'; '.join(undone(reason))}"
        till.run()
        sql(till.file, *undone(reason))
        assert till.release() == 2
        assert state(till) == ("live", "")
        till.accounts((4, 400))
        till.run()
        till.assert_right()
        with Pipeline.open(load(till.file)) as pipeline:
            pipeline.operation(REBUILD, [SCHEMA, ACCOUNT.name])
        till.assert_right()
        found = till.warehouse.changes()["bank.account"]
        assert {row["id"]: row["balance"] for row in found if row["_op"] == "insert"} == {
            number: Decimal(100 * number) for number in range(1, 5)
        }

    @pytest.mark.slow
    def test_is_noticed_by_a_run_that_lives(self, till):
        till.accounts((1, 100))
        with till.living() as (pipeline, takes):
            takes()
            pipeline.context.spark.sql(f"ALTER TABLE {CURRENT} RENAME COLUMN balance TO money")
            pipeline.context.spark.sql("ALTER TABLE warehouse.bank.note__changes ADD COLUMN mine int")
            till.accounts((2, 200))
            till.note("a")
            takes()
            held, reason = state(till)
            assert held == "held"
            with pytest.raises(Refused, match="was not built again") as refused:
                pipeline.operation(REBUILD, [SCHEMA, ACCOUNT.name])
            assert refused.value.code == COLUMNS_CHANGED
            for statement in undone(reason):
                pipeline.context.spark.sql(statement)
            assert release(pipeline.context, NAME) == 1
            till.accounts((3, 300))
            takes()
        till.assert_right()

    @pytest.mark.slow
    def test_where_the_source_needs_the_name_of_a_users_column(self, till):
        till.accounts((1, 100))
        till.run()
        sql(till.file, f"ALTER TABLE {CURRENT} ADD COLUMN branch int", f"{UPDATE[CURRENT]} SET branch = 7")
        till.feed.send(
            till.database.add_column(SCHEMA, ACCOUNT.name, SimulatedColumn("branch", "varchar(20)", default="main"))
        )
        till.accounts((2, 200))
        till.note("a")
        till.run()
        held, reason = state(till)
        assert held == "held"
        assert undone(reason) == [f"ALTER TABLE {CURRENT} RENAME COLUMN `branch` TO `branch_2`"]
        with pytest.raises(Refused, match="was not released"):
            till.release()
        sql(till.file, *undone(reason))
        till.release()
        till.accounts((3, 300))
        till.run()
        assert state(till) == ("live", "")
        found = rows(till, "bank.account")
        assert {number: row["branch"] for number, row in found.items()} == {1: "main", 2: "main", 3: "main"}
        assert found[1]["branch_2"] == 7


class TestThePipelinesOwn:
    @pytest.mark.slow
    def test_tables_take_columns_of_users_and_say_what_is_missing(self, till):
        till.accounts((1, 100))
        till.run()
        own = "warehouse._pipeline"
        sql(till.file, *(f"ALTER TABLE {own}.{name} ADD COLUMN mine int" for name in ("batches", "tables", "cuts")))
        sql(till.file, f"ALTER TABLE {own}.batches WRITE ORDERED BY seconds")
        till.accounts((2, 200))
        till.run()
        till.assert_right()
        sql(till.file, f"ALTER TABLE {own}.held RENAME COLUMN reason TO why")
        with pytest.raises(Refused, match=r"the column reason of .* is now called why") as refused:
            till.run()
        assert refused.value.code == COLUMNS_CHANGED
        sql(till.file, refused.value.hint.removeprefix("run this in Spark SQL: "))
        till.run()


class TestByOffset:
    @pytest.mark.slow
    def test_columns_of_users_stay_and_ours_hold_the_table(self, stack, tmp_path):
        bank = Bank(stack, 7, (ACCOUNT, NOTE), watermarks=False)
        bank.open()
        file = bank.settings(tmp_path)
        bank.rounds(5)

        def run():
            with Pipeline.open(load(file)) as pipeline:
                pipeline.run(available_now=True)

        run()
        sql(file, *(f"ALTER TABLE {table} ADD COLUMN reviewed boolean" for table in (CURRENT, CHANGES)))
        sql(file, f"ALTER TABLE {CHANGES} WRITE ORDERED BY owner")
        bank.rounds(5)
        run()
        sql(file, f"ALTER TABLE {CHANGES} DROP COLUMN balance")
        bank.rounds(5)
        run()
        found = Warehouse.at(tmp_path / "warehouse")
        _, reason = next((row["state"], row["held_reason"]) for row in found.own("tables") if row["state"] == "held")
        sql(file, *undone(reason))
        with Pipeline.open(load(file)) as pipeline:
            assert release(pipeline.context, TableName(SCHEMA, ACCOUNT.name)) > 0
        bank.rounds(5)
        run()
        with Pipeline.open(load(file)) as pipeline:
            pipeline.operation(REBUILD, [SCHEMA, ACCOUNT.name])
        for table in (ACCOUNT, NOTE):
            want = {row[table.primary_key[0]]: row for row in bank.truth(table)}
            have = {row.values[table.primary_key[0]]: row.values for row in found.current(table.full_name).rows}
            assert [{k: v for k, v in have[key].items() if k != "reviewed"} for key in want] == list(want.values())
            assert have.keys() == want.keys()
        bank.close()
