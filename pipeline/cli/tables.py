"""`ticdc-warehouse tables`: what the warehouse holds, and the few things that a person does to a table.

`list`, `describe` and `history` only look (`pipeline.lake.catalog`); `as-of`, `rebuild`, `maintain`, `release` and
`restore` write, so they start Spark and take the writer's lock (`pipeline.service.client`).
"""

from __future__ import annotations

import json
import shutil
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from pipeline.cli import asof
from pipeline.cli.output import ConfigOption, Format, OutputOption, opened
from pipeline.cli.wording import counted
from pipeline.lake import table_metadata
from pipeline.lake.catalog import reader, records
from pipeline.lake.consistent_points import whole
from pipeline.lake.pending import pending_sentences
from pipeline.model.names import TableName
from pipeline.runtime.jars import fetch
from pipeline.settings import load
from pipeline.warehouse.place import elsewhere, sentence
from pipeline.warehouse.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from types import ModuleType

    from pipeline.cli.output import Output
    from pipeline.lake.table_metadata import Pair
    from pipeline.model.names import WarehouseName
    from pipeline.settings import Settings
    from pipeline.warehouse.leftovers import Leftover

Name = Annotated[str, typer.Argument(help="The source table, as in shop.orders.", metavar="NAME")]
SomeName = Annotated[str | None, typer.Argument(help="The source table; without it all tables.", metavar="[NAME]")]
_Most = Annotated[int, typer.Option("--limit", min=1, help="How many of the newest entries of each list to show.")]

app = typer.Typer(no_args_is_help=True, help="List, describe, rebuild and maintain the warehouse's tables.")


@app.command("list")
def list_tables(config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """List the source tables with rows, state, files and the time of the last commit."""
    with opened(output) as out:
        settings = load(config)
        catalog = reader(settings)
        pairs = table_metadata.pairs(catalog)
        strays = elsewhere(table_metadata.locations(pairs), settings.warehouse)
        astray = [sentence(strays, settings.warehouse)] if strays else []
        facts = [table_metadata.listed(pair) for pair in pairs]
        waiting = pending_sentences(catalog, table_metadata.held(pairs))
        if output is Format.JSON:
            lines = [
                {**line, "held_because": pair.held_reason or None} for line, pair in zip(facts, pairs, strict=True)
            ]
            out.result({"tables": lines, "waiting": waiting, "elsewhere": astray})
        elif not facts:
            out.line("no table yet: a run makes a table when its first row comes")
        else:
            out.table("", tuple(facts[0]), [[_text(k, v) for k, v in line.items()] for line in facts])
        for line in (*table_metadata.sentences(pairs), *waiting, *astray) if output is Format.TEXT else ():
            out.line(line)


@app.command()
def describe(name: Name, config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """Show a table's columns, key, defaults, source versions, location, metadata files and properties."""
    with opened(output) as out:
        catalog = reader(load(config))
        pair = table_metadata.pair_named(catalog, name)
        facts, layout = {**table_metadata.described(pair), **table_metadata.metadata_files(catalog, pair)}, pair.layout
        width = max(map(len, facts))
        out.result(facts, "\n".join(f"{key:<{width}}  {_text(key, value)}" for key, value in facts.items()))
        out.table("\ncolumns", table_metadata.COLUMNS, [*table_metadata.columns(layout), *table_metadata.others(pair)])
        _table(out, output, "source versions", table_metadata.VERSIONS, table_metadata.versions(layout))
        properties = table_metadata.properties(pair.changes if pair.current is None else pair.current)
        out.table("\nproperties", ("property", "value"), properties.items())


@app.command()
def history(name: Name, limit: _Most = 20, config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """Show what happened to a table: statements, schema versions, and the states that readers have seen."""
    with opened(output) as out:
        catalog = reader(load(config))
        pair = table_metadata.pair_named(catalog, name)
        out.result({"source": str(pair.source), "table": str(pair.name)}, f"{pair.source} in {pair.name}\n")
        for title, columns in _HISTORY.items():
            rows = records(catalog, title, ("schema_name", "table_name", *columns)).to_pylist()
            mine = [_structured(row) for row in rows if _is_about(row, pair)]
            mine.sort(key=lambda row: row["recorded_at"], reverse=True)
            _table(out, output, title.replace("_", " "), columns, ([r[c] for c in columns] for r in mine[:limit]))
        states = table_metadata.snapshots(pair.changes if pair.current is None else pair.current, limit)
        _table(out, output, "states", table_metadata.SNAPSHOTS, states)


@app.command("as-of")
def as_of(
    moment: Annotated[
        str | None,
        typer.Argument(help="A TiDB timestamp (TSO), or a time as 2026-11-21T11:48:07Z; else the newest cut."),
    ] = None,
    *,
    tag: Annotated[
        str | None,
        typer.Option(callback=asof.tag_name, help="The tag's name; else cut_ and the cut's timestamp."),
    ] = None,
    keep_days: Annotated[
        int, typer.Option(min=1, max=36_500, help="For how many days the tag keeps the snapshots.")
    ] = 7,
    look: Annotated[bool, typer.Option("--look", help="Only print; needs neither Spark nor the lock.")] = False,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Show and tag the snapshots that have all tables as of one commit ts of the source, and say how to read them."""
    settings = load(config)
    with opened(output) as out:
        commit_ts = asof.timestamp(moment) if moment else None
        catalog = reader(settings)
        pairs = table_metadata.pairs(catalog)
        point = whole(catalog, pairs, commit_ts)
        name = None if look else tag or point.tag
        if name and not point.is_tagged(name, pairs):
            with _starting():
                _client().tag(settings, name, keep_days * _DAY_MS, point.snapshots, _waiting(out))
            pairs = table_metadata.pairs(reader(settings))
        until = asof.kept(name, pairs) if name else None
        out.result(asof.facts(point, name, until), asof.sentence(point))
        columns = asof.FIELDS if output is Format.JSON else asof.COLUMNS
        _table(out, output, "tables", columns, (cut.row[: len(columns)] for cut in point.cuts))
        for line in asof.reading(point, name, until):
            out.line(line)


@app.command()
def rebuild(name: Name, config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """Rebuild a current table from its changes. Readers see the old rows until the new ones are complete."""
    settings = load(config)
    with opened(output) as out:
        pair = table_metadata.pair_named(reader(settings), name)
        with _starting():
            keys = _client().rebuild(settings, pair.source, _waiting(out))
        facts = {"source": str(pair.source), "table": str(pair.name), "keys": keys}
        out.result(facts, f"{pair.name} was rebuilt from {pair.name.changes}: {keys:,} keys replayed")


@app.command()
def maintain(
    name: SomeName = None,
    *,
    orphans: Annotated[
        bool,
        typer.Option("--orphans", help="Also remove old files that no snapshot names. Killed runs leave such files."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Change nothing, only show what there is. Without --orphans it takes a second."),
    ] = False,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Rewrite small files and files with deletes, and expire old snapshots. `run` does this automatically."""
    settings = load(config)
    with opened(output) as out:
        wanted = table_metadata.names_of(reader(settings), name)
        before = _burdens(settings, wanted)
        if dry_run:
            _table(out, output, "tables", ("table", *table_metadata.BURDEN), _burden_rows(before))
            if orphans:
                _say_orphans(out, output, _orphans(settings, wanted, out, really=False), "would be removed")
                if name is None:
                    _say_folders(out, output, _folders(settings, really=False), "would be removed")
            return
        with _starting():
            _client().maintain(settings, wanted, _waiting(out))
        _table(out, output, "before", ("table", *table_metadata.BURDEN), _burden_rows(before))
        _table(out, output, "after", ("table", *table_metadata.BURDEN), _burden_rows(_burdens(settings, wanted)))
        if orphans:
            _say_orphans(out, output, _orphans(settings, wanted, out, really=True), "removed")
            if name is None:
                _say_folders(out, output, _folders(settings, really=True), "removed")


@app.command()
def release(name: Name, config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """Release a held table: its records are replayed in order, before newer changes."""
    settings = load(config)
    with opened(output) as out:
        source = table_metadata.source_named(reader(settings), name)
        with _starting():
            count = _client().release(settings, source, _waiting(out))
        out.result({"source": name, "records": count}, f"{source} is released: {count:,} records replayed")


@app.command()
def restore(config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """Bring tables back into a catalog that has lost them, from the metadata that lies in the warehouse."""
    settings = load(config)
    with opened(output) as out:
        with _starting():
            restored = _client().restore(settings)
        out.table("restored", ("table", "metadata"), restored)
        knows = "the catalog has them again" if restored else "the catalog knows every table of the warehouse"
        out.line(knows)


_HISTORY = {
    "ddl_history": ("recorded_at", "commit_ts", "ddl_type", "action", "sql"),
    "schemas": ("recorded_at", "version", "columns"),
}


_DAY_MS = 24 * 60 * 60 * 1000


def _is_about(row: dict[str, Any], pair: Pair) -> bool:
    return TableName(row["schema_name"], row["table_name"]).key == pair.source.key


def _structured(row: dict[str, Any]) -> dict[str, Any]:
    """A row of `schemas` with its columns as what they are; any other as it is."""
    return {**row, "columns": json.loads(row["columns"] or "[]")} if "columns" in row else row


def _orphans(settings: Settings, wanted: list[WarehouseName], out: Output, *, really: bool) -> dict[str, list[str]]:
    with _starting():
        orphans: dict[str, list[str]] = _client().orphans(settings, wanted, _waiting(out), really=really)
    return orphans


def _say_orphans(out: Output, output: Format, orphans: dict[str, list[str]], what: str) -> None:
    files = [(table, file) for table, files_of_table in sorted(orphans.items()) for file in files_of_table]
    _table(out, output, "orphans", ("table", "file"), files)
    out.line(f"{what}: {counted(len(files), 'file')} that no snapshot names")


def _folders(settings: Settings, *, really: bool) -> list[Leftover]:
    """Folders that no table has; `really`: the empty ones among them are removed."""
    before = time.time() - settings.warehouse.maintenance.orphans_after_seconds
    leftovers = table_metadata.forsaken(reader(settings), settings.warehouse.local_data, before)
    for leftover in leftovers if really else ():
        if leftover.is_empty:
            shutil.rmtree(leftover.folder)
    return leftovers


def _say_folders(out: Output, output: Format, leftovers: list[Leftover], what: str) -> None:
    kept = "left: something was committed in it"
    rows = [(str(leftover.folder), what if leftover.is_empty else kept) for leftover in leftovers]
    _table(out, output, "folders of no table", ("folder", "what"), rows)


def _burdens(settings: Settings, wanted: list[WarehouseName]) -> dict[str, tuple[int, ...]]:
    now, catalog = time.time(), reader(settings)
    retention = Retention.of(settings.warehouse.maintenance, now)
    return {str(name): table_metadata.burden(catalog.metadata(name), retention, int(now * 1000)) for name in wanted}


def _burden_rows(burdens: dict[str, tuple[int, ...]]) -> list[tuple[Any, ...]]:
    return [(name, *numbers) for name, numbers in burdens.items()]


def _client() -> ModuleType:
    from pipeline.service import client  # noqa: PLC0415 - it brings Spark: those who only look need not wait

    return client


def _waiting(out: Output) -> Callable[[str], None]:
    return lambda who: out.line(f"asked {who} to do this; it will do so between two batches")


def _starting() -> AbstractContextManager[object]:
    fetch()  # before there is a spinner: it has a bar of its own
    return Console(stderr=True).status("starting Spark")


def _table(out: Output, output: Format, title: str, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Show rows, their times and sizes in people's form where people read them."""
    if output is Format.JSON:
        out.table(title, columns, [tuple(row) for row in rows])
        return
    shown = [[_text(key, value) for key, value in zip(columns, row, strict=True)] for row in rows]
    if shown:
        out.table("\n" + title, columns, shown)


def _text(key: str, value: Any) -> Any:
    if value is None:
        return ""
    if key == "size":
        return table_metadata.human(value)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return ", ".join(map(_item, value)) if isinstance(value, list) else value


def _item(value: Any) -> str:
    """One of a list; a column of a version with its type, or what is known of it instead."""
    if isinstance(value, dict):
        return f"{value['name']} {value.get('type', 'virtual')}"
    return str(value)
