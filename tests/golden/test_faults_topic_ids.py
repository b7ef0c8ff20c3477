"""A broker without topic ids: what was read of a topic is that topic's and no other one's, and stays so."""

import uuid
from collections import Counter

import pytest
import yaml
from e2e.old_broker import OldBroker
from golden.faults import FaultCase
from golden.loading import load
from golden.warehouse import Warehouse

from pipeline.cli import main
from pipeline.errors import Refused
from pipeline.service import Pipeline
from pipeline.warehouse.iceberg import MAIN
from pipeline.warehouse.state import ENDS

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

ZERO = "AAAAAAAAAAAAAAAAAAAAAA"
PARTS = [FaultCase(f"k01_no_topic_ids_{number}") for number in (1, 2, 3)]


class Feed:
    """The three parts of one changefeed, and a warehouse that is opened anew for each."""

    def __init__(self, stack, folder):
        self.loaded = load(PARTS[0], stack, f"g{uuid.uuid4().hex[:8]}")
        self.folder, self.stack = folder, stack
        self.ledger = None

    def run(self, part, servers):
        """Send a part and take it in a run of its own."""
        self.loaded.produce(PARTS[part].records)
        self.take(servers)

    def settings(self, servers):
        return self.loaded.settings(self.folder, source={"bootstrap_servers": servers})

    def take(self, servers, *accept):
        with Pipeline.open(self.settings(servers), accept=frozenset(accept)) as pipeline:
            pipeline.run(available_now=True)
            self.ledger = pipeline.context.run.ledger
            self.ids = pipeline.context.source.stream_ids()

    def topics(self):
        return {self.loaded.topic(record) for record in self.loaded.sent}

    def assert_once(self):
        """Each record that was sent stands in the table of its topic once, and the current table has its key."""
        warehouse = Warehouse.at(self.settings(self.stack.bootstrap_servers).warehouse.path)
        placed = Counter()
        for name, rows in warehouse.changes().items():
            placed += Counter((row["_topic"], row["_kafka_partition"], row["_offset"]) for row in rows)
            assert len(warehouse.current(name).rows) == len({row["id"] for row in rows})
        offsets = Counter()
        sent = Counter()
        for record in self.loaded.sent:
            topic = self.loaded.topic(record)
            sent[topic, record.partition, offsets[topic]] += 1
            offsets[topic] += 1
        assert placed == sent


@pytest.fixture
def feed(stack, tmp_path):
    return Feed(stack, tmp_path)


@pytest.fixture
def old(stack):
    with OldBroker(int(stack.bootstrap_servers.rpartition(":")[2])) as broker:
        yield broker


def test_each_of_three_runs_takes_what_is_new_of_each_topic_and_nothing_twice(feed, old):
    for part in range(3):
        feed.run(part, old.bootstrap_servers)
        feed.assert_once()
    assert len(feed.loaded.sent) == 716
    assert feed.ledger.streams == {f"name:{topic}": topic for topic in feed.topics()}


def test_a_broker_that_is_upgraded_gives_ids_to_what_was_known_by_name_and_a_fallen_back_one_takes_none(feed, old):
    feed.run(0, old.bootstrap_servers)
    feed.run(1, feed.stack.bootstrap_servers)
    feed.assert_once()
    ids = feed.ids
    assert not any(topic.startswith("name:") for topic in ids.values())
    assert feed.ledger.streams == {topic: name for name, topic in ids.items()}
    feed.run(2, old.bootstrap_servers)
    feed.assert_once()
    assert (feed.ids, feed.ledger.streams) == (ids, {topic: name for name, topic in ids.items()})
    feed.take(feed.stack.bootstrap_servers)
    feed.assert_once()


def noted_under_no_id(pipeline):
    """As an earlier version has left it: what was read of all topics under the one id that a client shows for none."""
    for table in pipeline.context.tables:
        ends = {(ZERO, partition): end for (_, partition), end in table.ends.items()}
        table.changes.mark(ENDS.entry(ends), MAIN)
    ledger = pipeline.context.run.ledger
    ledger.streams = {ZERO: max(ledger.streams.values())}
    ledger.ends = {(ZERO, partition): end for (_, partition), end in ledger.ends.items()}
    pipeline.context.records.tables["batches"].mark(ledger.summary(), MAIN)


def test_progress_that_was_noted_for_all_topics_as_one_is_refused_and_what_begins_afresh_is_right(feed, old, tmp_path):
    feed.run(0, old.bootstrap_servers)
    with Pipeline.open(feed.settings(old.bootstrap_servers)) as pipeline:
        noted_under_no_id(pipeline)
    for servers in (old.bootstrap_servers, feed.stack.bootstrap_servers):
        with pytest.raises(Refused) as refusal:
            Pipeline.open(feed.settings(servers))
        assert refusal.value.code == "TOPICS_MIXED"
        assert ", ".join(sorted(feed.topics())) in refusal.value.message
    feed.folder = tmp_path / "afresh"
    feed.take(old.bootstrap_servers)
    feed.assert_once()


def test_progress_of_one_topic_that_was_noted_under_no_id_is_that_topics(feed, old):
    alpha = [record for record in PARTS[0].records if record.topic.endswith("alpha")]
    feed.loaded.produce(alpha)
    feed.take(old.bootstrap_servers)
    with Pipeline.open(feed.settings(old.bootstrap_servers)) as pipeline:
        noted_under_no_id(pipeline)
    feed.loaded.produce([record for record in PARTS[0].records if record not in alpha])
    feed.take(old.bootstrap_servers)
    feed.assert_once()


def test_a_run_and_doctor_say_what_it_costs(feed, old, capsys):
    feed.loaded.produce(PARTS[0].records)
    file = feed.folder / "ticdc-warehouse.yaml"
    tree = feed.loaded.settings_tree(feed.folder, source={"bootstrap_servers": old.bootstrap_servers})
    file.write_text(yaml.safe_dump(tree))
    for words in (["doctor"], ["run", "--available-now"]):
        assert main([*words, "-c", str(file)]) == 0
        said = capsys.readouterr()
        assert "the broker gives no topic id to " in said.out + said.err
        assert "name:" not in said.out
