"""The Open protocol bound to its settings: takes records apart, and decodes the tables of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.model.messages import Recipe
from pipeline.protocols import compressed
from pipeline.protocols.large import codes as large
from pipeline.protocols.large.form import LargeEvents
from pipeline.protocols.layouts.head import COMMIT_TS, HEAD, ROW, SCHEMA, TABLE
from pipeline.protocols.layouts.protocol import LayoutProtocol
from pipeline.protocols.layouts.statements import read_statements
from pipeline.protocols.open import events
from pipeline.protocols.open.by_key import OpenKeyRows, key_of_row
from pipeline.protocols.open.columns import read_layout
from pipeline.protocols.open.frame import UNREADABLE, recipe, wanted
from pipeline.protocols.unpacking import Unpacking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from pipeline.model.columns import TableVersion
    from pipeline.model.large_rows import LargeRows
    from pipeline.model.messages import ColumnMapping, Ddl, TableMessages

NOT_OPEN = "OPEN_UNREADABLE"

SENTENCES = {
    NOT_OPEN: "the record is not framed as the Open protocol frames events, or an event is not JSON as TiCDC sends it",
    **compressed.SENTENCES,
    **large.SENTENCES,
    UNREADABLE: "a value of the row does not fit its column's type, or names a member that no DDL has defined",
}


@dataclass(slots=True)
class OpenProtocol(LayoutProtocol):
    """TiCDC's Open protocol (TiCDC Open Protocol; wire-formats.md, "Open protocol"); see `LayoutProtocol`.

    `tells_op` is false where updates do not carry the row as it was: without it they look like inserts.
    """

    _unpacking: Unpacking = field(default_factory=lambda: Unpacking(of_records=True))

    @property
    def unreadable(self) -> str:
        """See `LayoutProtocol.unreadable`."""
        return NOT_OPEN

    def sentences(self) -> Mapping[str, str]:
        """What each code of a dead letter means."""
        return SENTENCES

    def large_rows(self) -> LargeRows:
        """See `SourceProtocol.large_rows`: a record may have several rows."""
        return LargeEvents(HEAD, ROW, (SCHEMA, TABLE, COMMIT_TS), OpenKeyRows(), key_of_row)

    def taken_apart(self, raw: DataFrame) -> DataFrame:
        """A row per event of each record, and what it is."""
        return events.taken_apart(raw)

    def learn_layouts(self, prepared: DataFrame, firsts: Mapping[int, int]) -> None:
        """See `LayoutProtocol.learn_layouts`."""
        shown = events.shown(prepared, firsts)
        self._layouts.learn({number: read_layout(text) if text else None for number, text in shown.items()})

    def statements(self, prepared: DataFrame) -> tuple[Ddl, ...]:
        """See `LayoutProtocol.statements`."""
        return read_statements(prepared, *events.statement())

    def warnings(self, versions: Iterable[TableVersion]) -> Iterator[str]:
        """See `LayoutProtocol.warnings`; and tables that the changefeed's settings do not suit."""
        versions = list(versions)
        yield from LayoutProtocol.warnings(self, versions)
        for version in versions:
            if not self.tells_op and not version.handle and self.is_news(version):
                yield (
                    f"{version.table} has no key, and the changefeed sends no old values: a run cannot tell its "
                    "updates from inserts, so the old rows stay; set output-old-value = true in [sink.open]"
                )

    def recipe(self, messages: TableMessages, mapping: ColumnMapping) -> Recipe:
        """See `SourceProtocol.recipe`."""
        readers, old_values = tuple(self.version_rows(messages)), self.tells_op
        made = recipe(readers, mapping, self.timezone, old_values=old_values)
        return Recipe((readers, mapping, self.timezone, old_values), made.of)

    def foreseen(
        self,
        raw: DataFrame,
        messages: TableMessages,
        mapping: ColumnMapping,
        counted: Callable[[DataFrame], DataFrame],
    ) -> DataFrame:
        """See `LayoutProtocol.foreseen`: what an event is, and its row, are read in one pass."""
        readers = tuple(self.version_rows(messages))
        made = recipe(readers, mapping, self.timezone, old_values=self.tells_op, at_once=True)
        return made.of(counted(events.taken_apart(raw, wanted(readers))))
