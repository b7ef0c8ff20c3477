"""The life of a process by commit ts: it opens the warehouse, takes batches as they are planned, and ends anywhere."""

from __future__ import annotations

from pathlib import Path

import yaml
from support.memory_source import MemorySource
from unit.batch_model.batch import Crash, Fuse
from unit.batch_model.frames import raw_frame
from unit.batch_model.iceberg import ModelCatalog
from unit.batch_model.process import GATE, WRITTEN, Checkpoint, Life
from unit.batch_model.suites import FENCE, NONE, IsBad, ModelRulebook, is_bad
from unit.batch_model.upstream import Broker
from unit.commit_ts_model.lake import CommitTsProtocol, CommitTsRecords, ModelDescriptions
from unit.commit_ts_model.upstream import Tidb

from pipeline.ingest.context import PipelineContext
from pipeline.ingest.ordering import take_batch
from pipeline.ingest.routed import RawBatch
from pipeline.ingest.run_state import RunState
from pipeline.ingest.set_aside import pending
from pipeline.operations import redrive, release
from pipeline.settings import parse
from pipeline.sources.kafka.checkpoint import agrees
from pipeline.warehouse.consistent_points import ConsistentPoints
from pipeline.warehouse.pairs import State

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
FENCED = {
    policy: settings.model_copy(update={"quality": settings.quality.model_copy(update={"fenced": "hold"})})
    for policy, settings in SETTINGS.items()
}


class World:
    """Everything durable, and the source."""

    def __init__(
        self,
        *,
        shared: bool,
        policy: str = "keep",
        partitioned: bool = False,
        keyless: bool = False,
        alone: bool = False,
    ) -> None:
        self.catalog = ModelCatalog()
        self.brought = MemorySource(lambda records: raw_frame((one.raw() for one in records), self.catalog))
        self.tidb = Tidb(Broker(self.brought), shared=shared, partitioned=partitioned, keyless=keyless, alone=alone)
        self.checkpoint: Checkpoint | None = None
        self.backup: Checkpoint | None = None
        self.policy = policy
        self.suite: tuple[str, ...] = NONE
        self.is_bad: IsBad = is_bad
        """Which rows break the rules of the suite."""


class Process(Life):
    """By commit ts."""

    Records = CommitTsRecords

    def __init__(self, world: World, fuse: Fuse) -> None:
        super().__init__(world, fuse)
        descriptions = ModelDescriptions(self.records)
        rulebook = ModelRulebook(self.spark, built_in=False, suite=world.suite, breaks=world.is_bad)
        settings = (FENCED if FENCE in world.suite else SETTINGS)[world.policy]
        protocol = CommitTsProtocol(descriptions, world.tidb.shown if world.tidb.alone else None)
        self.context = PipelineContext(
            self.spark, settings, world.brought, protocol, self.tables,
            self.records, RunState(self.ledger), fuse.burn, rulebook, descriptions,
            ConsistentPoints(self.tables, self.records), GATE,
        )  # fmt: skip
        release.unfinished(self.context)
        redrive.unfinished(self.context)
        self.left, self.resolved = False, 0
        planned, known = (
            world.checkpoint and world.checkpoint.planned(),
            self.ledger.committed.of(world.brought.streams()),
        )
        if planned is None or not agrees(planned, known):
            world.checkpoint = Checkpoint({at: known.get(at, 0) for at in world.brought.logs})

    def take_the_rest(self) -> bool:
        """See `Life.take_the_rest`: in a batch that has nothing else."""
        if self.left:
            self.take(pending.nothing(self.context), "model/rest", None)
            return True
        return False

    def hold(self, table) -> None:
        """A person holds a table."""
        self.tables.set_state(table, State.HELD, "by a person")

    def release(self, source) -> None:
        """A person releases a table; the next batch lets its records in."""
        release.release(self.context, source)
        self.left = True

    def redrive(self, what: str) -> redrive.Redriven:
        """Redrive everything of `quarantine` or `dead_letters` between two batches."""
        return redrive.redrive(self.context, redrive.Selection(what))

    def take(self, raw, query_id, planned) -> None:
        """As `Pipeline._land`."""
        committed = take_batch(self.context, RawBatch(raw, query_id, planned))
        self.left = committed is not None and committed.leaves_some
        self.resolved = self.spark.resolved if committed is not None else self.resolved
        self.nothing_is_staged()


__all__ = ["Crash", "Process", "World"]
