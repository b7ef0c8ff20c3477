"""One pipeline: opened on a warehouse, run until it is stopped or everything that is there has been taken."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from pipeline.errors import Refused
from pipeline.ingest.context import PipelineContext
from pipeline.ingest.ordering import may_have_pending, take_batch
from pipeline.ingest.routed import RawBatch
from pipeline.ingest.run_state import Ledger, RunState
from pipeline.ingest.set_aside import pending
from pipeline.model.names import PIPELINE_NAMESPACE
from pipeline.observe.logs import bound
from pipeline.operations import redrive, release
from pipeline.operations.whole_table_checks import audit_after
from pipeline.protocols.build import protocol_of, registry_of
from pipeline.quality.gate import Gate
from pipeline.quality.rulebook import Rulebook
from pipeline.runtime import failpoints
from pipeline.runtime.lock import JvmLock, WriterLock, made
from pipeline.runtime.session import session, spread
from pipeline.service.dispatch import operation
from pipeline.service.mailbox import Inbox
from pipeline.service.telemetry import Telemetry
from pipeline.sources.build import OWN_TABLES, source_of
from pipeline.sources.source import ends_under
from pipeline.warehouse import altered
from pipeline.warehouse.consistent_points import ConsistentPoints
from pipeline.warehouse.descriptions import Descriptions
from pipeline.warehouse.iceberg import MAIN, Catalog
from pipeline.warehouse.maintenance import Maintainer
from pipeline.warehouse.orphans import lost_tables
from pipeline.warehouse.place import (
    WAREHOUSE_COPIED,
    catalog_folder,
    check_catalog,
    check_copied,
    check_place,
    placed,
)
from pipeline.warehouse.records import WAREHOUSE_OF_ANOTHER, Records, check_owner
from pipeline.warehouse.state import ENDS
from pipeline.warehouse.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from pipeline.ingest.phases import CommittedBatch
    from pipeline.observe.metrics import Metrics
    from pipeline.settings import Settings
    from pipeline.sources.source import Feed, Resumed, Taken

CATALOG_LOST = "CATALOG_LOST"
_LISTED = 5


class Pipeline:
    """An open pipeline: it holds the warehouse's lock. Use as a context manager."""

    def __init__(
        self,
        context: PipelineContext,
        resources: ExitStack,
        listener: Callable[[int, CommittedBatch, float], None],
        telemetry: Telemetry,
    ) -> None:
        self.context = context
        self._telemetry = telemetry
        self._resources = resources
        self._listener = listener
        self._maintainer = Maintainer(context.spark, context.settings.warehouse.maintenance, context.step)
        self._inbox = Inbox(context.settings.warehouse.path)
        self._working = threading.Lock()
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._with_new_rows: set[str] = set()
        self._left = False

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        purpose: str = "run",
        accept: frozenset[str] = frozenset(),
        listener: Callable[[int, CommittedBatch, float], None] = lambda _number, _outcome, _seconds: None,
        metrics: Metrics | None = None,
    ) -> Self:
        """Take the lock, load what the warehouse knows, refuse what would lose data.

        Raises `Refused` and `EnvironmentFault` before anything is committed. `accept` names refusals to pass over.
        """
        with ExitStack() as resources:
            resources.enter_context(WriterLock(settings.warehouse.path, purpose))
            telemetry = Telemetry(metrics)
            context = _context(settings, resources, accept, telemetry)
            telemetry.opened(context)
            return cls(context, resources.pop_all(), listener, telemetry)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the lock go."""
        self._resources.close()

    def stop(self) -> None:
        """Ask a running `run` to end after its current batch; may be called from a signal handler."""
        self._stopping.set()

    def operation(self, what: str, names: Sequence[str]) -> Mapping[str, Any]:
        """Do what a person asks for (`operations`)."""
        with self._telemetry.operation(what):
            return operation(self.context, self._maintainer, what, names)

    def run(self, *, available_now: bool = False) -> None:
        """Stream until stopped, or with `available_now` until everything that is there now is committed."""
        with self._telemetry.looking(self.context) as well:
            self._run(well, available_now=available_now)

    def _run(self, well: Callable[[], None], *, available_now: bool) -> None:
        self._error = None
        self._with_new_rows.clear()
        self._left = False
        source = self.context.source
        if not self._await_streams(available_now=available_now):
            return
        if self._stopping.is_set():  # nothing has begun
            self._stopping.clear()
            return
        feed = source.feed(
            self._batch,
            self.context.run.ledger.committed,
            self.context.settings.checkpoint,
            available_now=available_now,
        )
        try:
            self._follow(feed, well)
        except Exception as error:
            if self._error is None and not self._stopping.is_set():
                explained = source.explained(error)
                if explained is None:
                    raise
                raise explained from error
        finally:
            stopped = self._stopping.is_set()
            self._wind_up(feed)
        if self._error is not None:
            raise self._error
        if available_now and not stopped:
            self._take_the_rest()

    def _follow(self, feed: Feed, well: Callable[[], None]) -> None:
        """Do what there is to do beside the feed until it ends, and raise what ended it, or the looks at it."""
        while feed.runs and not self._stopping.is_set():
            feed.wait(0.2)
            self._take_requests()
            well()
        ended = feed.error()  # `wait` raises it only where it was waiting just then
        if ended is not None:
            raise ended

    def _await_streams(self, *, available_now: bool) -> bool:
        """Wait until there is something, or the run is stopped. False: nothing is there, and nothing is awaited."""
        while not self.context.source.is_there():
            if available_now:
                absence = self.context.source.absence()
                if absence is not None:
                    raise absence
                return False
            if self._stopping.wait(1.0):
                break
            self._take_requests()
        return True

    def _take_requests(self) -> None:
        """Do what others ask for, unless a batch is under way: then after it."""
        if self._working.acquire(blocking=False):
            try:
                self._inbox.take(self.operation)
            finally:
                self._working.release()

    def _batch(self, taken: Taken) -> None:
        with self._working:
            try:
                self._take(taken)
            except _Stopped:
                raise
            except BaseException as error:
                self._error = error
                raise _Stopped from error  # to what is no Exception py4j gives no answer: the JVM would wait

    def _take_the_rest(self) -> None:
        """What a batch has left for the next one, in batches that have nothing else; then judge whole tables.

        Not where it is stopped on the way: a table that has half of its changes is not one to judge.
        """
        while self._left and not self._stopping.is_set():
            self._land(RawBatch(pending.nothing(self.context), f"{self.context.settings.name}/rest"))
        if not self._stopping.is_set():
            audit_after(self.context, frozenset(self._with_new_rows))
        self._stopping.clear()

    def _take(self, taken: Taken) -> None:
        if self._stopping.is_set():
            raise _Stopped
        for spark in (self.context.spark, taken.raw.sparkSession):
            spread(spark, self.context.settings)
        self._land(RawBatch(taken.raw, f"{self.context.settings.name}/{taken.number}", taken.planned))

    def _land(self, raw: RawBatch) -> None:
        number = self.context.run.batch_id
        self._telemetry.begun()
        with bound(batch=number):
            committed = self._taken(raw, number)
            if committed is not None:
                seconds = time.monotonic() - raw.started
                self._listener(number, committed, seconds)
                self._telemetry.batch(self.context, committed, seconds)
                self._maintain(committed)
            self._left = committed is not None and committed.leaves_some
            self.context.step("before-spark-commit")

    def _taken(self, raw: RawBatch, number: int) -> CommittedBatch | None:
        try:
            return take_batch(self.context, raw)
        except BaseException as error:
            self.context.run.recovering = True
            self._telemetry.failed(number, error)
            raise

    def _maintain(self, committed: CommittedBatch) -> None:
        tables = {table.table for table in committed.tables}
        self._with_new_rows |= tables
        changed = [table for table in self.context.tables if str(table.source) in tables]
        self._maintainer.after_batch(changed, self.context.records, self.context.tables)

    def _wind_up(self, feed: Feed) -> None:
        """End the feed after its current batch."""
        self._stopping.set()
        feed.stop()
        self._stopping.clear()


class _Stopped(Exception):
    """Raised in a batch that begins after `stop`, or that ends by an error, which `run` raises then."""


@dataclass(frozen=True, slots=True)
class _Notes:
    """`SourceNotes`."""

    records: Records
    batch_id: Callable[[], int]

    def read(self, name: str) -> DataFrame:
        """See `SourceNotes.read`."""
        return self.records.read(name)

    def write(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """See `SourceNotes.write`."""
        self.records.write(name, self.batch_id(), rows)


def _context(settings: Settings, resources: ExitStack, accept: frozenset[str], telemetry: Telemetry) -> PipelineContext:
    check_catalog(settings.warehouse)
    spark = session(settings)
    spark.sparkContext.setJobDescription("open the warehouse")
    resources.enter_context(JvmLock(spark, settings.warehouse.path))
    source = source_of(spark, settings)  # nothing is asked yet: a client that cannot be made leaves no tables behind
    resources.callback(source.close)
    catalog = Catalog(spark)
    if CATALOG_LOST not in accept:
        _refuse_lost(catalog, settings)
    records = Records.open(spark, catalog, settings.warehouse.data, settings.name, OWN_TABLES[settings.source.kind])
    tables = Tables(
        catalog,
        settings.warehouse.data,
        namespace=settings.warehouse.namespace,
        with_current=settings.warehouse.current,
    )
    tables.load()
    check_place(placed([*records.tables.values(), *tables.loaded()]), settings.warehouse)
    refuse_another(records, tables, accept)
    if WAREHOUSE_COPIED not in accept:
        check_copied(records.tables["batches"].properties, settings.warehouse)
    ledger = Ledger.load(records)
    recorded = {*ledger.streams, *(stream for table in tables for stream, _ in table.ends)}
    notes = _Notes(records, lambda: run.batch_id)
    resumed = source.resume(ledger.committed, recorded, notes, accept)
    records.claim(catalog_folder(settings.warehouse))
    _succeed(tables, resumed.successors)
    _accept(tables, records, ledger, resumed)
    descriptions = Descriptions(records)
    made(settings.checkpoint)
    registry = registry_of(settings, resources, settings.checkpoint / "schemas.json")
    protocol = protocol_of(settings, registry, descriptions)
    protocol.begin(ledger.ordering)
    quality = settings.quality
    rulebook = Rulebook(spark, built_in=quality.built_in).renewed(quality)
    die = failpoints.from_environment()

    def step(name: str) -> None:
        telemetry.step(name)
        die(name)

    recovering = len(tables) > 0 or any(table.head() is not None for table in records.tables.values())
    run = RunState(ledger, recovering, has_pending=may_have_pending(protocol))
    context = PipelineContext(
        spark, settings, source, protocol, tables, records, run, step, rulebook,
        descriptions, ConsistentPoints(tables, records), Gate(quality.quarantine_share, quality.quarantine_rows),
    )  # fmt: skip
    tables.sweep()
    tables.upgrade()
    altered.look_at_all(tables, records, max(0, ledger.batch_id))
    tables.may_change()
    records.held_counts()  # `last_held` goes by it: what a release left half done may rename a table that has no pair
    release.unfinished(context)
    redrive.unfinished(context)
    records.held_counts()  # counted again only if these have changed it: a run without a batch tells of it too
    return context


def _refuse_lost(catalog: Catalog, settings: Settings) -> None:
    """Refuse a warehouse with tables that the catalog does not know."""
    lost = lost_tables(catalog, settings.warehouse.local_data)
    if not lost:
        return
    listed = sorted(lost, key=lambda name: (name.startswith(f"{PIPELINE_NAMESPACE}."), name))
    names = ", ".join(listed[:_LISTED]) + (" …" if len(lost) > _LISTED else "")
    raise Refused(
        CATALOG_LOST,
        f"the catalog does not know {len(lost)} tables that lie in {settings.warehouse.data}: {names}",
        "to bring them back into the catalog: ticdc-warehouse tables restore",
    )


def refuse_another(records: Records, tables: Tables, accept: frozenset[str]) -> None:
    """Refuse a warehouse in which another pipeline has written (`check_owner`)."""
    batches = records.tables["batches"]
    begun = len(tables) > 0 or batches.head() is not None
    if begun and WAREHOUSE_OF_ANOTHER not in accept:
        check_owner(batches.properties, records.pipeline, records.data)


def _succeed(tables: Tables, successors: Mapping[str, str]) -> None:
    """Let tables know streams by the identities that they have by now; `_accept` lets the ledger."""
    for table in tables if successors else ():
        ends = ends_under(table.ends, successors)
        if ends != table.ends:
            tables.note_successors(table, successors)
            table.ends = ends
            table.changes.mark(ENDS.entry(ends), MAIN)


def _accept(tables: Tables, records: Records, ledger: Ledger, resumed: Resumed) -> None:
    """Remember what was passed over: the next run does not ask again. The ledger goes last."""
    accepted = resumed.accepted
    if accepted == ledger.committed:
        return
    shrunk = {at: end for at, end in accepted.ends.items() if end < resumed.recorded.ends[at]}
    for table in tables:
        lower = {at: min(end, shrunk.get(at, end)) for at, end in table.ends.items()}
        if lower != table.ends:
            table.ends = lower
            table.changes.mark(ENDS.entry(lower), MAIN)
    ledger.ends, ledger.streams = dict(accepted.ends), dict(accepted.names)
    records.tables["batches"].mark(ledger.summary(), MAIN)
