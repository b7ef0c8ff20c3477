"""What a run tells Prometheus. Numbers are of this process; `_total` counters begin at 0 with it.

Label names: `table` is the source table, `topic` Kafka's. Nothing here knows Spark: a run hands over what it did.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
    start_http_server,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from wsgiref.simple_server import WSGIServer

PREFIX = "ticdc_warehouse"
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


@dataclass(frozen=True, slots=True)
class TableDone:
    """One table's part of a batch: changes by op, what was set aside, how old the newest change was (seconds).

    `unnamed`: changes with numbers of ENUM or SET members whose names are not known.
    """

    table: str
    changes: Mapping[str, int] = field(default_factory=dict)
    quarantined: int = 0
    dead_letters: int = 0
    held: int = 0
    lag: float | None = None
    unnamed: int = 0


@dataclass(frozen=True, slots=True)
class BatchDone:
    """One committed batch; `cut_time`: the moment that the tables show, in seconds since the epoch."""

    number: int
    rows_in: int
    seconds: float
    committed_at: float
    tables: Collection[TableDone] = ()
    unattributed: int = 0
    """Dead letters of no table."""
    held_tables: Collection[str] = ()
    pending: bool = False
    """Whether records wait for a schema or a DDL event."""
    cut_time: float | None = None


class _WhenKnown:
    """A gauge that is absent until its first value is known: 0 would be a time in 1970, or a Kafka that is away.

    `former`: the name that the metric had in the last release, under which it is shown, too.
    """

    def __init__(self, name: str, about: str, made: Mapping[str, Any], former: str = "") -> None:
        self._names, self._about, self._made = (name, *filter(None, [former])), about, made
        self._gauges: list[Gauge] = []

    def set(self, value: float) -> None:
        """It is this now."""
        if not self._gauges:
            self._gauges = [Gauge(name, self._about, **self._made) for name in self._names]
        for gauge in self._gauges:
            gauge.set(value)


class _Labelled:
    """A gauge with a label whose values come and go: a value that stays is there at every scrape.

    `former`: the name and the label that the metric had in the last release, under which it is shown, too.
    """

    def __init__(
        self, name: str, about: str, label: str, made: Mapping[str, Any], former: tuple[str, str] | None = None
    ) -> None:
        names = [(name, label), *filter(None, [former])]
        self._gauges = [Gauge(name, about, [label], **made) for name, label in names]
        self._shown: set[str] = set()
        self._changing = Lock()

    def show(self, numbers: Mapping[str, float]) -> None:
        """These now, and no others; batches and the look between them may call at once."""
        with self._changing:
            for gauge in self._gauges:
                for name, number in numbers.items():
                    gauge.labels(name).set(number)
                for name in self._shown - numbers.keys():
                    gauge.remove(name)
            self._shown = set(numbers)


class Metrics:
    """The metrics of one pipeline, in a registry of their own."""

    def __init__(self, pipeline: str, version: str) -> None:
        # else each counter has one more series, which is of no use; this is for the whole process
        disable_created_metrics()  # type: ignore[no-untyped-call] # it has no annotations
        self.registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self.registry, "namespace": PREFIX}
        Info("pipeline", "name and version of what runs", **made).info({"pipeline": pipeline, "version": version})
        self._batches = Counter("batches", "committed batches", **made)
        self._rows = Counter("rows_in", "records and events that the batches took", **made)
        self._batch_seconds = Histogram("batch_seconds", "time that a batch took", buckets=_SECONDS, **made)
        self._step_seconds = Histogram(
            "step_seconds", "time from one durable step to the next, of one table or of the batch", ["step"],
            buckets=_SECONDS, **made,
        )  # fmt: skip
        self._changes = Counter("changes", "changes that went into tables", ["table", "op"], **made)
        self._quarantined = Counter("quarantined", "rows set aside by a rule", ["table"], **made)
        unread = "records that cannot be decoded; the label table is empty if the table is not known"
        self._dead_letters = Counter("dead_letters", unread, ["table"], **made)
        self._held = Counter("held_records", "records that were set aside for a held table", ["table"], **made)
        self._unnamed = Counter("members_unknown", "changes with ENUM or SET values that are kept as numbers",
                                ["table"], **made)  # fmt: skip
        self._lag = Gauge("lag_seconds", "age of the newest change when its batch was committed", ["table"], **made)
        self._table_held = _Labelled("table_held", "1 for each table that waits for a person", "table", made)
        self._pending = _WhenKnown("pending_records", "1 while records wait for a schema or a DDL event", made,
                                   former="records_wait")  # fmt: skip
        self._pending.set(0)
        self._committed = _WhenKnown("last_batch_timestamp_seconds", "when the newest batch was committed", made)
        self._number = _WhenKnown("last_batch_id", "the newest batch", made)
        self._cut = _WhenKnown(
            "last_cut_timestamp_seconds", "the commit time up to which all tables are complete", made
        )
        self._operation = _Labelled(
            "operation_started_timestamp_seconds", "when the operation that is under way began", "operation", made,
            former=("errand_begun_timestamp_seconds", "errand"),
        )  # fmt: skip
        self._operation_done = _WhenKnown("last_operation_timestamp_seconds", "when the newest operation ended", made,
                                          former="last_errand_timestamp_seconds")  # fmt: skip
        self._lag_records = _Labelled("consumer_lag_records", "records that no batch has taken yet", "topic", made,
                                      former=("records_behind", "topic"))  # fmt: skip
        self._lag_bytes = _Labelled("consumer_lag_bytes", "bytes of files that no batch has taken yet", "topic", made)
        self._oldest = _Labelled(
            "oldest_lag_timestamp_seconds",
            "when the oldest record came that no batch has taken; absent unless that is long ago",
            "topic", made, former=("oldest_behind_timestamp_seconds", "topic"),
        )  # fmt: skip
        self._complete = _WhenKnown(
            "changefeed_checkpoint_timestamp_seconds", "the commit time up to which all files are written", made
        )
        self._reachable = _WhenKnown("kafka_reachable", "1 if Kafka answered when it was last asked, else 0", made)
        self._answered = _WhenKnown("last_kafka_answer_timestamp_seconds", "when Kafka last answered", made)

    def step(self, name: str, seconds: float) -> None:
        """A durable step was reached, so long after the one before it."""
        self._step_seconds.labels(name).observe(seconds)

    def batch(self, done: BatchDone) -> None:
        """A batch was committed."""
        self._batches.inc()
        self._rows.inc(done.rows_in)
        self._batch_seconds.observe(done.seconds)
        self._committed.set(done.committed_at)
        self._number.set(done.number)
        for table in done.tables:
            self._table(table)
        if done.unattributed:
            self._dead_letters.labels("").inc(done.unattributed)
        self.held(done.held_tables)
        self.pending(some=done.pending)
        if done.cut_time is not None:
            self._cut.set(done.cut_time)

    def begin(self, tables: Iterable[str]) -> None:
        """Count from nothing what these tables may have set aside: an increase is none, for a series that is new."""
        self._dead_letters.labels("")
        for table in tables:
            for counter in (self._quarantined, self._dead_letters, self._held):
                counter.labels(table)

    def opened(self, number: int, committed_at: float, cut_time: float | None) -> None:
        """A warehouse was opened that has batches: what is known of the newest."""
        self._number.set(number)
        self._committed.set(committed_at)
        if cut_time is not None:
            self._cut.set(cut_time)

    def held(self, tables: Collection[str]) -> None:
        """Which tables wait for a person."""
        self._table_held.show(dict.fromkeys(tables, 1))

    def lag(self, records: Mapping[str, int], size: Mapping[str, int] | None = None) -> None:
        """How many records of each topic no batch has taken yet: of `files`, how many files, with so many bytes."""
        self._lag_records.show(records)
        self._lag_bytes.show(size or {})

    def oldest(self, came: Mapping[str, float]) -> None:
        """When the oldest record of a topic came that no batch has taken, where it waits for long."""
        self._oldest.show(came)

    def complete(self, up_to: float | None) -> None:
        """The commit time up to which the source says it has everything, if it says so."""
        if up_to is not None:
            self._complete.set(up_to)

    def operation(self, what: str, begun: float) -> None:
        """Something that a person asks for has begun: no batch comes before it is done."""
        self._operation.show({what: begun})

    def operation_done(self, time: float) -> None:
        """It is done, or refused."""
        self._operation_done.set(time)
        self._operation.show({})

    def answered(self, time: float) -> None:
        """Kafka has answered, at this time."""
        self._reachable.set(1)
        self._answered.set(time)

    def silent(self) -> None:
        """Kafka does not answer: how much it has is not known."""
        self._reachable.set(0)
        self._lag_records.show({})
        self._lag_bytes.show({})
        self._oldest.show({})

    def pending(self, *, some: bool) -> None:
        """Whether records wait for a schema or a DDL event."""
        self._pending.set(int(some))

    def _table(self, done: TableDone) -> None:
        for op, count in done.changes.items():
            self._changes.labels(done.table, op).inc(count)
        for counter, count in (
            (self._quarantined, done.quarantined),
            (self._dead_letters, done.dead_letters),
            (self._held, done.held),
        ):
            counter.labels(done.table).inc(count)
        if done.unnamed:
            self._unnamed.labels(done.table).inc(done.unnamed)
        if done.lag is not None:
            self._lag.labels(done.table).set(done.lag)

    def serve(self, host: str, port: int) -> WSGIServer:
        """Answer at `http://host:port/metrics`, in a thread of its own; `shutdown` of what is returned ends it."""
        server, _ = start_http_server(port, host, self.registry)
        return server
