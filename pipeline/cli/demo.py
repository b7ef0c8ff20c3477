"""`ticdc-warehouse demo`: a shop's changes, from a real broker into checked tables that equal the shop's own."""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from pipeline.cli.output import ConfigOption, Format, OutputOption, opened
from pipeline.cli.progress import Progress
from pipeline.cli.quarantine import SetAsideRows
from pipeline.demo import (
    SENT,
    DemoSource,
    Stretch,
    checks,
    compare,
    from_files,
    from_kafka,
    from_topic,
    quarantined_keys,
    recall,
    remember,
    snippets,
)
from pipeline.devstack import Broker, Devstack, RegistryService, ports
from pipeline.errors import EnvironmentFault, PipelineError
from pipeline.lake.catalog import reader, records
from pipeline.lake.table_metadata import Extent
from pipeline.model.names import WarehouseName
from pipeline.model.protocols import PROTOCOLS
from pipeline.report import COLUMNS, assemble, page
from pipeline.runtime.jars import fetch
from pipeline.runtime.lock import made
from pipeline.runtime.session import session
from pipeline.service import Pipeline
from pipeline.settings import parse
from pipeline.settings.durations import written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.cli.output import Output
    from pipeline.demo import TableVerdict
    from pipeline.settings import Settings
    from pipeline.simulate.produce import SourceProtocol

DEFAULT_FOLDER = Path(".demo")
_STATE = "demo.json"
_CONFIG = "ticdc-warehouse.yaml"
_CHECKS = "checks"
_REPORT = "report.html"
_FILE = """\
name: demo
source:
{source}
{also}warehouse:
  path: ./warehouse
checkpoint: ./checkpoint
quality:
  suites: ./checks
"""
_AVRO = """\
registry:
  url: {registry_url}
changefeed:
  enable-tidb-extension: true
  avro-enable-watermark: true
"""
_TABLES = ("table", "rows", "changes", "set aside", "against the source")


class Sink(StrEnum):
    """Where the demo's changefeed writes."""

    kafka = "kafka"
    storage = "storage"


_RULES = ("rule", "table", "records", "for example")
_LETTERS = ("code", "topic", "kafka_partition", "offset", "message")
_BATCHES = ("batch_id", "rows_in", "inserts", "updates", "deletes", "quarantined", "dead_letters", "seconds", "level")

app = typer.Typer(help="Run a demo on this machine: a shop's changes go through a real broker into checked tables.")


@app.command()
def demo(
    *,
    folder: Annotated[Path, typer.Option(help="The demo's folder. An earlier demo there is removed.")] = (
        DEFAULT_FOLDER
    ),
    keep: Annotated[
        bool, typer.Option("--keep", help="Go on with the shop of the last demo instead of a new one.")
    ] = False,
    source: Annotated[Sink, typer.Option(help="A changefeed to Kafka, or to storage: files in a folder.")] = Sink.kafka,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="The changefeed's protocol: avro, simple, open-protocol or canal-json; with --source "
            "storage csv or canal-json."
        ),
    ] = None,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Run the demo: start a broker and a registry, let a shop work, read its changes, compare every row."""
    del config  # every command takes it; the demo writes its own
    with opened(output) as out:
        Demo(folder, out, Progress.on(out, output), source, protocol_of(source, protocol)).play(keep=keep)


def protocol_of(source: Sink, named: str | None) -> SourceProtocol:
    """The protocol of a changefeed to this sink. Raises `DEMO_PROTOCOL` if it has no such protocol."""
    possible = SENT[source.value]
    for protocol in possible:
        if protocol == (named or possible[0]):
            return protocol
    raise PipelineError("DEMO_PROTOCOL", f"a changefeed to {source} sends no {named}", f"one of: {', '.join(possible)}")


class Demo:
    """One demo, from an empty folder to the proof."""

    def __init__(
        self,
        folder: Path,
        out: Output,
        progress: Progress,
        source: Sink = Sink.kafka,
        protocol: SourceProtocol | None = None,
    ) -> None:
        self._folder = folder
        self._source = source
        self._protocol = protocol or protocol_of(source, None)
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

    @property
    def _needs_registry(self) -> bool:
        return PROTOCOLS[self._protocol].needs_registry

    def prepare(self, *, keep: bool) -> list[Stretch]:
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
                    "DEMO_FOLDER", f"{self._folder} has something other than a demo in it", "name another --folder"
                )
            shutil.rmtree(self._folder)
        return []

    def _open(self, resources: ExitStack, before: list[Stretch]) -> tuple[Settings, DemoSource]:
        """Start Spark here and, beside it, the source with the first part of the workload."""
        if self._source is Sink.storage:
            settings = self._configured({"path": "./changefeed"})
            remember(self._state, before, finished=False)
            source = from_files(self._folder / "changefeed", self._protocol)
            self._begin(resources, source, before)
            return settings, source
        servers = (ports.free_port(), ports.free_port())
        settings = self._configure(*servers)
        remember(self._state, before, finished=False)
        with (
            Console(stderr=True).status("starting a broker, a registry and Spark"),
            ThreadPoolExecutor(1) as beside,
        ):
            begun = beside.submit(self._begin_stack, resources, servers, before)
            session(settings)
            source = begun.result()
        return settings, source

    def _configure(self, kafka_port: int, registry_port: int) -> Settings:
        """Write the demo's own file for these ports."""
        broker, registry = Broker(self._folder, kafka_port), RegistryService(self._folder, registry_port)
        also = _AVRO.format(registry_url=registry.url) if self._needs_registry else ""
        return self._configured({"bootstrap_servers": broker.bootstrap_servers, "topic_pattern": '"tidb_.*"'}, also)

    def _configured(self, place: Mapping[str, str], also: str = "") -> Settings:
        """Write the demo's own file. The environment does not count: it is about another pipeline."""
        made(self._folder)
        source = {"kind": self._source.value, "protocol": self._protocol, **place}
        text = _FILE.format(source="\n".join(f"  {key}: {value}" for key, value in source.items()), also=also)
        (self._folder / _CONFIG).write_text(text)
        checks.write(self._folder / _CHECKS)
        return parse(text, self._folder)

    def _begin_stack(self, resources: ExitStack, servers: tuple[int, int], before: Sequence[Stretch]) -> DemoSource:
        kafka_port, registry_port = servers
        started = time.monotonic()
        stack = Devstack.start(self._folder / "devstack", kafka_port=kafka_port, registry_port=registry_port)
        resources.enter_context(stack)
        took = written(time.monotonic() - started)
        self._out.line(f"a Kafka broker at {stack.bootstrap_servers}, a registry beside it; up in {took}")
        if self._needs_registry:
            source = from_kafka(stack.bootstrap_servers, stack.registry_url)
        else:
            source = from_topic(stack.bootstrap_servers, self._protocol)
        self._begin(resources, source, before)
        return source

    def _begin(self, resources: ExitStack, source: DemoSource, before: Sequence[Stretch]) -> None:
        resources.callback(source.close)
        source.repeat(before)
        self._send(source, adds_column=False)
        unreadable = source.send_unreadable()
        noun = "lines" if self._source is Sink.storage else "messages"
        self._out.line(
            f"… and {unreadable} {noun} that cannot be read, as if another producer had sent them by mistake"
        )

    def _send(self, source: DemoSource, *, adds_column: bool) -> None:
        rows = source.send(adds_column=adds_column)
        first = "ALTER TABLE shop.orders ADD COLUMN channel, then " if adds_column else ""
        self._out.line(f"the shop sends {first}{rows:,} row events in {source.parts[-1].transactions:,} transactions")

    def _compare(self, settings: Settings, source: DemoSource) -> list[TableVerdict]:
        catalog, waiting = reader(settings), _quarantine(settings)
        return [
            compare(
                table,
                rows,
                catalog.table(WarehouseName(table.schema, table.name)).scan().to_arrow().to_pylist(),
                quarantined_keys(table, waiting),
            )
            for table, rows in source.truth()
        ]

    def _show(self, settings: Settings, verdicts: Sequence[TableVerdict]) -> None:
        catalog = reader(settings)
        sizes = {v.table: Extent.of(catalog.metadata(_changes(v.table))).rows for v in verdicts}
        shown = [(v.table, v.rows, sizes[v.table], v.set_aside, _equal(v)) for v in verdicts]
        self._out.table("\ntables", _TABLES, shown)
        self._records(settings, "batches", "batch_id", _BATCHES)
        waiting = self._set_aside(settings)
        self._records(settings, "dead_letters", "offset", _LETTERS)
        report = self._report(settings)
        judge(verdicts)
        facts = {"folder": str(self._folder), "quarantined": waiting, "report": str(report)}
        self._prove(verdicts, facts)
        self._out.line(f"{self._invitation(report)}\n\nwhat was set aside and why, on a page: {report}")

    def _set_aside(self, settings: Settings) -> int:
        """Show what waits in quarantine, by rule; how many records that are."""
        rows = _quarantine(settings)
        groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            for rule in row["rules"]:
                groups[rule, f"{row['schema_name']}.{row['table_name']}"].append(row)
        cells = [(*group, len(found), found[0]["message"]) for group, found in sorted(groups.items())]
        self._out.table("\nquarantine", _RULES, cells)
        self._out.line("(from warehouse._pipeline.quarantine)")
        return len(rows)

    def _report(self, settings: Settings) -> Path:
        """Write the page; after so few batches there is no need to read in parts."""
        catalog = reader(settings)
        read = {name: records(catalog, name, columns).to_pylist() for name, columns in COLUMNS.items()}
        path = self._folder / _REPORT
        path.write_text(page(assemble(read, settings.name, datetime.now(UTC))), encoding="utf-8")
        return path

    def _prove(self, verdicts: Sequence[TableVerdict], facts: Mapping[str, Any]) -> None:
        rows, set_aside = sum(v.rows for v in verdicts), sum(v.set_aside for v in verdicts)
        changes, seconds = self._progress.changes, time.monotonic() - self._started
        counts = {"equal": True, "rows": rows, "set_aside": set_aside, "changes": changes, "seconds": round(seconds, 1)}
        but = f", except {set_aside:,} that were set aside" if set_aside else ""
        compared = f"{rows - set_aside:,} of {rows:,}" if set_aside else f"{rows:,}"
        proof = f"every row of every table equals the source{but}: {compared} rows of {len(verdicts)} tables"
        self._out.result({**facts, **counts}, f"\n{proof}, after {changes:,} changes; {seconds:.0f} s")

    def _records(self, settings: Settings, name: str, order: str, columns: Sequence[str]) -> None:
        rows = records(reader(settings), name, columns).sort_by(order).to_pylist()
        cells = [[_cell(row[column]) for column in columns] for row in rows]
        self._out.table(f"\n{name.replace('_', ' ')}", columns, cells)
        self._out.line(f"(from warehouse._pipeline.{name})")

    def _invitation(self, report: Path) -> str:
        config, warehouse = self._folder / _CONFIG, self._folder / "warehouse"
        asks = "\n".join([*snippets.tables(config), *snippets.quality(config, report)])
        return f"\nlook around:\n\n{asks}\n\n{snippets.pyiceberg(warehouse)}\n\n{snippets.spark(config)}"


def judge(verdicts: Sequence[TableVerdict]) -> None:
    """Raise `DEMO_DIFFERS` with what is different, if anything is."""
    differences = [f"{v.table}: {sentence}" for v in verdicts for sentence in v.differences]
    if differences:
        sentences = "\n  ".join(["the warehouse does not equal the source", *differences])
        raise PipelineError("DEMO_DIFFERS", sentences, "this should not happen: please report it, and attach .demo")


def _quarantine(settings: Settings) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = SetAsideRows.read(settings).rows.to_pylist()
    return rows


def _equal(verdict: TableVerdict) -> str:
    if not verdict.equal:
        return "DIFFERENT"
    return "equal but for these" if verdict.set_aside else "equal"


def _changes(table: str) -> WarehouseName:
    schema, _, name = table.partition(".")
    return WarehouseName(schema, name).changes


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return value.partition("\n")[0]
    return round(value, 1) if isinstance(value, float) else value
