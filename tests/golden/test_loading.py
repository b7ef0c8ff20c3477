"""Golden bytes in the real broker and registry: what is read back is what was sent, but for schema ids."""

import uuid

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from golden.corpus import GoldenCase, subject_of
from golden.loading import load, slices

pytestmark = pytest.mark.e2e


def read_back(loaded, topic):
    """All records of a topic, as (partition, offset, key, value)."""
    consumer = Consumer({"bootstrap.servers": loaded.stack.bootstrap_servers, "group.id": uuid.uuid4().hex})
    name = f"{loaded.prefix}_{topic}"
    partitions = sorted(consumer.list_topics(name, timeout=10).topics[name].partitions)
    assert len(partitions) == loaded.case.partitions
    consumer.assign([TopicPartition(name, number, OFFSET_BEGINNING) for number in partitions])
    expected = sum(record.topic == topic for record in loaded.sent)
    messages = consumer.consume(expected, timeout=30)
    assert consumer.poll(0.2) is None
    consumer.close()
    return sorted((m.partition(), m.offset(), m.key(), m.value()) for m in messages)


@pytest.mark.parametrize(
    "case",
    [GoldenCase("key_updates", "avro_ext_precise_long_p3"), GoldenCase("ddl", "avro_watermark")],
    ids=str,
)
def test_records_keep_their_place_and_their_bytes_and_their_schema_can_be_found(stack, case):
    loaded = load(case, stack, f"load_{case.scenario}")
    for part in slices(case.records, [17, 90]):
        loaded.produce(part)
    texts = {(entry.subject, entry.id): entry.schema for entry in case.schemas}
    registry = SchemaRegistryClient({"url": stack.registry_url})
    for topic in case.topics:
        sent = [record for record in case.records if record.topic == topic]
        got = read_back(loaded, topic)
        by_partition = sorted(sent, key=lambda record: (record.partition, record.seq))
        for record, (partition, _, key, value) in zip(by_partition, got, strict=True):
            assert partition == record.partition
            for part, original, message in (("key", record.key, key), ("value", record.value, value)):
                if original is None or record.kind != "row":
                    assert message == original
                    continue
                assert message[5:] == original[5:]
                old, new = (int.from_bytes(one[1:5], "big") for one in (original, message))
                assert registry.get_schema(new).schema_str == texts[subject_of(topic, part), old]


def test_events_stand_at_the_coordinates_where_kafka_has_them(stack):
    case = GoldenCase("key_updates", "avro_ext_precise_long_p3")
    loaded = load(case, stack, "load_events")
    loaded.produce_all()
    found = loaded.events()
    for topic in case.topics:
        kafka = {(p, o): (key, value) for p, o, key, value in read_back(loaded, topic)}
        here = [event for event in found if event.record.topic == topic]
        assert len(here) == len(kafka)
        for event in here:
            key, value = kafka[event.record.partition, event.offset]
            assert key[5:] == event.record.key[5:]
            carrier = key if event.op == "delete" else value
            assert int.from_bytes(carrier[1:5], "big") == loaded.schema_id(event)


def test_the_settings_read_this_cases_topics_and_no_others(stack, tmp_path):
    loaded = load(GoldenCase("key_updates", "avro_noext"), stack, "load_settings")
    settings = loaded.settings(tmp_path, source={"max_offsets_per_trigger": 1})
    assert settings.source.max_offsets_per_trigger == 1
    assert settings.source.topic_pattern == "load_settings_tidb_.*"
    assert settings.changefeed.enable_tidb_extension is False
    assert settings.warehouse.path == tmp_path / "warehouse"
