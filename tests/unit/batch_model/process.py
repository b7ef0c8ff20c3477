"""The life of a process: it opens the warehouse, takes batches as Spark plans them, and ends anywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from support.memory_source import MemorySource
from unit.batch_model.batch import Crash, Fuse, ModelProtocol, ModelRecords, ModelSpark
from unit.batch_model.frames import raw_frame
from unit.batch_model.iceberg import MAIN, ModelCatalog
from unit.batch_model.suites import FENCE, NONE, ModelRulebook
from unit.batch_model.upstream import Broker, Source

from pipeline.ingest.context import PipelineContext
from pipeline.ingest.ordering import take_batch
from pipeline.ingest.routed import RawBatch
from pipeline.ingest.run_state import Ledger, RunState
from pipeline.model.places import Partition
from pipeline.operations import redrive, release
from pipeline.quality.gate import Gate
from pipeline.settings import parse
from pipeline.sources.kafka import offsets
from pipeline.sources.kafka.checkpoint import agrees
from pipeline.sources.kafka.offsets import KafkaState
from pipeline.sources.source import Planned
from pipeline.warehouse.consistent_points import ConsistentPoints
from pipeline.warehouse.descriptions import Descriptions
from pipeline.warehouse.records import where
from pipeline.warehouse.tables import Tables

WRITTEN = {
    "name": "model",
    "source": {"kind": "kafka", "protocol": "avro", "bootstrap_servers": "a:1", "topic_pattern": "t_.*"},
    "registry": {"url": "http://registry"},
    "warehouse": {"path": "warehouse"},
    "checkpoint": "checkpoint",
}
SETTINGS = {
    fenced: parse(yaml.safe_dump({**WRITTEN, "quality": {"fenced": fenced}}), Path("/model"))
    for fenced in ("apply", "hold")
}
GATE = Gate(share=0.5, rows=3)
Offsets = dict[Partition, int]


@dataclass(slots=True)
class Checkpoint:
    """Spark's folder: where the query began, planned ends by batch, and which batches are committed."""

    initial: Offsets
    offsets: dict[int, Offsets] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)

    def copy(self) -> Checkpoint:
        """As it is now."""
        return Checkpoint(self.initial, dict(self.offsets), set(self.commits))

    def planned(self) -> Planned | None:
        """As `checkpoint.planned_batch` reads the folder."""
        newest = sorted(self.offsets)[-2:]
        if not newest:
            return None
        return Planned(self.offsets[newest[0]] if len(newest) > 1 else {}, self.offsets[newest[-1]])


class World:
    """Everything durable, and the source."""

    def __init__(self, *, ddl_sent: bool) -> None:
        self.catalog = ModelCatalog()
        self.brought = MemorySource(lambda records: raw_frame((one.raw() for one in records), self.catalog))
        self.source = Source(Broker(self.brought), ddl_sent=ddl_sent)
        self.checkpoint: Checkpoint | None = None
        self.backup: Checkpoint | None = None
        self.suite = NONE
        self.least = 0

    def kafka(self) -> KafkaState:
        """What Kafka would have."""
        broker = self.source.broker
        return KafkaState(dict(broker.topics), dict.fromkeys(broker.logs, 0), broker.latest)


class Life:
    """A pipeline that is open on a world, whatever its ordering is: it takes batches as Spark plans them."""

    Records: type[ModelRecords] = ModelRecords

    def __init__(self, world: Any, fuse: Fuse) -> None:
        self.world, self.fuse = world, fuse
        world.catalog.before_commit = fuse.burn
        self.records = self.Records.load(world.catalog)
        self.tables = self.tables_of(world)
        self.tables.sweep()
        self.ledger = Ledger.load(self.records)
        self.spark = ModelSpark(world.catalog, fuse)

    def batch(self, plan) -> bool:
        """Take one batch; `plan` gives a new one's ends from its starts. False: there was nothing to take."""
        checkpoint = self.world.checkpoint
        last = max(checkpoint.offsets, default=-1)
        if last in checkpoint.commits or last < 0:
            ends = plan(checkpoint.offsets.get(last, checkpoint.initial))
            if ends is None:
                return self.take_the_rest()
            last += 1
            checkpoint.offsets[last] = ends
        begins, ends = checkpoint.offsets.get(last - 1, checkpoint.initial), checkpoint.offsets[last]
        logs = self.world.brought.logs
        raw = self.world.brought.records({at: (begins.get(at, 0), ends.get(at, 0)) for at in logs})
        self.take(raw, f"model/{last}", checkpoint.planned())
        self.fuse.burn("before-spark-commit")
        checkpoint.commits.add(last)
        return True

    def take(self, raw: Any, query_id: str, planned: Planned) -> None:
        """Take a batch of these records."""
        raise NotImplementedError

    def take_the_rest(self) -> bool:
        """Take what a batch has left for the next one; False: it has left nothing."""
        return False

    def nothing_is_staged(self) -> None:
        """No branch is left of any table."""
        for name, metadata in self.world.catalog.pointers.items():
            assert set(metadata.refs) <= {MAIN}, f"{name} has branches left: {sorted(metadata.refs)}"

    @staticmethod
    def tables_of(world: Any) -> Tables:
        """What the warehouse knows of its tables."""
        tables = Tables(world.catalog, "/model/data", namespace="{schema}", with_current=True)
        tables.load()
        return tables

    @staticmethod
    def ledger_of(world: Any) -> Ledger:
        """How far the warehouse has come."""
        records = ModelRecords(None, world.catalog, Path(), "model", {})
        batches = world.catalog.table(where("batches"))
        if batches is None:
            return Ledger()
        records.tables["batches"] = batches
        return Ledger.load(records)


class Process(Life):
    """By offset."""

    def __init__(self, world: World, fuse: Fuse) -> None:
        super().__init__(world, fuse)
        offsets.check(self.ledger.committed, world.kafka(), frozenset())
        rulebook = ModelRulebook(self.spark, built_in=False, suite=world.suite)
        self.context = PipelineContext(
            self.spark, SETTINGS["hold" if FENCE in world.suite else "apply"], world.brought,
            ModelProtocol(world.source.registry), self.tables, self.records, RunState(self.ledger),
            fuse.burn, rulebook, Descriptions(self.records),
            ConsistentPoints(self.tables, self.records), GATE,
        )  # fmt: skip
        release.unfinished(self.context)
        redrive.unfinished(self.context)
        self._begin()
        self.nothing_is_staged()

    def _begin(self) -> None:
        """As `KafkaSource.feed`."""
        state, committed = self.world.kafka(), self.context.run.ledger.committed
        planned = self.world.checkpoint.planned() if self.world.checkpoint else None
        if planned is None or not agrees(planned, committed.of(state.topics)):
            start = offsets.starting_offsets(committed, state, "earliest")
            self.world.checkpoint = Checkpoint({at: max(offset, 0) for at, offset in start.items()})

    def take(self, raw: Any, query_id: str, planned: Planned) -> None:
        """As `Pipeline._take`."""
        take_batch(self.context, RawBatch(raw, query_id, planned))
        self.nothing_is_staged()

    def release(self, source) -> int:
        """Release a held table between two batches."""
        return release.release(self.context, source)

    def redrive(self, what: str) -> redrive.Redriven:
        """Redrive everything of `quarantine` or `dead_letters` between two batches."""
        return redrive.redrive(self.context, redrive.Selection(what))


__all__ = ["Crash", "Process", "World"]
