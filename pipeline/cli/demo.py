"""`ticdc-warehouse demo`: a shop's changes, from a real broker into tables that equal the shop's own."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from pipeline.cli.output import ConfigOption, Format, OutputOption, opened
from pipeline.cli.progress import Progress, duration
from pipeline.cli.reading import reader, records
from pipeline.cli.shelf import Extent
from pipeline.demo import DemoSource, Part, compare, recall, remember, snippets
from pipeline.devstack import Broker, Devstack, Registry, fetch, ports
from pipeline.errors import EnvironmentFault, PipelineError
from pipeline.model.names import WarehouseName
from pipeline.settings import parse
from pipeline.streaming import Pipeline
from pipeline.streaming.session import session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.cli.output import Output
    from pipeline.demo import TableVerdict
    from pipeline.settings import Settings

DEFAULT_FOLDER = Path(".demo")
_STATE = "demo.json"
_CONFIG = "ticdc-warehouse.yaml"
_FILE = """\
name: demo
source:
  kind: kafka
  protocol: avro
  bootstrap_servers: {bootstrap_servers}
  topic_pattern: "tidb_.*"
registry:
  url: {registry_url}
changefeed:
  enable-tidb-extension: true
  avro-enable-watermark: true
warehouse:
  path: ./warehouse
checkpoint: ./checkpoint
"""
_LETTERS = ("code", "topic", "kafka_partition", "offset", "message")
_BATCHES = ("batch_id", "rows_in", "inserts", "updates", "deletes", "dead_letters", "seconds", "level")

app = typer.Typer(help="A shop's changes, from a real broker into checked tables, on this machine.")


@app.command()
def demo(
    *,
    folder: Annotated[Path, typer.Option(help="Where all of it lies; an earlier demo there is removed.")] = (
        DEFAULT_FOLDER
    ),
    keep: Annotated[
        bool, typer.Option("--keep", help="Go on with the shop of the last demo instead of a new one.")
    ] = False,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Show it: start a broker and a registry, let a shop work, take its changes, compare every row."""
    del config  # every command takes it; the demo writes its own
    with opened(output) as out:
        Demo(folder, out, Progress.on(out, output)).play(keep=keep)


class Demo:
    """One demo, from an empty folder to the proof."""

    def __init__(self, folder: Path, out: Output, progress: Progress) -> None:
        self._folder = folder
        self._out = out
        self._progress = progress
        self._started = time.monotonic()

    def play(self, *, keep: bool) -> None:
        """Play it; raises `DEMO_DIFFERS` where the warehouse does not equal the source."""
        before = self.prepare(keep=keep)
        fetch()  # before there is a spinner: it has a bar of its own
        with ExitStack() as resources:
            settings, source = self._open(resources, before)
            with Pipeline.open(settings, purpose="demo", listener=self._progress.batch) as pipeline:
                pipeline.run(available_now=True)
                self._send(source, adds_column=not before)
                pipeline.run(available_now=True)
            remember(self._state, source.parts, finished=True)
            verdicts = self._compare(settings, source)
        self._show(settings, verdicts)

    @property
    def _state(self) -> Path:
        return self._folder / _STATE

    def prepare(self, *, keep: bool) -> list[Part]:
        """Make room, or recall what the last demo did."""
        stack = Devstack.at(self._folder / "devstack")
        if stack is not None and stack.is_running:
            raise EnvironmentFault(
                "DEVSTACK_RUNNING",
                f"the broker of an earlier demo still runs in {self._folder}",
                f"to stop it: ticdc-warehouse devstack down --folder {self._folder / 'devstack'}",
            )
        if keep:
            return recall(self._state)
        if self._folder.exists():
            if any(self._folder.iterdir()) and not self._state.exists():
                raise PipelineError(
                    "DEMO_FOLDER", f"{self._folder} holds something else than a demo", "name another --folder"
                )
            shutil.rmtree(self._folder)
        return []

    def _open(self, resources: ExitStack, before: list[Part]) -> tuple[Settings, DemoSource]:
        """Start Spark here and, beside it, the stack with the first part of the workload."""
        servers = (ports.free_port(), ports.free_port())
        settings = self._configure(*servers)
        remember(self._state, before, finished=False)
        with (
            Console(stderr=True).status("starting a broker, a registry and Spark"),
            ThreadPoolExecutor(1) as beside,
        ):
            begun = beside.submit(self._begin, resources, servers, before)
            session(settings)
            source = begun.result()
        return settings, source

    def _configure(self, kafka_port: int, registry_port: int) -> Settings:
        """Write the demo's own file. The environment does not count: it is about another pipeline."""
        self._folder.mkdir(parents=True, exist_ok=True)
        broker, registry = Broker(self._folder, kafka_port), Registry(self._folder, registry_port)
        text = _FILE.format(bootstrap_servers=broker.bootstrap_servers, registry_url=registry.url)
        (self._folder / _CONFIG).write_text(text)
        return parse(text, self._folder)

    def _begin(self, resources: ExitStack, servers: tuple[int, int], before: Sequence[Part]) -> DemoSource:
        kafka_port, registry_port = servers
        started = time.monotonic()
        stack = Devstack.start(self._folder / "devstack", kafka_port=kafka_port, registry_port=registry_port)
        resources.enter_context(stack)
        took = duration(time.monotonic() - started)
        self._out.line(f"a Kafka broker at {stack.bootstrap_servers}, a registry beside it; up in {took}")
        source = DemoSource(stack.bootstrap_servers, stack.registry_url)
        resources.callback(source.close)
        source.repeat(before)
        self._send(source, adds_column=False)
        unreadable = source.send_unreadable()
        self._out.line(f"… and {unreadable} messages that nobody can read, as if by another producer's mistake")
        return source

    def _send(self, source: DemoSource, *, adds_column: bool) -> None:
        rows = source.send(adds_column=adds_column)
        first = "ALTER TABLE shop.orders ADD COLUMN channel, then " if adds_column else ""
        self._out.line(f"the shop sends {first}{rows:,} row events in {source.parts[-1].transactions:,} transactions")

    def _compare(self, settings: Settings, source: DemoSource) -> list[TableVerdict]:
        catalog = reader(settings)
        return [
            compare(table, rows, catalog.table(WarehouseName(table.schema, table.name)).scan().to_arrow().to_pylist())
            for table, rows in source.truth()
        ]

    def _show(self, settings: Settings, verdicts: Sequence[TableVerdict]) -> None:
        catalog, done = reader(settings), self._progress
        sizes = {v.table: Extent.of(catalog.metadata(_changes(v.table))).rows for v in verdicts}
        shown = [(v.table, v.rows, sizes[v.table], "equal" if v.equal else "DIFFERENT") for v in verdicts]
        self._out.table("\ntables", ("table", "rows", "changes", "against the source"), shown)
        self._records(settings, "batches", "batch_id", _BATCHES)
        self._records(settings, "dead_letters", "offset", _LETTERS)
        judge(verdicts)
        rows = sum(v.rows for v in verdicts)
        seconds = time.monotonic() - self._started
        facts = {"folder": str(self._folder), "equal": True, "rows": rows, "changes": done.changes}
        proof = f"every row of every table equals the source: {rows:,} rows of {len(verdicts)} tables"
        self._out.result(
            facts | {"seconds": round(seconds, 1)}, f"\n{proof}, after {done.changes:,} changes; {seconds:.0f} s"
        )
        self._out.line(self._invitation())

    def _records(self, settings: Settings, name: str, order: str, columns: Sequence[str]) -> None:
        rows = records(reader(settings), name, columns).sort_by(order).to_pylist()
        cells = [[_cell(row[column]) for column in columns] for row in rows]
        self._out.table(f"\n{name.replace('_', ' ')}", columns, cells)
        self._out.line(f"(from warehouse._pipeline.{name})")

    def _invitation(self) -> str:
        config, warehouse = self._folder / _CONFIG, self._folder / "warehouse"
        asks = "\n".join(snippets.tables(config))
        return f"\nlook around:\n\n{asks}\n\n{snippets.pyiceberg(warehouse)}\n\n{snippets.spark(config)}"


def judge(verdicts: Sequence[TableVerdict]) -> None:
    """Raise `DEMO_DIFFERS` with what is different, if anything is."""
    differences = [f"{v.table}: {sentence}" for v in verdicts for sentence in v.differences]
    if differences:
        sentences = "\n  ".join(["the warehouse does not equal the source", *differences])
        raise PipelineError("DEMO_DIFFERS", sentences, "this should not be: please report it, with .demo")


def _changes(table: str) -> WarehouseName:
    schema, _, name = table.partition(".")
    return WarehouseName(schema, name).changes


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return value.partition("\n")[0]
    return round(value, 1) if isinstance(value, float) else value
