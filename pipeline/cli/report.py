"""`ticdc-warehouse report`: how the pipeline stands, as a page that needs nothing else, or as Markdown or JSON.

It reads `warehouse._pipeline` with PyIceberg (`pipeline.lake.catalog`): no Spark, no Kafka, no lock.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.output import ConfigOption, Format, OutputOption, opened
from pipeline.errors import EnvironmentFault, Refused
from pipeline.lake.catalog import NO_WAREHOUSE, batches, extent, of_pipeline, reader
from pipeline.lake.consistent_points import newest
from pipeline.report import COLUMNS, WAITING_STATES, Window, assemble, document, markdown, page
from pipeline.settings import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.lake.catalog import Reader
    from pipeline.report import Records, Totals
    from pipeline.settings import Settings

REPORT_UNWRITABLE = "REPORT_UNWRITABLE"
_CHUNK = 10_000


class ReportFormat(StrEnum):
    """What the report is written as."""

    HTML = "html"
    MARKDOWN = "markdown"
    JSON = "json"


_WRITERS = {ReportFormat.HTML: page, ReportFormat.MARKDOWN: markdown, ReportFormat.JSON: document}
_ENDINGS = {
    ".html": ReportFormat.HTML,
    ".htm": ReportFormat.HTML,
    ".md": ReportFormat.MARKDOWN,
    ".markdown": ReportFormat.MARKDOWN,
    ".json": ReportFormat.JSON,
}
_DEFAULTS = {ReportFormat.HTML: "report.html", ReportFormat.MARKDOWN: "report.md", ReportFormat.JSON: "report.json"}

app = typer.Typer(help="Write the report of a pipeline.")


@app.command()
def report(
    *,
    to: Annotated[
        Path | None,
        typer.Option(help="The file to write; without it report.html in the current folder.", show_default=False),
    ] = None,
    kind: Annotated[
        ReportFormat | None,
        typer.Option("--format", help="The format; without it the file's ending decides."),
    ] = None,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Write a report of the pipeline: what is wrong, since when, in which rows, and what to do."""
    path, chosen = _target(to, kind)
    settings = load(config)
    with opened(output) as out:
        made = assemble(*_read(settings))
        _write(path, _WRITERS[chosen](made))
        verdict = made.verdict
        facts = {
            "pipeline": made.pipeline,
            "path": str(path),
            "format": chosen.value,
            "standing": verdict.standing.value,
            "headline": verdict.headline,
            "detail": verdict.detail,
            "findings": verdict.findings.total,
        }
        out.result(facts, f"{verdict.headline}\n{verdict.detail}\nthe report is in {path.resolve()}")


def _target(to: Path | None, kind: ReportFormat | None) -> tuple[Path, ReportFormat]:
    """Choose the file and what it is; wrong usage where neither says what."""
    if to is None:
        chosen = kind or ReportFormat.HTML
        return Path(_DEFAULTS[chosen]), chosen
    wanted = kind or _ENDINGS.get(to.suffix.casefold())
    if wanted is None:
        raise typer.BadParameter(
            f"{to} does not end with one of {', '.join(_ENDINGS)}: name the format with --format", param_hint="--to"
        )
    return to, wanted


def _read(settings: Settings) -> tuple[Records, str, datetime, Totals]:
    """Read what the report is made of; before the first run there is nothing."""
    now = datetime.now(UTC)
    try:
        ledger = _Ledger(reader(settings), settings.name)
    except Refused as refusal:
        if refusal.code == NO_WAREHOUSE:
            return {}, settings.name, now, {}
        raise
    return ledger.records(), settings.name, now, ledger.totals


class _Ledger:
    """One pipeline's rows, of which those are read that the report shows: what is open, and its window of batches."""

    def __init__(self, catalog: Reader, pipeline: str) -> None:
        self._catalog = catalog
        self._mine = of_pipeline(pipeline)
        extents = {name: self._extent(name, pipeline) for name in ("batches", "quarantine", "dead_letters")}
        self.totals = {name: total for name, (total, _) in extents.items()}
        self._newest = extents["batches"][1]
        self._pipeline = pipeline

    def records(self) -> Records:
        """The rows by table; those of some tables come a few at a time."""
        batches = self._batches()
        tables = list(self._rows("tables"))
        first = Window.of(batches).first
        since, is_open = f"batch_id >= {first}", "status = 'open'"
        waiting = [row["batch_id"] for row in tables if row["state"] in WAITING_STATES]
        held = f"{is_open} or batch_id >= {min(waiting)}" if waiting else is_open
        wanted = {
            "quality_results": since,
            "quarantine": f"{is_open} or {since}",
            "dead_letters": f"{is_open} or {since}",
            "held": held,
            "ddl_history": "",
            "schemas": "",
        }
        rows = {name: self._rows(name, where) for name, where in wanted.items()}
        return {"batches": batches, "tables": tables, "cuts": self._cuts(first), **rows}

    def _batches(self) -> list[dict[str, Any]]:
        """The newest batches; all of them, if their numbers do not tell which are the newest."""
        if self._newest is not None:
            newest_batches = list(self._rows("batches", f"batch_id >= {Window.begins_at(self._newest)}"))
            if Window.of(newest_batches, self.totals["batches"]).is_full:
                return newest_batches
        return list(self._rows("batches"))

    def _cuts(self, first: int) -> Iterator[dict[str, Any]]:
        """Those of the window, and each table's newest before it."""
        yield from self._rows("cuts", f"batch_id >= {first}")
        with _as_far_as_there_is():
            for row in newest(self._catalog, f"{self._mine} and batch_id < {first}"):
                yield {**row, "pipeline": self._pipeline}

    def _extent(self, name: str, pipeline: str) -> tuple[int, int | None]:
        with _as_far_as_there_is():
            return extent(self._catalog, name, pipeline)
        return 0, None

    def _rows(self, name: str, where: str = "") -> Iterator[dict[str, Any]]:
        """Give a table's rows, a few at a time; none where an older version has not made the table."""
        with _as_far_as_there_is():
            mine = f"{self._mine} and ({where})" if where else self._mine
            for piece in batches(self._catalog, name, COLUMNS[name], mine):
                for chunk in range(0, piece.num_rows, _CHUNK):
                    yield from piece.slice(chunk, _CHUNK).to_pylist()


@contextmanager
def _as_far_as_there_is() -> Iterator[None]:
    """Pass over a table that an older version has not made."""
    try:
        yield
    except Refused as refusal:
        if refusal.code != NO_WAREHOUSE:
            raise


def _write(path: Path, text: str) -> None:
    """Write the file whole or not at all: a page that is read while it is written stays a page."""
    beside = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8", newline="\n")
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise EnvironmentFault(
            REPORT_UNWRITABLE, f"{path} can't be written: {error.strerror or error}", "name another file with --to"
        ) from error
