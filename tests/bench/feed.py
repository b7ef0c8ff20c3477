"""More records for topics that exist already, and records of other schema versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workload
from order_line import order_line

from pipeline.simulate.avro import TableCodec
from pipeline.simulate.schemas import AvroOptions, subject_of, topic_of
from registry.client import RegistryClient, RegistryConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from order_line import Truth

    from pipeline.devstack import Devstack
    from pipeline.simulate.tables import Row, SimulatedTable


def names(count: int) -> list[str]:
    """The tables that `workload.many_tables` fills."""
    return [f"t{number:03d}" for number in range(count)]


def more(stack: Devstack, prefix: str, tables: Sequence[str], rows: int, key_range: int, seed: int) -> list[Truth]:
    """Send `rows` more records to the topic of each of these tables, as `workload.many_tables` did the first."""
    producer = workload._producer(stack.bootstrap_servers)
    truths = []
    with RegistryClient(RegistryConfig(stack.registry_url)) as registry:
        for name in tables:
            table = order_line("bench", name)
            topic = topic_of(prefix, table.schema, table.name)
            ids = _registered(registry, topic, TableCodec(table, AvroOptions()))
            truths.append(workload.Job(topic, 0, ids, f"{seed}/{topic}", 1, 1, key_range, rows).run(producer))
    workload._flush(producer)
    return truths


def rows_of(stack: Devstack, prefix: str, table: SimulatedTable, rows: Sequence[Row], commit_ts: int) -> None:
    """Send these rows, as inserts, in whatever version the table is."""
    producer = workload._producer(stack.bootstrap_servers)
    codec, topic = TableCodec(table, AvroOptions()), topic_of(prefix, table.schema, table.name)
    with RegistryClient(RegistryConfig(stack.registry_url)) as registry:
        key_id, value_id = _registered(registry, topic, codec)
    for row in rows:
        producer.produce(topic, codec.value(row, value_id, "c", commit_ts), codec.key(row, key_id), 0)
    workload._flush(producer)


def _registered(registry: RegistryClient, topic: str, codec: TableCodec) -> tuple[int, int]:
    key = registry.register(subject_of(topic, "key"), codec.key_schema)
    return key, registry.register(subject_of(topic, "value"), codec.value_schema)
