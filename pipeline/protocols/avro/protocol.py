"""The Avro protocol bound to a registry: routes a batch, resolves its schema ids, decodes its tables."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, cast

from pyspark.sql import functions as F

from pipeline.ddl import altered
from pipeline.model import change
from pipeline.model.columns import CommitTs, SchemaId, TableVersion
from pipeline.model.messages import (
    INDEX,
    Ddl,
    MessageHeader,
    Messages,
    Ordering,
    Origin,
    Prediction,
    Recipe,
    SeenVersion,
    TableMessages,
    Undecodable,
)
from pipeline.model.names import TableName, folded
from pipeline.model.places import PLACE, RAW, STREAM, Partition, place_of, stands_at, stands_in
from pipeline.protocols import grouping
from pipeline.protocols.avro import decode
from pipeline.protocols.avro.assertions import Asserted
from pipeline.protocols.avro.decode import WriterSchema
from pipeline.protocols.avro.fields import source_column
from pipeline.protocols.ddl import collected
from pipeline.protocols.grouping import PlacedGroup, by_place, counts
from pipeline.protocols.overrides import overrides_for
from registry import NotATicdcSchema, SchemaNotFound, SubjectNotFound, sanitise, split, subjects_of
from registry.wire import CHECKPOINT, DDL, DELETE, HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, Row

    from pipeline.model.messages import ColumnMapping, Kind, Part
    from pipeline.model.places import Range
    from pipeline.model.types import WarehouseType
    from registry import RegistryClient, TicdcSchema

_NO_HEADER = b"\xff"

_UNLIKE_ITS_SCHEMA = (
    "does not match its schema: it is truncated, followed by other bytes or damaged, or a value does not fit its "
    "column's type"
)

SENTENCES = {
    decode.CORRUPT_VALUE: f"the value {_UNLIKE_ITS_SCHEMA}",
    decode.CORRUPT_KEY: f"the key {_UNLIKE_ITS_SCHEMA}",
    "EMPTY_MESSAGE": "the message has neither key nor value; TiCDC sends a delete like that if the table has no "
    "primary key",
    "NOT_CONFLUENT": "the message does not begin with the registry's magic byte 00, and it is not a watermark-mode "
    "message either",
    "SCHEMA_NOT_FOUND": "the registry does not know this schema id",
    "NOT_A_TICDC_SCHEMA": "the schema of this id was not written by TiCDC",
    "DDL_UNREADABLE": "the DDL message (01) is not the JSON that TiCDC sends",
}


@dataclass(frozen=True, slots=True)
class _AvroGroup(PlacedGroup):
    """Messages of one partition with one pair of headers."""

    key: bytes | None
    value: bytes | None
    watermark: int | None

    @property
    def kind(self) -> int | None:
        """First byte of the value; None where there is no value."""
        return None if self.value is None else self.value[0]

    @property
    def is_delete(self) -> bool:
        return self.kind is None or self.kind == DELETE


@dataclass(slots=True)
class AvroProtocol:
    """TiCDC's Avro messages (TiCDC Avro Protocol; wire-formats.md).

    `timezone` is the changefeed's, `overrides` the settings' `warehouse.columns`, `asserted` what the settings say
    of the changefeed besides.
    """

    registry: RegistryClient
    timezone: str = "UTC"
    overrides: Mapping[str, WarehouseType] = field(default_factory=dict)
    asserted: Asserted = field(default_factory=Asserted)
    _compared: set[tuple[str, str]] = field(default_factory=set)
    """Tables whose schema was compared with what the settings say."""

    @property
    def ordering(self) -> Ordering:
        """Deletes have no commit ts: positions decide."""
        return Ordering.BY_OFFSET

    @property
    def told_ordering(self) -> Ordering | None:
        """See `SourceProtocol.told_ordering`."""
        return self.ordering

    def begin(self, earlier: Ordering | None, first: DataFrame | None = None) -> None:
        """See `SourceProtocol.begin`: nothing has to be known."""

    @property
    def sends_before(self) -> bool:
        """By default old values are not sent: a version says whether they are (`TableVersion.tells_before`)."""
        return False

    @property
    def decimals_as_text(self) -> bool:
        """With `avro-decimal-handling-mode=string`."""
        return self.asserted.decimal == "string"

    def as_sent(self, name: str) -> str:
        """Avro names, of tables and columns alike."""
        return sanitise(name)

    def sentences(self) -> Mapping[str, str]:
        """What each code of a dead letter means."""
        return SENTENCES

    def header(self) -> MessageHeader:
        """Whether it is a DDL event, and no more: the registry's schema says whose a message is."""
        name, number, flag = (F.lit(None).cast(kind) for kind in ("string", "bigint", "boolean"))
        return MessageHeader(name, name, number, flag, _value_route() == F.lit(bytes([DDL])))

    def first_partition_statements(self, raw: DataFrame) -> None:
        """See `SourceProtocol.first_partition_statements`: each partition has each."""
        del raw

    def foresee(self, statements: Sequence[Ddl]) -> None:
        """See `SourceProtocol.foresee`: a row names its version."""
        del statements

    def large_rows(self) -> None:
        """Avro has no such rows: TiCDC gives up."""

    def prepare(self, raw: DataFrame) -> DataFrame:
        """A record is one event."""
        return raw.select(*RAW, F.lit(0).alias(INDEX))

    def read(self, raw: DataFrame) -> Messages:
        """Group the batch by header, then resolve the few ids that it has."""
        groups = [_group(row) for row in _grouped(raw).collect()]
        ddl = self._ddl(raw) if any(group.kind == DDL for group in groups) else ((), ())
        return self._messages(groups, *ddl)

    def _messages(
        self, groups: list[_AvroGroup], ddl: tuple[Ddl, ...] = (), unread: tuple[Undecodable, ...] = ()
    ) -> Messages:
        tables, refused = self._resolve(groups)
        control = sum(group.rows for group in groups if group.kind in (DDL, CHECKPOINT))
        return Messages(
            tables=tables,
            refused=(*refused, *unread),
            ddl=ddl,
            watermarks=_watermarks(groups),
            starts=grouping.firsts(groups),
            ends=grouping.ends(groups),
            events=sum(group.rows for group in groups),
            control=control - sum(refusal.rows for refusal in unread),
            kinds=frozenset((group.key, group.value) for group in groups if group.kind != DDL),
            warnings=tuple(warning for table in tables for warning in self._denied(table)),
        )

    def _denied(self, messages: TableMessages) -> Iterator[str]:
        values = [seen.version.version for seen in messages.versions if not seen.key_only]
        if values and messages.table.key not in self._compared:
            self._compared.add(messages.table.key)
            for sentence in self.asserted.denied(self.registry.ticdc_schema(values[-1])):
                yield f"{messages.table}: {sentence}"

    def recipe(self, messages: TableMessages, mapping: ColumnMapping) -> Recipe:
        """See `SourceProtocol.recipe`: a version is of one table alone, so that rows of others may be there."""
        streams = tuple(sorted({at.stream for at in messages.partitions}))
        writers = tuple(self._writers(messages))

        def changes(rows: DataFrame) -> DataFrame:
            return decode.change_frame(rows.where(F.col(STREAM).isin(*streams)), writers, mapping, self.timezone)

        return Recipe((streams, writers, mapping, self.timezone), changes)

    def kinds_of_rows(self, versions: Collection[tuple[TableName, SchemaId]]) -> frozenset[Kind]:
        """See `SourceProtocol.kinds_of_rows`: a message names no version."""
        del versions
        return frozenset()

    def predict(
        self, raw: DataFrame, kinds: frozenset[Kind], ranges: Mapping[Partition, Range], mapping: ColumnMapping
    ) -> Prediction | None:
        """See `SourceProtocol.predict`: a kind is a pair of headers."""
        pairs = sorted(cast("frozenset[tuple[bytes | None, bytes | None]]", kinds), key=repr)
        groups = [
            _AvroGroup(*partition, 0, low, high - 1, *pair, None)
            for partition, (low, high) in ranges.items()
            for pair in pairs
        ]
        messages = self._messages(groups)
        if len(messages.tables) != 1 or messages.refused or any(group.kind in (DDL, CHECKPOINT) for group in groups):
            return None
        (table,) = messages.tables
        if any(seen.version.version not in mapping.fields for seen in table.versions):
            return None
        keys = [F.lit(key) for key, _ in pairs if key]
        odd = F.col(change.SCHEMA_ID).isNull() | ~F.substring(change.KEY_BYTES, 1, HEADER_BYTES).isin(*keys)
        frame = decode.whole_frame(self.prepare(raw), self._writers(table), mapping, self.timezone)
        rows = sum(high - low for low, high in ranges.values())
        counted = partial(replace, messages, events=rows)
        return Prediction(frame, table, counted, F.coalesce(odd, F.lit(True)), rows)

    def where(self, messages: TableMessages) -> Column:
        """See `SourceProtocol.where`."""
        streams = sorted({at.stream for at in messages.partitions})
        return F.col(STREAM).isin(*streams) & decode.belongs(self._writers(messages))

    def where_named(self, parts: Sequence[Part]) -> Column:
        """See `SourceProtocol.where_named`: not asked, as rows do not say which table they are of."""
        raise AssertionError(f"rows of {parts} are asked for by name")

    def is_newest(self, seen: SeenVersion) -> bool:
        """See `SourceProtocol.is_newest`: a registry that was wiped gives low ids again."""
        stream = min(seen.first).stream
        try:
            return self.registry.latest(subjects_of(stream).value).schema_id == seen.version.version
        except SubjectNotFound:
            return False

    def _writers(self, messages: TableMessages) -> list[WriterSchema]:
        return [
            WriterSchema(seen.version.version, self.registry.ticdc_schema(seen.version.version), seen.key_only)
            for seen in messages.versions
        ]

    def _resolve(self, groups: Iterable[_AvroGroup]) -> tuple[tuple[TableMessages, ...], tuple[Undecodable, ...]]:
        seen: dict[tuple[SchemaId, bool, str], list[_AvroGroup]] = defaultdict(list)
        refused: list[Undecodable] = []
        for group in groups:
            if group.kind in (DDL, CHECKPOINT):
                continue
            problem = _malformed(group)
            if problem:
                refused.append(_refused(problem, group))
                continue
            header = group.key if group.is_delete else group.value
            schema_id = SchemaId(split(header or b"").schema_id)
            seen[schema_id, group.is_delete, group.stream].append(group)
        tables: dict[tuple[Origin, tuple[str, str]], list[SeenVersion]] = defaultdict(list)
        for (schema_id, key_only, stream), alike in sorted(seen.items()):
            try:
                version = self._version(schema_id, alike, key_only=key_only)
            except (SchemaNotFound, NotATicdcSchema) as error:
                sentence = f"{error.message} {error.hint}".strip()
                refused.extend(_refused(error.code, group, sentence) for group in alike)
                continue
            first = grouping.firsts(alike)
            rows = sum(group.rows for group in alike)
            last = grouping.lasts(alike)
            origin = Origin(stream, self.registry.ticdc_schema(schema_id).namespace)
            tables[origin, version.table.key].append(SeenVersion(version, first, last, rows, key_only))
        return tuple(_table(versions, origin) for (origin, _), versions in tables.items()), tuple(refused)

    def _version(self, schema_id: SchemaId, groups: list[_AvroGroup], *, key_only: bool) -> TableVersion:
        schema = self.registry.ticdc_schema(schema_id)
        if key_only:
            handle = tuple(column.name for column in schema.columns)
            return self._described(schema_id, schema, handle)
        version = self._described(schema_id, schema, self._handle(groups, schema))
        version = replace(version, keys_vary=len({group.key for group in groups}) > 1, tells_before=schema.before)
        return _with_stand_in(version) if version.handle == () and schema.before else version

    def _handle(self, groups: list[_AvroGroup], schema: TicdcSchema) -> tuple[str, ...] | None:
        """The handle columns of upserts, from the key schema that they are sent with, if the rows have them all.

        Empty where some are sent without a key: the newer TiCDC does that with tables without a PRIMARY KEY.
        """
        if any(group.key is None for group in groups):
            return ()
        carried = {folded(column.name) for column in schema.columns}
        keys = {split(group.key).schema_id for group in groups if group.key and group.key != _NO_HEADER}
        for key_id in sorted(keys, reverse=True):
            try:
                key = self.registry.ticdc_schema(SchemaId(key_id))
            except (SchemaNotFound, NotATicdcSchema):
                continue
            if all(folded(column.name) in carried for column in key.columns):
                return tuple(column.name for column in key.columns)
        return None

    def _described(self, schema_id: SchemaId, schema: TicdcSchema, handle: tuple[str, ...] | None) -> TableVersion:
        table = TableName(schema.schema_name, schema.table_name)
        overrides = overrides_for(self.overrides, table.schema, table.table)
        columns = tuple(source_column(column, overrides.get(folded(column.name))) for column in schema.columns)
        says_op = schema.extension or schema.operation
        return TableVersion(table, schema_id, columns, handle, says_op, schema.extension, schema.checksums)

    def _ddl(self, raw: DataFrame) -> tuple[tuple[Ddl, ...], tuple[Undecodable, ...]]:
        sent = raw.where(F.substring("value", 1, 1) == F.lit(bytes([DDL])))
        rows = sorted(collected(sent.select(*PLACE, "value")), key=place_of)
        copies: dict[tuple[int, str, TableName], dict[Partition, int]] = defaultdict(dict)
        again: dict[tuple[int, str, TableName], dict[Partition, int]] = defaultdict(dict)
        kinds: dict[tuple[int, str, TableName], int] = {}
        bad: list[Row] = []
        for row in rows:
            parsed = parse_ddl(bytes(row.value[1:]))
            if parsed is None:
                bad.append(row)
                continue
            commit_ts, sql, named, kind = parsed
            table = altered(kind, sql, named)
            partition, position = place_of(row)
            if copies[commit_ts, sql, table].setdefault(partition, position) != position:
                again[commit_ts, sql, table][partition] = position
            kinds[commit_ts, sql, table] = kind
        ddl = [
            Ddl(
                CommitTs(ts), self._sent(table), kinds[ts, sql, table], sql, places,
                in_source=table, redelivered_at=again[ts, sql, table],
            )
            for (ts, sql, table), places in copies.items()
        ]  # fmt: skip
        return tuple(sorted(ddl, key=lambda d: d.commit_ts)), tuple(_bad_ddl(row) for row in bad)

    def _sent(self, table: TableName) -> TableName:
        """The name that rows of a table have."""
        return TableName(self.as_sent(table.schema), self.as_sent(table.table))


def parse_ddl(text: bytes) -> tuple[int, str, TableName, int] | None:
    """Commit ts, SQL, table and ActionType of a DDL message's JSON; None where it is none."""
    try:
        sent = json.loads(text)
        table = TableName(str(sent["schema"]), str(sent["table"]))
        commit_ts = int(sent["commitTs"])
        f"{table}{sent['query']}".encode()  # half a surrogate pair is a ValueError
        return (commit_ts, str(sent["query"]), table, int(sent["type"])) if 0 <= commit_ts < 2**63 else None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _key_route() -> Column:
    """The header of the key; anything that is none counts as one kind, so that groups stay few."""
    key = F.col("key")
    confluent = (F.length(key) >= HEADER_BYTES) & (F.substring(key, 1, 1) == F.lit(b"\x00"))
    return F.when(confluent, decode.key_header()).when(key.isNotNull(), F.lit(_NO_HEADER))


def _value_route() -> Column:
    """The header of the value, or the one byte of a watermark-mode message."""
    value, first = F.col("value"), F.substring("value", 1, 1)
    confluent = (F.length(value) >= HEADER_BYTES) & (first == F.lit(b"\x00"))
    special = (first == F.lit(bytes([DDL]))) | (
        first.isin(F.lit(bytes([CHECKPOINT])), F.lit(bytes([DELETE]))) & decode.has_ts()
    )
    return F.when(confluent, decode.value_header()).when(special, first).when(value.isNotNull(), F.lit(_NO_HEADER))


def _grouped(raw: DataFrame) -> DataFrame:
    checkpoint = _value_route() == F.lit(bytes([CHECKPOINT]))
    watermark = F.when(checkpoint, decode.big_endian(F.expr("substring(value, 2, 8)")))
    return raw.groupBy(*by_place(), _key_route().alias("key"), _value_route().alias("value")).agg(
        *counts(), F.max(watermark).alias("watermark")
    )


def _group(row: Row) -> _AvroGroup:
    values = row.asDict()
    for name in ("key", "value"):
        values[name] = None if values[name] is None else bytes(values[name])
    return _AvroGroup(**values)


def _malformed(group: _AvroGroup) -> str | None:
    header = group.key if group.is_delete else group.value
    if header is None:
        return "EMPTY_MESSAGE"
    return None if len(header) == HEADER_BYTES and header[0] == 0 else "NOT_CONFLUENT"


def _refused(code: str, group: _AvroGroup, message: str = "") -> Undecodable:
    same = _value_route().eqNullSafe(F.lit(group.value)) & _key_route().eqNullSafe(F.lit(group.key))
    return Undecodable(code, message or SENTENCES[code], stands_in(group.at) & same, group.rows)


def _bad_ddl(row: Row) -> Undecodable:
    where = stands_at([place_of(row)])
    return Undecodable("DDL_UNREADABLE", SENTENCES["DDL_UNREADABLE"], where, 1)


def _with_stand_in(version: TableVersion) -> TableVersion:
    """The version with the columns that are never NULL as its handle.

    A table without a PRIMARY KEY that an Avro changefeed has at all has a unique key of such columns (TiCDC refuses
    `force-replicate` with Avro): no two rows are equal in all of them. With old values an update says which row it
    changes, and a delete has its row.
    """
    never_null = tuple(column.name for column in version.columns if not column.nullable)
    return replace(version, handle=never_null, stands_in=True)


def _table(versions: list[SeenVersion], origin: Origin) -> TableMessages:
    return TableMessages(versions[0].version.table, tuple(versions), origin=origin)


def _watermarks(groups: Iterable[_AvroGroup]) -> dict[Partition, CommitTs]:
    marks = grouping.greatest((group for group in groups if group.watermark is not None), lambda g: g.watermark or 0)
    return {at: CommitTs(mark) for at, mark in marks.items()}
