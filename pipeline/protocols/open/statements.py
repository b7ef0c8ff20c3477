"""The DDL statements of a batch."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.ddl import altered
from pipeline.model.columns import CommitTs
from pipeline.model.messages import Ddl
from pipeline.model.names import TableName
from pipeline.model.places import PLACE, POSITION, Partition, place_of
from pipeline.protocols.ddl import collected
from pipeline.protocols.layouts.head import COMMIT_TS, DDL, KIND, SCHEMA, TABLE, head
from pipeline.protocols.open import events, framing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STATEMENT = "struct<q: string, t: int>"


def statements(prepared: DataFrame) -> tuple[Ddl, ...]:
    """The DDL statements of a prepared frame in their order, each once, with every place where it stands."""
    sent = F.from_json(framing.value_json(F.col("value")), _STATEMENT, events.LIMITS)
    names = {"ts": head(COMMIT_TS), "schema": head(SCHEMA), "table": head(TABLE)}
    rows = collected(
        prepared.where(head(KIND) == DDL)
        .select(*PLACE, *(c.alias(n) for n, c in names.items()), sent.alias("sent"))
        .orderBy(POSITION)
    )
    copies: dict[tuple[int, TableName, int, str], dict[Partition, int]] = defaultdict(dict)
    for row in rows:
        table = altered(row.sent.t, row.sent.q, TableName(row.schema, row.table))
        key = (row.ts, table, row.sent.t, row.sent.q)
        copies[key].setdefault(*place_of(row))
    ddl = [Ddl(CommitTs(ts), table, kind, sql, places) for (ts, table, kind, sql), places in copies.items()]
    return tuple(sorted(ddl, key=lambda statement: statement.commit_ts))
