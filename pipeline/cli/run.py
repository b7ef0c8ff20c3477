"""`ticdc-warehouse run`: the changefeed into the warehouse, continuously or once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from pipeline.cli.output import ConfigOption, Format, OutputOption, opened
from pipeline.cli.progress import NO_TABLE, Progress
from pipeline.cli.wording import counted, version
from pipeline.errors import EnvironmentFault, PipelineError
from pipeline.ingest.by_commit_ts.placing import TABLE_REMOVED
from pipeline.lake import table_metadata
from pipeline.lake.catalog import reader
from pipeline.lake.pending import pending_sentences
from pipeline.model.holding import way_on
from pipeline.observe.metrics import Metrics
from pipeline.runtime.jars import fetch
from pipeline.runtime.lock import WriterLock
from pipeline.service import Pipeline
from pipeline.service.pipeline import CATALOG_LOST
from pipeline.settings import load
from pipeline.settings.durations import written
from pipeline.sources.build import REFUSALS
from pipeline.warehouse.held import last_held, why_not_created
from pipeline.warehouse.place import WAREHOUSE_COPIED
from pipeline.warehouse.records import WAREHOUSE_OF_ANOTHER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from pipeline.cli.output import Output
    from pipeline.ingest.context import PipelineContext
    from pipeline.model.names import TableName
    from pipeline.settings import Settings

INTERRUPTED = 130
ACCEPTABLE = (
    *REFUSALS, CATALOG_LOST, WAREHOUSE_OF_ANOTHER, WAREHOUSE_COPIED,
)  # fmt: skip
STOPPING = "stopping after the current batch; Ctrl-C again ends at once"
STOPPING_EARLY = "stopping as soon as the warehouse is open; Ctrl-C again ends at once"

app = typer.Typer(help="Read the changefeed into the warehouse, continuously or once.")


def _acceptable(codes: list[str]) -> list[str]:
    unknown = [code for code in codes if code not in ACCEPTABLE]
    if unknown:
        raise typer.BadParameter(
            f"{unknown[0]} cannot be passed over; you can pass over these: {', '.join(ACCEPTABLE)}"
        )
    return codes


@app.command()
def run(
    *,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Take everything that is there, commit it, and end.")
    ] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            help="Go on despite a refusal that you have understood. Name its code; you can give the option several "
            "times.",
            metavar="CODE",
            callback=lambda codes: _acceptable(codes or []),
        ),
    ] = None,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Read the changefeed until you stop it.

    Ctrl-C or SIGTERM ends the run after the current batch; the next run goes on from there.
    """
    settings = load(config)
    with opened(output) as out:
        progress = Progress.on(out, output)
        Run(settings, out, progress, available_now=available_now).take(frozenset(accept or ()))


class Run:
    """One call of the command, from opening the warehouse to the summary."""

    def __init__(self, settings: Settings, out: Output, progress: Progress, *, available_now: bool) -> None:
        self._settings = settings
        self._out = out
        self._available_now = available_now
        self._progress = progress
        self._warnings = [
            f"{name} has no meaning with `protocol: {settings.source.protocol}`" for name in settings.idle
        ]
        self._pipeline: Pipeline | None = None
        self._stopped = threading.Event()
        self._started = time.monotonic()

    def take(self, accept: frozenset[str]) -> None:
        """Run the pipeline, then say what it did; raises what ended it."""
        fetch()  # before there is a spinner: it has a bar of its own; Ctrl-C ends it at once
        with stopping(self._stop), measured(self._settings) as metrics, self._open(accept, metrics) as pipeline:
            self._say_missing(pipeline)
            try:
                if not self._stopped.is_set():
                    pipeline.run(available_now=self._available_now)
            except Exception:
                self._remember(pipeline)
                self._out.line(self._summary("ended by the error below"))
                raise
            self._remember(pipeline)
        self._out.result(self._facts(), self._summary(self._ending()))

    def _open(self, accept: frozenset[str], metrics: Metrics | None) -> Pipeline:
        with Console(stderr=True).status("starting Spark and opening the warehouse"):
            opened = Pipeline.open(self._settings, accept=accept, listener=self._progress.batch, metrics=metrics)
        self._pipeline = opened
        return opened

    def _stop(self) -> None:
        """Asked for in another thread, maybe while the warehouse is being opened: then it is left as it is found."""
        self._stopped.set()
        if self._pipeline is None:
            self._out.line(STOPPING_EARLY)
        else:
            self._pipeline.stop()
            self._out.line(STOPPING)

    def _say_missing(self, pipeline: Pipeline) -> None:
        """What the source has to say before the first batch: of what is missing, for example."""
        committed = pipeline.context.run.ledger.committed
        for sentence in pipeline.context.source.notes(committed, available_now=self._available_now):
            self._warnings.append(sentence)
            self._out.line(sentence)

    def _remember(self, pipeline: Pipeline) -> None:
        """Collect what went wrong, each with what to do about it."""
        removed = self._progress.tables.get(TABLE_REMOVED, Counter())  # nobody misses what these have
        dead_letters = self._progress.total("dead_letters") - removed["dead_letters"]
        if dead_letters:
            codes = ", ".join(sorted(self._progress.codes)) or "messages that do not fit their schema"
            self._warnings.append(
                f"{counted(dead_letters, 'dead letter')} ({codes}): see ticdc-warehouse quarantine list --dead-letters"
            )
        rows = self._progress.total("quarantined")
        if rows:
            self._warnings.append(
                f"{counted(rows, 'row')} set aside: ticdc-warehouse quarantine list shows them, and how to bring them "
                "back"
            )
        self._warnings += [
            f"{table}: {rule} was broken in {counted(batches, 'batch', 'es')}: ticdc-warehouse report shows how"
            for (table, rule), batches in sorted(self._progress.broken.items())
        ]
        self._warnings += [
            f"{table}: some keys have changes in several partitions, so the order of these changes is uncertain"
            for table in sorted(self._progress.order_unknown)
        ]
        self._warnings += self._progress.warnings
        self._warnings += held(pipeline, self._progress)
        self._warnings += self._waiting(pipeline)

    def _waiting(self, pipeline: Pipeline) -> list[str]:
        """A sentence for each table with pending rows. A catalog that cannot be read is no error: all is committed."""
        context = pipeline.context
        if not context.run.has_pending:
            return []
        try:
            catalog = reader(self._settings)
            return pending_sentences(
                catalog,
                [*table_metadata.held(table_metadata.pairs(catalog)), *last_held(context.tables, context.records)],
            )
        except PipelineError as error:
            return [f"the run cannot say which records are pending: {error.message}"]

    def _ending(self) -> str:
        if self._stopped.is_set():
            return "stopped; the next run goes on from here"
        return "everything that was there is committed"

    def _summary(self, ending: str) -> str:
        done, seconds = self._progress, written(time.monotonic() - self._started)
        tables = len(done.tables.keys() - {NO_TABLE})
        facts = f"{counted(done.batches, 'batch', 'es')}, {counted(done.changes, 'change')} into "
        work = "nothing new" if not done.batches else facts + counted(tables, "table")
        warnings = (f"! {sentence}" for sentence in self._warnings)
        return "\n".join([f"{work} in {seconds}; {ending}", *warnings])

    def _facts(self) -> dict[str, Any]:
        return {
            "pipeline": self._settings.name,
            **self._progress.facts(),
            "seconds": round(time.monotonic() - self._started, 1),
            "stopped": self._stopped.is_set(),
            "warnings": self._warnings,
        }


def held(pipeline: Pipeline, progress: Progress) -> list[str]:
    """Give a sentence for each held table, with its reason and the way on; also for one that has no pair yet."""
    context = pipeline.context
    waiting = {
        str(source): (records, _reason(context, source))
        for source, records in last_held(context.tables, context.records).items()
    }
    new = {table: counts["held"] for table, counts in progress.tables.items() if counts["held"]}
    held_tables = {**{name: (records, "") for name, records in new.items()}, **waiting}
    return [
        f"{name} is held{_because(reason)}; {counted(records, 'record')} of it wait, {new.get(name, 0):,} of them new. "
        f"To go on: {way_on(name, reason)}"
        for name, (records, reason) in sorted(held_tables.items())
    ]


def _reason(context: PipelineContext, source: TableName) -> str:
    table = context.tables.find(source)
    if table is not None:
        return table.held_reason
    return why_not_created(context.tables, context.records, source)


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Let SIGTERM and Ctrl-C call `stop`, once, in a thread of its own; a second Ctrl-C ends the process.

    In a thread: the signal may have come while the main thread writes or holds a lock. The hard end is as
    safe as a power cut; the JVM goes when its standard input closes.
    """
    asked = threading.Event()

    def ask(number: int, _frame: FrameType | None) -> None:
        if asked.is_set() and number == signal.SIGINT:
            os._exit(INTERRUPTED)
        if not asked.is_set():
            asked.set()
            threading.Thread(target=stop, name="stopping", daemon=True).start()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def measured(settings: Settings) -> Iterator[Metrics | None]:
    """Answer Prometheus while the block lasts, where the settings want that; raises `EnvironmentFault` METRICS_PORT."""
    if settings.metrics.port is None:
        yield None
        return
    metrics = Metrics(settings.name, version())
    try:
        server = metrics.serve(settings.metrics.host, settings.metrics.port)
    except OSError as error:
        with WriterLock(settings.warehouse.path, "run"):
            """Another run has the port, more often than not: then that is what is wrong."""
        raise EnvironmentFault(
            "METRICS_PORT",
            f"the run cannot listen at {settings.metrics.host}:{settings.metrics.port}: {error.strerror}",
            "set metrics.port to a free port; two pipelines on one machine need two ports",
        ) from error
    try:
        yield metrics
    finally:
        server.shutdown()
        server.server_close()


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""
