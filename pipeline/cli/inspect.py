"""`ticdc-warehouse inspect`: one record of Kafka or of a file as the pipeline reads it, or why it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from pipeline.cli.output import ConfigOption, Format, OutputOption, as_key, opened
from pipeline.runtime.jars import fetch
from pipeline.settings import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.cli.inspection import Inspected, ShownChange
    from pipeline.cli.output import Output
    from pipeline.settings import Settings

_WIDEST = 60

app = typer.Typer(help="Look at one record: its header, its schema, the change, the verdicts.")


@app.command()
def inspect(
    topic: Annotated[
        str,
        typer.Argument(help="A topic that the settings ask for; or a file below source.path, as PATH or PATH:RECORD."),
    ],
    *,
    partition: Annotated[int, typer.Option(min=0, help="The topic's partition.")] = 0,
    offset: Annotated[
        int | None,
        typer.Option(min=0, help="The record's offset, or its number in the file; without it the newest record."),
    ] = None,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Read one record as a run would, and write nothing; exit code 1 if it would become a dead letter.

    Shows what the record is, the schemas of its ids, each change in it with the columns of its table, and what the
    suites say of it. If a run cannot read it: why, what it looks like, and its first bytes.
    """
    settings = load(config)
    with opened(output) as out:
        record = _looked_at(settings, topic, partition, offset)
        _show(out, record)
        if record.refusals:
            raise typer.Exit(1)


def _looked_at(settings: Settings, topic: str, partition: int, offset: int | None) -> Inspected:
    from pipeline.cli.inspection import inspected  # noqa: PLC0415 - it brings Spark

    fetch()  # before there is a spinner: it has a bar of its own
    with Console(stderr=True).status("starting Spark"):
        return inspected(settings, topic, partition, offset)


def _show(out: Output, record: Inspected) -> None:
    """Everything at once for programs, part by part for people."""
    refusals = [{"code": code, "message": why} for code, why in record.refusals]
    facts = {**record.facts, "changes": [_change_facts(change) for change in record.changes], "refusals": refusals}
    facts["hex"] = record.dump
    out.result(facts, "\n".join(f"{name:<11} {fact}" for name, fact in record.facts.items()))
    for change in record.changes:
        out.line(f"\n{change.sentence}\n")
        out.line(_lines(change.header, change.columns))
        out.line("\n" + "\n".join(change.verdicts))
    for code, why in record.refusals:
        out.line(f"\nwould become a dead letter: {code}: {why}")
    if record.dump:
        out.line("\n" + "\n".join(record.dump))


def _change_facts(change: ShownChange) -> dict[str, Any]:
    header = [as_key(name) for name in change.header]
    columns = [dict(zip(header, row, strict=True)) for row in change.columns]
    return {"change": change.sentence, "columns": columns, "verdicts": change.verdicts}


def _lines(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns below each other; a value of several lines or of any length goes last in its line, as it is."""
    cells = [header, *(["" if cell is None else str(cell) for cell in row] for row in rows)]
    widths = [min(_WIDEST, max(len(row[at]) for row in cells)) for at in range(len(header))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )
