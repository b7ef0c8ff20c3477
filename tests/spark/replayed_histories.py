"""Histories that the model has played, played by the product: a whole pipeline on Spark and Iceberg, on a source in
memory. After each act the warehouse must have what the model's has.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from golden.warehouse import Warehouse
from spark.recorded_histories import (
    BATCH,
    HOLD,
    OF_A_RECORD,
    OPEN,
    RELEASE,
    REST,
    Crash,
    own_columns,
    state_of,
)
from spark.simple_source import SimpleSource, reading, settings_in
from support.memory_source import MemoryFeed
from unit.batch_model.batch import _OneThread as OneThread

from pipeline.errors import BatchFailed, PipelineError
from pipeline.ingest import batch
from pipeline.ingest.by_commit_ts import publishing
from pipeline.ingest.routed import RawBatch
from pipeline.ingest.run_state import Ledger
from pipeline.ingest.set_aside import pending
from pipeline.ingest.table_writer import TableWriter
from pipeline.model import change
from pipeline.operations import release
from pipeline.runtime.session import session
from pipeline.service import pipeline as service
from pipeline.service.pipeline import Pipeline
from pipeline.sources.source import Taken
from pipeline.warehouse.iceberg import Catalog
from pipeline.warehouse.pairs import State
from pipeline.warehouse.records import Records
from pipeline.warehouse.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from spark.recorded_histories import Act, Recorded, Row

    from pipeline.warehouse.pairs import TablePair


class ReplayedSource(SimpleSource):
    """A source that has what the model's had, and gives the batches that the model's process took."""

    __slots__ = ("due",)

    def is_as(self, act: Act) -> None:
        """Have what the model's source had when it did this: nobody looks at records but for their number."""
        self.known = dict(act.streams)
        self.logs = {at: [None] * end for at, end in act.ends.items()}
        self.due = act

    def feed(self, take: Callable[[Taken], None], *_: object, **__: object) -> OneBatch:
        """See `Source.feed`."""
        return OneBatch(self, take, {}, available_now=False)


class OneBatch(MemoryFeed):
    """Gives the batch that is due, then ends."""

    __slots__ = ()

    def wait(self, seconds: float) -> None:
        """See `Feed.wait`."""
        del seconds
        self.runs, act = False, self.source.due
        self.take(Taken(self.source.raw(act.records), int(act.query_id.rpartition("/")[2]), act.planned))


class NamedFuse:
    """In place of fail-points: ends the process at a step of this name, when it comes for the how many-th time."""

    def __init__(self) -> None:
        self.dies: tuple[str, int] | None = None
        self.passed: Counter[str] = Counter()

    def __call__(self, step: str) -> None:
        self.passed[step] += 1
        if (step, self.passed[step]) == self.dies:
            raise Crash(step)


class FaultyWriter(TableWriter):
    """A table's part of a batch, in which a fault may be."""

    faults: Mapping[tuple[str, str], str] = {}

    def evolve(self) -> None:
        self._may_fail("evolve")
        super().evolve()

    def append(self, ranges: Any) -> Any:
        self._may_fail("append")
        return super().append(ranges)

    def _may_fail(self, stage: str) -> None:
        if self.faults.get(self.messages.table.key) == stage:
            raise BatchFailed("INJECTED", f"{self.messages.table}: {stage}")


def one_by_one(work: Callable[[Any], Any], tables: Sequence[Any], *_: object) -> list[Any]:
    """For `workers.side_by_side`: in the model's order, so that a process dies with the same work done."""
    results, errors = [], []
    for table in tables:
        try:
            results.append(work(table))
        except Exception as error:  # noqa: BLE001 - as the product's threads: an error waits for the other tables
            errors.append(error)
    if errors:
        raise errors[0]
    return results


class Replay:
    """A warehouse in a folder, and the processes that write it."""

    def __init__(self, folder: Path, policy: str) -> None:
        self.settings = settings_in(folder, policy)
        self.source, self.fuse = ReplayedSource(), NamedFuse()
        self.pipeline: Pipeline | None = None

    def do(self, act: Act) -> None:
        """Do what the model's process did; the process dies and fails where that one has."""
        self.source.is_as(act)
        self.fuse.dies = act.dies
        self.fuse.passed.clear()
        FaultyWriter.faults = act.faults
        died, failed = False, ""
        try:
            self._done(act)
        except Crash:
            died = True
        except PipelineError as error:
            failed = error.code
        if died or failed:
            self.end()
        assert died == (act.dies is not None), f"{act.dies} never came, these did: {dict(self.fuse.passed)}"
        assert failed == act.fails

    def _done(self, act: Act) -> None:
        if act.kind == OPEN:
            self.end()
            self.pipeline = Pipeline.open(self.settings)
            return
        context = self.pipeline.context
        if act.kind == BATCH:
            self.pipeline.run()
        elif act.kind == REST:
            self.pipeline._land(RawBatch(pending.nothing(context), act.query_id))
        elif act.kind == HOLD:
            context.tables.set_state(context.tables.find(act.table), State.HELD, "by a person")
        elif act.kind == RELEASE:
            release.release(context, act.table)

    def end(self) -> None:
        """The process is gone."""
        if self.pipeline is not None:
            self.pipeline.close()
        self.pipeline = None

    def left(self) -> dict[str, Any]:
        """What the warehouse has."""
        spark, warehouse = session(self.settings), Warehouse.at(self.settings.warehouse.path)
        catalog = Catalog(spark)
        tables = Tables(catalog, self.settings.warehouse.data, namespace="{schema}", with_current=True)
        tables.load()
        records = Records.open(spark, catalog, self.settings.warehouse.data, self.settings.name)

        def rows(name: Any) -> list[Row]:
            return warehouse.catalog.load_table((name.namespace, name.name)).scan().to_arrow().to_pylist()

        def rows_of(pair: TablePair) -> tuple[list[Row], list[Row]]:
            shown = [_chosen(row, change.COMMIT_TS) for row in (rows(pair.name) if pair.current is not None else ())]
            known = (change.OP, change.COMMIT_TS, change.SCHEMA_ID, change.BATCH_ID)
            changes = [
                {"place": tuple(row[name] for name in change.POSITION[:3]), **_chosen(row, *known)}
                for row in rows(pair.name.changes)
            ]
            return shown, changes

        def own(name: str) -> list[Row]:
            if name not in OF_A_RECORD:
                return warehouse.own(name)
            return [
                {**row, "place": (row["topic"], row["kafka_partition"], row["offset"])} for row in warehouse.own(name)
            ]

        return state_of(tables, Ledger.load(records), rows_of, own)


def _chosen(row: Row, *known: str) -> Row:
    return {name: row[name] for name in (*known, *own_columns(row))}


@contextmanager
def replay(folder: Path, policy: str) -> Iterator[Replay]:
    """A warehouse of a policy for dropped tables, whose processes do one thing after the other."""
    replayed = Replay(folder, policy)
    with reading(replayed.source), pytest.MonkeyPatch.context() as patch:
        patch.setattr(service.failpoints, "from_environment", lambda: replayed.fuse)
        patch.setattr(batch, "TableWriter", FaultyWriter)
        patch.setattr(publishing, "ThreadPoolExecutor", OneThread)
        patch.setattr(batch, "side_by_side", one_by_one)
        try:
            yield replayed
        finally:
            replayed.end()


def agrees(recorded: Recorded, folder: Path) -> None:
    """Do what a recorded history did. Raises `AssertionError` where something else is there then."""
    with replay(folder, recorded.policy) as replayed:
        for number, act in enumerate(recorded.acts):
            replayed.do(act)
            found = replayed.left()
            differs = {
                name: {"model": act.left.get(name), "spark": found.get(name)}
                for name in (*act.left, *(found.keys() - act.left.keys()))
                if act.left.get(name) != found.get(name)
            }
            assert not differs, told(recorded, number, differs)


def told(recorded: Recorded, number: int, differs: Mapping[str, Mapping[str, Any]]) -> str:
    """A difference, with the history that leads to it."""
    act = recorded.acts[number]
    lines = [f"after act {number} ({act.kind} {act.table or act.query_id}, dies {act.dies}, fails {act.fails!r}):"]
    for name, sides in differs.items():
        lines += [name, *(f"    {side}: {value!r}" for side, value in sides.items())]
    return "\n".join([*lines, "", *(f"    {step!r}," for step in recorded.steps)])
