"""The demo as a newcomer sees it: one command, then whatever it says one can paste."""

# ruff: noqa: RUF001 - the minus sign of the batch lines is one on purpose

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.cli import demo as command
from pipeline.cli.progress import Progress
from pipeline.demo import DemoSource, Part, compare, recall, remember
from pipeline.devstack import Devstack
from pipeline.errors import EnvironmentFault, PipelineError
from pipeline.simulate import Column, Table

ROOT = Path(__file__).parents[2]
TABLES = ("shop.customers", "shop.products", "shop.orders", "shop.order_items", "shop.payments")


class Played:
    """One demo in a folder of its own, and a shell that stands where it was called."""

    def __init__(self, folder):
        self.folder = folder
        started = time.monotonic()
        self.said = self.call(f"{sys.executable} -m pipeline demo")
        self.seconds = time.monotonic() - started

    def call(self, line):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        words = ["bash", "-c", line]
        return subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def pasted(self, word):
        """The command of the invitation that has this word in it, heredoc and all."""
        invitation = self.said.stdout.partition("look around:")[2]
        commands = re.findall(r"^(\S[^\n]*<<'END'\n.*?^END|\S[^\n]*)$", invitation, re.MULTILINE | re.DOTALL)
        return next(line for line in commands if word in line)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    return Played(tmp_path_factory.mktemp("demo"))


@pytest.mark.e2e
@pytest.mark.spark
class TestDemo:
    def test_it_ends_with_every_row_equal_to_the_source(self, played):
        assert played.said.returncode == 0, played.said.stderr
        assert "every row of every table equals the source" in played.said.stdout
        verdicts = re.findall(r"^(shop\.\w+) +\d+ +\d+ +(\w+)$", played.said.stdout, re.MULTILINE)
        assert verdicts == [(table, "equal") for table in TABLES]

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

    def test_with_keep_it_goes_on_with_the_same_shop(self, played):
        said = played.call(f"{sys.executable} -m pipeline demo --keep --output json")
        assert said.returncode == 0, said.stderr
        facts = json.loads(said.stdout)
        first = int(re.search(r"([\d,]+) rows of", played.said.stdout)[1].replace(",", ""))
        assert facts["equal"] is True
        assert facts["rows"] > first
        assert len(facts["batches"]) == 4


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

    def test_what_was_sent_is_remembered_for_the_next_demo(self, tmp_path):
        parts = [Part(10, adds_column=False, began=5), Part(20, adds_column=True, began=9)]
        remember(tmp_path / "demo.json", parts, finished=True)
        assert recall(tmp_path / "demo.json") == parts
        assert recall(tmp_path / "never.json") == []

    def test_a_demo_that_did_not_end_cannot_be_gone_on_with(self, tmp_path):
        remember(tmp_path / "demo.json", [], finished=False)
        with pytest.raises(PipelineError, match="DEMO_UNFINISHED"):
            recall(tmp_path / "demo.json")

    def test_a_repeated_shop_is_the_same_shop(self):
        parts = [Part(60, adds_column=False, began=1_000), Part(60, adds_column=True, began=900_000)]
        first, second = (DemoSource("127.0.0.1:1", "http://127.0.0.1:1") for _ in range(2))
        first.repeat(parts)
        second.repeat(parts)
        assert list(first.truth()) == list(second.truth())
        assert first.parts == second.parts == parts
        assert "channel" in next(rows for table, rows in first.truth() if table.name == "orders")[0]


ITEMS = Table("s", "items", (Column("id", "int", nullable=False), Column("name", "text")), primary_key=("id",))


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

    def test_a_difference_ends_the_demo_with_an_error_that_names_it(self):
        verdict = compare(ITEMS, [{"id": 1, "name": "a"}], [])
        with pytest.raises(PipelineError, match=r"(?s)DEMO_DIFFERS.*s\.items: key 1 is missing") as refused:
            command.judge([verdict])
        assert refused.value.exit_code == 1
