"""Canal-JSON in messages: rows show their layout, statements say the rest (`layouts`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.messages import INDEX
from pipeline.model.places import RAW
from pipeline.model.projection import Projection, once
from pipeline.protocols import compressed, too_large
from pipeline.protocols.canal import messages
from pipeline.protocols.canal.layout import read_layout
from pipeline.protocols.canal.messages import told_apart_at_once
from pipeline.protocols.canal.rows import CODES, CanalRows, CanalRowsAtOnce
from pipeline.protocols.described import head as described
from pipeline.protocols.described.frame import recipe
from pipeline.protocols.layouts.head import COMMIT_TS, head
from pipeline.protocols.layouts.protocol import LayoutProtocol
from pipeline.protocols.layouts.statements import read_statements

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.model.messages import ColumnMapping, Ddl, TableMessages
    from pipeline.protocols.layouts.readers import VersionRows
    from pipeline.protocols.layouts.routes import Sort

ROWS, ROWS_AT_ONCE = CanalRows(), CanalRowsAtOnce()
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
        return read_statements(prepared, messages.statement_text(), F.lit(None).cast("int"))

    def changes(self, rows: DataFrame, messages: TableMessages, mapping: ColumnMapping) -> DataFrame:
        """See `SourceProtocol.changes`."""
        return self._changes(rows, tuple(self.version_rows(messages)), mapping, ROWS)

    def foreseen(
        self,
        raw: DataFrame,
        sorts: Sequence[Sort],
        messages: TableMessages,
        mapping: ColumnMapping,
        counted: Callable[[DataFrame], DataFrame],
    ) -> DataFrame:
        """See `LayoutProtocol.foreseen`: where one version is expected, a message is read in one pass."""
        versions = tuple(self.version_rows(messages))
        if len(versions) > 1:
            return LayoutProtocol.foreseen(self, raw, sorts, messages, mapping, counted)
        prepared = told_apart_at_once(raw, versions[0].version)
        return self._changes(counted(prepared), versions, mapping, ROWS_AT_ONCE)

    def _changes(
        self, rows: DataFrame, versions: tuple[VersionRows, ...], mapping: ColumnMapping, encoding: CanalRows
    ) -> DataFrame:
        made = recipe(tuple(one.version for one in versions), mapping, self.timezone, encoding)
        return made.of(_with_versions(versions, encoding).of(rows))


@lru_cache(maxsize=2048)
def _with_versions(versions: tuple[VersionRows, ...], encoding: CanalRows) -> Projection:
    """The head that `described.frame` asks for: a row's version, and what it does; the row where it was read."""
    number: Column = F.coalesce(*(F.when(one.mine, F.lit(one.version.version)) for one in versions), F.lit(None))
    fields = {
        "kind": F.lit(described.MessageKind.DML.value),
        "version": number.cast("bigint"),
        "op": head(messages.OP),
        "commit_ts": head(COMMIT_TS),
        **{name: head(name) for name in encoding.in_head},
    }
    struct = F.when(once(), F.struct(*(column.alias(name) for name, column in fields.items())))
    return Projection([*(F.col(name) for name in (*RAW, INDEX)), struct.alias(described.HEAD)])
