"""Appending while reading: a batch like the ones before, one that is not, and a death in between."""

import json
from collections import Counter

import pytest
from e2e import judging
from e2e.bank import ACCOUNT, NOTE, Bank
from e2e.processes import Process
from golden.warehouse import Warehouse
from support.slow import few
from support.steps import watch

from pipeline.ingest.fast_path import speculation
from pipeline.runtime.failpoints import VARIABLE
from pipeline.service import Pipeline
from pipeline.settings import load
from pipeline.simulate import SimulatedChangefeed

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


class BankByCut(Bank):
    """The same bank, told by Simple or Open."""

    def __init__(self, stack, protocol):
        super().__init__(stack, 11, (ACCOUNT,))
        self.feed.close()
        self.feed = SimulatedChangefeed(
            stack.bootstrap_servers, prefix=self.prefix, protocol=protocol, watermark_every=10**6
        )

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
        self.feed._channel.send(self.topic(table), 0, b"torn", whole[:-3])
        self.feed.flush()


class Stream:
    """One table, and a run that is open on it. By Avro there are no watermarks."""

    def __init__(self, stack, folder, protocol, batch, **quality):
        self.folder, self.protocol = folder, protocol
        avro = protocol == "avro"
        self.bank = Bank(stack, 11, (ACCOUNT,), watermarks=False) if avro else BankByCut(stack, protocol)
        self.bank.open()
        self.file = self.bank.settings(folder, source={"max_offsets_per_trigger": batch}, quality=quality)
        self.steps = Counter()

    def begin(self):
        """The run, and a batch from which it learns what to expect."""
        self.pipeline = Pipeline.open(load(self.file))
        watch(self.pipeline, lambda step: self.steps.update([step]))
        self.bank.rounds(20)
        self.pipeline.run(available_now=True)

    def go_on(self):
        """Take what is there; how many appends were made while reading, and of how many batches."""
        self.steps.clear()
        self.pipeline.run(available_now=True)
        return self.steps["speculated"], self.steps["ledger-appended"]

    @property
    def warehouse(self):
        return Warehouse.at(self.folder / "warehouse")

    def assert_right(self):
        assert all(branches == {"main"} for branches in self.warehouse.branches().values())
        if self.protocol == "avro":
            self.assert_right_by_key()
        else:
            self.assert_right_by_cut()

    def assert_right_by_key(self):
        sentences = [
            *judging.untrue(self.bank, self.warehouse),
            *judging.placed_twice(self.warehouse),
            *judging.astray(self.bank, self.warehouse),
            *judging.unaccounted(self.bank, self.warehouse),
        ]
        assert not sentences, "\n".join(sentences[:20])

    def assert_right_by_cut(self):
        """The tables are the source's at its end, and each change that was sent stands in them once."""
        self.assert_current()
        changes = self.warehouse.changes()["bank.account"]
        assert len({judging.place(row) for row in changes}) == len(changes)
        assert Counter(row["_op"] for row in changes) == Counter(self.bank.feed.counts["bank.account"])
        assert max(row["cut_ts"] for row in self.warehouse.own("cuts")) == self.bank.last_ts

    def assert_current(self):
        want = {row["id"]: row for row in self.bank.truth(ACCOUNT)}
        current = self.warehouse.current("bank.account")
        assert {row.values["id"]: row.values for row in current.rows} == want

    def assert_all_is_shown(self):
        """No later publish has to read an append again."""
        (table,) = self.pipeline.context.tables
        assert table.applied == table.changes.head()


@pytest.fixture
def opened(stack, tmp_path, monkeypatch):
    """A stream of a protocol with batches of so many records, of which half a batch is large."""
    streams = []

    def opened(protocol, batch, **quality):
        monkeypatch.setattr(speculation, "LEAST_ROWS", batch // 2)
        streams.append(Stream(stack, tmp_path, protocol, batch, **quality))
        streams[0].begin()
        return streams[0]

    yield opened
    for stream in streams:
        stream.pipeline.close()
        stream.bank.close()


@pytest.fixture(params=few("avro", "open-protocol", "simple"))
def stream(opened, request):
    """By cut, watermarks and repeated BOOTSTRAPs are no rows; what they say is counted in the pass that appends."""
    return opened(request.param, BATCH[request.param])


FEW = 20
BATCH = {"avro": 100, "simple": 40, "open-protocol": 40}


class TestSpeculation:
    def test_batches_like_the_one_before_are_appended_while_they_are_read(self, stream):
        stream.bank.rounds(40)
        speculated, batches = stream.go_on()
        assert batches > 2
        assert speculated in {batches, batches - 1}  # the last one may be small
        stream.assert_right()
        stream.assert_all_is_shown()

    @pytest.mark.slow
    def test_a_sort_order_of_the_table_changes_no_number(self, stream):
        changes = "warehouse.bank.account__changes"
        stream.pipeline.context.spark.sql(f"ALTER TABLE {changes} WRITE ORDERED BY balance DESC, id")
        stream.pipeline.context.spark.sql(f"ALTER TABLE {changes} ADD COLUMN reviewed boolean")
        stream.bank.rounds(40)
        speculated, batches = stream.go_on()
        assert speculated in {batches, batches - 1}
        stream.assert_right()
        counted = [sum(row[op] for op in ("inserts", "updates", "deletes")) for row in stream.warehouse.own("batches")]
        assert sum(counted) == len(stream.warehouse.changes()["bank.account"])

    def test_a_new_schema_version_makes_the_guess_wrong_once(self, stream):
        stream.bank.rounds(20)
        stream.bank.add_column()
        stream.bank.rounds(40)
        speculated, batches = stream.go_on()
        assert 2 < speculated <= batches
        stream.assert_right()
        stream.assert_all_is_shown()

    @pytest.mark.slow
    @pytest.mark.parametrize("damage", few("torn", "rubbish"))
    def test_a_message_that_nobody_can_read_becomes_a_dead_letter_once(self, stream, damage):
        stream.bank.rounds(15)
        getattr(stream.bank, damage)(ACCOUNT)
        stream.bank.rounds(25)
        speculated, _ = stream.go_on()
        assert speculated
        letters = stream.warehouse.own("dead_letters")
        assert len(letters) == {"rubbish": stream.bank.feed.partitions, "torn": 1}[damage]
        stream.assert_right()

    @pytest.mark.slow
    def test_a_second_table_ends_the_guessing(self, opened):
        stream = opened("avro", 120)
        stream.bank.rounds(20)
        stream.bank.tables = (ACCOUNT, NOTE)
        stream.bank.feed.send(stream.bank.database.create_table(NOTE))
        stream.bank.rounds(20)
        stream.go_on()
        stream.bank.rounds(40)
        speculated, batches = stream.go_on()
        assert (speculated, batches > 2) == (0, True)
        stream.assert_right()

    @pytest.mark.slow
    @pytest.mark.parametrize("fenced", few("hold", "apply"))
    def test_rows_are_judged_whether_a_guess_was_of_use_or_not(self, opened, tmp_path, monkeypatch, fenced):
        """Where later changes of a key wait nothing is guessed; here no guess fits in the other case."""
        (tmp_path / "checks").mkdir()
        rule = {"expect_column_values_to_be_between": {"column": "id", "max_value": FEW}, "name": "few"}
        suite = {"table": "bank.account", "checks": [{**rule, "severity": "quarantine"}]}
        (tmp_path / "checks" / "account.yaml").write_text(json.dumps(suite))
        monkeypatch.setattr(speculation.SpeculativeAppend, "fits", lambda *_: False)
        stream = opened("avro", 100, suites=str(tmp_path / "checks"), fenced=fenced, quarantine_rows=10_000)
        stream.bank.rounds(40)
        speculated, batches = stream.go_on()
        assert batches > 2
        assert bool(speculated) == (fenced == "apply")
        assert stream.warehouse.branches()["bank.account__changes"] == {"main"}
        truth = {row["id"]: row for row in stream.bank.truth(ACCOUNT) if row["id"] <= FEW}
        current = stream.warehouse.current("bank.account")
        assert {row.values["id"]: row.values for row in current.rows if row.values["id"] <= FEW} == truth
        aside = {row["rules"][0] for row in stream.warehouse.own("quarantine") if row["code"] == "QUARANTINED"}
        assert aside == {"few"}

    @pytest.mark.slow
    @pytest.mark.parametrize("protocol", few("open-protocol", "simple"))
    def test_rows_that_are_sent_again_stand_twice_and_show_nothing(self, opened, protocol):
        stream = opened(protocol, 40)
        stream.bank.rounds(10)
        stream.go_on()
        again = [(m.partition(), m.key(), m.value()) for m in stream.bank._consumed(stream.bank.topics())]
        for partition, key, value in again[len(again) // 3 :]:
            stream.bank.feed._channel.send(stream.bank.topic(ACCOUNT), partition, key, value)
        stream.bank.rounds(10)
        speculated, _ = stream.go_on()
        assert speculated
        stream.assert_current()


@pytest.mark.slow
class TestDeath:
    @pytest.mark.parametrize("protocol", few("avro", "simple"))
    def test_a_process_that_dies_behind_it_leaves_nothing_and_loses_nothing(self, stack, tmp_path, protocol):
        stream = Stream(stack, tmp_path, protocol, speculation.LEAST_ROWS)
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
