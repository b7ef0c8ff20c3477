"""The life of a process by commit ts: it opens the warehouse, takes batches as they are planned, and ends anywhere."""

from __future__ import annotations

from pathlib import Path

import yaml
from support.memory_source import MemorySource
from unit.batch_model.batch import Crash, Fuse, ModelSpark
from unit.batch_model.frames import raw_frame
from unit.batch_model.iceberg import MAIN, ModelCatalog
from unit.batch_model.process import GATE, WRITTEN, Checkpoint
from unit.batch_model.suites import NONE, ModelRulebook
from unit.batch_model.upstream import Broker
from unit.commit_ts_model.lake import CommitTsProtocol, CommitTsRecords, ModelCommitTsBatch, ModelDescriptions
from unit.commit_ts_model.upstream import Tidb

from pipeline.errors import BatchFailed
from pipeline.operations import release
from pipeline.quality.gate import QualityStop
from pipeline.settings import parse
from pipeline.sources.kafka.checkpoint import agrees
from pipeline.streaming.batch import micro_batch
from pipeline.streaming.context import Ledger, PipelineContext
from pipeline.streaming.set_aside import pending
from pipeline.warehouse.tables import Tables

SOURCE = {"kind": "kafka", "protocol": "simple", "bootstrap_servers": "a:1", "topic_pattern": "t_.*"}
SETTINGS = {
    policy: parse(
        yaml.safe_dump({
            **{name: value for name, value in WRITTEN.items() if name != "registry"}, "source": SOURCE,
            "warehouse": {"path": "warehouse", "drop_table": policy},
        }),
        Path("/model"),
    )
    for policy in ("keep", "drop")
}  # fmt: skip


class World:
    """Everything durable, and the source."""

    def __init__(self, *, shared: bool, policy: str = "keep") -> None:
        self.catalog = ModelCatalog()
        self.brought = MemorySource(lambda records: raw_frame((one.raw() for one in records), self.catalog))
        self.tidb = Tidb(Broker(self.brought), shared=shared)
        self.checkpoint: Checkpoint | None = None
        self.backup: Checkpoint | None = None
        self.policy = policy


class Process:
    """A pipeline that is open on a world."""

    def __init__(self, world: World, fuse: Fuse) -> None:
        self.world, self.fuse = world, fuse
        world.catalog.before_commit = fuse.burn
        records = CommitTsRecords.load(world.catalog)
        tables = Tables(world.catalog, "/model/data", namespace="{schema}", with_current=True)
        tables.load()
        tables.sweep()
        ledger = Ledger.load(records)
        spark = ModelSpark(world.catalog, fuse)
        descriptions = ModelDescriptions(records)
        rulebook = ModelRulebook(spark, built_in=False, suite=NONE)
        self.context = PipelineContext(
            spark, SETTINGS[world.policy], world.brought, CommitTsProtocol(descriptions), tables, records, ledger,
            fuse.burn, rulebook, descriptions, GATE,
        )  # fmt: skip
        release.unfinished(self.context)
        self.left, self.resolved = False, 0
        planned = world.checkpoint.planned() if world.checkpoint else None
        if planned is None or not agrees(planned, ledger.committed.of(world.brought.streams())):
            known = ledger.committed.of(world.brought.streams())
            world.checkpoint = Checkpoint({at: known.get(at, 0) for at in world.brought.logs})

    def batch(self, plan) -> bool:
        """Take one batch; `plan` gives a new one's ends from its starts. False: there was nothing to take."""
        checkpoint = self.world.checkpoint
        last = max(checkpoint.offsets, default=-1)
        if last in checkpoint.commits or last < 0:
            starts = checkpoint.offsets.get(last, checkpoint.initial)
            ends = plan(starts)
            if ends is None:
                return self.take_the_rest()
            last += 1
            checkpoint.offsets[last] = ends
        begins, ends = checkpoint.offsets.get(last - 1, checkpoint.initial), checkpoint.offsets[last]
        raw = self.world.brought.records({at: (begins.get(at, 0), end) for at, end in ends.items()})
        self._take(ModelCommitTsBatch(self.context, raw, f"model/{last}", checkpoint.planned()))
        self.fuse.burn("before-spark-commit")
        checkpoint.commits.add(last)
        return True

    def take_the_rest(self) -> bool:
        """What a batch has left for the next one, in a batch that has nothing else."""
        if not self.left:
            return False
        self._take(ModelCommitTsBatch(self.context, pending.nothing(self.context), "model/rest"))
        return True

    @staticmethod
    def tables_of(world: World) -> Tables:
        """What the warehouse knows of its tables."""
        tables = Tables(world.catalog, "/model/data", namespace="{schema}", with_current=True)
        tables.load()
        return tables

    def release(self, source) -> None:
        """A person releases a table; the next batch lets its records in."""
        release.release(self.context, source)
        self.left = True

    def _take(self, batch: ModelCommitTsBatch) -> None:
        """As `Pipeline._land`; a crash closes nothing."""
        try:
            outcome = micro_batch(batch, self.fuse.burn)
        except (BatchFailed, QualityStop):
            batch.close()
            raise
        self.left = outcome is not None and batch.leaves_some
        self.resolved = batch.resolved if outcome is not None else self.resolved
        batch.close()
        for name, metadata in self.world.catalog.pointers.items():
            assert set(metadata.refs) <= {MAIN}, f"{name} has branches left: {sorted(metadata.refs)}"


__all__ = ["Crash", "Process", "World"]
