"""Appending while reading: a batch like the ones before, one that is not, and a death in between."""

import json
from collections import Counter

import pytest
from e2e import judging
from e2e.bank import ACCOUNT, NOTE, Bank
from e2e.processes import Process
from golden.warehouse import Warehouse

from pipeline.settings import load
from pipeline.simulate import Changefeed
from pipeline.streaming import Pipeline, speculation
from pipeline.streaming.failpoints import VARIABLE

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

BATCH = 120


class Stream:
    """One table, by Avro without watermarks, and a run that is open on it."""

    def __init__(self, stack, folder, batch=BATCH):
        self.folder = folder
        self.bank = self.made(stack)
        self.bank.open()
        self.file = self.bank.settings(folder, source={"max_offsets_per_trigger": batch})
        self.steps = Counter()

    def made(self, stack):
        return Bank(stack, 11, (ACCOUNT,), watermarks=False)

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


class BankByCut(Bank):
    """The same bank, told by Simple or Open."""

    def __init__(self, stack, protocol):
        super().__init__(stack, 11, (ACCOUNT,))
        self.feed.close()
        self.feed = Changefeed(stack.bootstrap_servers, prefix=self.prefix, protocol=protocol, watermark_every=10**6)

    def topic(self, _table):
        return f"{self.prefix}_cdc"

    def settings(self, folder, java="", **changes):
        file = super().settings(folder, java, **changes)
        tree = {name: section for name, section in json.loads(file.read_text()).items()
                if name not in ("registry", "changefeed")}  # fmt: skip
        tree["source"]["protocol"] = self.feed.protocol
        file.write_text(json.dumps(tree))
        return file

    def torn(self, table=ACCOUNT):
        values = [message.value() for message in self._consumed([self.topic(table)])]
        whole = next(value for value in values if b"owner" in value and b"CREATE" not in value)
        self.feed._topics.send(self.topic(table), 0, b"torn", whole[:-3])
        self.feed.flush()


class StreamByCut(Stream):
    """One table with watermarks."""

    def __init__(self, stack, folder, protocol, batch):
        self.protocol = protocol
        super().__init__(stack, folder, batch)

    def made(self, stack):
        return BankByCut(stack, self.protocol)

    def assert_right(self):
        """The tables are the source's at its end, and each change that was sent stands in them once."""
        want = {row["id"]: row for row in self.bank.truth(ACCOUNT)}
        assert {row.values["id"]: row.values for row in self.warehouse.current("bank.account").rows} == want
        changes = self.warehouse.changes()["bank.account"]
        assert len({judging.place(row) for row in changes}) == len(changes)
        sent = self.bank.feed.counts["bank.account"]
        assert Counter(row["_op"] for row in changes) == Counter(sent)
        assert all(branches == {"main"} for branches in self.warehouse.branches().values())
        cuts = [row["cut_ts"] for row in self.warehouse.own("cuts")]
        assert max(cuts) == self.bank.last_ts

    def assert_all_is_shown(self):
        """No later publish has to read an append again."""
        (table,) = self.pipeline.bench.tables
        assert table.applied == table.changes.head()


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


SMALL = 40


@pytest.fixture(params=["simple", "open-protocol"])
def by_cut(stack, tmp_path, monkeypatch, request):
    monkeypatch.setattr(speculation, "LEAST_ROWS", SMALL // 2)
    made = StreamByCut(stack, tmp_path, request.param, SMALL)
    made.begin()
    yield made
    made.pipeline.close()
    made.bank.close()


class TestByCut:
    """Watermarks and repeated BOOTSTRAPs are no rows, and what they say is counted in the pass that appends."""

    def test_batches_like_the_one_before_are_appended_while_they_are_read(self, by_cut):
        by_cut.bank.rounds(40)
        speculated, batches = by_cut.go_on()
        assert batches > 2
        assert speculated in {batches, batches - 1}
        by_cut.assert_right()
        by_cut.assert_all_is_shown()

    def test_a_statement_makes_the_guess_wrong_once(self, by_cut):
        by_cut.bank.rounds(20)
        by_cut.bank.add_column()
        by_cut.bank.rounds(40)
        speculated, batches = by_cut.go_on()
        assert 2 < speculated <= batches
        by_cut.assert_right()
        by_cut.assert_all_is_shown()

    @pytest.mark.parametrize("damage", ["rubbish", "torn"])
    def test_a_message_that_nobody_can_read_becomes_a_dead_letter_once(self, by_cut, damage):
        by_cut.bank.rounds(15)
        getattr(by_cut.bank, damage)(ACCOUNT)
        by_cut.bank.rounds(15)
        speculated, _ = by_cut.go_on()
        assert speculated
        letters = by_cut.warehouse.own("dead_letters")
        assert len(letters) == {"rubbish": by_cut.bank.feed.partitions, "torn": 1}[damage]
        by_cut.assert_right()

    def test_rows_that_are_sent_again_stand_twice_and_show_nothing(self, by_cut):
        by_cut.bank.rounds(10)
        by_cut.go_on()
        again = [(m.partition(), m.key(), m.value()) for m in by_cut.bank._consumed(by_cut.bank.topics())]
        for partition, key, value in again[len(again) // 3 :]:
            by_cut.bank.feed._topics.send(by_cut.bank.topic(ACCOUNT), partition, key, value)
        by_cut.bank.rounds(10)
        speculated, _ = by_cut.go_on()
        assert speculated
        want = {row["id"]: row for row in by_cut.bank.truth(ACCOUNT)}
        current = by_cut.warehouse.current("bank.account")
        assert {row.values["id"]: row.values for row in current.rows} == want


class TestDeath:
    @pytest.mark.parametrize("protocol", ["avro", "simple"])
    def test_a_process_that_dies_behind_it_leaves_nothing_and_loses_nothing(self, stack, tmp_path, protocol):
        size = speculation.LEAST_ROWS
        stream = Stream(stack, tmp_path, size) if protocol == "avro" else StreamByCut(stack, tmp_path, protocol, size)
        try:
            stream.bank.many(3 * speculation.LEAST_ROWS)
            stream.bank.checkpoint()
            dying = Process.worker(stream.file)
            dying.tell("run", "--available-now", **{VARIABLE: "speculated"})
            assert dying.ended() == -9, dying.complaint()
            assert stream.warehouse.branches()["bank.account__changes"] == {"main", "stage_batch1"}
            living = Process.command(stream.file, "run", "--available-now")
            assert living.ended() == 0, living.complaint()
            stream.assert_right()
        finally:
            stream.bank.close()
