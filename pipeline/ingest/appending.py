"""Appending a table's changes, and the verdict on them: write, audit, publish (decision 003)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.names import quoted
from pipeline.warehouse import changes
from pipeline.warehouse.pairs import State
from pipeline.warehouse.staged import stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.ingest.table_writer import TableWriter
    from pipeline.model.places import Partition, Range
    from pipeline.quality.rules import RuleResult
    from pipeline.warehouse.changes import Appended
    from pipeline.warehouse.staged import Staged


def append(writer: TableWriter, ranges: Mapping[Partition, Range] | None) -> Mapping[str, int]:
    """See `TableWriter.append`."""
    table, rules, work, routed = writer.made, writer.rules, writer.work, writer.work.routed
    ahead = routed.speculation
    if ahead is not None and not writer.fences and ahead.fits(table, table.layout.mapping, rules, ranges or {}):
        return _show_staged(writer, ahead.staged)
    if ahead is not None:
        ahead.drop()
    ends = {(routed.stream_ids[at.stream], at.number): high for at, (_, high) in (ranges or {}).items()}
    writer.describe_job(f"{table.source}: append changes")
    entry = changes.Entry(
        work.routed.batch_id, ends, work.operation, rules, fenced=writer.fences, times=work.ordering.times(work)
    )
    frame = writer.judged_frame(ranges) if writer.fences else writer.frame(ranges)
    if rules.gates:
        return _show_staged(writer, stage(table, frame, entry))
    appended = changes.append(table, frame, entry)
    return _counted(writer, appended, _beyond(writer, table.name.changes.sql))


def _show_staged(writer: TableWriter, staged: Staged) -> Mapping[str, int]:
    """Let main have what was appended on a branch, unless the verdict forbids it."""
    table = writer.made
    beyond = _beyond(writer, staged.name)
    results, quarantined = (*staged.appended.results, *beyond), staged.appended.quarantined
    forbidden = None if writer.work.forced else writer.context.gate.verdict(results, quarantined)
    counts = _counted(writer, staged.appended, beyond)
    if forbidden is None:
        staged.show()
        return counts
    staged.drop()
    if forbidden.severity.policy.ends_stream:
        raise forbidden.error(writer.messages.table)
    writer.forbidden = forbidden.reason
    if table.state is not State.DROPPED:
        writer.context.tables.set_state(table, State.HELD, forbidden.reason)
    return {}


def _beyond(writer: TableWriter, appended: str) -> tuple[RuleResult, ...]:
    """What Great Expectations says of the rows that the batch has appended, where it has to be asked and is due."""
    context, source, rules = writer.context, writer.messages.table, writer.rules
    seconds = context.settings.quality.gx_interval_seconds
    if not rules.beyond or not context.run.is_due(f"checks of {source}", seconds):
        return ()
    rows = context.spark.table(appended).where(F.col(change.BATCH_ID) == writer.work.routed.batch_id)
    rows = rows.where(F.col(change.OP) != change.Op.DELETE.value)
    live = [F.col(quoted(column.name)) for column in writer.made.layout.columns if column.live]
    writer.describe_job(f"{source}: Great Expectations")
    return context.rulebook.judge(rows.select(*live), rules.beyond, source)


def _counted(writer: TableWriter, appended: Appended, beyond: tuple[RuleResult, ...]) -> Mapping[str, int]:
    writer.rows_appended = appended.rows
    writer.judged, writer.fingerprint = (*appended.results, *beyond), writer.rules.fingerprint
    return {
        **appended.counts,
        "errors": appended.errors,
        "quarantined": appended.quarantined,
        "newest": appended.newest,
    }
