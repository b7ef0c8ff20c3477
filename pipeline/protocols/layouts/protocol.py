"""What protocols whose rows show their layout have in common: which tables and versions a batch has."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from pipeline.model.names import folded
from pipeline.protocols import grouping
from pipeline.protocols.definitions import read_definitions
from pipeline.protocols.event_counter import MOST_PARTITIONS, EventCounter, EventKinds
from pipeline.protocols.layouts.columns import (
    ColumnSettings,
    defined_columns,
    is_defined,
    layout_of,
    source_columns,
    version_of,
)
from pipeline.protocols.layouts.head import (
    COMMIT_TS,
    DDL,
    DELETE,
    KIND,
    NUMBER,
    RESOLVED,
    ROW,
    SCHEMA,
    TABLE,
    head,
)
from pipeline.protocols.layouts.known import Layouts
from pipeline.protocols.layouts.readers import VersionRows, is_all_handle
from pipeline.protocols.layouts.routes import grouped, named
from pipeline.protocols.overrides import overrides_for
from pipeline.protocols.unpacking import Unpacking

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.model.messages import ColumnMapping, Ddl, Kind, KnownVersions, Part, Recipe
    from pipeline.model.names import TableName
    from pipeline.model.places import Partition, Range
    from pipeline.model.types import WarehouseType
    from pipeline.protocols.definitions import Definitions
    from pipeline.protocols.layouts.routes import Group, Sort

CREATING = (ActionType.CREATE_TABLE, ActionType.CREATE_TABLES)


@dataclass(slots=True)
class LayoutProtocol(ABC):
    """See `SourceProtocol`. What is left for a protocol: `taken_apart`, `learn_layouts`, `statements`, and `recipe`.

    `timezone` is the changefeed's; `overrides` and `members` are of the settings' `warehouse.columns`: types, and what
    ENUM and SET columns may hold. `remembered` is what earlier batches have described.
    """

    timezone: str
    overrides: Mapping[str, WarehouseType]
    remembered: KnownVersions
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tells_op: bool = True
    """Whether updates can be told from inserts."""
    _unpacking: Unpacking = field(default_factory=Unpacking)
    _layouts: Layouts = field(default_factory=Layouts)
    _foreseen: tuple[Ddl, ...] = ()
    _warned: set[tuple[tuple[str, str], str]] = field(default_factory=set)
    """Columns whose members are not known, and tables without a key (no column), of which was warned."""

    @property
    def ordering(self) -> Ordering:
        """Every change has a commit ts, and there are watermarks."""
        return Ordering.BY_COMMIT_TS

    @property
    def told_ordering(self) -> Ordering | None:
        """See `SourceProtocol.told_ordering`."""
        return self.ordering

    def begin(self, earlier: Ordering | None, first: DataFrame | None = None) -> None:
        """See `SourceProtocol.begin`: nothing has to be known."""
        del earlier, first

    def first_partition_statements(self, raw: DataFrame) -> DataFrame | None:
        """See `SourceProtocol.first_partition_statements`: each partition has each."""
        del raw
        return None

    def foresee(self, statements: Sequence[Ddl]) -> None:
        """See `SourceProtocol.foresee`."""
        self._foreseen = tuple(statements)

    @property
    def sends_before(self) -> bool:
        """Updates and deletes carry the row as it was."""
        return True

    @property
    def decimals_as_text(self) -> bool:
        """A DECIMAL's digits are read as what they are."""
        return False

    @property
    def partial_deletes(self) -> str:
        """Why a table is held whose deletes have no handle and a part of the row; empty where there are no such."""
        return ""

    @property
    @abstractmethod
    def unreadable(self) -> str:
        """The code of an event that cannot be read."""

    @abstractmethod
    def sentences(self) -> Mapping[str, str]:
        """What each code of a dead letter means."""

    @abstractmethod
    def taken_apart(self, raw: DataFrame) -> DataFrame:
        """From plain records to a row per event, with `HEAD`."""

    def prepare(self, raw: DataFrame) -> DataFrame:
        """See `SourceProtocol.prepare`."""
        return self.taken_apart(self._unpacking.plain(raw))

    @abstractmethod
    def learn_layouts(self, prepared: DataFrame, firsts: Mapping[int, int]) -> None:
        """Learn what these numbers stand for, each from the row that stands at its position."""

    @abstractmethod
    def statements(self, prepared: DataFrame) -> tuple[Ddl, ...]:
        """The DDL statements of a prepared frame in their order, each once, with every place where it stands."""

    @abstractmethod
    def recipe(self, messages: TableMessages, mapping: ColumnMapping) -> Recipe:
        """See `SourceProtocol.recipe`."""

    def as_sent(self, name: str) -> str:
        """Names are sent as they are."""
        return name

    def header(self) -> MessageHeader:
        """See `SourceProtocol.header`."""
        is_watermark, is_ddl = (head(KIND) == kind for kind in (RESOLVED, DDL))
        return MessageHeader(head(SCHEMA), head(TABLE), head(COMMIT_TS), is_watermark, is_ddl)

    def read(self, raw: DataFrame) -> Messages:
        """Group the batch by table and layout. Where a definition changes between equal layouts, once more."""
        groups = grouped(raw, {})
        prepare_again = self.adapts({group.kind for group in groups})
        groups = [] if prepare_again else groups
        ddl = self.statements(raw) if any(group.kind == DDL for group in groups) else ()
        firsts = self._layouts.unread(groups)
        if firsts:
            self.learn_layouts(raw, firsts)
        rows = self.of_tables(groups)
        names = {group.name: None for group in rows}
        definitions = read_definitions((*ddl, *self._foreseen), names, self._defined)
        eras = self._eras(rows, definitions)
        if eras:
            rows = self.of_tables(grouped(raw, eras))
        messages = self._messages(groups, tuple(self._tables(rows, definitions)), ddl, definitions)
        return replace(messages, prepare_again=prepare_again)

    def adapts(self, kinds: Collection[str | None]) -> bool:
        """Let `prepare` do what messages of these kinds need; whether it did not do so before."""
        return self._unpacking.begins(kinds)

    def _defined(self, tables: Collection[TableName]) -> list[TableVersion]:
        return [version for version in self.remembered.of_tables(tables) if is_defined(version.version)]

    def of_tables(self, groups: Iterable[Group]) -> list[Group]:
        """Those of these groups that are rows which a table can have."""
        return [group for group in groups if self._layouts.knows(group)]

    def _messages(
        self, groups: list[Group], tables: tuple[TableMessages, ...], ddl: tuple[Ddl, ...], definitions: Definitions
    ) -> Messages:
        resolved = [group for group in groups if group.kind == RESOLVED]
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
            control=sum(group.rows for group in groups if group.kind in (DDL, RESOLVED)),
            kinds=frozenset(group.sort for group in groups if group.kind != DDL),
            warnings=tuple(self.warnings(versions)),
            described=(*versions, *definitions.described.values()),
        )

    def _refused(self, groups: Iterable[Group]) -> Iterator[Undecodable]:
        unread, kind = 0, head(KIND)
        rows_of: dict[str, Counter[TableName]] = defaultdict(Counter)
        for group in groups:
            if group.kind is None or self._layouts.refuses(group):
                unread += group.rows
            elif group.kind not in (ROW, DDL, RESOLVED):
                rows_of[group.kind][group.name] += group.rows
        if unread:
            sentence = self.sentences()[self.unreadable]
            yield Undecodable(self.unreadable, sentence, F.isnull(kind) | self._layouts.refused, unread)
        for code, rows in rows_of.items():
            yield Undecodable(code, self.sentences()[code], kind == code, rows.total(), self.header(), rows)

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
                self.version(group, definitions, ts).version for ts in (group.since or 0, *(b + 1 for b in bounds))
            }
            if len(numbers) > 1:
                eras[group.name].update(bounds)
        return {name: sorted(bounds) for name, bounds in eras.items()}

    def _tables(self, rows: Iterable[Group], definitions: Definitions) -> Iterator[TableMessages]:
        seen: dict[tuple[str, str], dict[SchemaId, tuple[TableVersion, list[Group]]]] = defaultdict(dict)
        for group in sorted(rows, key=lambda group: (group.since or 0, group.stream, group.partition)):
            version = self.version(group, definitions, group.since or 0)
            seen[group.name.key].setdefault(version.version, (version, []))[1].append(group)
        for versions in seen.values():
            others = [version for version, _ in versions.values()]
            of_table = tuple(
                replace(_seen(version, groups), unfit=self._unfit(version, groups, others, definitions))
                for version, groups in versions.values()
            )
            yield TableMessages(of_table[-1].version.table, of_table)

    def _unfit(
        self,
        version: TableVersion,
        groups: Sequence[Group],
        others: Iterable[TableVersion],
        definitions: Definitions,
    ) -> str:
        """See `SeenVersion.unfit`. `groups`: rows of this version; `others`: all versions of the table in the batch."""
        if not self.partial_deletes or version.handle or not all(group.delete for group in groups):
            return ""
        defined = definitions.at(version.table, min(group.since or 0 for group in groups))
        seen = () if defined else (*others, *self.remembered.of_tables([version.table]))
        columns = defined.keys() or {folded(column.name) for one in seen for column in one.columns}
        return self.partial_deletes if {folded(column.name) for column in version.columns} < columns else ""

    def version(self, group: Group | Sort, definitions: Definitions, commit_ts: int) -> TableVersion:
        """The version of a group's rows from this commit ts on."""
        layout = self._layouts.of(group)
        columns = source_columns(layout.columns, definitions.at(group.name, commit_ts), self._settings_of(group.name))
        key_only = group.delete and len(layout.handle) == len(columns)
        number = version_of(layout.bits, columns, definitions.since(group.name, commit_ts), key_only=key_only)
        return TableVersion(group.name, number, columns, layout.handle, tells_op=self.tells_op, tells_commit_ts=True)

    def _settings_of(self, table: TableName) -> ColumnSettings:
        types = overrides_for(self.overrides, table.schema, table.table)
        return ColumnSettings(types, overrides_for(self.members, table.schema, table.table))

    def warnings(self, versions: Iterable[TableVersion]) -> Iterator[str]:
        """What a person should know of these versions."""
        for version in versions:
            for column in version.unnamed:
                if self.is_news(version, column.name):
                    yield (
                        f"{version.table}.{column.name}: no DDL that the changefeed has sent defines this "
                        f"{column.tidb_type}; its values are kept as numbers (MEMBERS_UNKNOWN)"
                    )

    def is_news(self, version: TableVersion, column: str = "") -> bool:
        """Whether of this column, or of its table, was not warned before."""
        subject = (version.table.key, column)
        is_new = subject not in self._warned
        self._warned.add(subject)
        return is_new

    def where(self, messages: TableMessages) -> Column:
        """See `SourceProtocol.where`."""
        names = {name.key: name for name in (messages.table, *(seen.version.table for seen in messages.versions))}
        return named((name, F.lit(True)) for name in names.values()) & ~self._layouts.refused

    def where_named(self, parts: Sequence[Part]) -> Column:
        """See `SourceProtocol.where_named`."""
        commit_ts = head(COMMIT_TS)
        ranges = ((part.table, (commit_ts > part.since) & (commit_ts <= part.until)) for part in parts)
        return named(ranges) & ~self._layouts.refused

    def version_rows(self, messages: TableMessages) -> Iterator[VersionRows]:
        """Each version once; those of one layout are told apart by commit ts, of which the narrower span goes first."""
        alike: dict[tuple[int, bool], list[SeenVersion]] = defaultdict(list)
        for seen in messages.versions:
            alike[layout_of(seen.version.version), seen.key_only].append(seen)
        for (bits, key_only), versions in alike.items():
            several = len({seen.version.version for seen in versions}) > 1
            for seen in sorted(versions, key=lambda seen: seen.until - seen.since):
                span = (seen.since, seen.until) if several else (0, EVER)
                yield VersionRows(seen.version, self._layouts.numbers(bits), key_only, *span)

    def kinds_of_rows(self, versions: Collection[tuple[TableName, SchemaId]]) -> frozenset[Kind]:
        """See `SourceProtocol.kinds_of_rows`: a message names no version."""
        del versions
        return frozenset()

    def predict(
        self, raw: DataFrame, kinds: frozenset[Kind], ranges: Mapping[Partition, Range], mapping: ColumnMapping
    ) -> Prediction | None:
        """See `SourceProtocol.predict`: rows of one table whose layouts are known, and watermarks."""
        expected = cast("frozenset[Sort]", kinds)
        rows = [sort for sort in expected if sort.kind == ROW]
        names = {sort.name for sort in rows}
        if {sort.kind for sort in expected} - {ROW, RESOLVED} or len(names) != 1:
            return None
        if not all(map(self._layouts.knows, rows)) or len(ranges) > MOST_PARTITIONS:
            return None
        (name,) = names
        definitions, counter = read_definitions((), names, self._defined), EventCounter(ranges)
        versions = {self.version(sort, definitions, EVER): sort.delete for sort in rows}
        if len({version.handle for version in versions}) > 1:
            return None  # which of them came last decides
        if any(version.version not in mapping.fields for version in versions):
            return None
        seen = [counter.seen(one, key_only=delete and is_all_handle(one)) for one, delete in versions.items()]
        messages = TableMessages(name, tuple(seen))
        sorts = EventKinds(
            row=any_of(map(_is_of, rows)),
            watermark=head(KIND) == RESOLVED,
            other=F.lit(False),
            commit_ts=head(COMMIT_TS),
        )
        plain = self._unpacking.plain(raw)
        frame = self.foreseen(plain, messages, mapping, lambda prepared: counter.rows(prepared, sorts))

        def counted() -> Messages | None:
            """Rows from before the newest statement may be of other versions."""
            batch = counter.messages(messages, kinds)
            if batch is None or not batch.tables:
                return batch
            first = min(one.since for one in batch.tables[0].versions)
            return batch if definitions.since(name, first) == definitions.since(name, EVER) else None

        return Prediction(frame, messages, counted)

    def foreseen(
        self,
        raw: DataFrame,
        messages: TableMessages,
        mapping: ColumnMapping,
        counted: Callable[[DataFrame], DataFrame],
    ) -> DataFrame:
        """The change frame of a batch that is expected to have rows of these versions and nothing else.

        `raw` is plain. `counted` is to be given the prepared frame, and gives its rows.
        """
        return self.recipe(messages, mapping).of(counted(self.taken_apart(raw)))

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
    of_table = (head(SCHEMA) == sort.schema) & (head(TABLE) == sort.table)
    alike = (head(NUMBER) == F.lit(sort.number)) & (head(DELETE) == F.lit(sort.delete))
    return (head(KIND) == F.lit(sort.kind)) & of_table & alike
