"""What can be lost, repeated or taken away, and how a run goes on: real broker, real registry, real tables."""

import fcntl
import json
import shutil
import signal
import sqlite3
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from e2e import judging
from e2e.bank import ACCOUNT, ENTRY, NOTE, TABLES, Bank
from e2e.processes import Process, until
from golden.warehouse import Warehouse
from pyiceberg.expressions import AlwaysTrue
from support.steps import watch

from pipeline.cli import main
from pipeline.errors import Refused
from pipeline.model.names import TableName
from pipeline.runtime import lock
from pipeline.service import Pipeline, client
from pipeline.settings import load
from pipeline.simulate import SimulatedChangefeed
from pipeline.warehouse.locations import as_path
from registry import RegistryError

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

_PATIENCE = 30


class PowerCut(Exception):
    """Stands for the end of the process at a step."""


class World:
    """A source and a warehouse that this process writes."""

    def __init__(self, stack, folder):
        self.stack, self.folder = stack, folder
        self.bank = Bank(stack, 5)
        self.file = self.bank.settings(folder)
        self.checkpoint = folder / "checkpoint"

    @property
    def settings(self):
        return load(self.file)

    @property
    def warehouse(self):
        return Warehouse.at(self.folder / "warehouse")

    def begin(self):
        """A warehouse that has everything so far, some of it new; gives the number of the batches."""
        if not self.bank.topics():
            self.bank.open()
        self.bank.rounds(1)
        self.run()
        return len(self.batches())

    def run(self, *accepted, dies_at=None):
        """One run over what is there, perhaps with the power cut behind a step."""
        with Pipeline.open(self.settings, accept=frozenset(accepted)) as pipeline:
            watch(pipeline, cut_behind(dies_at))
            if dies_at is None:
                pipeline.run(available_now=True)
            else:
                with pytest.raises(PowerCut):
                    pipeline.run(available_now=True)

    def refused(self):
        """The refusal of a run; it has left everything as it was."""
        before = self.state()
        with pytest.raises(Refused) as refusal:
            Pipeline.open(self.settings)
        assert self.state() == before
        return refusal.value

    def state(self):
        """Every table's newest metadata, as the catalog has it."""
        with sqlite3.connect(self.folder / "warehouse" / "catalog.db") as catalog:
            rows = catalog.execute("SELECT table_namespace, table_name, metadata_location FROM iceberg_tables")
            return sorted((namespace, name, as_path(location)) for namespace, name, location in rows)

    def batches(self):
        """The numbers of the batches: each once, none left out."""
        numbers = sorted(batch["batch_id"] for batch in self.warehouse.own("batches"))
        assert numbers == list(range(len(numbers)))
        return numbers

    def landed(self, table):
        return sum(len(rows) for name, rows in self.warehouse.changes().items() if name == table.full_name)

    def assert_right(self):
        """The tables are the source's rows, every record is in one place, every batch adds up."""
        assert_none(judging.untrue(self.bank, self.warehouse))
        assert_none(judging.placed_twice(self.warehouse))
        assert_none(judging.astray(self.bank, self.warehouse))
        assert_none(judging.unaccounted(self.bank, self.warehouse))
        assert_none(judging.cut_short(self.warehouse))


def has_rows(metadata):
    """Whether a table was ever written, by its metadata file."""
    return json.loads(metadata.read_text()).get("current-snapshot-id") not in (None, -1)


def cut_behind(step):
    def passed(name):
        if name == step:
            raise PowerCut(name)

    return passed


def assert_none(sentences):
    found = list(sentences)
    assert not found, "\n".join(found[:20])


@pytest.fixture(scope="module")
def world(stack, tmp_path_factory):
    """One warehouse for all tests that leave it as it should be."""
    made = World(stack, tmp_path_factory.mktemp("recovery"))
    yield made
    made.bank.close()


@pytest.fixture
def own(stack, tmp_path):
    """A warehouse for a test that takes records away."""
    made = World(stack, tmp_path)
    yield made
    made.bank.close()


class TestCheckpoints:
    """The checkpoint is a cache; the tables are the truth."""

    @pytest.mark.slow
    def test_a_batch_that_is_begun_again_adds_nothing_twice(self, world):
        batches = world.begin()
        world.bank.rounds(1)
        world.bank.rubbish()
        for step in ("changes-appended", "published", "ledger-appended"):
            world.run(dies_at=step)
        world.run()
        world.assert_right()
        assert len(world.batches()) == batches + 1

    @pytest.mark.slow
    def test_a_batch_that_failed_can_be_taken_again_by_the_same_process(self, world):
        world.begin()
        world.bank.rubbish()
        with Pipeline.open(world.settings) as pipeline:
            pipeline.run(available_now=True)
            world.bank.rounds(1)
            world.bank.rubbish()
            for step in ("dead-letters-appended", "changes-appended", "linked", "cuts-appended"):
                watch(pipeline, cut_behind(step))
                with pytest.raises(PowerCut):
                    pipeline.run(available_now=True)
            watch(pipeline, cut_behind(None))
            pipeline.run(available_now=True)
        world.assert_right()

    @pytest.mark.slow
    def test_without_a_checkpoint_a_run_begins_where_the_tables_end(self, world):
        batches = world.begin()
        world.bank.rounds(1)
        shutil.rmtree(world.checkpoint)
        world.run()
        world.assert_right()
        assert len(world.batches()) == batches + 1

    @pytest.mark.slow
    def test_without_a_checkpoint_an_unfinished_batch_is_finished(self, world):
        world.begin()
        world.bank.rounds(1)
        world.bank.rubbish()
        world.run(dies_at="published")
        world.bank.rounds(1)
        shutil.rmtree(world.checkpoint)
        world.run()
        world.assert_right()

    @pytest.mark.slow
    def test_an_older_checkpoint_repeats_nothing(self, world):
        batches = world.begin()
        shutil.copytree(world.checkpoint, world.folder / "older")
        for _ in range(2):
            world.bank.rounds(1)
            world.run()
        shutil.rmtree(world.checkpoint)
        shutil.copytree(world.folder / "older", world.checkpoint)
        world.bank.rounds(1)
        world.run()
        world.assert_right()
        assert len(world.batches()) == batches + 3

    @pytest.mark.slow
    def test_a_checkpoint_that_is_ahead_of_a_restored_warehouse_skips_nothing(self, world):
        batches = world.begin()
        shutil.copytree(world.folder / "warehouse", world.folder / "backup")
        for _ in range(2):
            world.bank.rounds(1)
            world.run()
        shutil.rmtree(world.folder / "warehouse")
        shutil.copytree(world.folder / "backup", world.folder / "warehouse")
        world.run()
        world.assert_right()
        assert len(world.batches()) == batches + 1

    @pytest.mark.slow
    def test_a_damaged_checkpoint_is_no_obstacle(self, world):
        world.begin()
        for file in (world.checkpoint / "spark" / "offsets").glob("[0-9]*"):
            file.write_bytes(b"\0" * 40)
        world.bank.rounds(1)
        world.run()
        world.assert_right()


class TestTopics:
    """Offsets that mean other records than they did, or none, are refused before anything is written."""

    def admin(self, own):
        return AdminClient({"bootstrap.servers": own.stack.bootstrap_servers})

    def test_a_topic_that_was_made_again_is_refused_and_read_from_its_beginning_on_demand(self, own):
        own.begin()
        before = own.landed(ACCOUNT)
        self.make_again(own, own.bank.topic(ACCOUNT))
        own.bank.rounds(4)  # more than there were: the old offsets exist in the new topic
        refusal = own.refused()
        assert refusal.code == "TOPIC_RECREATED"
        assert own.bank.topic(ACCOUNT) in refusal.message
        assert "run --accept TOPIC_RECREATED" in refusal.hint
        own.run("TOPIC_RECREATED")
        sent = sum(1 for topic, _, _, control in own.bank.records() if topic == own.bank.topic(ACCOUNT) and not control)
        assert own.landed(ACCOUNT) == before + sent
        own.bank.rounds(1)
        own.run()
        assert_none(judging.untrue(own.bank, own.warehouse))
        now = judging.currents(own.warehouse)
        client.rebuild(own.settings, TableName("bank", "account"))
        assert_none(judging.differences(judging.currents(own.warehouse), now))

    def make_again(self, own, topic):
        admin = self.admin(own)
        own.bank.close()
        admin.delete_topics([topic])[topic].result(_PATIENCE)
        while topic in admin.list_topics(timeout=_PATIENCE).topics:
            time.sleep(0.1)
        stack, prefix = own.stack, own.bank.prefix
        known = own.bank.feed._channel.known()
        own.bank.feed = SimulatedChangefeed(stack.bootstrap_servers, stack.registry_url, prefix=prefix, watermarks=True)
        for name in known:
            own.bank.feed._channel.partitions(name)

    def test_records_that_retention_removed_unread_are_refused_and_passed_over_on_demand(self, own):
        own.begin()
        before = own.landed(NOTE)
        own.bank.rounds(2)
        topic = own.bank.topic(NOTE)
        ends = {at[1]: at[2] + 1 for at in own.bank.records() if at[0] == topic}
        gone = [TopicPartition(topic, partition, end) for partition, end in ends.items()]
        admin = self.admin(own)
        for removed in admin.delete_records(gone).values():
            removed.result(_PATIENCE)
        refusal = own.refused()
        assert refusal.code == "OFFSETS_LOST"
        assert topic in refusal.message
        own.run("OFFSETS_LOST")
        assert own.landed(NOTE) == before
        own.bank.rounds(1)
        own.run()
        rest = [row for row in own.bank.records() if row[0] == topic and not row[3]]
        assert own.landed(NOTE) == before + len(rest)
        assert_none(judging.placed_twice(own.warehouse))
        assert_none(sentence for sentence in judging.untrue(own.bank, own.warehouse) if "note" not in sentence)
        assert_none(judging.astray(own.bank, own.warehouse))

    @pytest.mark.slow
    def test_a_topic_that_ends_before_the_tables_is_refused_and_gone_on_with_on_demand(self, own):
        own.begin()
        lost = 3
        with Pipeline.open(own.settings) as pipeline:
            self.pretend_more_was_read(pipeline.context, own.bank.topic(ENTRY), lost)
        before = {row for row in own.bank.records() if row[0] == own.bank.topic(ENTRY)}
        refusal = own.refused()
        assert refusal.code == "OFFSETS_SHRUNK"
        assert own.bank.topic(ENTRY) in refusal.message
        own.run("OFFSETS_SHRUNK")
        own.bank.rounds(3)
        own.run()
        assert_none(judging.astray(own.bank, own.warehouse))
        assert_none(judging.untrue(own.bank, own.warehouse))
        assert len([row for row in own.bank.records() if row[0] == own.bank.topic(ENTRY)]) > len(before) + lost

    def pretend_more_was_read(self, context, topic, more):
        """As if the broker had lost its newest records: the tables end behind the topic."""
        name = next(topic_id for topic_id, known in context.run.ledger.streams.items() if known == topic)
        context.run.ledger.ends = {at: end + more * (at[0] == name) for at, end in context.run.ledger.ends.items()}
        context.records.tables["batches"].mark(context.run.ledger.summary(), "main")
        for table in context.tables:
            ends = {at: end + more for at, end in table.ends.items() if at[0] == name}
            if ends:
                text = json.dumps({name: {str(at[1]): end for at, end in ends.items()}})
                table.changes.mark({"ticdc.ends": text}, "main")

    @pytest.mark.slow
    def test_what_only_begins_as_a_watermark_or_a_delete_is_a_dead_letter(self, own):
        own.begin()
        before = judging.currents(own.warehouse)
        own.bank.poison()
        own.run()
        assert [row["code"] for row in own.warehouse.own("dead_letters")] == ["NOT_CONFLUENT"] * 4
        assert_none(judging.differences(judging.currents(own.warehouse), before))
        own.bank.rounds(1)
        own.run()
        assert_none(judging.untrue(own.bank, own.warehouse))

    @pytest.mark.slow
    def test_what_the_settings_pass_over_is_passed_over_for_good(self, own):
        """Partitions that had no record since are not begun anew by the next run, with a checkpoint or without."""
        own.bank.open()
        own.bank.rounds(3)
        tree = json.loads(own.file.read_text())
        tree["source"]["starting_offsets"] = "latest"
        own.file.write_text(json.dumps(tree))
        skipped = set(own.bank.records())
        own.run()
        for lost in (False, True):
            if lost:
                shutil.rmtree(own.checkpoint)
            own.bank._commit(own.bank._insert)
            own.bank.feed.flush()
            own.run()
        placed = {judging.place(row)[:3] for rows in own.warehouse.changes().values() for row in rows}
        rows = {record[:3] for record in {*own.bank.records()} - skipped if not record[3]}
        assert placed == rows

    @pytest.mark.slow
    def test_that_keys_stand_in_several_partitions_is_told_once_for_a_table(self, own):
        own.bank.open()
        topic = own.bank.topic(ACCOUNT)
        for _ in range(2):
            own.bank.rounds(1)
            for one in [one for one in own.bank._consumed([topic]) if one.key()]:
                elsewhere = (one.partition() + 1) % own.bank.feed.partitions
                own.bank.feed._channel.send(topic, elsewhere, one.key(), one.value())
            own.bank.feed.flush()
            own.run()
        told = [row for row in own.warehouse.own("ddl_history") if row["ddl_type"] == "ORDER_UNKNOWN"]
        assert [row["table_name"] for row in told] == ["account"]

    def test_a_topic_that_appears_later_is_found(self, own):
        own.begin()
        other = Bank(own.stack, 9, prefix=f"{own.bank.prefix}_more")
        other.open()
        other.rounds(1)
        own.run()
        assert f"{own.bank.prefix}_more_cdc" in own.warehouse.own("batches")[0]["end_offsets"]
        other.close()

    @pytest.mark.slow
    def test_a_listed_topic_that_comes_while_a_run_goes_on_is_taken_up(self, own):
        own.begin()
        other = Bank(own.stack, 9, (ACCOUNT,), prefix=f"{own.bank.prefix}.late-1")
        tree = json.loads(own.file.read_text())
        source = {name: value for name, value in tree["source"].items() if name != "topic_pattern"}
        source["topics"] = sorted([*own.bank.topics(), other.topic(ACCOUNT)])
        own.file.write_text(json.dumps({**tree, "source": source, "trigger": "1 second"}))
        with Pipeline.open(own.settings) as pipeline:
            run = threading.Thread(target=pipeline.run)
            run.start()
            own.bank.rounds(1)
            until(lambda: pipeline.context.run.ledger.batch_id > 0)
            other.open()
            other.rounds(1)
            until(lambda: other.topic(ACCOUNT) in pipeline.context.run.ledger.streams.values())
            pipeline.stop()
            run.join()
        other.close()
        assert pipeline.context.run.ledger.batch_id > 1


class TestCatalog:
    """The catalog is one file; the tables' own metadata brings it back."""

    def test_a_lost_catalog_is_refused_and_restored_with_all_that_was_in_it(self, world):
        batches = world.begin()
        world.bank.rubbish()
        world.bank.puzzle(NOTE)
        world.bank.rounds(1)
        world.run()
        known = world.state()
        for file in (world.folder / "warehouse").glob("catalog.db*"):
            file.unlink()
        with pytest.raises(Refused) as refusal:
            Pipeline.open(world.settings)
        assert refusal.value.code == "CATALOG_LOST"
        assert "bank.account" in refusal.value.message
        assert "tables restore" in refusal.value.hint
        client.restore(world.settings)
        assert world.state() == [row for row in known if has_rows(row[-1])]
        world.bank.rounds(1)
        world.run()
        client.release(world.settings, TableName("bank", "note"))
        world.run()
        assert_none(judging.untrue(world.bank, world.warehouse))
        assert_none(judging.placed_twice(world.warehouse))
        assert_none(judging.astray(world.bank, world.warehouse))
        assert len(world.batches()) == batches + 2

    @pytest.mark.slow
    def test_tables_lie_where_the_catalog_has_its_warehouse(self, own, tmp_path):
        tree = json.loads(own.file.read_text())
        lake = tmp_path / "lake"
        tree["warehouse"]["catalog"] = {"type": "jdbc", "warehouse": f"file://{lake}"}
        own.file.write_text(json.dumps(tree))
        own.begin()
        assert not (own.folder / "warehouse" / "data").exists()
        assert {folder.name.partition("-")[0] for folder in (lake / "data").iterdir()} > {"account", "account_changes"}
        own.assert_right()
        for file in (own.folder / "warehouse").glob("catalog.db*"):
            file.unlink()
        with pytest.raises(Refused, match="CATALOG_LOST"):
            Pipeline.open(own.settings)
        client.restore(own.settings)
        own.bank.rounds(1)
        own.run()
        own.assert_right()

    @pytest.mark.slow
    def test_metadata_that_a_kill_has_torn_is_no_obstacle(self, world):
        world.begin()
        for table in ("bank.account__changes", "_pipeline.batches"):
            newest = Path(world.warehouse.table(table).metadata_location.removeprefix("file:"))
            number, _, rest = newest.name.partition("-")
            torn = newest.with_name(f"{int(number) + 1:05d}-torn-{rest}")
            torn.write_bytes(newest.read_bytes()[:-9])
        world.bank.rounds(1)
        world.run()
        world.assert_right()


class TestRebuild:
    def test_current_tables_are_rebuilt_from_their_changes_as_they_were(self, world):
        world.begin()
        world.bank.add_column()
        world.bank.rounds(1)
        world.run()
        world.bank.truncate(ENTRY)
        world.bank.rounds(2)
        world.run()
        before = judging.currents(world.warehouse)
        world.warehouse.table("bank.account").delete(AlwaysTrue())
        for table in TABLES:
            client.rebuild(world.settings, TableName(table.schema, table.name))
        assert_none(judging.differences(judging.currents(world.warehouse), before))
        world.bank.rounds(1)
        world.run()
        world.assert_right()


class TestRegistry:
    @pytest.mark.slow
    def test_a_registry_that_does_not_answer_fails_the_batch_and_loses_nothing(self, world):
        world.begin()
        world.bank.add_column("street")
        world.bank.rounds(1)
        here, before = world.file, world.batches()
        away = {"url": "http://127.0.0.1:9/apis/ccompat/v7", "timeout_seconds": 1, "retries": 0}
        world.file = world.bank.settings(world.folder, registry=away)
        with Pipeline.open(world.settings) as pipeline, pytest.raises(RegistryError) as error:
            pipeline.run(available_now=True)
        assert error.value.code == "REGISTRY_UNREACHABLE"
        assert world.batches() == before
        world.file = world.bank.settings(world.folder)
        assert world.file == here
        world.run()
        world.assert_right()

    @pytest.mark.slow
    def test_an_id_that_the_registry_does_not_know_makes_a_dead_letter_and_stops_nothing(self, world):
        world.begin()
        unknown = (0).to_bytes(1, "big") + (987_654).to_bytes(4, "big") + b"body"
        world.bank.feed._channel.send(world.bank.topic(ACCOUNT), 0, b"key", unknown)
        world.bank.rounds(1)
        world.run()
        letters = [letter for letter in world.warehouse.own("dead_letters") if letter["code"] == "SCHEMA_NOT_FOUND"]
        assert [(letter["value"], letter["key"]) for letter in letters] == [(unknown, b"key")]
        world.assert_right()

    @pytest.mark.slow
    def test_a_batch_of_which_nothing_can_be_read_is_committed(self, world):
        batches = world.begin()
        for _ in range(2):
            world.bank.torn()
            world.run()
        letters = Counter(letter["code"] for letter in world.warehouse.own("dead_letters"))
        assert letters["AVRO_VALUE_UNREADABLE"] == 2
        world.bank.rounds(1)
        world.run()
        world.assert_right()
        assert len(world.batches()) == batches + 3


class TestOneWriter:
    def test_a_second_run_is_refused_and_signals_end_the_first_after_its_batch(self, world, capsys):
        batches = world.begin()
        world.bank.rounds(1)
        first = Process.worker(world.file)
        try:
            assert first.until("ready"), first.complaint()
            first.tell("run")
            assert first.until("step ledger-appended"), first.complaint()
            assert main(["run", "--available-now", "-c", str(world.file)]) == 1
            said = capsys.readouterr().err
            assert "WAREHOUSE_IN_USE" in said
            assert f"`run`, process {first.pid} on " in said
            for number in (signal.SIGTERM, signal.SIGINT):
                self.stopped_within_a_batch(world, first, number, batches)
        finally:
            first.kill()
        world.run()
        world.assert_right()

    def stopped_within_a_batch(self, world, process, number, batches):
        """A signal in the middle of a batch: the batch is finished, and nothing after it."""
        world.bank.rounds(1)
        assert process.until("step changes-appended"), process.complaint()
        process.signal(number)
        seen = len(process.said)
        assert process.until("ended ") == "ended 0", process.complaint()
        after = process.said[seen:]
        assert after.count("step ledger-appended") == after.count("step before-spark-commit") == 1
        assert "step read" not in after
        assert_none(judging.placed_twice(world.warehouse))
        assert len(world.batches()) == batches + process.said.count("step ledger-appended")
        process.tell("run")

    @pytest.mark.slow
    def test_the_lock_dies_with_its_process(self, world):
        world.begin()
        world.bank.rounds(1)
        killed = Process.worker(world.file)
        try:
            assert killed.until("ready"), killed.complaint()
            killed.tell("run")
            assert killed.until("step changes-appended"), killed.complaint()
            killed.kill_alone()
            world.run()
        finally:
            killed.kill()
        world.assert_right()

    @pytest.mark.slow
    def test_the_jvm_of_a_killed_writer_is_waited_for(self, world, monkeypatch):
        world.begin()
        with (world.folder / "warehouse" / ".writer.jvm.lock").open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)  # as another JVM has it
            monkeypatch.setattr(lock, "_PATIENCE", 0.5)
            with pytest.raises(Refused, match="WAREHOUSE_IN_USE"):
                Pipeline.open(world.settings)
            monkeypatch.undo()
            began = time.monotonic()
            threading.Timer(2.0, fcntl.lockf, (file, fcntl.LOCK_UN)).start()
            world.run()
        assert time.monotonic() - began > 2.0
