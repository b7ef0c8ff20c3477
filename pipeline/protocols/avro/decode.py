"""From raw Avro messages to the change frame of one table, in Spark expressions.

Each schema id has its own writer schema and its own expression; the results are coalesced, since for any row all
but one are NULL. Whether a body was read to its last byte is seen from a sentinel.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from pipeline.model import change
from pipeline.model.change import ARRIVED_AT, ERROR, KEY_BYTES, VALUE_BYTES, Op
from pipeline.model.conditions import any_of
from pipeline.model.places import RAW
from pipeline.model.projection import Projection, through
from pipeline.model.text import Value
from pipeline.model.types import MAX_DECIMAL_PRECISION
from pipeline.protocols import end_marker
from pipeline.protocols.avro.checksum import verdict
from pipeline.protocols.avro.fields import is_doubtful, read_value
from pipeline.protocols.envelope import envelope, unrepresentable
from pipeline.protocols.materialised import Materialised, first_unread
from registry import join
from registry.avro import plain
from registry.columns import BEFORE
from registry.wire import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.model.columns import SchemaId
    from pipeline.model.messages import ColumnMapping
    from registry import TicdcSchema

CORRUPT_VALUE = "AVRO_VALUE_UNREADABLE"
CORRUPT_KEY = "AVRO_KEY_UNREADABLE"
TS_BYTES = 8

_OPS = {"c": Op.INSERT, "u": Op.UPDATE, "d": Op.DELETE}


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """A registered schema and the way its messages are recognised: the five header bytes."""

    schema_id: SchemaId
    schema: TicdcSchema = field(hash=False)
    key_only: bool

    @property
    def header(self) -> bytes:
        """Magic byte and big-endian id."""
        return join(self.schema_id, b"")

    @property
    def alias(self) -> str:
        """The column that holds the decoded record."""
        return f"_{'k' if self.key_only else 'v'}{self.schema_id}"

    def field(self, name: str) -> Column:
        """One decoded field. Fields are numbered, since their names may be anything."""
        return F.col(self.alias).getField(f"f{self.schema.fields.index(name)}")

    @property
    def sends_before(self) -> bool:
        """Whether its messages have room for the row as it was."""
        return self.schema.before and not self.key_only


def value_header() -> Column:
    """The header of the value; shorter values give fewer bytes."""
    return F.substring("value", 1, HEADER_BYTES)


def key_header() -> Column:
    """The header of the key."""
    return F.substring("key", 1, HEADER_BYTES)


def is_delete() -> Column:
    """A delete: no value, or (newer TiCDC in watermark mode) `03` and the commit ts."""
    return F.col("value").isNull() | ((F.substring("value", 1, 1) == F.lit(b"\x03")) & has_ts())


def has_ts() -> Column:
    """Whether a ts can stand after the first byte: eight bytes, of a number that a BIGINT holds."""
    return (F.octet_length("value") > TS_BYTES) & (F.substring("value", 2, 1) < F.lit(b"\x80"))


def belongs(writers: Sequence[WriterSchema]) -> Column:
    """Whether a raw message was written by one of these schemas."""
    upserts = [F.lit(writer.header) for writer in writers if not writer.key_only]
    deletes = [F.lit(writer.header) for writer in writers if writer.key_only]
    is_upsert = value_header().isin(*upserts) if upserts else F.lit(False)
    return (is_upsert | (is_delete() & key_header().isin(*deletes))) if deletes else is_upsert


def reading_schema(text: str) -> str:
    """The registered schema as Spark can decode it: numbered fields, no defaults, the sentinel at the end.

    Defaults are dropped because TiCDC's are not always valid Avro; a decimal beyond 38 digits is read as bytes.
    """
    fields = _numbered(plain(json.loads(text))["fields"])
    fields.append({"name": end_marker.FIELD, "type": "long"})
    return json.dumps({"type": "record", "name": "row", "fields": fields})


def _numbered(fields: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": f"f{index}", "type": _plain(field["type"])} for index, field in enumerate(fields)]


def _plain(kind: Any) -> Any:
    if isinstance(kind, list):
        return [_plain(branch) for branch in kind]
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "record":
        return {"type": "record", "name": "before", "fields": _numbered(kind["fields"])}
    if kind.get("logicalType") == "decimal" and kind["precision"] <= MAX_DECIMAL_PRECISION:
        return {key: kind[key] for key in ("type", "logicalType", "precision", "scale") if key in kind}
    return kind["type"]


@dataclass(frozen=True, slots=True)
class AvroRecipe:
    """From raw messages to the change frame of one table: which messages, each version decoded, then the frame.

    Between them, where there are any, the values that may be none of their type (`fields.is_doubtful`).
    """

    mine: Column
    steps: tuple[Projection, ...]


@dataclass(frozen=True, slots=True)
class _Read:
    """The values of one writer's messages, of one of both images, by target.

    `materialised`: those that may be none of their type.
    """

    values: dict[str, Value]
    materialised: Mapping[str, Materialised]


@lru_cache(maxsize=2048)
def recipe(writers: tuple[WriterSchema, ...], mapping: ColumnMapping, timezone: str) -> AvroRecipe:
    """The expressions of a change frame. They are the same in every batch that has the same versions."""
    raw = [F.col(name) for name in RAW]
    read = {writer: _read(writer, mapping, timezone) for writer in writers}
    old = [writer for writer in writers if writer.sends_before and mapping.before]
    was = {writer: _read(writer, mapping, timezone, before=True) for writer in old}
    columns = _targets(read, mapping)
    before = [_before(was, mapping)] if mapping.before else []
    read_twice = [one for row in (*read.values(), *was.values()) for one in row.materialised.items()]
    doubtful = [column for _, one in read_twice for column in one.columns]
    kept = [*raw, *(F.col(writer.alias) for writer in writers)]
    steps = [
        [*raw, *(_decoded(writer) for writer in writers)],
        *([[*kept, *doubtful]] if doubtful else []),
        [
            *_envelope(read),
            *columns,
            *before,
            *_bytes(read, was),
            first_unread(read_twice, ~_cut_off(read)),
            _checksum(writers, timezone),
        ],
    ]
    return AvroRecipe(belongs(writers), tuple(map(Projection, steps)))


def change_frame(raw: DataFrame, writers: Sequence[WriterSchema], mapping: ColumnMapping, timezone: str) -> DataFrame:
    """The change frame of one table (`SourceProtocol.recipe`)."""
    made = recipe(tuple(writers), mapping, timezone)
    return through(made.steps, raw.where(made.mine))


def whole_frame(raw: DataFrame, writers: Sequence[WriterSchema], mapping: ColumnMapping, timezone: str) -> DataFrame:
    """As `change_frame`, with a row for every message, whether it is the table's or not."""
    made = recipe(tuple(writers), mapping, timezone)
    return through(made.steps, raw)


def _decoded(writer: WriterSchema) -> Column:
    payload, header = ("key", key_header()) if writer.key_only else ("value", value_header())
    mine = header == F.lit(writer.header)
    if writer.key_only:
        mine = mine & is_delete()
    body = F.concat(F.expr(f"substring({payload}, {HEADER_BYTES + 1})"), F.lit(end_marker.zigzag(end_marker.NUMBER)))
    schema = reading_schema(writer.schema.text)
    return from_avro(F.when(mine, body), schema, {"mode": "PERMISSIVE"}).alias(writer.alias)


def _targets(read: Mapping[WriterSchema, _Read], mapping: ColumnMapping) -> list[Column]:
    return [
        F.coalesce(*values).alias(target.name)
        if (values := [row.values[target.name].column for row in read.values() if target.name in row.values])
        else F.lit(None).cast(target.type).alias(target.name)
        for target in mapping.targets
    ]


def _before(was: Mapping[WriterSchema, _Read], mapping: ColumnMapping) -> Column:
    """The row as it was; NULL for an insert, and where the schema has no room for it."""
    row = F.struct(*_targets(was, mapping), unrepresentable(_lost(was)))
    return F.when(any_of([writer.field(BEFORE).isNotNull() for writer in was]), row).alias(change.BEFORE)


def _lost(read: Mapping[WriterSchema, _Read]) -> list[dict[str, Column | None]]:
    return [{name: value.lost for name, value in row.values.items()} for row in read.values()]


def _read(writer: WriterSchema, mapping: ColumnMapping, timezone: str, *, before: bool = False) -> _Read:
    fields = mapping.fields[writer.schema_id]
    types = {target.name: target.type for target in mapping.targets}
    values: dict[str, Value] = {}
    materialised: dict[str, Materialised] = {}
    for place, column in enumerate(writer.schema.columns):
        if column.name not in fields:
            continue
        target = fields[column.name]
        sent = writer.field(BEFORE).getField(f"f{place}") if before else writer.field(column.name)
        values[target] = value = read_value(sent, column, types[target], timezone)
        if is_doubtful(column):
            doubtful = Materialised(value, sent, f"{writer.alias}_{'was' if before else ''}{place}")
            values[target] = Value(doubtful.column, doubtful.lost)
            materialised[target] = doubtful
    return _Read(values, materialised)


def _envelope(read: Mapping[WriterSchema, _Read]) -> list[Column]:
    writers = tuple(read)
    return envelope(
        op=_op(writers),
        commit_ts=_commit_ts(writers),
        index=F.lit(0),
        schema_id=_schema_id(writers),
        lost=_lost(read),
    )


def _op(writers: Sequence[WriterSchema]) -> Column:
    ops = [F.when(F.col(writer.alias).isNotNull(), _op_of(writer)) for writer in writers if not writer.key_only]
    return F.coalesce(*ops, F.lit(Op.DELETE.value))


def _op_of(writer: WriterSchema) -> Column:
    if not (writer.schema.extension or writer.schema.operation):
        return F.lit(Op.UPSERT.value)
    sent, op = writer.field("_tidb_op"), F.lit(Op.UPSERT.value)
    for letter, named in _OPS.items():
        op = F.when(sent == letter, F.lit(named.value)).otherwise(op)
    return op


def _commit_ts(writers: Sequence[WriterSchema]) -> Column:
    delete = F.when(F.substring("value", 1, 1) == F.lit(b"\x03"), big_endian(F.expr("substring(value, 2, 8)")))
    sent = [w.field("_tidb_commit_ts") for w in writers if not w.key_only and w.schema.extension]
    return F.coalesce(*sent, delete).cast("bigint")


def big_endian(value: Column) -> Column:
    """Eight bytes as a BIGINT; NULL where it holds no such number."""
    return F.conv(F.hex(value), 16, 10).try_cast("bigint")


def _schema_id(writers: Sequence[WriterSchema]) -> Column:
    ids = [F.when(F.col(writer.alias).isNotNull(), F.lit(writer.schema_id)) for writer in writers]
    return F.coalesce(*ids).cast("bigint")


def _bytes(read: Mapping[WriterSchema, _Read], was: Mapping[WriterSchema, _Read]) -> list[Column]:
    error = F.lit(None).cast("string")
    for writer, row in read.items():
        old = was[writer].materialised.values() if writer in was else ()
        broken = any_of([_lacks_end(writer), *(one.unread for one in (*row.materialised.values(), *old))])
        code = CORRUPT_KEY if writer.key_only else CORRUPT_VALUE
        error = F.when(broken, F.lit(code)).otherwise(error)
    return [
        error.alias(ERROR),
        F.col("key").alias(KEY_BYTES),
        F.col("value").alias(VALUE_BYTES),
        F.col("timestamp").alias(ARRIVED_AT),
    ]


def _cut_off(writers: Iterable[WriterSchema]) -> Column:
    """Whether bytes are missing, so that each value may be another one's."""
    return any_of(_lacks_end(writer) for writer in writers)


def _lacks_end(writer: WriterSchema) -> Column:
    end = F.col(writer.alias).getField(end_marker.FIELD)
    return F.col(writer.alias).isNotNull() & ~end.eqNullSafe(F.lit(end_marker.NUMBER))


def _checksum(writers: Sequence[WriterSchema], timezone: str) -> Column:
    checked = [verdict(w.schema, w.field, timezone) for w in writers if w.schema.checksums and not w.key_only]
    return F.coalesce(*checked, F.lit(None).cast("boolean")).alias(change.CHECKSUM)
