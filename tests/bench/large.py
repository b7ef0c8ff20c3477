"""Rows that are large, and messages that TiCDC has compressed inside, against the same without (Canal-JSON)."""

from __future__ import annotations

import json
from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import sums
import workload
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from figures import Measured, two_batches
from machine import cores
from order_line import BASE_MS
from progress import say
from throughput import Contest, Ours, details_of, ratios_of

from pipeline.simulate import canal
from pipeline.simulate.ddl import create_table
from pipeline.simulate.files import CanalCodec
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ground import Ground, Sizes
    from remote import Remote

PLAIN, CODECS = "canal-json", ("lz4", "snappy")
WHAT = {PLAIN: "Canal-JSON"} | {f"{PLAIN}-{codec}": f"the same compressed inside, {codec}" for codec in CODECS}
ROWS, LARGE_EACH, MIB = 10_000, 100, 1 << 20
COLUMNS = (SimulatedColumn("id", "bigint(20)", nullable=False), SimulatedColumn("body", "longtext"))
TABLE = SimulatedTable("bench", "document", COLUMNS, ("id",))
MADE = BASE_MS - 1_000 << 18


def run(ground: Ground, sizes: Sizes) -> Measured:
    """Messages compressed inside; and one row in a hundred of 1 MiB, in its message and in a folder."""
    compressed, claimed = _compressed(ground, sizes), _claimed(ground, sizes)
    details = {**compressed.details, **claimed.details}
    mistakes = [*compressed.mistakes, *claimed.mistakes]
    return Measured({**compressed.figures, **claimed.figures}, details, mistakes, sizes.reduced("rows", "runs"))


def _compressed(ground: Ground, sizes: Sizes) -> Measured:
    servers, truth = ground.stack.bootstrap_servers, None
    with ExitStack() as workers:
        sides: dict[str, Ours] = {}
        for name in WHAT:
            say(f"large: producing {sizes.rows:,} rows as {name}")
            topic, truth = workload.produce_by_cut(servers, name, sizes.rows, processes=cores())
            worker = workers.enter_context(ground.worker("ours", f"large-{name}"))
            batch = two_batches(workload.records(servers, topic), workload.PARTITIONS)
            sides[name] = Ours(worker, ground, topic, batch, current=True, protocol=PLAIN)
        contest = Contest(dict(sides), ground.folder, truth, sizes.rows, case="large")
        contest.rounds(sizes.runs)
    ratios = ratios_of(contest, [(name, PLAIN) for name in WHAT if name != PLAIN])
    figures = {f"large.{name.rpartition('-')[2]}": ratios[f"{name}/{PLAIN}"]["ratio"] for name in WHAT if name != PLAIN}
    details = {"sides": details_of(contest, WHAT), "ratios": ratios}
    return Measured(figures, details, contest.mistakes)


def _claimed(ground: Ground, sizes: Sizes) -> Measured:
    objects = ground.folder / "claims"
    objects.mkdir(parents=True)
    topics = {"inside": _produce(ground, "inside", None), "claimed": _produce(ground, "claimed", objects)}
    seconds: dict[str, list[float]] = {name: [] for name in topics}
    mistakes: list[str] = []
    with ExitStack() as workers:
        sides = {name: workers.enter_context(ground.worker("ours", f"large-{name}")) for name in topics}
        for number in range(sizes.runs + 1):
            for name, worker in sides.items():
                taken, wrong = _taken(ground, worker, f"{name}-{number}", topics[name], objects)
                say(f"large: 1 % of 1 MiB, {name}: {taken:.2f} s")
                mistakes += wrong
                seconds[name] += [taken] * (number > 0)
    figure = round(median(seconds["claimed"]) / median(seconds["inside"]), 3)
    return Measured({"large.claimed": figure}, {"claimed_seconds": seconds}, mistakes)


def _taken(ground: Ground, worker: Remote, name: str, topic: str, objects: Path) -> tuple[float, list[str]]:
    """The seconds of a run into a new warehouse, and what is wrong with its table."""
    source = {"topics": [topic], "claim_check": {"path": str(objects)}}
    worker.ask("open", config=ground.config(name, source, batch=10**6, protocol=PLAIN))
    facts = worker.ask("run")
    worker.ask("close")
    ids, letters = set[int](), 0
    for batch in sums.scanned(ground.warehouse(name), "bench.document", ("id", "body")):
        ids |= set(batch["id"].to_pylist())
        letters += pc.sum(pc.utf8_length(batch["body"])).as_py() or 0
    expected = (ROWS, ROWS // LARGE_EACH * MIB + ROWS - ROWS // LARGE_EACH)
    found = (len(ids), letters)
    return facts["seconds"], [] if found == expected else [f"{name}: {found}, not {expected}"]


def _produce(ground: Ground, name: str, objects: Path | None) -> str:
    """Fill a topic with `ROWS` rows, one of `LARGE_EACH` with 1 MiB; where it is claimed, with its key."""
    servers, topic = ground.stack.bootstrap_servers, f"large_{name}"
    new = NewTopic(topic, workload.PARTITIONS, 1, config={"max.message.bytes": str(4 * MIB)})
    admin = AdminClient({"bootstrap.servers": servers})  # it has to live until it is answered
    admin.create_topics([new])[topic].result(60)
    producer = Producer({"bootstrap.servers": servers, "message.max.bytes": 4 * MIB, "log_level": 0})
    producer.produce(topic, canal.ddl_message(create_table(TABLE), MADE), partition=0)
    for number, value in enumerate(_messages(objects)):
        producer.produce(topic, value, partition=number % workload.PARTITIONS)
        if number % LARGE_EACH == 0:
            producer.flush(60)
    for partition in range(workload.PARTITIONS):
        producer.produce(topic, canal.watermark(BASE_MS + 2 * ROWS << 18), partition=partition)
    if producer.flush(60):
        raise RuntimeError("not everything was acknowledged within a minute")
    return topic


def _messages(objects: Path | None) -> Iterator[bytes]:
    codec = CanalCodec(TABLE)
    for number in range(ROWS):
        is_large = number % LARGE_EACH == 0
        body = f"{number:016x}" * (MIB // 16) if is_large else "x"
        whole = codec.lines("insert", None, {"id": number, "body": body}, BASE_MS + number << 18).rstrip()
        if not (is_large and objects):
            yield whole.encode()
            continue
        place = objects / f"{number}.json"
        place.write_text(whole)
        message: dict[str, Any] = json.loads(whole)
        message["data"] = [{"id": str(number)}]
        message |= {kind: {"id": message[kind]["id"]} for kind in ("sqlType", "mysqlType")}
        message["_tidb"]["claimCheckLocation"] = f"file://{place}"
        yield json.dumps(message).encode()
