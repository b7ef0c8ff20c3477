# ruff: noqa: T201 - a script: its result goes to stdout
"""Fills Kafka topics with the bench's data, fast, and says what a consumer must arrive at.

`produce` fills one topic: 70 % inserts, 25 % updates of random earlier rows, 5 % deletes. Each partition is a
stream of its own with keys of its own (a key's records are all in one partition, in order), so that processes
can share the work and the data do not depend on how many there are. `many_tables` fills many topics of the
same layout with few rows each, for keys drawn from a given range.

    python tests/bench/workload.py --bootstrap HOST:PORT --registry URL --rows 1000000
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from by_cut import BY_CUT
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from order_line import BLOCK, Ids, Stream, Truth, order_line

from pipeline.simulate.avro import TableCodec
from pipeline.simulate.schemas import AvroOptions, subject_of, topic_of
from registry.client import RegistryClient, RegistryConfig

if TYPE_CHECKING:
    from pipeline.simulate.tables import SimulatedTable

PARTITIONS = 4
QUEUED_BYTES = 1 << 28


def _producer(servers: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": servers,
            "queue.buffering.max.messages": 1_000_000,
            "linger.ms": 20,
            "batch.size": 1 << 20,
            "log_level": 0,
        }
    )


@dataclass(frozen=True)
class Job:
    """One stream to send; `key_range` 0 means keys of its own, one after the other, as by cut they always are."""

    topic: str
    partition: int
    ids: tuple[int, int]
    seed: str
    first: int
    step: int
    key_range: int
    count: int
    protocol: str = "avro"

    def run(self, producer: Producer) -> Truth:
        """Queue it, about 100,000 messages or 256 MiB at a time at most."""
        stream, size = self._stream(), 0
        for block in stream.blocks(self.count):
            for key, value in block:
                producer.produce(self.topic, value, key, self.partition)
                size += len(value or b"")
            if len(producer) > 10 * BLOCK or size > QUEUED_BYTES:
                _flush(producer)
                size = 0
        return stream.truth

    def _stream(self) -> Stream:
        if self.protocol == "avro":
            return Stream(Ids(*self.ids), self.seed, self.first, self.step, self.key_range)
        return BY_CUT[self.protocol](self.seed, self.first, self.step)


def _flush(producer: Producer) -> None:
    if producer.flush(60):
        raise RuntimeError("not everything was acknowledged within a minute")


def _run(servers: str, jobs: list[Job], processes: int) -> list[Truth]:
    """Share the jobs among processes of this very file: it works however this module was imported."""

    def work(part: list[Job]) -> list[Truth]:
        told = json.dumps([asdict(job) for job in part])
        path = {"PYTHONPATH": os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path]))}
        command = [sys.executable, __file__, "--jobs", servers]
        done = subprocess.run(command, input=told, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | path)
        return [Truth(**truth) for truth in json.loads(done.stdout)]

    with ThreadPoolExecutor(processes) as threads:
        parts = list(threads.map(work, [jobs[n::processes] for n in range(processes)]))
    return [parts[n % processes][n // processes] for n in range(len(jobs))]


def _make(servers: str, topics: list[str], partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
        made.result(60)


def _open(
    servers: str, registry: RegistryClient, tables: list[SimulatedTable], prefix: str, partitions: int
) -> list[Ids]:
    """Make the tables' topics and register their schemas."""
    topics = [topic_of(prefix, table.schema, table.name) for table in tables]
    _make(servers, topics, partitions)
    found = []
    for topic, table in zip(topics, tables, strict=True):
        codec = TableCodec(table, AvroOptions())
        key = registry.register(subject_of(topic, "key"), codec.key_schema)
        found.append(Ids(key, registry.register(subject_of(topic, "value"), codec.value_schema)))
    return found


def produce(  # noqa: PLR0913 - the knobs of the data
    servers: str,
    registry_url: str,
    rows: int,
    *,
    prefix: str = "tidb",
    seed: int = 7,
    processes: int = 2,
    partitions: int = PARTITIONS,
) -> tuple[str, Truth]:
    """Fill the topic `<prefix>_bench_order_line` with `rows` records; return its name and the truth."""
    table = order_line()
    topic = topic_of(prefix, table.schema, table.name)
    with RegistryClient(RegistryConfig(registry_url)) as registry:
        (ids,) = _open(servers, registry, [table], prefix, partitions)
    jobs = _jobs(Job(topic, 0, ids, str(seed), 1, partitions, 0, rows), partitions)
    return topic, sum(_run(servers, jobs, processes), Truth())


def produce_by_cut(servers: str, protocol: str, rows: int, *, seed: int = 7, processes: int = 2) -> tuple[str, Truth]:
    """Fill the topic `<protocol>_cdc` with the very rows of `produce`, as Simple or Open sends them."""
    topic = f"{protocol}_cdc"
    _make(servers, [topic], PARTITIONS)
    jobs = _jobs(Job(topic, 0, (0, 0), str(seed), 1, PARTITIONS, 0, rows, protocol), PARTITIONS)
    return topic, sum(_run(servers, jobs, processes), Truth())


def records(servers: str, topic: str) -> int:
    """How many records a topic of `PARTITIONS` partitions has."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench", "log_level": 0})
    try:
        places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        return sum(consumer.get_watermark_offsets(place, 30)[1] for place in places)
    finally:
        consumer.close()


def _jobs(whole: Job, partitions: int) -> list[Job]:
    """A job for each partition, with keys of its own."""
    ends = [whole.count * n // partitions for n in range(partitions + 1)]
    return [
        replace(whole, partition=n, seed=f"{whole.seed}/{n}", first=1 + n, count=end - start)
        for n, (start, end) in enumerate(pairwise(ends))
    ]


def many_tables(  # noqa: PLR0913 - the knobs of the data
    servers: str,
    registry_url: str,
    count: int,
    rows: int,
    *,
    key_range: int = 10_000,
    prefix: str = "tidb",
    seed: int = 7,
    processes: int = 2,
) -> dict[str, Truth]:
    """Fill `count` topics of one partition with `rows` records each, keys drawn from 1 to `key_range`.

    Returns the truth by topic. Called again with another seed the same topics get more records; then the
    truths of the calls are about one table, and only the sums over all upserts add up.
    """
    tables = [order_line("bench", f"t{n:03d}") for n in range(count)]
    with RegistryClient(RegistryConfig(registry_url)) as registry:
        ids = _open(servers, registry, tables, prefix, 1)
    topics = [topic_of(prefix, table.schema, table.name) for table in tables]
    jobs = [
        Job(topic, 0, one, f"{seed}/{topic}", 1, 1, key_range, rows) for topic, one in zip(topics, ids, strict=True)
    ]
    return dict(zip(topics, _run(servers, jobs, processes), strict=True))


def main() -> None:
    """Fill a topic, or with --tables many, and print the truth as JSON."""
    if sys.argv[1:2] == ["--jobs"]:
        producer = _producer(sys.argv[2])
        truths = [Job(**job).run(producer) for job in json.load(sys.stdin)]
        _flush(producer)
        print(json.dumps([asdict(truth) for truth in truths]))
        return
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--registry", required=True)
    parser.add_argument("--rows", type=int, default=1_000_000, help="records, of each table")
    parser.add_argument("--tables", type=int, default=0)
    parser.add_argument("--key-range", type=int, default=10_000)
    parser.add_argument("--prefix", default="tidb")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    started = time.monotonic()
    common = {"prefix": given.prefix, "seed": given.seed}
    if given.tables:
        by_topic = many_tables(
            given.bootstrap, given.registry, given.tables, given.rows, key_range=given.key_range, **common
        )
    else:
        by_topic = dict([produce(given.bootstrap, given.registry, given.rows, **common)])
    seconds = round(time.monotonic() - started, 2)
    print(json.dumps({"seconds": seconds, "truth": {topic: asdict(truth) for topic, truth in by_topic.items()}}))


if __name__ == "__main__":
    main()
