"""One pipeline: opened on a warehouse, run until it is stopped or everything that is there has been taken."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from pipeline.errors import Refused
from pipeline.model.names import PIPELINE_NAMESPACE
from pipeline.observe.logs import bound
from pipeline.protocols.avro import AvroProtocol
from pipeline.protocols.avro.assertions import Asserted
from pipeline.protocols.open import OpenProtocol
from pipeline.protocols.simple import SimpleProtocol
from pipeline.quality.gate import Gate, QualityStop
from pipeline.quality.rulebook import Rulebook
from pipeline.settings.column_types import members_of
from pipeline.sources.kafka import OUTAGE, START, Cluster, stream_options
from pipeline.streaming import altered, failpoints, pending, position, redrive, release
from pipeline.streaming.batch import micro_batch
from pipeline.streaming.commit_ts_batch import batch_of
from pipeline.streaming.context import Ledger, PipelineContext, own_types
from pipeline.streaming.lock import JvmLock, WriterLock, made
from pipeline.streaming.mailbox import Inbox
from pipeline.streaming.operations import operation
from pipeline.streaming.position import Committed, KafkaState
from pipeline.streaming.session import session, spread
from pipeline.streaming.telemetry import Telemetry
from pipeline.streaming.whole_table_checks import audit_after
from pipeline.warehouse.descriptions import Descriptions
from pipeline.warehouse.iceberg import MAIN, Catalog
from pipeline.warehouse.maintenance import Maintainer
from pipeline.warehouse.orphans import lost_tables
from pipeline.warehouse.pairs import write_ends
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
from registry import RegistryClient, RegistryConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from pipeline.model.messages import KnownVersions, SourceProtocol, TopicPartition
    from pipeline.observe.metrics import Metrics
    from pipeline.settings import Settings
    from pipeline.streaming.batch import Outcome
    from pipeline.streaming.spark_batch import SparkBatch
    from pipeline.streaming.speculation import Planned

CATALOG_LOST = "CATALOG_LOST"
_LISTED = 5
_KAFKA_ERROR = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+: [^\n]*)")


class Pipeline:
    """An open pipeline: it holds the warehouse's lock. Use as a context manager."""

    def __init__(
        self,
        context: PipelineContext,
        resources: ExitStack,
        listener: Callable[[int, Outcome, float], None],
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
        listener: Callable[[int, Outcome, float], None] = lambda _number, _outcome, _seconds: None,
        metrics: Metrics | None = None,
    ) -> Self:
        """Take the lock, load what the warehouse knows, refuse what would lose data.

        Raises `Refused` and `EnvironmentFault` before anything is committed. `accept` names refusals to pass over.
        """
        with ExitStack() as resources:
            resources.enter_context(WriterLock(settings.warehouse.path, purpose))
            telemetry = Telemetry(metrics)
            context = _bench(settings, resources, accept, telemetry)
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
        state = kafka_state(self.context.cluster)
        if not state.topics and available_now:
            return
        self._await_topics(state)
        if self._stopping.is_set():  # nothing has begun
            self._stopping.clear()
            return
        query = self._start(available_now=available_now)
        try:
            self._follow(query, well)
        except Exception as error:
            if self._error is None and not self._stopping.is_set():
                self._raise_unreachable(error)
                raise
        finally:
            stopped = self._stopping.is_set()
            self._wind_up(query)
        if self._error is not None:
            raise self._error
        if available_now and not stopped:
            self._take_the_rest()

    def _follow(self, query: StreamingQuery, well: Callable[[], None]) -> None:
        """Do what there is to do beside the query until it ends, and raise what ended it, or the looks at it."""
        while query.isActive and not self._stopping.is_set():
            query.awaitTermination(0.2)  # type: ignore[arg-type] # any number of seconds will do
            self._take_requests()
            well()
        ended = query.exception()  # awaitTermination tells it only where it was waiting just then
        if ended is not None:
            raise ended

    def _await_topics(self, state: KafkaState) -> None:
        while not state.topics and not self._stopping.wait(1.0):
            self._take_requests()
            state = kafka_state(self.context.cluster)

    def _start(self, *, available_now: bool) -> StreamingQuery:
        state = kafka_state(self.context.cluster)
        folder = self._checkpoint(state)
        start = position.starting_offsets(
            self.context.ledger.committed, state, self.context.settings.source.starting_offsets
        )
        options = stream_options(
            self.context.settings, position.as_json(start), state.topics, awaited=not available_now
        )
        reader = self.context.spark.readStream.format("kafka").options(**options).load()
        writer = reader.writeStream.foreachBatch(self._batch).option("checkpointLocation", str(folder))
        writer = writer.queryName(self.context.settings.name)
        if available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self.context.settings.trigger_seconds} seconds").start()

    @property
    def _spark_checkpoint(self) -> Path:
        return self.context.settings.checkpoint / "spark"

    def _checkpoint(self, state: KafkaState) -> Path:
        """Spark's folder, emptied where the tables cannot continue with what it has planned."""
        folder = self._spark_checkpoint
        planned = planned_batch(folder)
        committed = self.context.ledger.committed
        agrees = planned is not None and position.checkpoint_agrees(planned, committed.of(state))
        if planned is None or not agrees or not position.checkpoint_fits(planned, committed, state):
            shutil.rmtree(folder, ignore_errors=True)
        return folder

    def _take_requests(self) -> None:
        """Do what others ask for, unless a batch is under way: then after it."""
        if self._working.acquire(blocking=False):
            try:
                self._inbox.take(self.operation)
            finally:
                self._working.release()

    def _batch(self, raw: DataFrame, spark_batch_id: int) -> None:
        with self._working:
            try:
                self._take(raw, spark_batch_id)
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
            self._land(pending.nothing(self.context), f"{self.context.settings.name}/rest")
        if not self._stopping.is_set():
            audit_after(self.context, frozenset(self._with_new_rows))
        self._stopping.clear()

    def _take(self, raw: DataFrame, spark_batch_id: int) -> None:
        if self._stopping.is_set():
            raise _Stopped
        for spark in (self.context.spark, raw.sparkSession):
            spread(spark, self.context.settings)
        planned = planned_batch(self._spark_checkpoint)
        self._land(raw, f"{self.context.settings.name}/{spark_batch_id}", planned)

    def _land(self, raw: DataFrame, query_id: str, planned: Planned | None = None) -> None:
        started = time.monotonic()
        batch = batch_of(self.context, raw, query_id, planned)
        number = batch.batch_id
        self._telemetry.begun()
        with bound(batch=number):
            outcome = self._carry_out(batch, number)
            if outcome is not None:
                seconds = time.monotonic() - started
                self._listener(number, outcome, seconds)
                self._telemetry.batch(self.context, number, outcome, seconds)
                self._maintain(outcome)
            self._left = outcome is not None and batch.leaves_some
            self.context.step("before-spark-commit")

    def _carry_out(self, batch: SparkBatch, number: int) -> Outcome | None:
        try:
            return micro_batch(batch, self.context.step)
        except BaseException as error:
            self.context.recovering = True
            self._telemetry.failed(number, error)
            if isinstance(error, QualityStop):
                batch.write_results()
            raise
        finally:
            batch.close()

    def _maintain(self, outcome: Outcome) -> None:
        tables = {table.table for table in outcome.tables}
        self._with_new_rows |= tables
        changed = [table for table in self.context.tables if str(table.source) in tables]
        self._maintainer.after_batch(changed, self.context.records, self.context.tables)

    def _raise_unreachable(self, error: Exception) -> None:
        """Say so where Kafka is the reason: Spark asks it between batches, and gives up after some minutes."""
        reasons = _KAFKA_ERROR.findall(f"{error} {getattr(error, '_stackTrace', '')}")
        if reasons:
            raise self.context.cluster.unreachable(reasons[-1]) from error

    def _wind_up(self, query: StreamingQuery) -> None:
        """End the query after its current batch."""
        self._stopping.set()
        deadline = time.monotonic() + 3600
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(0.1)
        query.stop()
        self._stopping.clear()


class _Stopped(Exception):
    """Raised in a batch that begins after `stop`, or that ends by an error, which `run` raises then."""


def _bench(settings: Settings, resources: ExitStack, accept: frozenset[str], telemetry: Telemetry) -> PipelineContext:
    check_catalog(settings.warehouse)
    spark = session(settings)
    spark.sparkContext.setJobDescription("open the warehouse")
    resources.enter_context(JvmLock(spark, settings.warehouse.path))
    cluster = Cluster(spark, settings)  # nothing is asked yet: a client that cannot be made leaves no tables behind
    resources.callback(cluster.close)
    catalog = Catalog(spark)
    if CATALOG_LOST not in accept:
        _refuse_lost(catalog, settings)
    records = Records.open(spark, catalog, settings.warehouse.data, settings.name)
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
    cluster.recall(ledger.topics)
    state = kafka_state(cluster)
    recorded = {*ledger.topics, *(topic for table in tables for topic, _ in table.ends)}
    successors = position.succeeded(recorded, state, records.topics_read)
    committed = ledger.committed.under(successors)
    position.check(committed, state, accept)
    records.claim(catalog_folder(settings.warehouse))
    _succeed(tables, successors)
    _accept(tables, records, ledger, (committed, position.accepted(committed, state)))
    descriptions = Descriptions(records)
    registry = None
    made(settings.checkpoint)
    if settings.source.protocol == "avro":
        registry = resources.enter_context(registry_of(settings, settings.checkpoint / "schemas.json"))
    protocol = protocol_of(settings, registry, descriptions)
    quality = settings.quality
    rulebook = Rulebook(spark, built_in=quality.built_in).renewed(quality)
    die = failpoints.from_environment()

    def step(name: str) -> None:
        telemetry.step(name)
        die(name)

    patient = cluster.within(OUTAGE)
    context = PipelineContext(spark, settings, patient, protocol, tables, records, ledger, step, rulebook, descriptions)
    context.gate = Gate(quality.quarantine_share, quality.quarantine_rows)
    context.recovering = len(tables) > 0 or any(table.head() is not None for table in records.tables.values())
    tables.sweep()
    tables.upgrade()
    altered.opened(context)
    release.unfinished(context)
    redrive.unfinished(context)
    records.waiting()  # once here: a run without a batch tells of it too
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
        f"{len(lost)} tables lie in {settings.warehouse.data} that the catalog does not know: {names}",
        "to bring them back into the catalog: ticdc-warehouse tables restore",
    )


def protocol_of(settings: Settings, registry: RegistryClient | None, known: KnownVersions) -> SourceProtocol:
    """The protocol that the settings name, bound to them; `known`: what earlier messages have said of versions.

    `registry`: for Avro.
    """
    said, overrides = settings.changefeed, own_types(settings)
    if settings.source.protocol == "simple":
        return SimpleProtocol(settings.source.encoding or "json", said.timezone, overrides, known)
    if settings.source.protocol == "open-protocol":
        named = {name: found for name, kind in settings.warehouse.columns.items() if (found := members_of(kind))}
        return OpenProtocol(said.timezone, overrides, known, named, old_values=said.enable_old_value is not False)
    if registry is None:
        raise AssertionError("Avro needs a registry")
    asserted = Asserted(
        said.enable_tidb_extension, said.avro_decimal_handling_mode, said.avro_bigint_unsigned_handling_mode
    )
    return AvroProtocol(registry, said.timezone, overrides, asserted)


def refuse_another(records: Records, tables: Tables, accept: frozenset[str]) -> None:
    """Refuse a warehouse in which another pipeline has written (`check_owner`)."""
    batches = records.tables["batches"]
    begun = len(tables) > 0 or batches.head() is not None
    if begun and WAREHOUSE_OF_ANOTHER not in accept:
        check_owner(batches.properties, records.pipeline, records.data)


def _succeed(tables: Tables, successors: Mapping[str, str]) -> None:
    """Let tables know topics by the identities that they have by now; `_accept` lets the ledger."""
    for table in tables if successors else ():
        ends = position.ends_under(table.ends, successors)
        if ends != table.ends:
            tables.note_successors(table, successors)
            table.ends = ends
            table.changes.mark({ENDS: write_ends(ends)}, MAIN)


def _accept(tables: Tables, records: Records, ledger: Ledger, progress: tuple[Committed, Committed]) -> None:
    """Remember what was passed over: the next run does not ask again. The ledger goes last.

    `progress`: as it was recorded, under the identities of now, and what counts.
    """
    before, accepted = progress
    if accepted == ledger.committed:
        return
    shrunk = {at: end for at, end in accepted.ends.items() if end < before.ends[at]}
    for table in tables:
        lower = {at: min(end, shrunk.get(at, end)) for at, end in table.ends.items()}
        if lower != table.ends:
            table.ends = lower
            table.changes.mark({ENDS: write_ends(lower)}, MAIN)
    ledger.ends, ledger.topics = dict(accepted.ends), dict(accepted.names)
    records.tables["batches"].mark(ledger.summary(), MAIN)


def registry_of(settings: Settings, cache_file: Path | None = None) -> RegistryClient:
    """The registry that the settings name; `cache_file` remembers its schemas from run to run."""
    given = settings.registry
    config = RegistryConfig(
        given.url,
        username=given.username,
        password=given.password.get_secret_value() if given.password else None,
        ca_file=str(given.ca_file) if given.ca_file else None,
        cert_file=str(given.cert_file) if given.cert_file else None,
        key_file=str(given.key_file) if given.key_file else None,
        headers=given.headers,
        timeout_seconds=given.timeout_seconds,
        retries=given.retries,
    )
    return RegistryClient(config, cache_file)


def kafka_state(cluster: Cluster) -> KafkaState:
    """What Kafka has now, asked by who has just begun."""
    cluster = cluster.within(START)
    topics = cluster.topics()
    state = KafkaState(topics, {}, {})
    partitions = state.partitions()
    return KafkaState(topics, cluster.earliest(partitions), cluster.latest(partitions))


def planned_batch(folder: Path) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]] | None:
    """[start, end) of the newest batch that a checkpoint planned; None where there is none that can be read."""
    files = sorted((int(f.name), f) for f in (folder / "offsets").glob("[0-9]*") if f.name.isdigit())
    if not files:
        return None
    try:
        texts = [path.read_text().splitlines()[-1] for _, path in files[-2:]]
        offsets = [position.from_json(text) for text in texts]
    except (OSError, ValueError, IndexError, json.JSONDecodeError):
        return None
    return (offsets[0] if len(offsets) > 1 else {}), offsets[-1]
