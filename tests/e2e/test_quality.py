"""Suites at work: what warns, what is set aside, what makes a table wait, what ends the stream; and the way back."""

import json

import pytest
import yaml
from e2e import judging
from e2e.bank import ACCOUNT, NOTE, SCHEMA, Bank
from golden.warehouse import Warehouse
from support.slow import few
from support.steps import watch

from pipeline.cli import main
from pipeline.errors import SettingsError
from pipeline.operations.redrive import Redriven, Selection, redrive
from pipeline.quality.gate import QualityStop
from pipeline.service import Pipeline
from pipeline.service.dispatch import REBUILD, REDRIVE, RELEASE
from pipeline.settings import load
from pipeline.simulate.avro import TableCodec, ddl_message
from pipeline.simulate.schemas import AvroOptions, subject_of
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable
from registry import RegistryClient, RegistryConfig

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

NO_DEBT = {
    "expect_column_values_to_be_between": {"column": "balance", "min_value": 0},
    "name": "no_debt",
    "because": "nobody overdraws",
    "owner": "tellers",
}

TWO_OWNERS = {"expect_table_row_count_to_be_between": {"max_value": 2}, "name": "two_owners"}


class Branch:
    """The bank, its warehouse, and what is expected of its accounts. Each opening reads the suites anew."""

    def __init__(self, stack, folder, **quality):
        self.folder = folder
        self.bank = Bank(stack, 5, (ACCOUNT, NOTE))
        self.bank.open()
        self.file = self.bank.settings(folder, quality={"suites": "./checks", **quality})
        (folder / "checks").mkdir()
        self.expect()
        self.note("first")

    def expect(self, *checks, **suite):
        """Write the suite of the accounts."""
        text = yaml.safe_dump({"table": "bank.account", "checks": list(checks), **suite})
        (self.folder / "checks" / "account.yaml").write_text(text)

    def accounts(self, *rows):
        """Insert accounts (id, owner, balance) or change their balance, and say that all of it was sent."""
        for number, owner, balance in rows:
            with self._transaction() as writer:
                writer.insert(SCHEMA, "account", {"id": number, "owner": owner, "balance": balance})

    def note(self, code):
        with self._transaction() as writer:
            writer.insert(SCHEMA, "note", {"code": code, "text": "a table that nothing is expected of"})

    def _transaction(self):
        return _Transaction(self.bank)

    def change(self, number, **values):
        with self._transaction() as writer:
            writer.update(SCHEMA, "account", (number,), values)

    def delete(self, number):
        with self._transaction() as writer:
            writer.delete(SCHEMA, "account", (number,))

    def rename(self, name):
        """RENAME TABLE: the message goes to the topic of the old name and names the new one."""
        moment = self.bank.database.commit(self.bank.database.begin()).commit_ts
        sql = f"RENAME TABLE `bank`.`account` TO `bank`.`{name}`"
        message = ddl_message(sql, 14, SCHEMA, name, moment)
        self.bank.feed._channel.broadcast(self.bank.topic(ACCOUNT), message)

    def run(self):
        self.bank.checkpoint()
        with Pipeline.open(load(self.file)) as pipeline:
            pipeline.run(available_now=True)

    def redrive(self, dies_at="", **selection):
        with Pipeline.open(load(self.file)) as pipeline:
            if dies_at:
                watch(pipeline, lambda step: _die(step, dies_at))
            return redrive(pipeline.context, Selection(**selection))

    @property
    def warehouse(self):
        return Warehouse.at(self.folder / "warehouse")

    def own(self, name, **like):
        rows = self.warehouse.own(name)
        return [row for row in rows if all(row[column] == value for column, value in like.items())]

    def balances(self):
        table = self.warehouse.current("bank.account")
        return {row.values["id"]: row.values["balance"] for row in table.rows}

    def assert_right(self, *, complete=True):
        sentences = [
            *(judging.untrue(self.bank, self.warehouse) if complete else ()),
            *judging.placed_twice(self.warehouse),
            *judging.astray(self.bank, self.warehouse),
            *judging.unaccounted(self.bank, self.warehouse),
        ]
        assert not sentences, "\n".join(sentences[:20])
        assert {name: found for name, found in self.warehouse.branches().items() if found - {"main"}} == {}


class _Death(BaseException):
    """The end of the process: nothing behind it is done."""


def _die(step, wanted):
    if step == wanted:
        raise _Death


class _Transaction:
    def __init__(self, bank):
        self.bank = bank

    def __enter__(self):
        self.writer = self.bank.database.begin()
        return self.writer

    def __exit__(self, *_):
        transaction = self.bank.database.commit(self.writer)
        self.bank.feed.send(transaction)
        self.bank.last_ts = transaction.commit_ts


@pytest.fixture
def branch(stack, tmp_path):
    made = Branch(stack, tmp_path)
    yield made
    made.bank.close()


class TestVerdicts:
    @pytest.mark.slow
    def test_warn_records_and_takes_nothing(self, branch):
        branch.expect({**NO_DEBT, "severity": "warn"}, private=["owner"])
        branch.accounts((1, "Ada", 500), (2, "Bob", -500))
        branch.run()
        branch.assert_right()
        (result,) = branch.own("quality_results", rule="no_debt")
        assert (result["evaluated"], result["unexpected"], result["success"]) == (2, 1, False)
        assert (result["severity"], result["engine"], result["table_name"]) == ("warn", "compiled", "account")
        sample = json.loads(result["sample"])
        assert sample["because"] == "nobody overdraws"
        assert sample["owner"] == "tellers"
        (row,) = sample["rows"]
        assert (row["key"], row["values"]) == ({"id": "2"}, {"balance": "-500.00"})

    def test_quarantine_sets_the_row_aside_with_its_bytes_and_reasons(self, branch):
        branch.expect({**NO_DEBT, "severity": "quarantine"})
        branch.accounts((1, "Ada", 500), (2, "Bob", -500), (3, "Cyd", -1))
        branch.delete(1)
        branch.run()
        branch.assert_right(complete=False)
        assert branch.balances() == {}
        rows = sorted(branch.own("quarantine"), key=lambda row: row["key_values"])
        assert [json.loads(row["key_values"]) for row in rows] == [{"id": "2"}, {"id": "3"}]
        assert {(*row["rules"], row["status"], row["code"]) for row in rows} == {("no_debt", "open", "QUARANTINED")}
        assert rows[0]["message"] == "no_debt: balance = -500.00"
        assert all(row["key"] and row["value"] and row["fingerprint"] and row["commit_ts"] for row in rows)

    @pytest.mark.slow
    def test_a_delete_is_never_stopped(self, branch):
        branch.accounts((1, "Ada", -500))
        branch.run()
        branch.expect({**NO_DEBT, "severity": "quarantine"})
        branch.delete(1)
        branch.run()
        branch.assert_right()
        assert branch.own("quarantine") == []

    def test_hold_makes_the_table_wait_and_the_others_go_on(self, branch):
        branch.accounts((1, "Ada", 500))
        branch.run()
        branch.expect({**NO_DEBT, "severity": "hold"})
        branch.accounts((2, "Bob", -500), (3, "Cyd", 100))
        branch.note("second")
        branch.run()
        branch.assert_right(complete=False)
        assert list(branch.balances()) == [1]
        assert len(branch.warehouse.current("bank.note").rows) == 2
        (table,) = branch.own("tables", table_name="account")
        assert table["state"] == "held"
        assert "no_debt" in table["held_reason"]
        assert len(branch.own("held", status="open")) == 2

    def test_fail_ends_the_stream_before_anything_is_committed(self, branch):
        branch.accounts((1, "Ada", 500))
        branch.run()
        branch.expect({**NO_DEBT, "severity": "fail"})
        branch.accounts((2, "Bob", -500))
        with pytest.raises(QualityStop, match="no_debt"):
            branch.run()
        assert list(branch.balances()) == [1]
        assert [row["success"] for row in branch.own("quality_results", rule="no_debt")] == [False]
        branch.expect({**NO_DEBT, "severity": "warn"})
        branch.run()
        branch.assert_right()

    @pytest.mark.slow
    def test_a_whole_table_that_breaks_a_check_ends_a_run_whose_rows_are_in(self, branch):
        branch.expect({**TWO_OWNERS, "severity": "fail"})
        branch.accounts((1, "Ada", 5), (2, "Bob", 5), (3, "Cyd", 5))
        with pytest.raises(QualityStop, match=r"bank\.account as a whole: two_owners: ") as ended:
            branch.run()
        assert "nothing of this batch" not in ended.value.message
        assert "the rows are in the table already" in ended.value.hint
        assert sorted(branch.balances()) == [1, 2, 3]
        branch.run()  # nothing came: nothing is looked at
        branch.assert_right()

    @pytest.mark.slow
    def test_a_whole_table_that_breaks_a_check_waits_from_then_on(self, branch):
        branch.expect({**TWO_OWNERS, "severity": "hold"})
        branch.accounts((1, "Ada", 5), (2, "Bob", 5), (3, "Cyd", 5))
        branch.run()
        assert sorted(branch.balances()) == [1, 2, 3]
        (table,) = branch.own("tables", table_name="account")
        assert (table["state"], "two_owners" in table["held_reason"]) == ("held", True)
        branch.delete(3)
        branch.run()
        assert sorted(branch.balances()) == [1, 2, 3]
        with Pipeline.open(load(branch.file)) as pipeline:
            pipeline.operation(RELEASE, ["bank", "account"])
        branch.run()
        assert sorted(branch.balances()) == [1, 2]
        branch.assert_right()

    @pytest.mark.slow
    def test_a_run_that_is_stopped_on_its_way_judges_no_whole_table(self, branch):
        branch.expect({**TWO_OWNERS, "severity": "hold"})
        branch.accounts((1, "Ada", 5), (2, "Bob", 5), (3, "Cyd", 5))
        with Pipeline.open(load(branch.file), listener=lambda *_: pipeline.stop()) as pipeline:
            pipeline.run(available_now=True)
        assert sorted(branch.balances()) == [1, 2, 3]
        assert [row["state"] for row in branch.own("tables", table_name="account")] == ["live"]
        assert branch.own("quality_results", rule="two_owners") == []

    @pytest.mark.slow
    def test_a_table_is_held_where_most_of_a_batch_would_be_set_aside(self, stack, tmp_path):
        branch = Branch(stack, tmp_path, quarantine_rows=3, quarantine_share=0.5)
        branch.expect({**NO_DEBT, "severity": "quarantine"})
        branch.accounts(*((number, f"o{number}", -1) for number in range(1, 5)), (9, "Ada", 1))
        branch.run()
        (table,) = branch.own("tables", table_name="account")
        assert table["held_reason"] == "QUARANTINE_LIMIT: 4 of 5 rows would be set aside (no_debt)"
        assert (branch.own("quarantine"), len(branch.own("held"))) == ([], 5)
        branch.assert_right(complete=False)
        branch.bank.close()

    def test_great_expectations_judges_what_does_not_compile(self, branch):
        """Aggregates of a batch before main sees it; what is unique, and what another table has, on whole tables."""
        branch.expect(
            {"expect_column_mean_to_be_between": {"column": "balance", "max_value": 1000}, "severity": "hold"},
            {"expect_column_values_to_be_unique": {"column": "balance"}, "name": "one_each"},
            {
                "unexpected_rows_expectation": {
                    "unexpected_rows_query": "SELECT * FROM {batch} LEFT ANTI JOIN warehouse.bank.note ON code = owner"
                },
                "name": "has_a_note",
            },
        )
        branch.note("second")
        branch.accounts((1, "first", 500), (2, "second", 500))
        branch.run()
        results = {row["rule"]: (row["engine"], row["success"]) for row in branch.own("quality_results", engine="gx")}
        assert results == {
            "mean_to_be_between(balance)": ("gx", True), "one_each": ("gx", False), "has_a_note": ("gx", True),
        }  # fmt: skip
        branch.accounts((3, "Cyd", 900_000))
        branch.run()
        (table,) = branch.own("tables", table_name="account")
        assert (table["state"], sorted(branch.balances())) == ("held", [1, 2])
        branch.assert_right(complete=False)

    @pytest.mark.slow
    def test_a_suite_that_makes_no_sense_stops_the_start(self, branch):
        branch.expect({"expect_column_values_to_be_betwen": {"column": "balance"}}, NO_DEBT)
        with pytest.raises(SettingsError, match=r"account.yaml:2:3.*expect_column_values_to_be_between"):
            branch.run()


class TestRedrive:
    def test_rows_come_back_when_the_suite_is_mended(self, branch):
        branch.expect({**NO_DEBT, "severity": "quarantine"})
        branch.accounts((1, "Ada", 500), (2, "Bob", -500), (3, "Cyd", -90000))
        branch.run()
        assert sorted(branch.balances()) == [1]
        mended = {**NO_DEBT, "expect_column_values_to_be_between": {"column": "balance", "min_value": -1000}}
        branch.expect({**mended, "severity": "quarantine"})
        assert branch.redrive() == Redriven(redriven=1, open=1)
        assert sorted(branch.balances()) == [1, 2]
        branch.assert_right(complete=False)
        branch.expect()
        assert branch.redrive(rule="another") == Redriven(open=0)
        assert branch.redrive(rule="no_debt") == Redriven(redriven=1)
        assert branch.redrive() == Redriven()
        branch.assert_right()
        branch.run()
        branch.assert_right()

    @pytest.mark.slow
    def test_what_is_older_than_its_key_is_superseded(self, branch):
        branch.accounts((1, "Ada", 500), (2, "Bob", 500), (3, "Cyd", 500), (4, "Dee", 1))
        branch.run()
        branch.expect({**NO_DEBT, "severity": "quarantine"})
        for number in (1, 2, 3, 4):
            branch.change(number, balance=-number)
        branch.run()
        branch.delete(1)
        branch.change(2, balance=7)
        branch.change(3, id=30, balance=9)
        branch.run()
        branch.expect()
        assert branch.redrive() == Redriven(redriven=1, superseded=3)
        branch.assert_right()
        assert sorted(row["status"] for row in branch.own("quarantine")) == ["redriven", *["superseded"] * 3]

    @pytest.mark.slow
    def test_a_column_that_came_in_between_shows_its_default(self, branch):
        branch.expect({**NO_DEBT, "severity": "quarantine"})
        branch.accounts((1, "Ada", -500), (2, "Bob", 500))
        branch.run()
        branch.bank.add_column()
        branch.change(2, balance=6)
        branch.run()
        branch.expect()
        assert branch.redrive() == Redriven(redriven=1)
        branch.assert_right()

    @pytest.mark.parametrize("step", few("redrive-appended", "redrive-begun", "redrive-quarantined", "redrive-marked"))
    def test_one_that_dies_is_ended_by_the_next_run(self, branch, step):
        branch.expect({**NO_DEBT, "severity": "quarantine"})
        branch.accounts((1, "Ada", -500), (2, "Bob", 500), (2_000, "Cyd", -1))
        branch.run()
        branch.expect()
        with pytest.raises(_Death):
            branch.redrive(dies_at=step)
        branch.run()
        branch.assert_right()
        assert [row["status"] for row in branch.own("quarantine")] == ["redriven"] * 2

    @pytest.mark.slow
    def test_later_changes_of_a_quarantined_key_wait_behind_it_by_policy(self, stack, tmp_path):
        branch = Branch(stack, tmp_path, fenced="hold")
        branch.expect({**NO_DEBT, "severity": "quarantine"})
        branch.accounts((1, "Ada", -500), (2, "Bob", -500), (3, "Cyd", 5))
        for number in (1, 2, 3):
            branch.change(number, balance=6)
        branch.run()
        branch.change(1, balance=7)
        branch.delete(2)
        branch.run()
        assert branch.balances() == {3: 6}
        assert sorted(row["code"] for row in branch.own("quarantine")) == ["FENCED"] * 3 + ["QUARANTINED"] * 2
        branch.assert_right(complete=False)
        assert branch.redrive(since="2999-01-01T00:00:00") == Redriven(open=0)
        assert branch.redrive() == Redriven(superseded=2, open=3)  # its delete came after what is known of the second
        branch.expect()
        assert branch.redrive(rule="no_debt") == Redriven(redriven=3)
        branch.assert_right()
        branch.bank.close()

    @pytest.mark.slow
    def test_a_key_that_was_changed_and_a_table_that_was_renamed_take_their_rows_back(self, branch):
        branch.accounts((1, "Ada", 500), (2, "Bob", 500))
        branch.run()
        branch.expect({**NO_DEBT, "severity": "quarantine"})
        branch.change(1, id=10, balance=-1)  # the delete of the old key passes, the row under its new one does not
        branch.run()
        assert branch.balances() == {2: 500}
        branch.rename("konto")
        branch.run()
        assert [row["table_name"] for row in branch.own("quarantine")] == ["konto"]
        branch.expect()
        assert branch.redrive(schema="bank", table="konto") == Redriven(redriven=1)
        rows = branch.warehouse.current("bank.konto").rows
        assert {row.values["id"]: row.values["balance"] for row in rows} == {2: 500, 10: -1}

    @pytest.mark.slow
    def test_dead_letters_come_back_when_their_schema_does(self, branch):
        table = SimulatedTable("bank", "late", (SimulatedColumn("id", "bigint", nullable=False),), primary_key=("id",))
        codec, topic = TableCodec(table, AvroOptions()), branch.bank.topic(table)
        with RegistryClient(RegistryConfig(branch.bank.stack.registry_url)) as registry:
            key = registry.register(subject_of(topic, "key"), codec.key_schema)
            topics = branch.bank.feed._channel
            topics.partitions(topic)  # makes it
            for number in (1, 2):
                value = codec.value({"id": number}, key + 1, "c", branch.bank.last_ts)
                topics.send(topic, 0, codec.key({"id": number}, key), value)
            topics.flush()
            branch.run()
            assert [row["code"] for row in branch.own("dead_letters")] == ["SCHEMA_NOT_FOUND"] * 2
            assert branch.redrive(what="dead_letters") == Redriven(open=2)
            assert registry.register(subject_of(topic, "value"), codec.value_schema) == key + 1
        assert branch.redrive(what="dead_letters") == Redriven(redriven=2)
        assert sorted(row.values["id"] for row in branch.warehouse.current("bank.late").rows) == [1, 2]
        assert branch.redrive(what="dead_letters") == Redriven()


class TestOperationsOfALivingRun:
    @pytest.mark.slow
    def test_what_a_redrive_a_release_and_a_rebuild_have_published_is_in_the_next_cut(self, branch):
        branch.expect({**NO_DEBT, "severity": "quarantine"})
        branch.accounts((1, "Ada", 500), (2, "Bob", -500))
        account = ["bank", "account"]
        with Pipeline.open(load(branch.file)) as pipeline:

            def shown():
                """The accounts that the newest cut shows, when another table has gone on."""
                branch.note(f"note {branch.bank.last_ts}")
                branch.bank.checkpoint()
                pipeline.run(available_now=True)
                newest = max(branch.own("cuts", table_name="account"), key=lambda row: row["cut_ts"])
                assert newest["cut_ts"] == branch.bank.last_ts
                rows = branch.warehouse.current("bank.account", newest["snapshot_id"]).rows
                return [row.values["id"] for row in rows]

            assert shown() == [1]
            branch.expect()
            pipeline.operation(REDRIVE, ["quarantine"])
            assert sorted(shown()) == [1, 2]
            branch.bank.puzzle(ACCOUNT)
            branch.accounts((3, "Cyd", 5))
            branch.bank.checkpoint()
            pipeline.run(available_now=True)
            pipeline.operation(RELEASE, account)
            assert sorted(shown()) == [1, 2, 3]
            pipeline.operation(REBUILD, account)
            assert sorted(shown()) == [1, 2, 3]
        branch.assert_right()


class TestCommands:
    def test_what_was_set_aside_is_listed_shown_and_sent_on_its_way_again(self, branch, capsys):
        branch.expect({**NO_DEBT, "severity": "quarantine"}, private=["owner"])
        branch.accounts((1, "Ada", -500), (2, "Bob", -7), (3, "Cyd", 7))
        branch.run()

        def said(*words):
            capsys.readouterr()
            code = main([*words, "-c", str(branch.file), "--output", "json"])
            return code, json.loads(capsys.readouterr().out)

        code, listed = said("quarantine", "list")
        assert (code, listed["records"]) == (0, 2)
        (group,) = listed["quarantine"]
        assert (group["table"], group["reason"], group["records"]) == ("bank.account", "no_debt", 2)
        code, shown = said("quarantine", "show", "--table", "bank.account", "--rule", "no_debt", "--limit", "1")
        assert (code, shown["records"], len(shown["quarantine"])) == (0, 2, 1)
        assert said("quarantine", "list", "--since", "2999-01-01")[1] == {"records": 0, "quarantine": []}
        assert said("quarantine", "redrive")[1] == {
            "redriven": 0,
            "superseded": 0,
            "quarantined": 0,
            "open": 2,
            "exchanged": 0,
        }
        code, checked = said("checks", "run")
        assert (code, checked["passed"], checked["failed"]) == (0, 1, 0)
        assert [(one["table"], one["rule"], one["success"]) for one in checked["checks"]] == [
            ("bank.account", "no_debt", True)
        ]
        branch.expect({**NO_DEBT, "severity": "warn"})
        done = said("quarantine", "redrive", "--table", "bank.account", "--rule", "no_debt", "--since", "1 day")
        assert done == (0, {"redriven": 2, "superseded": 0, "quarantined": 0, "open": 0, "exchanged": 0})
        branch.assert_right()
        assert said("quarantine", "list")[1]["records"] == 0
        code, checked = said("checks", "run", "bank.account")
        assert (code, checked["failed"]) == (0, 1)  # it warns
        branch.expect({**NO_DEBT, "severity": "hold"})
        code, checked = said("checks", "run")
        assert (code, [one["success"] for one in checked["checks"]]) == (1, [False])
        code, validated = said("checks", "validate")
        assert (code, validated["checks"], validated["errors"]) == (0, 1, 0)
