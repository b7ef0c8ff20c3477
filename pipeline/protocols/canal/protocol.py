"""Canal-JSON in messages: rows show their layout, statements say the rest (`layouts`)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.ddl import altered
from pipeline.ddl.classify import classify
from pipeline.model.columns import CommitTs
from pipeline.model.messages import INDEX, Ddl
from pipeline.model.names import TableName
from pipeline.model.places import PLACE, POSITION, RAW, Partition, place_of
from pipeline.model.projection import Projection, once
from pipeline.protocols import compressed, too_large
from pipeline.protocols.canal import messages
from pipeline.protocols.canal.encoding import CODES, CanalRows
from pipeline.protocols.canal.layout import read_layout
from pipeline.protocols.ddl import collected
from pipeline.protocols.described import head as described
from pipeline.protocols.described.frame import recipe
from pipeline.protocols.layouts.head import COMMIT_TS, DDL, KIND, SCHEMA, TABLE, head
from pipeline.protocols.layouts.protocol import LayoutProtocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from pipeline.model.messages import ColumnMapping, TableMessages
    from pipeline.protocols.layouts.readers import VersionRows

ROWS = CanalRows()
SENTENCES = {**CODES.sentences, compressed.MESSAGE_COMPRESSED: compressed.SENTENCE, **too_large.SENTENCES}


@dataclass(slots=True)
class CanalProtocol(LayoutProtocol):
    """TiCDC's Canal-JSON with `enable-tidb-extension` (wire-formats.md, "Canal-JSON")."""

    @property
    def unreadable(self) -> str:
        """See `LayoutProtocol.unreadable`."""
        return CODES.message

    def sentences(self) -> Mapping[str, str]:
        """What each code of a dead letter means."""
        return SENTENCES

    def prepare(self, raw: DataFrame) -> DataFrame:
        """A message is one event."""
        return messages.told_apart(raw)

    def learn_layouts(self, prepared: DataFrame, firsts: Mapping[int, int]) -> None:
        """See `LayoutProtocol.learn_layouts`."""
        rows = messages.shown(prepared, firsts.keys(), set(firsts.values())).collect()
        self._layouts.learn(
            {row.number: read_layout(row.names or (), row.types or "", row.primary_key or ()) for row in rows}
        )

    def statements(self, prepared: DataFrame) -> tuple[Ddl, ...]:
        """See `LayoutProtocol.statements`: they stand in partition 0 alone."""
        names = {"ts": head(COMMIT_TS), "schema": head(SCHEMA), "table": head(TABLE), "sql": messages.statement_text()}
        sent = prepared.where(head(KIND) == DDL).select(*PLACE, *(c.alias(n) for n, c in names.items()))
        copies: dict[tuple[int, TableName, int, str], dict[Partition, int]] = defaultdict(dict)
        for row in collected(sent.orderBy(POSITION)):
            kind = classify(row.sql)
            table = altered(kind, row.sql, TableName(row.schema, row.table))
            copies[row.ts, table, kind, row.sql].setdefault(*place_of(row))
        ddl = [Ddl(CommitTs(ts), table, kind, sql, places) for (ts, table, kind, sql), places in copies.items()]
        return tuple(sorted(ddl, key=lambda statement: statement.commit_ts))

    def changes(self, rows: DataFrame, messages: TableMessages, mapping: ColumnMapping) -> DataFrame:
        """See `SourceProtocol.changes`."""
        versions = tuple(self.version_rows(messages))
        made = recipe(tuple(one.version for one in versions), mapping, self.timezone, ROWS)
        return made.of(_with_versions(versions).of(rows))


@lru_cache(maxsize=2048)
def _with_versions(versions: tuple[VersionRows, ...]) -> Projection:
    """The head that `described.frame` asks for: a row's version, and what it does."""
    number: Column = F.coalesce(*(F.when(one.mine, F.lit(one.version.version)) for one in versions), F.lit(None))
    fields = {
        "kind": F.lit(described.MessageKind.DML.value),
        "version": number.cast("bigint"),
        "op": head(messages.OP),
        "commit_ts": head(COMMIT_TS),
    }
    struct = F.when(once(), F.struct(*(column.alias(name) for name, column in fields.items())))
    return Projection([*(F.col(name) for name in (*RAW, INDEX)), struct.alias(described.HEAD)])
