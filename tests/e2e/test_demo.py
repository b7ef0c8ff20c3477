"""The demo as a newcomer sees it: one command, then whatever it says one can paste."""

# ruff: noqa: RUF001 - the minus sign of the batch lines is one on purpose

import html
import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest
from golden.warehouse import Warehouse

from pipeline.cli import demo as command
from pipeline.cli.progress import Progress
from pipeline.demo import SENT, Stretch, checks, compare, from_kafka, quarantined_keys, recall, remember
from pipeline.devstack import Devstack
from pipeline.errors import EnvironmentFault, PipelineError
from pipeline.model.names import TableName
from pipeline.quality.suites import Severity, load
from pipeline.simulate import SimulatedColumn, SimulatedTable

ROOT = Path(__file__).parents[2]
TABLES = ("shop.customers", "shop.products", "shop.orders", "shop.order_items", "shop.payments")


class Played:
    """One demo in a folder of its own, and a shell that stands where it was called."""

    def __init__(self, folder, *words):
        self.folder = folder
        started = time.monotonic()
        self.said = self.call(f"{sys.executable} -m pipeline demo {' '.join(words)}")
        self.seconds = time.monotonic() - started

    def call(self, line):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        words = ["bash", "-c", line]
        return subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def verdicts(self):
        """What the demo says of each table: its name, the rows set aside, how it compares."""
        lines = re.findall(r"^(shop\.\w+) +\d+ +\d+ +(\d+)  (\w.*)$", self.said.stdout, re.MULTILINE)
        return [(table, int(aside), verdict) for table, aside, verdict in lines]

    def results(self):
        """Batch → what the suites' rules said of it, but for one that is broken by chance."""
        found = defaultdict(dict)
        for row in Warehouse.at(self.folder / ".demo" / "warehouse").own("quality_results"):
            if not row["rule"].startswith("builtin:") and row["rule"] != "no_credit":
                found[row["batch_id"]][row["rule"]] = (row["engine"], row["success"])
        return dict(found)

    def pasted(self, word):
        """The command of the invitation that has this word in it, heredoc and all."""
        invitation = self.said.stdout.partition("look around:")[2]
        commands = re.findall(r"^(\S[^\n]*<<'END'\n.*?^END|\S[^\n]*)$", invitation, re.MULTILINE | re.DOTALL)
        return next(line for line in commands if word in line)


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "protocol"),
    [(source, protocol) for source, possible in SENT.items() for protocol in possible if protocol != "avro"],
)
def test_whatever_the_changefeed_sends_every_row_equals_the_source(tmp_path, source, protocol):
    played = Played(tmp_path, "--source", source, "--protocol", protocol)
    assert played.said.returncode == 0, played.said.stderr
    assert "every row of every table equals the source" in played.said.stdout
    assert {table for table, _, _ in played.verdicts()} == set(TABLES)
    letters = Warehouse.at(tmp_path / ".demo" / "warehouse").own("dead_letters")
    assert len(letters) == 3


def test_a_changefeed_to_storage_sends_no_avro(tmp_path):
    played = Played(tmp_path, "--source", "storage", "--protocol", "avro")
    assert played.said.returncode != 0
    assert "DEMO_PROTOCOL: a changefeed to storage sends no avro" in played.said.stderr
    assert "one of: csv, canal-json" in played.said.stderr


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    return Played(tmp_path_factory.mktemp("demo"))


@pytest.mark.e2e
@pytest.mark.spark
class TestDemo:
    def test_it_ends_with_every_row_equal_to_the_source(self, played):
        assert played.said.returncode == 0, played.said.stderr
        assert "every row of every table equals the source" in played.said.stdout
        assert [(table, verdict) for table, _, verdict in played.verdicts()] == [
            (table, "equal but for these" if table == "shop.orders" else "equal") for table in TABLES
        ]

    def test_it_says_how_many_rows_it_did_not_compare(self, played):
        (aside,) = (aside for table, aside, _ in played.verdicts() if table == "shop.orders")
        proof = re.search(r"except (\d+) that were set aside: ([\d,]+) of ([\d,]+) rows of 5", played.said.stdout)
        named, compared, rows = (int(number.replace(",", "")) for number in proof.groups())
        assert (named, compared) == (aside, rows - aside)
        assert 0 < aside < 100

    def test_it_shows_what_was_set_aside_by_rule(self, played):
        for rule, example in (("known_currency", r"currency = \?\?\?"), ("total_not_negative", r"total = -[\d.]+")):
            assert re.search(rf"^{rule} +shop\.orders +\d+ +{rule}: {example}$", played.said.stdout, re.MULTILINE)
        assert re.search(r"^batch 0  shop\.orders .* quarantined \d+ ", played.said.stdout, re.MULTILINE)

    def test_no_row_that_breaks_such_a_rule_is_in_its_table(self, played):
        rows = Warehouse.at(played.folder / ".demo" / "warehouse").current("shop.orders").rows
        assert {row.values["currency"] for row in rows} <= {"EUR", "USD", "JPY", "GBP"}
        assert min(row.values["total"] for row in rows) >= 0

    def test_each_check_is_recorded_and_what_warns_was_broken(self, played):
        for batch, engines in played.results().items():
            assert engines == {
                "total_not_negative": ("compiled", False), "known_currency": ("compiled", False),
                "placed_in_our_time": ("compiled", False), "email_is_an_address": ("compiled", True),
                "one_account_per_email": ("gx", True),
            }, batch  # fmt: skip

    def test_it_ends_with_the_report_whose_verdict_names_the_rules(self, played):
        last = played.said.stdout.splitlines()[-1]
        page = (played.folder / last.rpartition(": ")[2]).read_text()
        text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page)))
        for rule in ("known_currency", "total_not_negative"):
            assert re.search(rf"\d+ changes of shop\.orders break {rule}", text)
        assert "shop.orders breaks placed_in_our_time" in text
        assert "@example.com" not in page

    def test_it_shows_two_batches_with_inserts_updates_and_deletes(self, played):
        lines = played.said.stdout.splitlines()
        for batch in (0, 1):
            orders = next(line for line in lines if line.startswith(f"batch {batch}  shop.orders"))
            assert re.search(r"\+\d+ ~\d+ −\d+", orders)

    def test_it_shows_the_column_that_came_half_way_and_the_messages_nobody_could_read(self, played):
        assert "ADD COLUMN channel" in played.said.stdout
        for code in ("NOT_CONFLUENT", "SCHEMA_NOT_FOUND", "AVRO_VALUE_UNREADABLE"):
            assert re.search(rf"^{code} +tidb_shop_orders", played.said.stdout, re.MULTILINE)

    def test_nothing_of_it_runs_afterwards(self, played):
        stack = Devstack.at(played.folder / ".demo" / "devstack")
        assert stack is not None
        assert not stack.is_running

    def test_it_takes_less_than_five_minutes_even_on_a_busy_machine(self, played):
        assert played.seconds < 300  # 45 on two idle cores, which are wanted to need less than 90

    def test_it_leaves_nothing_but_its_folder(self, played):
        assert [path.name for path in played.folder.iterdir()] == [".demo"]

    @pytest.mark.parametrize("word", ["tables list", "tables describe", "tables history", "tables as-of"])
    def test_what_it_says_about_tables_can_be_pasted(self, played, word):
        said = played.call(played.pasted(word))
        assert said.returncode == 0, said.stderr
        assert "shop.orders" in said.stdout

    @pytest.mark.parametrize(
        ("word", "answer"),
        [
            ("quarantine list", r"shop\.orders +total_not_negative +\d+"),
            ("quarantine show", r"shop\.orders(.*\n)+.*shown: the newest 3"),
            ("report --to", r"changes are set aside; the rest is in the warehouse"),
        ],
    )
    def test_what_it_says_about_quality_can_be_pasted(self, played, word, answer):
        said = played.call(played.pasted(word))
        assert said.returncode == 0, said.stderr
        assert re.search(answer, said.stdout), said.stdout

    def test_the_pyiceberg_snippet_and_the_spark_snippet_give_the_same_answer(self, played):
        pyiceberg = played.call(played.pasted("pyiceberg.catalog"))
        spark = played.call(played.pasted("session("))
        assert pyiceberg.returncode == 0, pyiceberg.stderr
        assert spark.returncode == 0, spark.stderr
        counted = re.search(
            r"'channel': 'web', 'order_id_count': (\d+), 'total_sum': Decimal\('([\d.]+)'\)", pyiceberg.stdout
        )
        assert counted, pyiceberg.stdout
        assert re.search(rf"\| *web\| *{counted[1]}\| *{counted[2]}\|", spark.stdout), spark.stdout

    @pytest.mark.slow
    def test_with_keep_it_goes_on_with_the_same_shop(self, played):
        said = played.call(f"{sys.executable} -m pipeline demo --keep --output json")
        assert said.returncode == 0, said.stderr
        facts = json.loads(said.stdout)
        first = int(re.search(r"([\d,]+) rows of", played.said.stdout)[1].replace(",", ""))
        assert facts["equal"] is True
        assert facts["rows"] > first
        assert len(facts["batches"]) == 4
        assert facts["quarantined"] >= facts["set_aside"] > 0
        assert {row["rule"] for row in facts["quarantine"]} == {"known_currency", "total_not_negative"}
        assert sum(row["records"] for row in facts["quarantine"]) == facts["quarantined"]
        assert sum(row["set_aside"] for row in facts["tables"]) == facts["set_aside"]
        assert (played.folder / facts["report"]).is_file()


class TestPreparing:
    """What the demo does before it starts anything."""

    def test_a_folder_with_something_else_in_it_is_left_alone(self, tmp_path):
        (tmp_path / "thesis.txt").write_text("years of work")
        with pytest.raises(PipelineError, match="DEMO_FOLDER"):
            command.Demo(tmp_path, None, Progress(None)).prepare(keep=False)
        assert (tmp_path / "thesis.txt").read_text() == "years of work"

    def test_an_earlier_demo_makes_room(self, tmp_path):
        folder = tmp_path / ".demo"
        folder.mkdir()
        remember(folder / "demo.json", [], finished=True)
        (folder / "warehouse").mkdir()
        assert command.Demo(folder, None, Progress(None)).prepare(keep=False) == []
        assert not folder.exists()

    def test_a_running_broker_of_an_earlier_demo_is_not_pulled_away(self, tmp_path, monkeypatch):
        stack = type("Stack", (), {"is_running": True})()
        monkeypatch.setattr(command.Devstack, "at", lambda _folder: stack)
        with pytest.raises(EnvironmentFault, match="devstack down"):
            command.Demo(tmp_path, None, Progress(None)).prepare(keep=False)

    def test_settings_of_another_pipeline_in_the_environment_do_not_reach_it(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TICDC_WAREHOUSE__WAREHOUSE__PATH", "/precious")
        settings = command.Demo(tmp_path / ".demo", None, Progress(None))._configure(1, 2)
        assert settings.warehouse.path == tmp_path / ".demo" / "warehouse"

    def test_it_writes_suites_that_can_be_read_and_stop_nothing(self, tmp_path):
        settings = command.Demo(tmp_path / ".demo", None, Progress(None))._configure(1, 2)
        suites = load(settings.quality.suites)
        for table in ("orders", "customers"):
            (suite,) = (suite for suite in suites if suite.is_about(TableName("shop", table)))
            assert all(check.because and check.owner for check in suite.checks)
            assert {check.severity for check in suite.checks} <= {Severity.WARN, Severity.QUARANTINE}

    def test_suites_that_were_mended_stay_mended(self, tmp_path):
        checks.write(tmp_path)
        (tmp_path / "orders.yaml").write_text("table: shop.orders\n")
        checks.write(tmp_path)
        assert (tmp_path / "orders.yaml").read_text() == "table: shop.orders\n"

    def test_what_was_sent_is_remembered_for_the_next_demo(self, tmp_path):
        parts = [Stretch(10, adds_column=False, began=5), Stretch(20, adds_column=True, began=9)]
        remember(tmp_path / "demo.json", parts, finished=True)
        assert recall(tmp_path / "demo.json") == parts
        assert recall(tmp_path / "never.json") == []

    def test_a_demo_that_did_not_end_cannot_be_gone_on_with(self, tmp_path):
        remember(tmp_path / "demo.json", [], finished=False)
        with pytest.raises(PipelineError, match="DEMO_UNFINISHED"):
            recall(tmp_path / "demo.json")

    def test_a_repeated_shop_is_the_same_shop(self):
        parts = [Stretch(60, adds_column=False, began=1_000), Stretch(60, adds_column=True, began=900_000)]
        first, second = (from_kafka("127.0.0.1:1", "http://127.0.0.1:1") for _ in range(2))
        first.repeat(parts)
        second.repeat(parts)
        assert list(first.truth()) == list(second.truth())
        assert first.parts == second.parts == parts
        assert "channel" in next(rows for table, rows in first.truth() if table.name == "orders")[0]


ITEMS = SimulatedTable(
    "s", "items", (SimulatedColumn("id", "int", nullable=False), SimulatedColumn("name", "text")), primary_key=("id",)
)


class TestProof:
    """A comparison that could not fail would prove nothing."""

    @pytest.mark.parametrize(
        ("found", "sentence"),
        [
            ([{"id": 1, "name": "a"}], "key 2 is missing"),
            ([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"}], "key 3 should not be there"),
            ([{"id": 1, "name": "a"}, {"id": 2, "name": "B"}], "key 2: name is 'B', the source has 'b'"),
            ([{"id": 1, "name": "a"}, {"id": 2, "name": None}], "key 2: name is None, the source has 'b'"),
            ([{"id": 1, "name": "a"}, {"id": 2}], "key 2: name is None, the source has 'b'"),
            ([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 2, "name": "b"}], "key 2 stands there twice"),
        ],
    )
    def test_each_kind_of_difference_is_found(self, found, sentence):
        verdict = compare(ITEMS, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], found)
        assert not verdict.equal
        assert verdict.differences == (sentence,)

    def test_equal_rows_in_any_order_are_equal(self):
        rows = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
        verdict = compare(ITEMS, rows, [{**row, "_commit_ts": 5} for row in reversed(rows)])
        assert (verdict.equal, verdict.rows) == (True, 2)

    def test_a_row_whose_key_is_in_quarantine_is_counted_and_not_compared(self):
        rows = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"}]
        found = [{"id": 1, "name": "a"}, {"id": 2, "name": "as it was"}]
        verdict = compare(ITEMS, rows, found, {("2",), ("3",)})
        assert (verdict.equal, verdict.rows, verdict.set_aside) == (True, 3, 2)

    @pytest.mark.parametrize(
        ("found", "sentence"),
        [
            ([{"id": 1, "name": "A"}], "key 1: name is 'A', the source has 'a'"),
            ([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 2, "name": "b"}], "key 2 stands there twice"),
            ([{"id": 1, "name": "a"}, {"id": 9, "name": "i"}], "key 9 should not be there"),
        ],
    )
    def test_quarantine_excuses_nothing_but_the_rows_of_its_keys(self, found, sentence):
        verdict = compare(ITEMS, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], found, {("2",), ("9",)})
        assert verdict.differences == (sentence,)
        assert verdict.set_aside == 1

    def test_keys_are_those_of_the_table_and_a_row_without_one_excuses_nothing(self):
        rows = [("s", "items", '{"id":"2"}'), ("s", "others", '{"id":"3"}'), ("s", "items", None)]
        quarantine = [dict(zip(("schema_name", "table_name", "key_values"), row, strict=True)) for row in rows]
        assert quarantined_keys(ITEMS, quarantine) == {("2",)}

    def test_a_difference_ends_the_demo_with_an_error_that_names_it(self):
        verdict = compare(ITEMS, [{"id": 1, "name": "a"}], [])
        with pytest.raises(PipelineError, match=r"(?s)DEMO_DIFFERS.*s\.items: key 1 is missing") as refused:
            command.judge([verdict])
        assert refused.value.exit_code == 1
