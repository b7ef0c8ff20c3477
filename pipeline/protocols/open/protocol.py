"""The Open protocol bound to its settings: takes records apart, finds the tables of a batch, decodes them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from pyspark.sql import functions as F

from pipeline.ddl import ActionType
from pipeline.model.columns import CommitTs, SchemaId, TableVersion
from pipeline.model.conditions import any_of
from pipeline.model.messages import (
    EVER,
    MessageHeader,
    Messages,
    Ordering,
    Prediction,
    SeenVersion,
    TableMessages,
    Undecodable,
)
from pipeline.protocols import compressed, grouping, too_large
from pipeline.protocols.definitions import read_definitions
from pipeline.protocols.event_counter import MOST_PARTITIONS, EventCounter, EventKinds
from pipeline.protocols.open import events
from pipeline.protocols.open.columns import (
    ColumnSettings,
    defined_columns,
    is_defined,
    layout_of,
    source_columns,
    version_of,
)
from pipeline.protocols.open.events import head
from pipeline.protocols.open.frame import UNREADABLE, ImageReader, is_all_handle, recipe, wanted
from pipeline.protocols.open.layouts import Layouts
from pipeline.protocols.open.routes import grouped, named, statements
from pipeline.protocols.overrides import overrides_for

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.model.messages import ColumnMapping, Ddl, Kind, KnownVersions, Part
    from pipeline.model.names import TableName
    from pipeline.model.places import Partition, Range
    from pipeline.model.types import WarehouseType
    from pipeline.protocols.definitions import Definitions
    from pipeline.protocols.open.events import Shapes
    from pipeline.protocols.open.routes import Group, Sort

NOT_OPEN = "OPEN_UNREADABLE"
CREATING = (ActionType.CREATE_TABLE, ActionType.CREATE_TABLES)

SENTENCES = {
    NOT_OPEN: "the record is not framed as the Open protocol frames events, or an event is not JSON as TiCDC sends it",
    compressed.MESSAGE_COMPRESSED: compressed.SENTENCE,
    **too_large.SENTENCES,
    UNREADABLE: "a value of the row is not what its column's type is, or names a member that no DDL has defined",
}


@dataclass(slots=True)
class OpenProtocol:
    """TiCDC's Open protocol (TiCDC Open Protocol; wire-formats.md, "Open protocol").

    `timezone` is the changefeed's; `overrides` and `members` are of the settings' `warehouse.columns`: types, and what
    ENUM and SET columns may hold. `remembered` is what earlier batches have described. `old_values`: whether updates
    carry the row as it was; without it they look like inserts.
    """

    timezone: str
    overrides: Mapping[str, WarehouseType]
    remembered: KnownVersions
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    old_values: bool = True
    _layouts: Layouts = field(default_factory=Layouts)
    _likely: Shapes | None = None
    """What most rows of the last batch were written like; None before the first."""
    _warned: set[tuple[tuple[str, str], str]] = field(default_factory=set)
    """Columns whose members are not known, and tables without a key (no column), of which was warned."""

    @property
    def ordering(self) -> Ordering:
        """Every change has a commit ts, and there are watermarks."""
        return Ordering.BY_COMMIT_TS

    @property
    def sends_before(self) -> bool:
        """Updates and deletes carry the row as it was."""
        return True

    @property
    def decimals_as_text(self) -> bool:
        """A DECIMAL's digits are read as what they are."""
        return False

    def as_sent(self, name: str) -> str:
        """Names are sent as they are."""
        return name

    def sentences(self) -> Mapping[str, str]:
        """What each code of a dead letter means."""
        return SENTENCES

    def header(self) -> MessageHeader:
        """See `SourceProtocol.header`."""
        is_watermark, is_ddl = (head(events.KIND) == kind for kind in (events.RESOLVED, events.DDL))
        return MessageHeader(head(events.SCHEMA), head(events.TABLE), head(events.COMMIT_TS), is_watermark, is_ddl)

    def prepare(self, raw: DataFrame) -> DataFrame:
        """A row per event of each record, and what it is (`events.HEAD`).

        Before the first batch it is looked which layouts there are, in a few records.
        """
        if self._likely is None:
            self._likely = events.likely_shapes(raw)
        return events.taken_apart(raw, self._likely)

    def read(self, raw: DataFrame) -> Messages:
        """Group the batch by table and layout. Where a definition changes between equal layouts, once more."""
        groups = grouped(raw, {})
        ddl = statements(raw) if any(group.kind == events.DDL for group in groups) else ()
        self._layouts.learn(raw, groups)
        rows = self._read(groups)
        self._likely = self._layouts.likely(rows) if rows else self._likely
        definitions = read_definitions(ddl, {group.name: None for group in rows}, self._defined)
        eras = self._eras(rows, definitions)
        if eras:
            rows = self._read(grouped(raw, eras))
        return self._messages(groups, tuple(self._tables(rows, definitions)), ddl, definitions)

    def _defined(self, tables: Collection[TableName]) -> list[TableVersion]:
        return [version for version in self.remembered.of_tables(tables) if is_defined(version.version)]

    def _read(self, groups: Iterable[Group]) -> list[Group]:
        return [group for group in groups if self._layouts.knows(group)]

    def _messages(
        self, groups: list[Group], tables: tuple[TableMessages, ...], ddl: tuple[Ddl, ...], definitions: Definitions
    ) -> Messages:
        resolved = [group for group in groups if group.kind == events.RESOLVED]
        marks = grouping.greatest(resolved, lambda group: group.until or 0)
        versions = [seen.version for table in tables for seen in table.versions if not seen.key_only]
        return Messages(
            tables=tables,
            refused=tuple(self._refused(groups)),
            ddl=tuple(self._with_version(statement, definitions) for statement in ddl),
            watermarks={at: CommitTs(ts) for at, ts in marks.items()},
            starts=grouping.firsts(groups),
            ends=grouping.ends(groups),
            events=sum(group.rows for group in groups),
            control=sum(group.rows for group in groups if group.kind in (events.DDL, events.RESOLVED)),
            kinds=frozenset(group.sort for group in groups if group.kind != events.DDL),
            warnings=(*self._nameless(versions), *self._keyless(versions)),
            described=(*versions, *definitions.described.values()),
        )

    def _refused(self, groups: Iterable[Group]) -> Iterator[Undecodable]:
        unread, kind = 0, head(events.KIND)
        rows_of: dict[str, Counter[TableName]] = defaultdict(Counter)
        for group in groups:
            if group.kind is None or self._layouts.refuses(group):
                unread += group.rows
            elif group.kind in too_large.SENTENCES or group.kind == compressed.MESSAGE_COMPRESSED:
                rows_of[group.kind][group.name] += group.rows
        if unread:
            yield Undecodable(NOT_OPEN, SENTENCES[NOT_OPEN], F.isnull(kind) | self._layouts.refused, unread)
        packed = rows_of.pop(compressed.MESSAGE_COMPRESSED, None)
        if packed:
            yield compressed.refused(kind, packed.total(), self.header(), packed)
        yield from (too_large.refused(kind, code, self.header(), rows) for code, rows in rows_of.items())

    def _with_version(self, statement: Ddl, definitions: Definitions) -> Ddl:
        """A statement that creates a table, with the table as its text has it. Only rows say what the handle is."""
        columns = definitions.by(statement)
        if statement.kind not in CREATING or not columns:
            return statement
        made = defined_columns(columns.values(), self._settings_of(statement.table))
        number = SchemaId(statement.commit_ts)
        return replace(statement, version=TableVersion(statement.table, number, made, None, tells_commit_ts=True))

    def _eras(self, rows: Iterable[Group], definitions: Definitions) -> dict[TableName, list[int]]:
        """Where rows of one layout are of several versions, because a statement between them defines columns anew."""
        eras: dict[TableName, set[int]] = defaultdict(set)
        for group in rows:
            bounds = definitions.between(group.name, group.since or 0, group.until or 0)
            numbers = {
                self._version(group, definitions, ts).version for ts in (group.since or 0, *(b + 1 for b in bounds))
            }
            if len(numbers) > 1:
                eras[group.name].update(bounds)
        return {name: sorted(bounds) for name, bounds in eras.items()}

    def _tables(self, rows: Iterable[Group], definitions: Definitions) -> Iterator[TableMessages]:
        seen: dict[tuple[str, str], dict[SchemaId, tuple[TableVersion, list[Group]]]] = defaultdict(dict)
        for group in sorted(rows, key=lambda group: (group.since or 0, group.stream, group.partition)):
            version = self._version(group, definitions, group.since or 0)
            seen[group.name.key].setdefault(version.version, (version, []))[1].append(group)
        for versions in seen.values():
            of_table = tuple(_seen(version, groups) for version, groups in versions.values())
            yield TableMessages(of_table[-1].version.table, of_table)

    def _version(self, group: Group | Sort, definitions: Definitions, commit_ts: int) -> TableVersion:
        """The version of a group's rows from this commit ts on."""
        layout = self._layouts.of(group)
        columns = source_columns(layout.columns, definitions.at(group.name, commit_ts), self._settings_of(group.name))
        handle = tuple(column.name for column in layout.columns if column.handle)
        key_only = group.delete and len(handle) == len(columns)
        number = version_of(layout.bits, columns, definitions.since(group.name, commit_ts), key_only=key_only)
        return TableVersion(group.name, number, columns, handle, tells_op=self.old_values, tells_commit_ts=True)

    def _settings_of(self, table: TableName) -> ColumnSettings:
        types = overrides_for(self.overrides, table.schema, table.table)
        return ColumnSettings(types, overrides_for(self.members, table.schema, table.table))

    def _nameless(self, versions: Iterable[TableVersion]) -> Iterator[str]:
        for version in versions:
            for column in version.unnamed:
                subject = (version.table.key, column.name)
                if subject not in self._warned:
                    self._warned.add(subject)
                    yield (
                        f"{version.table}.{column.name}: no DDL that the changefeed has sent defines this "
                        f"{column.tidb_type}; its values are kept as numbers (MEMBERS_UNKNOWN)"
                    )

    def _keyless(self, versions: Iterable[TableVersion]) -> Iterator[str]:
        for version in versions:
            subject = (version.table.key, "")
            if not self.old_values and not version.handle and subject not in self._warned:
                self._warned.add(subject)
                yield (
                    f"{version.table} has no key, and the changefeed sends no old values: its updates cannot be told "
                    "from inserts, so that the rows before them stay; set output-old-value = true in [sink.open]"
                )

    def where(self, messages: TableMessages) -> Column:
        """See `SourceProtocol.where`."""
        names = {name.key: name for name in (messages.table, *(seen.version.table for seen in messages.versions))}
        return named((name, F.lit(True)) for name in names.values()) & ~self._layouts.refused

    def where_named(self, parts: Sequence[Part]) -> Column:
        """See `SourceProtocol.where_named`."""
        commit_ts = head(events.COMMIT_TS)
        spans = ((part.table, (commit_ts > part.since) & (commit_ts <= part.until)) for part in parts)
        return named(spans) & ~self._layouts.refused

    def changes(self, rows: DataFrame, messages: TableMessages, mapping: ColumnMapping) -> DataFrame:
        """See `SourceProtocol.changes`."""
        readers = tuple(self._readers(messages))
        made = recipe(readers, mapping, self.timezone, old_values=self.old_values)
        return made.of(rows)

    def _readers(self, messages: TableMessages) -> Iterator[ImageReader]:
        """Each version once; those of one layout are told apart by commit ts, of which the narrower span goes first."""
        alike: dict[tuple[int, bool], list[SeenVersion]] = defaultdict(list)
        for seen in messages.versions:
            alike[layout_of(seen.version.version), seen.key_only].append(seen)
        for (bits, key_only), versions in alike.items():
            several = len({seen.version.version for seen in versions}) > 1
            for seen in sorted(versions, key=lambda seen: seen.until - seen.since):
                yield ImageReader(
                    seen.version,
                    self._layouts.numbers(bits),
                    key_only,
                    *((seen.since, seen.until) if several else (0, EVER)),
                    self._layouts.shapes(bits),
                )

    def predict(
        self, raw: DataFrame, kinds: frozenset[Kind], ranges: Mapping[Partition, Range], mapping: ColumnMapping
    ) -> Prediction | None:
        """See `SourceProtocol.predict`: rows of one table whose layouts are known, and watermarks."""
        expected = cast("frozenset[Sort]", kinds)
        rows = [sort for sort in expected if sort.kind == events.ROW]
        names = {sort.name for sort in rows}
        if {sort.kind for sort in expected} - {events.ROW, events.RESOLVED} or len(names) != 1:
            return None
        if not all(map(self._layouts.knows, rows)) or len(ranges) > MOST_PARTITIONS:
            return None
        (name,) = names
        definitions, counter = read_definitions((), names, self._defined), EventCounter(ranges)
        versions = {self._version(sort, definitions, EVER): sort.delete for sort in rows}
        if len({version.handle for version in versions}) > 1:
            return None  # which of them came last decides
        if any(version.version not in mapping.fields for version in versions):
            return None
        seen = [counter.seen(one, key_only=delete and is_all_handle(one)) for one, delete in versions.items()]
        messages = TableMessages(name, tuple(seen))
        sorts = EventKinds(
            row=any_of(map(_is_of, rows)),
            watermark=head(events.KIND) == events.RESOLVED,
            other=F.lit(False),
            commit_ts=head(events.COMMIT_TS),
        )
        readers = tuple(self._readers(messages))
        familiar = self._layouts.familiar(rows, wanted(readers, mapping))
        at_once = familiar is not None and familiar.wanted is not None
        made = recipe(readers, mapping, self.timezone, old_values=self.old_values, at_once=at_once)
        prepared = self.prepare(raw) if familiar is None else events.compared(raw, familiar)
        frame = made.of(counter.rows(prepared, sorts))

        def counted() -> Messages | None:
            """Rows from before the newest statement may be of other versions."""
            batch = counter.messages(messages, kinds)
            if batch is None or not batch.tables:
                return batch
            first = min(one.since for one in batch.tables[0].versions)
            return batch if definitions.since(name, first) == definitions.since(name, EVER) else None

        return Prediction(frame, messages, counted)

    def is_newest(self, seen: SeenVersion) -> bool:
        """Always: the numbers of versions have no order, and statements part them."""
        del seen
        return True


def _seen(version: TableVersion, groups: list[Group]) -> SeenVersion:
    return SeenVersion(
        version,
        grouping.firsts(groups),
        grouping.lasts(groups),
        sum(group.rows for group in groups),
        key_only=groups[0].delete and is_all_handle(version),
        since=min(group.since or 0 for group in groups),
        until=max(group.until or EVER for group in groups),
    )


def _is_of(sort: Sort) -> Column:
    """Whether an event is of this sort."""
    named = (head(events.SCHEMA) == sort.schema) & (head(events.TABLE) == sort.table)
    alike = (head(events.NUMBER) == F.lit(sort.number)) & (head(events.DELETE) == F.lit(sort.delete))
    return (head(events.KIND) == F.lit(sort.kind)) & named & alike
