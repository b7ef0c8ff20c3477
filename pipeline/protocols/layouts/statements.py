"""The DDL statements of a batch."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pipeline.ddl import altered
from pipeline.ddl.classify import classify
from pipeline.model.columns import CommitTs
from pipeline.model.messages import Ddl
from pipeline.model.names import TableName
from pipeline.model.places import PLACE, POSITION, Partition, place_of
from pipeline.protocols.ddl import collected
from pipeline.protocols.layouts.head import COMMIT_TS, DDL, KIND, SCHEMA, TABLE, head

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def read_statements(prepared: DataFrame, sql: Column, action: Column) -> tuple[Ddl, ...]:
    """The DDL statements of a prepared frame in their order, each once, with every place where it stands.

    `sql` and `action` are those of a row; where `action` is NULL, the text tells what the statement does.
    """
    columns = {"ts": head(COMMIT_TS), "schema": head(SCHEMA), "table": head(TABLE), "sql": sql, "action": action}
    sent = prepared.where(head(KIND) == DDL).select(*PLACE, *(column.alias(name) for name, column in columns.items()))
    copies: dict[tuple[int, TableName, int, str], dict[Partition, int]] = defaultdict(dict)
    again: dict[tuple[int, TableName, int, str], dict[Partition, int]] = defaultdict(dict)
    for row in collected(sent.orderBy(POSITION)):
        kind = classify(row.sql) if row.action is None else row.action
        table = altered(kind, row.sql, TableName(row.schema, row.table))
        partition, position = place_of(row)
        copy = row.ts, table, kind, row.sql
        seen = again if partition in copies[copy] else copies
        seen[copy][partition] = position
    ddl = [
        Ddl(CommitTs(ts), table, kind, sql, places, redelivered_at=again[ts, table, kind, sql])
        for (ts, table, kind, sql), places in copies.items()
    ]
    return tuple(sorted(ddl, key=lambda statement: statement.commit_ts))
