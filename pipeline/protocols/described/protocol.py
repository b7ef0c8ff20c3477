"""Protocols whose messages describe the versions of tables: Simple, and the files of a storage changefeed.

What a batch has, which versions its rows are of, and how each table is decoded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from pyspark.sql import functions as F

from pipeline.model.change import ERROR
from pipeline.model.columns import CommitTs, SchemaId
from pipeline.model.conditions import any_of
from pipeline.model.messages import (
    EVER,
    MessageHeader,
    Messages,
    Ordering,
    Part,
    Prediction,
    Recipe,
    SeenVersion,
    TableMessages,
    Undecodable,
    Unknown,
)
from pipeline.model.names import TableName
from pipeline.model.places import PLACE, POSITION, Partition, place_of, stands_in
from pipeline.model.projection import through
from pipeline.protocols import grouping
from pipeline.protocols.ddl import collected
from pipeline.protocols.described import frame, samples
from pipeline.protocols.described.head import HEAD, MessageKind, field_of
from pipeline.protocols.described.links import linked
from pipeline.protocols.described.members import named_by_user, with_members
from pipeline.protocols.described.schemas import NotATableSchema
from pipeline.protocols.described.statements import SentDdl, Statements, described, read_statements
from pipeline.protocols.described.virtuals import Evidence, key_of, settle, without
from pipeline.protocols.event_counter import MOST_PARTITIONS, EventCounter, EventKinds
from pipeline.protocols.grouping import PlacedGroup, by_place, counts
from pipeline.protocols.large.form import LargeMessages
from pipeline.protocols.unpacking import Unpacking

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, Row

    from pipeline.model.columns import TableVersion
    from pipeline.model.large_rows import LargeRows
    from pipeline.model.messages import ColumnMapping, Ddl, KnownVersions
    from pipeline.model.messages import Kind as AnyKind
    from pipeline.model.places import Range
    from pipeline.model.types import WarehouseType
    from pipeline.protocols.described.encoding import Codes, Encoding
    from pipeline.protocols.described.virtuals import Names, VirtualColumns
    from pipeline.protocols.described.virtuals import VersionKey as _VersionKey


class _Kind(NamedTuple):
    """What the messages of a group have in common with those of other partitions."""

    kind: str | None
    name: TableName
    version: SchemaId
    checksums: bool


@dataclass(frozen=True, slots=True)
class _MessageGroup(PlacedGroup):
    """Messages of one partition that are alike: of one kind and, where they are a table's, of one version."""

    kind: str | None
    database: str | None
    table: str | None
    version: int | None
    since: int | None
    until: int | None
    checksums: bool
    lacks_before: bool

    @property
    def name(self) -> TableName:
        return TableName(self.database or "", self.table or "")

    @property
    def key(self) -> _VersionKey:
        return self.name.key, SchemaId(self.version or 0)

    @property
    def sort(self) -> _Kind:
        return _Kind(self.kind, self.name, self.key[1], self.checksums)


@dataclass(slots=True)
class DescribedProtocol:
    """A protocol of this kind, in one encoding.

    `timezone` is the changefeed's; `overrides` and `members` are of the settings' `warehouse.columns`: types, and what
    ENUM and SET columns may hold. `remembered` is what earlier batches have described.
    """

    encoding: Encoding
    timezone: str
    overrides: Mapping[str, WarehouseType]
    remembered: KnownVersions
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _settled: dict[_VersionKey, Names] = field(init=False, default_factory=dict)
    """The virtual columns of versions that were met, so that no row is asked twice."""
    _fitting: set[_VersionKey] = field(init=False, default_factory=set)
    """Versions of which a row was looked at that has as many columns."""
    _unpacking: Unpacking = field(init=False, default_factory=Unpacking)
    _warned: set[tuple[str, str]] = field(init=False, default_factory=set)
    """Tables of which the run has warned that rows came before their schema."""

    @property
    def ordering(self) -> Ordering:
        """Every row has a commit ts, and there are watermarks."""
        return Ordering.BY_COMMIT_TS

    @property
    def told_ordering(self) -> Ordering | None:
        """See `SourceProtocol.told_ordering`."""
        return self.ordering

    def begin(self, earlier: Ordering | None, first: DataFrame | None = None) -> None:
        """See `SourceProtocol.begin`: nothing has to be known."""

    @property
    def sends_before(self) -> bool:
        """Updates and deletes carry the whole row as it was."""
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
        return self.encoding.codes.sentences

    def header(self) -> MessageHeader:
        """See `SourceProtocol.header`."""
        is_watermark, is_ddl = (field_of("kind") == kind for kind in (MessageKind.WATERMARK, MessageKind.DDL))
        return MessageHeader(field_of("database"), field_of("table"), field_of("commit_ts"), is_watermark, is_ddl)

    def first_partition_statements(self, raw: DataFrame) -> None:
        """See `SourceProtocol.first_partition_statements`: each partition has each."""
        del raw

    def foresee(self, statements: Sequence[Ddl]) -> None:
        """See `SourceProtocol.foresee`: a row names its version."""
        del statements

    def large_rows(self) -> LargeRows | None:
        """See `SourceProtocol.large_rows`: a message is one row."""
        by_key = self.encoding.key_rows(self.timezone)
        if by_key is None:
            return None
        return LargeMessages(HEAD, MessageKind.DML.value, ("database", "table", "commit_ts"), by_key)

    def prepare(self, raw: DataFrame) -> DataFrame:
        """A record is one event; `head.HEAD` says what it is."""
        return through(self.encoding.prepared(), self._unpacking.plain(raw))

    def read(self, raw: DataFrame) -> Messages:
        """Group the batch by what its messages are, look at those that describe, resolve the versions of rows."""
        groups = [_MessageGroup(**row.asDict()) for row in _grouped(raw, self.encoding).collect()]
        kinds = {group.kind for group in groups}
        bootstraps, unread = self._bootstraps(raw, groups) if MessageKind.BOOTSTRAP in kinds else ((), ())
        statements = self._statements(raw) if MessageKind.DDL in kinds else Statements()
        listed = with_members(_by_key((*bootstraps, *statements.described)), statements.ddl, self.remembered)
        if not self.encoding.describes_before:
            earlier_versions = linked(statements.column_ddl, listed.values(), self.remembered.of_tables)
            statements = replace(statements, column_ddl=tuple(earlier_versions))
        earlier = self._described_before(groups, listed)
        virtual, widths = self._virtual(raw, groups, statements, listed, earlier)
        settled = {key: without(version, virtual[key].names) for key, version in {**earlier, **listed}.items()}
        changed = {key: version for key, version in settled.items() if key in listed or version != earlier[key]}
        of_rows = {key: named_by_user(version, self.members) for key, version in settled.items()}
        tables, unknown = _resolve(groups, of_rows, self.encoding, self._unlike(of_rows, widths))
        bad = (*unread, *_bad_statements(statements.bad, self.encoding.codes))
        control = sum(
            group.rows
            for group in groups
            if group.kind in (MessageKind.DDL, MessageKind.BOOTSTRAP, MessageKind.WATERMARK)
        )
        return Messages(
            tables=tables,
            refused=(*_refused(groups, self.header(), self.encoding.codes), *bad),
            ddl=tuple(_with_version(statement, of_rows) for statement in statements.ddl),
            watermarks=_watermarks(groups),
            starts=grouping.firsts(groups),
            ends=grouping.ends(groups),
            events=sum(group.rows for group in groups),
            control=control - sum(refusal.rows for refusal in bad),
            kinds=frozenset(group.sort for group in groups if group.kind != MessageKind.DDL),
            warnings=tuple(self._early(unknown)),
            unknown=unknown,
            described=tuple(changed.values()),
            prepare_again=self._unpacking.begins(kinds),
        )

    def _early(self, unknown: Iterable[Unknown]) -> Iterator[str]:
        for table in (version.table for version in unknown):
            if table.key not in self._warned:
                self._warned.add(table.key)
                yield (
                    f"{table}: rows came before their schema; they are pending in _pipeline.held until a BOOTSTRAP or "
                    "DDL brings it. If none comes, send-bootstrap-interval-in-sec or send-bootstrap-in-msg-count may "
                    "be off"
                )

    def where(self, messages: TableMessages) -> Column:
        """See `SourceProtocol.where`: rows of whole messages, by name and version."""
        versions = [F.lit(seen.version.version) for seen in messages.versions]
        names = {name.key: name for name in (messages.table, *(seen.version.table for seen in messages.versions))}
        return self.where_named([Part(name) for name in names.values()]) & field_of("version").isin(*versions)

    def where_named(self, parts: Sequence[Part]) -> Column:
        """See `SourceProtocol.where_named`."""
        return (field_of("kind") == MessageKind.DML) & any_of(_within(part) for part in parts)

    def recipe(self, messages: TableMessages, mapping: ColumnMapping) -> Recipe:
        """See `SourceProtocol.recipe`."""
        by_number = {seen.version.version: seen.version for seen in messages.versions}
        versions = tuple(version for number, version in by_number.items() if number in mapping.fields)
        numbers = [F.lit(version.version) for version in versions]

        def changes(rows: DataFrame) -> DataFrame:
            mine = rows.where(field_of("version").isin(*numbers))
            return frame.recipe(versions, mapping, self.timezone, self.encoding).of(mine)

        return Recipe((versions, mapping, self.timezone, self.encoding), changes)

    def kinds_of_rows(self, versions: Collection[tuple[TableName, SchemaId]]) -> frozenset[AnyKind]:
        """See `SourceProtocol.kinds_of_rows`: without checksums."""
        return frozenset(_Kind(MessageKind.DML, table, version, False) for table, version in versions)

    def predict(
        self, raw: DataFrame, kinds: frozenset[AnyKind], ranges: Mapping[Partition, Range], mapping: ColumnMapping
    ) -> Prediction | None:
        """See `SourceProtocol.predict`: rows of the newest version, watermarks, BOOTSTRAPs that were read before."""
        expected = cast("frozenset[_Kind]", kinds)
        rows = {(kind.name, kind.version) for kind in expected if kind.kind == MessageKind.DML}
        others = {(kind.name, kind.version) for kind in expected if kind.kind == MessageKind.BOOTSTRAP}
        strange = {kind.kind for kind in expected} - {MessageKind.DML, MessageKind.BOOTSTRAP, MessageKind.WATERMARK}
        if len({table for table, _ in rows}) != 1 or strange or len(ranges) > MOST_PARTITIONS:
            return None
        newest = max(rows, key=lambda one: one[1])
        version = self._settled_version(*newest)
        if version is None or not version.handle or version.version not in mapping.fields:
            return None
        has_checksum = any(kind.checksums for kind in expected)
        counter, encoding = EventCounter(ranges), self.encoding.at_once(version)
        seen = counter.seen(replace(version, has_checksum=has_checksum))
        seen = replace(seen, sends_members=encoding.sends_members)
        messages = TableMessages(version.table, (seen,))
        is_counted = encoding.width() is None or (version.table.key, version.version) in self._fitting
        prepared = through(encoding.prepared(), self._unpacking.plain(raw))
        kind = field_of("kind")
        is_alike = F.lit(True) if has_checksum else field_of("checksum").isNull()
        sorts = EventKinds(
            row=(kind == MessageKind.DML) & _is_of(newest) & is_alike,
            watermark=kind == MessageKind.WATERMARK,
            other=(kind == MessageKind.BOOTSTRAP) & any_of(map(_is_of, others)),
            commit_ts=field_of("commit_ts"),
        )
        changes = frame.recipe((seen.version,), mapping, self.timezone, encoding).of(counter.rows(prepared, sorts))
        odd = None if is_counted else F.col(ERROR).isNotNull()
        return Prediction(changes, messages, partial(counter.messages, messages, kinds), odd)

    def _settled_version(self, table: TableName, number: SchemaId) -> TableVersion | None:
        """A version as its rows are, if nothing about it is open."""
        key = table.key, number
        versions = self.remembered.versions([(table, number)])
        if key not in versions or key not in self._settled:
            return None
        return named_by_user(without(versions[key], self._settled[key]), self.members)

    def is_newest(self, seen: SeenVersion) -> bool:
        """Never: versions are moments, and a lower one is an older one."""
        del seen
        return False

    def _bootstraps(
        self, raw: DataFrame, groups: Iterable[_MessageGroup]
    ) -> tuple[tuple[TableVersion, ...], tuple[Undecodable, ...]]:
        """One of each table and version: they are repeated, in all partitions."""
        names = [field_of(name).alias(name) for name in ("database", "table", "version")]
        mine = raw.where(field_of("kind") == MessageKind.BOOTSTRAP)
        sent = [name for name in self.encoding.columns if name not in PLACE]
        one_each = mine.groupBy(*names).agg(*(F.min_by(name, F.struct(*PLACE)).alias(name) for name in sent))
        versions: list[TableVersion] = []
        bad: list[Undecodable] = []
        for row in one_each.select("database", "table", "version", self.encoding.body().alias("body")).collect():
            message = self.encoding.message(row.body) or {}
            try:
                versions.append(described(message["tableSchema"], self.overrides))
            except (NotATableSchema, KeyError):
                bad.append(_bad_bootstrap(row, groups, self.encoding.codes))
        return tuple(versions), tuple(bad)

    def _statements(self, raw: DataFrame) -> Statements:
        rows = collected(
            raw.where(field_of("kind") == MessageKind.DDL).select(*PLACE, self.encoding.body().alias("body"))
        )
        sent = (SentDdl(*place_of(row), self.encoding.message(row.body)) for row in rows)
        return read_statements(sent, self.overrides, closes=self.encoding.ddl_closes)

    def _described_before(
        self, groups: Iterable[_MessageGroup], listed: Mapping[_VersionKey, TableVersion]
    ) -> Mapping[_VersionKey, TableVersion]:
        """What earlier batches have described of all versions that this batch has."""
        wanted = {key: (version.table, version.version) for key, version in listed.items()}
        for group in groups:
            if group.kind == MessageKind.DML:
                wanted.setdefault(group.key, (group.name, group.key[1]))
        return self.remembered.versions(list(wanted.values())) if wanted else {}

    def _virtual(
        self,
        raw: DataFrame,
        groups: Iterable[_MessageGroup],
        statements: Statements,
        listed: Mapping[_VersionKey, TableVersion],
        earlier: Mapping[_VersionKey, TableVersion],
    ) -> tuple[Mapping[_VersionKey, VirtualColumns], Mapping[_VersionKey, Collection[int]]]:
        """The virtual columns of each version, and how many columns rows have that were looked at.

        A few rows are looked at where virtual columns are not settled, and where only the number of columns tells.
        """
        versions = [*listed.values(), *(version for key, version in earlier.items() if key not in listed)]
        evidence = Evidence(self._settled, earlier, {}, self.remembered.of_tables)
        virtual = settle(statements.column_ddl, versions, evidence)
        rows = [group for group in groups if group.kind == MessageKind.DML and group.key in virtual]
        uncounted = {group.key for group in rows} - self._fitting
        counts_columns = bool(uncounted) and self.encoding.width() is not None
        places = [
            (group.at, position)
            for group in rows
            if not virtual[group.key].settled or (counts_columns and group.key in uncounted)
            for position in (group.first, group.last)
        ]
        seen = samples.looked_at(raw, places, self.encoding)
        if seen.carried:
            virtual = settle(statements.column_ddl, versions, replace(evidence, carried=seen.carried))
        self._settled.update({key: columns.names for key, columns in virtual.items() if columns.settled})
        return virtual, seen.widths

    def _unlike(
        self, versions: Mapping[_VersionKey, TableVersion], widths: Mapping[_VersionKey, Collection[int]]
    ) -> dict[_VersionKey, str]:
        """Why versions are not what their rows are of; the others are fitting from here on."""
        unlike: dict[_VersionKey, str] = {}
        for key, numbers in widths.items():
            wanted = len(versions[key].columns)
            if wanted in numbers:
                self._fitting.add(key)
            else:
                has = " or ".join(map(str, sorted(numbers)))
                unlike[key] = (
                    f"COLUMNS_DIFFER: its rows have {has} columns, their version has {wanted}: check whether the "
                    "changefeed has a column selector"
                )
        return unlike


def _resolve(
    groups: Iterable[_MessageGroup],
    versions: Mapping[_VersionKey, TableVersion],
    encoding: Encoding,
    unlike: Mapping[_VersionKey, str],
) -> tuple[tuple[TableMessages, ...], tuple[Unknown, ...]]:
    by_version: dict[_VersionKey, list[_MessageGroup]] = defaultdict(list)
    for group in groups:
        if group.kind == MessageKind.DML:
            by_version[group.key].append(group)
    tables: dict[tuple[str, str], list[SeenVersion]] = defaultdict(list)
    unknown: list[Unknown] = []
    for key, alike in sorted(by_version.items()):
        if key in versions:
            seen = _seen(versions[key], alike, encoding)
            tables[key[0]].append(replace(seen, unlike=unlike.get(key, "")))
        else:
            name, number = alike[0].name, key[1]
            where = (field_of("kind") == MessageKind.DML) & _within(Part(name)) & (field_of("version") == number)
            rows = sum(one.rows for one in alike)
            unknown.append(Unknown(name, number, rows, _since(alike), _until(alike), where))
    return tuple(TableMessages(seen[0].version.table, tuple(seen)) for seen in tables.values()), tuple(unknown)


def _with_version(statement: Ddl, versions: Mapping[_VersionKey, TableVersion]) -> Ddl:
    """The statement with its version as rows of it are."""
    version = statement.version
    return statement if version is None else replace(statement, version=versions[key_of(version)])


def _grouped(prepared: DataFrame, encoding: Encoding) -> DataFrame:
    named = [field_of(name).alias(name) for name in ("kind", "database", "table", "version")]
    return prepared.groupBy(*by_place(), *named).agg(
        *counts(),
        F.min(field_of("commit_ts")).alias("since"),
        F.max(field_of("commit_ts")).alias("until"),
        F.bool_or(field_of("checksum").isNotNull()).alias("checksums"),
        F.coalesce(F.bool_or(encoding.lacks_before()), F.lit(False)).alias("lacks_before"),
    )


def _is_of(version: tuple[TableName, SchemaId]) -> Column:
    """Whether a message is of this version, under just this name."""
    table, number = version
    named = (field_of("table") == table.table) & (field_of("database") == table.schema)
    return named & (field_of("version") == F.lit(number))


def _within(part: Part) -> Column:
    """Rows of a table name in (since, until]; the JVM's `lower` on both sides."""
    named = (F.lower(field_of("table")) == F.lower(F.lit(part.table.table))) & (
        F.lower(field_of("database")) == F.lower(F.lit(part.table.schema))
    )
    if part.since > 0:
        named = named & (field_of("commit_ts") > F.lit(part.since))
    return named if part.until >= EVER else named & (field_of("commit_ts") <= F.lit(part.until))


def _refused(groups: Iterable[_MessageGroup], header: MessageHeader, codes: Codes) -> Iterator[Undecodable]:
    unread, kind = 0, field_of("kind")
    rows_of: dict[str, Counter[TableName]] = defaultdict(Counter)
    for group in groups:
        if group.kind is None:
            unread += group.rows
        elif group.kind not in set(MessageKind):
            rows_of[group.kind][group.name] += group.rows
    if unread:
        yield _unreadable(codes, kind.isNull(), unread)
    for code, rows in rows_of.items():
        named = {name: count for name, count in rows.items() if name.table}
        yield Undecodable(code, codes.sentences[code], kind == code, rows.total(), header if named else None, named)


def _unreadable(codes: Codes, where: Column, rows: int) -> Undecodable:
    return Undecodable(codes.message, codes.sentences[codes.message], where, rows)


def _bad_bootstrap(row: Row, groups: Iterable[_MessageGroup], codes: Codes) -> Undecodable:
    wanted = (row.database, row.table, row.version)
    rows = sum(
        group.rows
        for group in groups
        if group.kind == MessageKind.BOOTSTRAP and (group.database, group.table, group.version) == wanted
    )
    where = field_of("kind") == MessageKind.BOOTSTRAP
    for name, value in zip(("database", "table", "version"), wanted, strict=True):
        where = where & (field_of(name) == F.lit(value))
    return _unreadable(codes, where, rows)


def _bad_statements(bad: Iterable[SentDdl], codes: Codes) -> Iterator[Undecodable]:
    """A refusal a partition."""
    positions: dict[Partition, list[int]] = defaultdict(list)
    for statement in bad:
        positions[statement.partition].append(statement.position)
    for partition, unreadable in positions.items():
        where = stands_in(partition) & F.col(POSITION).isin(*unreadable)
        yield _unreadable(codes, where, len(unreadable))


def _by_key(versions: Iterable[TableVersion]) -> dict[_VersionKey, TableVersion]:
    return {(version.table.key, version.version): version for version in versions}


def _seen(version: TableVersion, groups: list[_MessageGroup], encoding: Encoding) -> SeenVersion:
    lacks = not version.handle and any(group.lacks_before for group in groups)
    return SeenVersion(
        replace(version, has_checksum=any(group.checksums for group in groups)),
        first=grouping.firsts(groups),
        last=grouping.lasts(groups),
        rows=sum(group.rows for group in groups),
        since=_since(groups),
        until=_until(groups),
        unfit=encoding.needs_before if lacks else "",
        sends_members=encoding.sends_members,
    )


def _since(groups: Iterable[_MessageGroup]) -> int:
    return min(group.since or 0 for group in groups)


def _until(groups: Iterable[_MessageGroup]) -> int:
    return max(group.until or 0 for group in groups)


def _watermarks(groups: Iterable[_MessageGroup]) -> dict[Partition, CommitTs]:
    marks = [group for group in groups if group.kind == MessageKind.WATERMARK]
    return {at: CommitTs(mark) for at, mark in grouping.greatest(marks, lambda group: group.until or 0).items()}
