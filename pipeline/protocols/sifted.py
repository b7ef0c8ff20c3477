"""What of a batch's messages is taken on: those of the tables that are read, without progress that cannot be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline import ddl as text
from pipeline.model.columns import FAR_FUTURE
from pipeline.model.messages import Undecodable
from pipeline.model.places import stands_at

if TYPE_CHECKING:
    from pipeline.model.messages import Ddl, Messages
    from pipeline.model.table_filter import TableFilter

AHEAD = "COMMIT_TS_AHEAD"


def selected(messages: Messages, tables: TableFilter) -> Messages:
    """The messages without rows and statements of tables that are left out. What cannot be decoded stays."""
    rows = [table for table in messages.tables if tables.takes(table.table)]
    unknown = [version for version in messages.unknown if tables.takes(version.table)]
    passed_over = sum(table.rows for table in messages.tables) - sum(table.rows for table in rows)
    passed_over += sum(version.rows for version in messages.unknown) - sum(version.rows for version in unknown)
    statements = (ddl for ddl in messages.ddl if _concerns(ddl, tables))
    return replace(messages, tables=tuple(rows), unknown=tuple(unknown), ddl=tuple(statements), passed_over=passed_over)


def _concerns(ddl: Ddl, tables: TableFilter) -> bool:
    """Whether a statement is about a database, or names a table that is read: before a RENAME, or after it."""
    if not ddl.table.table or tables.takes(ddl.table):  # mostly, and then nobody has to read the text
        return True
    return any(map(tables.takes, text.named_tables(ddl.sql, ddl.table, ddl.old)))


def without_impossible_progress(messages: Messages) -> Messages:
    """Messages without progress that TiDB cannot have made: after it every event would count as a redelivery.

    A watermark from the year 2200 on is passed over with a warning, a statement is a dead letter.
    """
    far = {at: ts for at, ts in messages.watermarks.items() if ts > FAR_FUTURE}
    ddl = [one for one in messages.ddl if one.commit_ts > FAR_FUTURE]
    if not (far or ddl):
        return messages
    warnings = [
        f"{partition.stream}/{partition.number}: a run ignores watermark {ts}, which is in the far future"
        for partition, ts in far.items()
    ]
    why = "commit ts {} is in the far future: {}"
    refused = [Undecodable(AHEAD, why.format(d.commit_ts, d.sql), stands_at(d.at.items()), len(d.at)) for d in ddl]
    return replace(
        messages,
        watermarks={at: ts for at, ts in messages.watermarks.items() if at not in far},
        ddl=tuple(one for one in messages.ddl if one not in ddl),
        refused=(*messages.refused, *refused),
        warnings=(*messages.warnings, *warnings),
    )
