"""Appending while reading: a batch like the ones before, one that is not, and a death in between."""

from collections import Counter

import pytest
from e2e import judging
from e2e.bank import ACCOUNT, NOTE, Bank
from e2e.processes import Process
from golden.warehouse import Warehouse

from pipeline.settings import load
from pipeline.streaming import Pipeline, speculation
from pipeline.streaming.failpoints import VARIABLE

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

BATCH = 120


class Stream:
    """One table without watermarks, and a run that is open on it."""

    def __init__(self, stack, folder, batch=BATCH):
        self.folder = folder
        self.bank = Bank(stack, 11, (ACCOUNT,), watermarks=False)
        self.bank.open()
        self.file = self.bank.settings(folder, source={"max_offsets_per_trigger": batch})
        self.steps = Counter()

    def begin(self):
        """The run, and a batch from which it learns what to expect."""
        self.pipeline = Pipeline.open(load(self.file))
        self.pipeline.bench.step = lambda step: self.steps.update([step])
        self.bank.rounds(20)
        self.pipeline.run(available_now=True)
        self.steps.clear()

    def go_on(self):
        """Take what is there; how many appends were made while reading, and of how many batches."""
        self.steps.clear()
        self.pipeline.run(available_now=True)
        return self.steps["speculated"], self.steps["ledger-appended"]

    @property
    def warehouse(self):
        return Warehouse.at(self.folder / "warehouse")

    def assert_right(self):
        sentences = [
            *judging.untrue(self.bank, self.warehouse),
            *judging.placed_twice(self.warehouse),
            *judging.astray(self.bank, self.warehouse),
            *judging.unaccounted(self.bank, self.warehouse),
        ]
        assert not sentences, "\n".join(sentences[:20])
        assert all(branches == {"main"} for branches in self.warehouse.branches().values())


@pytest.fixture
def stream(stack, tmp_path, monkeypatch):
    monkeypatch.setattr(speculation, "LEAST_ROWS", 50)
    made = Stream(stack, tmp_path)
    made.begin()
    yield made
    made.pipeline.close()
    made.bank.close()


class TestSpeculation:
    def test_batches_like_the_one_before_are_appended_while_they_are_read(self, stream):
        stream.bank.rounds(60)
        speculated, batches = stream.go_on()
        assert batches > 2
        assert speculated in {batches, batches - 1}  # the last one may be small
        stream.assert_right()

    def test_a_new_schema_version_makes_the_guess_wrong_once(self, stream):
        stream.bank.rounds(20)
        stream.bank.add_column()
        stream.bank.rounds(60)
        speculated, batches = stream.go_on()
        assert 2 < speculated <= batches
        stream.assert_right()

    @pytest.mark.parametrize("damage", ["rubbish", "torn"])
    def test_a_message_that_nobody_can_read_becomes_a_dead_letter_once(self, stream, damage):
        stream.bank.rounds(20)
        getattr(stream.bank, damage)(ACCOUNT)
        stream.bank.rounds(40)
        speculated, _ = stream.go_on()
        assert speculated
        letters = stream.warehouse.own("dead_letters")
        assert len(letters) == {"rubbish": stream.bank.feed.partitions, "torn": 1}[damage]
        stream.assert_right()

    def test_a_second_table_ends_the_guessing(self, stream):
        stream.bank.rounds(20)
        stream.bank.tables = (ACCOUNT, NOTE)
        stream.bank.feed.send(stream.bank.database.create_table(NOTE))
        stream.bank.rounds(20)
        stream.go_on()
        stream.bank.rounds(40)
        speculated, batches = stream.go_on()
        assert (speculated, batches > 2) == (0, True)
        stream.assert_right()


class TestDeath:
    def test_a_process_that_dies_behind_it_leaves_nothing_and_loses_nothing(self, stack, tmp_path):
        stream = Stream(stack, tmp_path, batch=speculation.LEAST_ROWS)
        try:
            stream.bank.many(3 * speculation.LEAST_ROWS)
            dying = Process.worker(stream.file)
            dying.tell("run", "--available-now", **{VARIABLE: "speculated"})
            assert dying.ended() == -9, dying.complaint()
            assert stream.warehouse.branches()["bank.account__changes"] == {"main", "stage_batch1"}
            living = Process.command(stream.file, "run", "--available-now")
            assert living.ended() == 0, living.complaint()
            stream.assert_right()
        finally:
            stream.bank.close()
