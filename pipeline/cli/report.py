"""`ticdc-warehouse report`: how the pipeline stands, as a page that needs nothing else, or as Markdown or JSON.

It reads `warehouse._pipeline` with PyIceberg (see `reading`): no Spark, no Kafka, no lock.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.output import ConfigOption, Format, OutputOption, opened
from pipeline.cli.reading import NO_WAREHOUSE, reader, records
from pipeline.errors import EnvironmentFault, Refused
from pipeline.report import COLUMNS, Window, assemble, document, markdown, page
from pipeline.settings import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.cli.reading import Reader
    from pipeline.report import Records
    from pipeline.settings import Settings

REPORT_UNWRITABLE = "REPORT_UNWRITABLE"
_CHUNK = 10_000


class Kind(StrEnum):
    """What the report is written as."""

    HTML = "html"
    MARKDOWN = "markdown"
    JSON = "json"


_WRITERS = {Kind.HTML: page, Kind.MARKDOWN: markdown, Kind.JSON: document}
_ENDINGS = {".html": Kind.HTML, ".htm": Kind.HTML, ".md": Kind.MARKDOWN, ".markdown": Kind.MARKDOWN, ".json": Kind.JSON}
_DEFAULTS = {Kind.HTML: "report.html", Kind.MARKDOWN: "report.md", Kind.JSON: "report.json"}

app = typer.Typer(help="Write the report of a pipeline.")


@app.command()
def report(
    *,
    to: Annotated[
        Path | None, typer.Option(help="Where to; report.html in this folder without it.", show_default=False)
    ] = None,
    kind: Annotated[
        Kind | None, typer.Option("--format", help="What as; what the file's name ends with decides without it.")
    ] = None,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Write how the pipeline stands: what is wrong, since when, which rows, what now."""
    path, chosen = _target(to, kind)
    settings = load(config)
    with opened(output) as out:
        made = assemble(_records(settings), settings.name, datetime.now(UTC))
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


def _target(to: Path | None, kind: Kind | None) -> tuple[Path, Kind]:
    """Choose the file and what it is; wrong usage where neither says what."""
    if to is None:
        chosen = kind or Kind.HTML
        return Path(_DEFAULTS[chosen]), chosen
    found = kind or _ENDINGS.get(to.suffix.casefold())
    if found is None:
        raise typer.BadParameter(f"{to} ends with none of {', '.join(_ENDINGS)}: say --format", param_hint="--to")
    return to, found


def _records(settings: Settings) -> Records:
    """Read the pipeline's own tables; before the first run there is none."""
    try:
        catalog = reader(settings)
    except Refused as refusal:
        if refusal.code == NO_WAREHOUSE:
            return {}
        raise
    first = Window.of(row for row in _rows(catalog, "batches") if row["pipeline"] == settings.name).first
    rest = {name: _rows(catalog, name) for name in COLUMNS if name != "quality_results"}
    return {"quality_results": _rows(catalog, "quality_results", f"batch_id >= {first}"), **rest}


def _rows(catalog: Reader, name: str, where: str = "") -> Iterator[dict[str, Any]]:
    """Give a table's rows, a few at a time; none where an older version has not made the table."""
    try:
        found = records(catalog, name, COLUMNS[name], where)
    except Refused as refusal:
        if refusal.code == NO_WAREHOUSE:
            return
        raise
    for chunk in found.to_batches(max_chunksize=_CHUNK):
        yield from chunk.to_pylist()


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
