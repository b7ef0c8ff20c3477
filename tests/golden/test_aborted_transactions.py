"""A mirror between TiCDC and the reader writes in transactions of Kafka (docs/reference/configuration.md)."""

import pytest
from confluent_kafka import Producer
from golden.checking import set_aside, tables_are_those_of_tidb
from golden.comparing import assert_none
from golden.corpus import GoldenCase

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

CASE = GoldenCase("lifecycle", "simple_json")
READ_COMMITTED = {"options": {"kafka.isolation.level": "read_committed"}}
PATIENCE = 60


class Mirror:
    """Copies a case's records into the broker, a transaction at a time."""

    def __init__(self, loaded):
        self.loaded = loaded
        loaded._create_topics({record.topic for record in loaded.case.records})
        servers = loaded.stack.bootstrap_servers
        self.producer = Producer({"bootstrap.servers": servers, "transactional.id": f"mirror of {loaded.prefix}"})
        self.producer.init_transactions(PATIENCE)

    def copy(self, records, *, commit):
        self.producer.begin_transaction()
        for record in records:
            topic = self.loaded.topic(record)
            self.producer.produce(topic, partition=record.partition, key=record.key, value=record.value)
        assert self.producer.flush(PATIENCE) == 0
        self.producer.commit_transaction(PATIENCE) if commit else self.producer.abort_transaction(PATIENCE)


def test_what_was_aborted_is_no_change_and_the_markers_of_transactions_hold_nothing_up(running):
    records = list(CASE.records)
    half = len(records) // 2
    with running(CASE, source=READ_COMMITTED) as run:
        mirror = Mirror(run.loaded)
        mirror.copy(records[:half], commit=False)
        mirror.copy(records[:half], commit=True)
        run.pipeline.run(available_now=True)
        mirror.copy(records[half:], commit=False)
        mirror.copy(records[half:], commit=True)
        run.pipeline.run(available_now=True)
        assert_none([*tables_are_those_of_tidb(CASE, run.warehouse), *set_aside(CASE, run.warehouse)])
        batches = run.warehouse.own("batches")
        assert {row["level"] for row in batches} == {"exact"}
        assert sum(row["rows_in"] for row in batches) == len(records)
        run.pipeline.run(available_now=True)
        assert len(run.warehouse.own("batches")) == len(batches)
