"""`ticdc-warehouse tables`: what the warehouse holds, and the few things that a person does to a table.

`list`, `describe`, `history` and `as-of` only look (see `reading`); `rebuild`, `maintain`, `release` and `restore`
write, so they start Spark and take the writer's lock (see `workshop`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from pipeline.cli import asof, shelf
from pipeline.cli.output import ConfigOption, Format, OutputOption, opened
from pipeline.cli.reading import reader, records
from pipeline.devstack import fetch
from pipeline.settings import load

if TYPE_CHECKING:
    from datetime import datetime
    from types import ModuleType

    from pipeline.cli.output import Output
    from pipeline.cli.shelf import Pair

Name = Annotated[str, typer.Argument(help="The source table, as in shop.orders.", metavar="NAME")]
SomeName = Annotated[
    str | None, typer.Argument(help="The source table; all tables without it.", metavar="[NAME]")
]
_Most = Annotated[int, typer.Option("--limit", min=1, help="The newest so many of each.")]

app = typer.Typer(no_args_is_help=True, help="List, describe, rebuild and maintain the warehouse's tables.")


@app.command("list")
def list_tables(config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """List the source tables with rows, state, files and the time of the last commit."""
    with opened(output) as out:
        found = shelf.pairs(reader(load(config)))
        facts = [shelf.listed(pair) for pair in found]
        if output is Format.JSON:
            out.result({"tables": facts})
            return
        if not facts:
            out.line("no table yet: the first row of a table makes it")
            return
        out.table("", tuple(facts[0]), [_cells(line) for line in facts])
        for sentence in shelf.sentences(found):
            out.line(sentence)


@app.command()
def describe(name: Name, config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """Show a table's columns, key, defaults, source versions, location and properties."""
    with opened(output) as out:
        pair = shelf.pair_named(reader(load(config)), name)
        facts, layout = shelf.described(pair), pair.layout
        width = max(map(len, facts))
        out.result(facts, "\n".join(f"{key:<{width}}  {_text(key, value)}" for key, value in facts.items()))
        out.table("columns", shelf.COLUMNS, shelf.columns(layout))
        out.table("source versions", shelf.VERSIONS, shelf.versions(layout))
        properties = shelf.properties(pair.changes if pair.current is None else pair.current)
        out.table("properties", ("property", "value"), properties.items())


@app.command()
def history(
    name: Name, limit: _Most = 20, config: ConfigOption = None, output: OutputOption = Format.TEXT
) -> None:
    """Show what happened to a table: statements, schema versions, and the states that readers have seen."""
    with opened(output) as out:
        catalog = reader(load(config))
        pair = shelf.pair_named(catalog, name)
        for title, columns in _HISTORY.items():
            rows = [row for row in records(catalog, title, ("schema_name", "table_name", *columns)).to_pylist()]
            mine = [row for row in rows if _is_about(row, pair)]
            mine.sort(key=lambda row: row["recorded_at"], reverse=True)
            out.table(_TITLES[title], columns, [[_shown(row[c]) for c in columns] for row in mine[:limit]])
        states = shelf.snapshots(pair.changes if pair.current is None else pair.current, limit)
        out.table("states", shelf.SNAPSHOTS, [[_shown(cell) for cell in state] for state in states])


@app.command("as-of")
def as_of(
    moment: Annotated[
        str | None,
        typer.Argument(help="A TiDB timestamp (TSO), or a time as 2026-11-21T11:48:07Z; else the newest cut."),
    ] = None,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Find the snapshots that show all tables as of one moment of the source, and how to read them."""
    with opened(output) as out:
        catalog = reader(load(config))
        cuts = asof.cuts(catalog, shelf.pairs(catalog), asof.timestamp(moment) if moment else None)
        out.result(asof.facts(cuts), asof.sentence(cuts))
        out.table("tables", asof.COLUMNS, [[_shown(cell) for cell in cut.row] for cut in cuts])
        out.result({}, asof.reading(cuts))


@app.command()
def rebuild(name: Name, config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """Make a current table again from its changes; readers see the old rows until the new ones are there."""
    settings = load(config)
    with opened(output) as out:
        pair = shelf.pair_named(reader(settings), name)
        with _starting():
            keys = _workshop().rebuild(settings, pair.source)
        facts = {"source": str(pair.source), "table": str(pair.name), "rows": keys}
        out.result(facts, f"{pair.name} is built anew from {pair.name.changes}: {keys:,} keys")


@app.command()
def maintain(
    name: SomeName = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what lies there; needs neither Spark nor the lock.")
    ] = False,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Rewrite small files and files with deletes, and expire old snapshots; `run` does so by itself."""
    settings = load(config)
    with opened(output) as out:
        catalog = reader(settings)
        wanted = shelf.names_of(catalog, name)
        before = {table: shelf.burden(catalog.metadata(table)) for table in wanted}
        if not dry_run:
            with _starting():
                _workshop().maintain(settings, wanted)
            catalog = reader(settings)
        after = {table: shelf.burden(catalog.metadata(table)) for table in wanted}
        rows = [(str(table), *shelf.change(before[table], after[table])) for table in wanted]
        out.table("tables", ("table", *shelf.BURDEN), rows)


@app.command()
def release(name: Name, config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """Let a held table live again: what it waits with is replayed in order, before newer changes."""
    settings = load(config)
    with opened(output) as out:
        with _starting():
            count = _workshop().release(settings, name)
        out.result({"source": name, "records": count}, f"{name} is released: {count:,} records replayed")


@app.command()
def restore(config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """Bring tables back into a catalog that has lost them, from the metadata that lies in the warehouse."""
    settings = load(config)
    with opened(output) as out:
        with _starting():
            found = _workshop().restore(settings)
        out.table("restored", ("table", "metadata"), [(name, file) for name, file in found])
        out.line(
            "the catalog has them again" if found else "the catalog knows every table that lies in the warehouse"
        )


_HISTORY = {
    "ddl_history": ("recorded_at", "commit_ts", "ddl_type", "action", "sql"),
    "schemas": ("recorded_at", "version", "columns"),
}
_TITLES = {"ddl_history": "ddl history", "schemas": "schemas"}


def _is_about(row: dict[str, Any], pair: Pair) -> bool:
    return (row["schema_name"].casefold(), row["table_name"].casefold()) == pair.source.key


def _workshop() -> ModuleType:
    from pipeline.cli import workshop  # noqa: PLC0415 - it brings Spark: those who only look need not wait

    return workshop


def _starting() -> Any:
    fetch()  # before there is a spinner: it has a bar of its own
    return Console(stderr=True).status("starting Spark")


def _cells(facts: dict[str, Any]) -> list[Any]:
    return [_text(key, value) if key in {"size", "committed"} else value for key, value in facts.items()]


def _text(key: str, value: Any) -> str:
    if key == "size":
        return shelf.human(value)
    return ", ".join(value) if isinstance(value, list) else str(_shown(value))


def _shown(value: Any) -> Any:
    return _time(value) if hasattr(value, "isoformat") else value


def _time(value: datetime) -> str:
    return value.strftime("%Y-%m-%d %H:%M:%S")


def _line(out: Output, text: str) -> None:
    out.line(text)
