"""The life of a process: it opens the warehouse, takes batches as Spark plans them, and ends anywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import yaml
from support.memory_source import MemorySource
from unit.batch_model.batch import Crash, Fuse, ModelBatch, ModelProtocol, ModelRecords, ModelSpark
from unit.batch_model.frames import raw_frame
from unit.batch_model.iceberg import MAIN, ModelCatalog
from unit.batch_model.suites import FENCE, NONE, ModelRulebook
from unit.batch_model.upstream import Broker, Source

from pipeline.errors import BatchFailed
from pipeline.model.places import Partition
from pipeline.operations import redrive, release
from pipeline.quality.gate import Gate, QualityStop
from pipeline.settings import parse
from pipeline.sources.kafka import offsets
from pipeline.sources.kafka.checkpoint import agrees
from pipeline.sources.kafka.offsets import KafkaState
from pipeline.sources.source import Planned
from pipeline.streaming.batch import micro_batch
from pipeline.streaming.context import Ledger, PipelineContext
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


class Process:
    """A pipeline that is open on a world."""

    def __init__(self, world: World, fuse: Fuse) -> None:
        self.world, self.fuse = world, fuse
        world.catalog.before_commit = fuse.burn
        records = ModelRecords.load(world.catalog)
        tables = Tables(world.catalog, "/model/data", namespace="{schema}", with_current=True)
        tables.load()
        tables.sweep()
        ledger = Ledger.load(records)
        offsets.check(ledger.committed, world.kafka(), frozenset())
        spark = ModelSpark(world.catalog, fuse)
        protocol = ModelProtocol(world.source.registry)
        rulebook = ModelRulebook(spark, built_in=False, suite=world.suite)
        settings = SETTINGS["hold" if FENCE in world.suite else "apply"]
        self.context = PipelineContext(
            spark, settings, world.brought, protocol, tables, records, ledger, fuse.burn, rulebook, GATE
        )
        release.unfinished(self.context)
        redrive.unfinished(self.context)
        self._begin()
        self._nothing_is_staged()

    def _begin(self) -> None:
        """As `KafkaSource.feed`."""
        state, committed = self.world.kafka(), self.context.ledger.committed
        planned = self.world.checkpoint.planned() if self.world.checkpoint else None
        if planned is None or not agrees(planned, committed.of(state.topics)):
            start = offsets.starting_offsets(committed, state, "earliest")
            self.world.checkpoint = Checkpoint({at: max(offset, 0) for at, offset in start.items()})

    def batch(self, plan) -> bool:
        """Take one batch; `plan` gives a new one's ends from its starts. False: there was nothing to take."""
        checkpoint = self.world.checkpoint
        last = max(checkpoint.offsets, default=-1)
        if last in checkpoint.commits or last < 0:
            starts = checkpoint.offsets.get(last, checkpoint.initial)
            ends = plan(starts)
            if ends is None:
                return False
            last += 1
            checkpoint.offsets[last] = ends
        begins = checkpoint.offsets.get(last - 1, checkpoint.initial)
        ends = checkpoint.offsets[last]
        raw = self.world.brought.records({at: (begins.get(at, 0), ends.get(at, 0)) for at in self.world.brought.logs})
        batch = ModelBatch(self.context, raw, f"model/{last}", checkpoint.planned())
        self._take(batch)
        self._nothing_is_staged()
        self.fuse.burn("before-spark-commit")
        checkpoint.commits.add(last)
        return True

    def _take(self, batch: ModelBatch) -> None:
        """As `Pipeline._take`; a crash closes nothing."""
        try:
            micro_batch(batch, self.fuse.burn)
        except (BatchFailed, QualityStop) as error:
            if isinstance(error, QualityStop):
                batch.write_results()
            batch.close()
            raise
        batch.close()

    def _nothing_is_staged(self) -> None:
        for name, metadata in self.world.catalog.pointers.items():
            assert set(metadata.refs) <= {MAIN}, f"{name} has branches left: {sorted(metadata.refs)}"

    @staticmethod
    def tables_of(world: World) -> Tables:
        """What the warehouse knows of its tables."""
        tables = Tables(world.catalog, "/model/data", namespace="{schema}", with_current=True)
        tables.load()
        return tables

    @staticmethod
    def ledger_of(world: World) -> Ledger:
        """How far the warehouse has come."""
        records = ModelRecords(None, world.catalog, Path(), "model", {})
        batches = world.catalog.table(where("batches"))
        if batches is None:
            return Ledger()
        records.tables["batches"] = batches
        return Ledger.load(records)

    def release(self, source) -> int:
        """Release a held table between two batches."""
        return release.release(self.context, source)

    def redrive(self, what: str) -> redrive.Redriven:
        """Redrive everything of `quarantine` or `dead_letters` between two batches."""
        return redrive.redrive(self.context, redrive.Selection(what))


__all__ = ["Crash", "Process", "World"]
