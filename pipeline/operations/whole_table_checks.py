"""Running suites on whole current tables: on demand (`checks run`), and after `run --available-now`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.names import quoted
from pipeline.observe.logs import bound
from pipeline.quality.samples import as_row, told
from pipeline.quality.suites import fingerprint
from pipeline.warehouse.pairs import State
from pipeline.warehouse.tables_view import write_tables_view

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline.ingest.context import PipelineContext
    from pipeline.quality.rules import RuleResult
    from pipeline.warehouse.pairs import TablePair


def audit(
    context: PipelineContext, tables: Iterable[TablePair], *, only: bool = False
) -> dict[str, tuple[RuleResult, ...]]:
    """Judge current tables as they stand by their suites and record the results; by source table.

    `only`: by those checks that say nothing about batches.
    """
    by_table: dict[str, tuple[RuleResult, ...]] = {}
    rows: list[dict[str, object]] = []
    for table in tables:
        checks = context.rulebook.of_whole(table.source, only=only)
        if table.current is None or not checks or table.altered:
            continue
        context.spark.sparkContext.setJobDescription(f"{table.source}: checks on the whole table")
        columns = [F.col(quoted(column.name)) for column in table.layout.current if column.live]
        frame = context.spark.table(table.name.sql).select(*columns)
        with bound(table=str(table.source)):
            results = context.rulebook.judge(frame, checks, table.source)
        by_table[str(table.source)] = results
        suite_fingerprint, head = fingerprint(context.rulebook.checks(table.source)), table.current.head()
        rows += [as_row(result, table.source, suite_fingerprint, head, told(result, ())) for result in results]
    context.spark.sparkContext.setJobDescription("checks on whole tables: ledger")
    context.records.write("quality_results", max(0, context.run.ledger.batch_id), rows)
    return by_table


def audit_after(context: PipelineContext, tables: frozenset[str]) -> None:
    """What a run that takes everything ends with. Holds tables, and raises `QualityStop`, as batches do."""
    audited = audit(context, [table for table in context.tables if str(table.source) in tables], only=True)
    stops = []
    for table in context.tables:
        broken = [result for result in audited.get(str(table.source), ()) if not result.success]
        forbidden = context.gate.verdict(broken, 0) if broken else None
        if forbidden is None:
            continue
        if forbidden.severity.policy.ends_stream:
            stops.append((table, forbidden))
        elif table.state is State.LIVE:
            context.tables.set_state(table, State.HELD, forbidden.reason)
            write_tables_view(context.tables, context.records, max(0, context.run.ledger.batch_id))
    for table, forbidden in stops:
        raise forbidden.error_of_whole(table.source)
