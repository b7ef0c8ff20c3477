"""What a run tells of itself besides its tables: metrics, and a log of batches, tables and steps."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipeline import causes
from pipeline.errors import EnvironmentFault, PipelineError, reason
from pipeline.model.change import Op
from pipeline.model.columns import age_of, time_of
from pipeline.model.frontier import commit_ts_of
from pipeline.observe.logs import get_logger
from pipeline.observe.metrics import BatchDone, TableDone
from pipeline.warehouse.held import held_tables, last_held
from pipeline.warehouse.state import BATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.phases import CommittedBatch
    from pipeline.ingest.table_work import TableResult
    from pipeline.model.names import TableName
    from pipeline.observe.metrics import Metrics

_OPS = tuple(op.value for op in Op)
_LAG_SECONDS = 10.0
"""How often the source is asked how much it has."""
_AGE_SECONDS = 60.0
"""And how often since when."""
_log = get_logger(__name__)


class Telemetry:
    """Listens to a pipeline: `step` after each durable step, `batch` when one is committed."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics
        self._reached: dict[int, float] = {}
        """By thread: when it reached its last step."""
        self._main = 0

    def step(self, name: str) -> None:
        """A durable step was reached, by this thread."""
        now, thread = time.monotonic(), threading.get_ident()
        since = self._reached.get(thread, self._reached.get(self._main))  # a table's first step: from the batch's last
        self._reached[thread] = now
        seconds = None if since is None else round(now - since, 3)
        _log.debug("step", step=name, seconds=seconds)
        if self._metrics is not None and seconds is not None:
            self._metrics.step(name, seconds)

    def begun(self) -> None:
        """A batch begins: what comes next counts from here."""
        self._main = threading.get_ident()
        self._reached = {self._main: time.monotonic()}

    def batch(self, context: PipelineContext, committed: CommittedBatch, seconds: float) -> None:
        """A batch was committed."""
        number, done = committed.batch_id, batch_done(context, committed, (seconds, time.time()))
        for table in done.tables:
            facts = {name: value for name, value in _facts(table).items() if value}
            _log.info("landed", batch=number, table=table.table, **facts)
        _log.info("committed", batch=number, rows_in=done.rows_in, seconds=round(seconds, 3), tables=len(done.tables))
        for warning in committed.messages.warnings:
            _log.warning("changefeed", batch=number, said=warning)
        for name in done.held_tables:
            _log.warning("held", batch=number, table=name)
        if self._metrics is not None:
            self._metrics.batch(done)

    def opened(self, context: PipelineContext) -> None:
        """A warehouse was opened, perhaps with batches of other processes."""
        if self._metrics is None:
            return
        self._metrics.answered(time.time())  # without its source none is opened
        self._metrics.held(_names(last_held(context.tables, context.records)))
        self._metrics.pending(some=_has_pending(context))
        self._metrics.begin(str(table.source) for table in context.tables)
        committed_at = context.records.tables["batches"].said_at(BATCH)
        if committed_at is not None:
            self._metrics.opened(context.run.ledger.batch_id, committed_at, _cut_time(context))

    @contextmanager
    def operation(self, what: str) -> Iterator[None]:
        """What a person asks for is done in this block."""
        self.begun()
        if self._metrics is None:
            yield
            return
        self._metrics.operation(what, time.time())
        try:
            yield
        finally:
            self._metrics.operation_done(time.time())

    @contextmanager
    def looking(self, context: PipelineContext) -> Iterator[Callable[[], None]]:
        """Look now and then while the block lasts, in a thread of its own: a batch may hang, an operation take an hour.

        Gives what raises the error that has ended the looks, if one has.
        """
        if self._metrics is None:
            yield lambda: None
            return
        ended = threading.Event()
        with ThreadPoolExecutor(1, thread_name_prefix="look") as pool:
            looks = pool.submit(self._look_until, ended, context)
            try:
                yield lambda: looks.result() if looks.done() else None
            finally:
                ended.set()

    def _look_until(self, ended: threading.Event, context: PipelineContext) -> None:
        self.look(context)
        while not ended.wait(_LAG_SECONDS):
            self.look(context)

    def look(self, context: PipelineContext) -> None:
        """Tell how it stands beside the batches, and ask the source how much it has."""
        if self._metrics is None:
            return
        self._metrics.held(_names(last_held(context.tables, context.records)))
        self._metrics.begin(
            str(table.source) for table in context.tables
        )  # those that a batch has made, before it ends
        try:
            backlog = context.source.backlog(context.run.ledger.committed)
            self._metrics.lag(backlog.records(), backlog.size())
            self._metrics.complete(backlog.complete_up_to())
            if context.run.is_due("since when records wait", _AGE_SECONDS):
                self._metrics.oldest(backlog.oldest(time.time()))
            self._metrics.answered(time.time())
        except EnvironmentFault as fault:  # a batch's matter
            _log.warning(context.settings.source.kind, code=fault.code, why=fault.message)
            self._metrics.silent()

    def failed(self, number: int, error: BaseException) -> None:
        """A batch was not committed."""
        code, why = type(error).__name__, reason(error)
        error = error if isinstance(error, PipelineError) else causes.explained(error) or error
        if isinstance(error, PipelineError):
            code, why = error.code, str(error).partition("\n")[0]
        _log.error("failed", batch=number, code=code, why=why[:500])


def batch_done(context: PipelineContext, committed: CommittedBatch, clock: tuple[float, float]) -> BatchDone:
    """A batch in numbers. `clock`: how long it took, and the time now, in seconds since the epoch."""
    seconds, now = clock
    tables = tuple(_table(result, now) for result in committed.tables)
    return BatchDone(
        committed.batch_id,
        committed.messages.events,
        seconds,
        now,
        tables,
        unattributed=committed.dead_letters - sum(table.dead_letters for table in tables),
        held_tables=_names(held_tables(context.tables, context.records)),
        pending=context.run.has_pending,
        cut_time=_cut_time(context),
    )


def _table(result: TableResult, now: float) -> TableDone:
    return TableDone(
        result.table,
        {op: result.counts[op] for op in _OPS if result.counts.get(op)},
        result.quarantined,
        result.dead_letters,
        result.held,
        age_of(result.newest, now) if result.newest else None,
        result.unnamed,
    )


def _facts(table: TableDone) -> dict[str, object]:
    lag = None if table.lag is None else round(table.lag, 3)
    set_aside = {"quarantined": table.quarantined, "dead_letters": table.dead_letters, "held": table.held}
    return {**table.changes, **set_aside, "lag_seconds": lag}


def _names(held: Iterable[TableName]) -> list[str]:
    return sorted(map(str, held))


def _has_pending(context: PipelineContext) -> bool:
    """Whether records wait by themselves since another process has put them aside."""
    return context.run.has_pending and any(code for _, code in context.records.held_counts())


def _cut_time(context: PipelineContext) -> float | None:
    """Of the newest cut, if this process has written one; before, by commit ts, what the ledger has as resolved."""
    cut_ts = context.cuts.newest or commit_ts_of(context.run.ledger.progress.resolved)
    return time_of(cut_ts).timestamp() if cut_ts else None
