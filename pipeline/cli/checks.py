"""`ticdc-warehouse checks`: are the suites right, and what may stand in them."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from pipeline.cli.output import ConfigOption, Format, OutputOption, opened
from pipeline.cli.wording import counted, some
from pipeline.errors import Refused
from pipeline.lake import table_metadata
from pipeline.lake.catalog import NO_WAREHOUSE, reader
from pipeline.quality.gate import CHECK_FAILED, OF_WHOLE_TABLES, QualityStop
from pipeline.quality.suites import Severity
from pipeline.runtime.jars import fetch
from pipeline.settings import load
from pipeline.warehouse.pairs import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from pyspark.sql import SparkSession

    from pipeline.cli.output import Output
    from pipeline.model.names import TableName
    from pipeline.quality.suites import Suite
    from pipeline.quality.validation import SuiteFinding
    from pipeline.settings import Settings

NO_SUITES = "NO_SUITES"
_RESULT = ("rule", "severity", "evaluated", "unexpected", "success", "observed")

app = typer.Typer(
    no_args_is_help=True, help="Validate the quality suites, print their schema, or run them on whole tables."
)


@app.command()
def validate(config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """Check the suites, and print each fault with its file and line. Exit code 1 if there is an error."""
    settings = load(config)
    with opened(output) as out:
        folder = settings.quality.suites
        if folder is None:
            raise _no_suites()
        tables = _tables(settings)
        suites, validation = _quality()
        read, unread = suites.scan(folder)
        slow = settings.quality.allow_slow_regex
        findings = validation.validate(read, tables, _spark(settings), allow_slow_regex=slow)
        findings = validation.in_order([*validation.unread(unread), *findings])
        facts = {"tables": len(tables), **_counted(read)}
        errors = sum(finding.is_error for finding in findings)
        lines = [*map(str, findings), _sentence(facts, errors, len(findings) - errors)]
        result = {"errors": errors, "findings": [_shown(finding) for finding in findings]}
        out.result({**facts, **result}, "\n".join(lines))
        if errors:
            raise typer.Exit(1)


@app.command()
def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Source tables, such as shop.orders; without a name all tables.", metavar="[NAME]…"),
    ] = None,
    config: ConfigOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Run the suites on whole current tables and record the results.

    It ends with `CHECK_FAILED` if a check that does more than warn fails.

    Some checks say nothing about a batch: what is unique, which keys another table has. They run here.
    """
    settings = load(config)
    with opened(output) as out:
        if settings.quality.suites is None:
            raise _no_suites()
        sources = [table_metadata.pair_named(reader(settings), name).source for name in names or ()]
        done = _audited(settings, sources, out)
        rows = [(table, *(one[key] for key in _RESULT)) for table, results in done.items() for one in results]
        shown = [(*row[:-2], "" if row[-2] else "FAILED", row[-1]) for row in rows] if output is Format.TEXT else rows
        out.table("checks", ("table", *_RESULT), shown)
        failed = [(table, one) for table, results in done.items() for one in results if not one["success"]]
        facts = {"passed": len(rows) - len(failed), "failed": len(failed)}
        out.result(facts, f"{counted(len(rows), 'check')} on {counted(len(done), 'table')}; {len(failed)} failed")
    stopping = [
        f"{table}: {_failure(result)}"
        for table, result in failed
        if not Severity(result["severity"]).policy.only_records
    ]
    if stopping:  # the results are out by now
        raise QualityStop(CHECK_FAILED, f"on whole tables: {some(stopping, '; ')}", OF_WHOLE_TABLES)


def _failure(result: Mapping[str, Any]) -> str:
    broken = f"{result['unexpected']:,} of {result['evaluated']:,} rows break it"
    return f"{result['rule']} ({result['severity']}): {result['observed'] or broken}"


def _audited(settings: Settings, sources: Sequence[TableName], out: Output) -> dict[str, list[dict[str, Any]]]:
    from pipeline.service import client  # noqa: PLC0415 - it brings Spark

    fetch()  # before there is a spinner: it has a bar of its own
    with Console(stderr=True).status("starting Spark"):
        return client.check(
            settings, sources, lambda who: out.line(f"asked {who} to do this; it will do so between two batches")
        )


def _no_suites() -> Refused:
    return Refused(NO_SUITES, "quality.suites is not set", "set it to the folder of your suites")


@app.command()
def schema(config: ConfigOption = None, output: OutputOption = Format.TEXT) -> None:
    """Print the JSON Schema of a suite file, for editors."""
    del config  # every command takes it; the schema is the same for all files
    with opened(output) as out:
        json_schema = _schema().json_schema()
        out.result(json_schema, json.dumps(json_schema, indent=2, ensure_ascii=False))


def _tables(settings: Settings) -> dict[TableName, Mapping[str, str]]:
    """The live columns of the source tables that the warehouse has; none where there is no warehouse yet."""
    try:
        pairs = table_metadata.pairs(reader(settings))
    except Refused as error:
        if error.code != NO_WAREHOUSE:
            raise
        return {}
    living = [pair for pair in pairs if pair.state is not State.DROPPED]
    return {pair.source: {column.name: column.type for column in pair.layout.columns if column.live} for pair in living}


def _counted(read: Sequence[Suite]) -> dict[str, int]:
    suite_schema = _schema()
    levels = [suite_schema.level(check.expectation) for suite in read for check in suite.checks]
    kinds = {level.value: levels.count(level) for level in suite_schema.Level}
    return {"suites": len(read), "checks": len(levels), **kinds}


def _sentence(facts: Mapping[str, int], errors: int, warnings: int) -> str:
    sentence = (
        f"{counted(facts['suites'], 'suite')}, {counted(facts['checks'], 'check')}: {facts['row']} judged row by row, "
        f"{facts['batch']} by Great Expectations on batches, {facts['table']} on whole tables; "
        f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"
    )
    if not facts["tables"]:
        sentence += (
            "\nthe warehouse has no table yet, so names of tables and columns, types and row conditions were not "
            "checked"
        )
    return sentence


def _shown(finding: SuiteFinding) -> dict[str, Any]:
    place = finding.place
    return {
        "file": place.source, "line": place.line, "column": place.column, "code": finding.code,
        "error": finding.is_error, "message": finding.sentence, "hint": finding.hint,
    }  # fmt: skip


def _quality() -> tuple[ModuleType, ModuleType]:
    from pipeline.quality import suites, validation  # noqa: PLC0415 - Great Expectations takes seconds to import

    return suites, validation


def _schema() -> ModuleType:
    from pipeline.quality import schema as suite_schema  # noqa: PLC0415 - as above

    return suite_schema


def _spark(settings: Settings) -> Callable[[], SparkSession]:
    """Starts Spark when it is first asked for."""

    @cache
    def started() -> SparkSession:
        from pipeline.runtime.session import looking  # noqa: PLC0415 - Spark: suites without tables or patterns need none

        fetch()  # before there is a spinner: it has a bar of its own
        with Console(stderr=True).status("starting Spark"):
            return looking(settings)

    return started
