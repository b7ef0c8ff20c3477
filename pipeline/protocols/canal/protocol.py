"""Canal-JSON in messages: rows show their layout, statements say the rest (`layouts`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.messages import INDEX, Ordering, Recipe
from pipeline.model.places import RAW
from pipeline.model.projection import Projection, once
from pipeline.protocols import compressed
from pipeline.protocols.canal import messages
from pipeline.protocols.canal.by_key import CanalKeyRows
from pipeline.protocols.canal.layout import read_layout
from pipeline.protocols.canal.messages import told_apart_at_once
from pipeline.protocols.canal.rows import CODES, CanalRows, CanalRowsAtOnce, PlainRows, PlainRowsAtOnce
from pipeline.protocols.described import head as described
from pipeline.protocols.described.frame import recipe
from pipeline.protocols.large import codes as large
from pipeline.protocols.large.form import LargeMessages
from pipeline.protocols.layouts.head import COMMIT_TS, HEAD, ROW, SCHEMA, TABLE, head
from pipeline.protocols.layouts.protocol import LayoutProtocol
from pipeline.protocols.layouts.statements import read_statements
from pipeline.protocols.unpacking import unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pyspark.sql import Column, DataFrame

    from pipeline.model.columns import TableVersion
    from pipeline.model.large_rows import LargeRows
    from pipeline.model.messages import ColumnMapping, Ddl, MessageHeader, TableMessages
    from pipeline.protocols.definitions import Definitions
    from pipeline.protocols.layouts.readers import VersionRows
    from pipeline.protocols.layouts.routes import Group, Sort

ROWS, ROWS_AT_ONCE = CanalRows(), CanalRowsAtOnce()
PLAIN_ROWS, PLAIN_ROWS_AT_ONCE = PlainRows(), PlainRowsAtOnce()
SENTENCES = {**CODES.sentences, **compressed.SENTENCES, **large.SENTENCES}


_ALONE = (
    "without enable-tidb-extension Canal-JSON has no commit ts, and TiCDC sends statements to partition 0 alone, "
    "so a run cannot know which rows of other partitions come after a statement"
)


PARTIAL_DELETES = (
    "OLD_VALUES_MISSING: the table has no primary key, and its deletes carry a part of the row, so a run cannot tell "
    "which row they delete; set delete-only-output-handle-key-columns = false in [sink] of the changefeed"
)


@dataclass(slots=True)
class CanalProtocol(LayoutProtocol):
    """TiCDC's Canal-JSON (wire-formats.md, "Canal-JSON").

    With `enable-tidb-extension` rows have a commit ts, and without it a time in milliseconds. The first messages of a
    warehouse tell which it is, for good.
    """

    _plain: bool | None = None
    """Whether there is no extension; None until messages have told."""
    _in_several_rows: bool = False
    """Whether there was a message of several rows; from then on they are looked for."""

    @property
    def ordering(self) -> Ordering:
        """By offset where there is no commit ts."""
        return Ordering.BY_OFFSET if self._plain else Ordering.BY_COMMIT_TS

    @property
    def told_ordering(self) -> Ordering | None:
        """See `SourceProtocol.told_ordering`."""
        return None if self._plain is None else self.ordering

    def begin(self, earlier: Ordering | None, first: DataFrame | None = None) -> None:
        """See `SourceProtocol.begin`."""
        if self._plain is None and earlier is not None:
            self._plain = earlier is Ordering.BY_OFFSET
        elif self._plain is None and first is not None:
            self._plain = _are_plain(first, newest=False)

    def header(self) -> MessageHeader:
        """See `SourceProtocol.header`."""
        made = LayoutProtocol.header(self)
        return replace(made, commit_ts=head(messages.SENT_TS)) if self._plain else made

    def first_partition_statements(self, raw: DataFrame) -> DataFrame | None:
        """See `SourceProtocol.first_partition_statements`."""
        return self._unpacking.plain(raw).where(messages.may_be_statement())

    def large_rows(self) -> LargeRows:
        """See `SourceProtocol.large_rows`: a message is one row."""
        return LargeMessages(HEAD, ROW, (SCHEMA, TABLE, COMMIT_TS), CanalKeyRows())

    @property
    def unreadable(self) -> str:
        """See `LayoutProtocol.unreadable`."""
        return CODES.message

    def sentences(self) -> Mapping[str, str]:
        """What each code of a dead letter means."""
        return SENTENCES

    def taken_apart(self, raw: DataFrame) -> DataFrame:
        """A message is one event, unless it has several rows."""
        return messages.told_apart(raw, plain=bool(self._plain), in_several_rows=self._in_several_rows)

    def adapts(self, kinds: Collection[str | None]) -> bool:
        """See `LayoutProtocol.adapts`: also where a message has several rows."""
        are_new = messages.SEVERAL in kinds and not self._in_several_rows
        self._in_several_rows |= are_new
        return LayoutProtocol.adapts(self, kinds) or are_new

    def learn_layouts(self, prepared: DataFrame, firsts: Mapping[int, int]) -> None:
        """See `LayoutProtocol.learn_layouts`."""
        rows = messages.shown(prepared, firsts.keys(), set(firsts.values())).collect()
        self._layouts.learn(
            {row.number: read_layout(row.names or (), row.types or "", row.primary_key or ()) for row in rows}
        )

    def statements(self, prepared: DataFrame) -> tuple[Ddl, ...]:
        """See `LayoutProtocol.statements`: they stand in partition 0 alone."""
        statements = read_statements(prepared, messages.statement_text(), F.lit(None).cast("int"))
        return tuple(replace(one, alone=_ALONE) for one in statements) if self._plain else statements

    def version(self, group: Group | Sort, definitions: Definitions, commit_ts: int) -> TableVersion:
        """See `LayoutProtocol.version`."""
        made = LayoutProtocol.version(self, group, definitions, commit_ts)
        return replace(made, tells_commit_ts=False, tells_before=True) if self._plain else made

    @property
    def partial_deletes(self) -> str:
        """See `LayoutProtocol.partial_deletes`: `pkNames` names the primary key alone."""
        return PARTIAL_DELETES

    def recipe(self, messages: TableMessages, mapping: ColumnMapping) -> Recipe:
        """See `SourceProtocol.recipe`: by offset events of other tables may be there."""
        versions = tuple(self.version_rows(messages))
        if not self._plain:
            return Recipe((versions, mapping, self.timezone), lambda rows: self._changes(rows, versions, mapping, ROWS))
        mine, names = self.where(messages), (messages.table, *(one.version.table for one in versions))
        depends_on = (names, self._layouts.of_none, versions, mapping, self.timezone)
        return Recipe(depends_on, lambda rows: self._changes(rows.where(mine), versions, mapping, PLAIN_ROWS))

    def foreseen(
        self,
        raw: DataFrame,
        messages: TableMessages,
        mapping: ColumnMapping,
        counted: Callable[[DataFrame], DataFrame],
    ) -> DataFrame:
        """See `LayoutProtocol.foreseen`: where one version is expected, a message is read in one pass."""
        versions = tuple(self.version_rows(messages))
        if len(versions) > 1:
            return LayoutProtocol.foreseen(self, raw, messages, mapping, counted)
        prepared = told_apart_at_once(raw, versions[0].version, plain=bool(self._plain))
        encoding = PLAIN_ROWS_AT_ONCE if self._plain else ROWS_AT_ONCE
        return self._changes(counted(prepared), versions, mapping, encoding)

    def _changes(
        self, rows: DataFrame, versions: tuple[VersionRows, ...], mapping: ColumnMapping, encoding: CanalRows
    ) -> DataFrame:
        made = recipe(tuple(one.version for one in versions), mapping, self.timezone, encoding)
        return made.of(_with_versions(versions, encoding).of(rows))


def newest_ordering(raw: DataFrame) -> Ordering | None:
    """The ordering that a new warehouse would have by the newest messages of a raw frame; None if none tells it."""
    are_plain = _are_plain(raw, newest=True)
    return None if are_plain is None else Ordering.BY_OFFSET if are_plain else Ordering.BY_COMMIT_TS


def _are_plain(raw: DataFrame, *, newest: bool) -> bool | None:
    """See `messages.are_plain`; messages that are compressed inside are unpacked, if none of them is JSON."""
    plain = messages.are_plain(raw, newest=newest)
    return messages.are_plain(unpacked(raw, of_records=False), newest=newest) if plain is None else plain


@lru_cache(maxsize=2048)
def _with_versions(versions: tuple[VersionRows, ...], encoding: CanalRows) -> Projection:
    """The head that `described.frame` asks for: a row's version, and what it does; the row where it was read."""
    number: Column = F.coalesce(*(F.when(one.mine, F.lit(one.version.version)) for one in versions), F.lit(None))
    fields = {
        "kind": F.lit(described.MessageKind.DML.value),
        "version": number.cast("bigint"),
        "op": head(messages.OP),
        "commit_ts": head(COMMIT_TS if encoding.commit_time is None else messages.SENT_TS),
        **{name: head(name) for name in encoding.in_head},
    }
    struct = F.when(once(), F.struct(*(column.alias(name) for name, column in fields.items())))
    return Projection([*(F.col(name) for name in (*RAW, INDEX)), struct.alias(described.HEAD)])
