"""Simple in JSON: a head that skips the row, then each version's row as a struct of texts (Simple Protocol, TiCDC).

Whether a value is one JSON object and nothing else is seen from a sentinel: it is read as an array of itself and
a secret number. Where the version is known before, head and row are read in one pass, and the sentinel is a member of
the object.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from pipeline.model.change import Op
from pipeline.model.places import RAW
from pipeline.model.projection import Projection, once
from pipeline.protocols import end_marker
from pipeline.protocols.described.head import ROW_TYPES, SENT, MessageFields, MessageKind, field_of, one_of, sorted_out
from pipeline.protocols.described.text_values import NumberedMembers
from pipeline.protocols.described.values import zoned_timestamp
from pipeline.protocols.simple import checksum
from pipeline.protocols.simple.by_key import JsonKeyRows
from pipeline.protocols.simple.codes import CODES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

    from pipeline.model.columns import TableVersion
    from pipeline.model.text import Value
    from pipeline.protocols.large.form import KeyRows


def _struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


_INT, _LONG, _TEXT, _BOOLEAN = IntegerType(), LongType(), StringType(), BooleanType()
_MESSAGE = _struct(
    version=_INT,
    type=_TEXT,
    database=_TEXT,
    table=_TEXT,
    schemaVersion=_LONG,
    commitTs=_LONG,
    sql=_TEXT,
    handleKeyOnly=_BOOLEAN,
    claimCheckLocation=_TEXT,
    checksum=_struct(version=_INT, corrupted=_BOOLEAN, current=_LONG, previous=_LONG),
    tableSchema=_struct(schema=_TEXT, table=_TEXT, version=_LONG),
    **{end_marker.FIELD: _LONG},
)
_SIDES = ("data", "old")
_CORRUPT, _OBJECT = "_corrupt", "_object"
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "maxStringLen": str(2**28)}
_STATEMENTS = ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY")
_MOMENT = _struct(location=_TEXT, value=_TEXT)


class JsonValues(NumberedMembers):
    """Every value is a text, but for TIMESTAMP: an object of `location` and `value`."""

    def replaced(self, sent: Column) -> Column | None:
        """U+FFFD stands for such bytes in Go's JSON."""
        return sent.contains("\ufffd")

    def octets(self, sent: Column) -> Column:
        """Base64."""
        return F.try_to_binary(sent, F.lit("base64"))

    def moment(self, sent: Column) -> Column:
        """As it is."""
        return sent

    def instant(self, sent: Column, timezone: str) -> Value:
        """An object of `location` and `value`."""
        return zoned_timestamp(sent, timezone)


class JsonEncoding:
    """See `Encoding`."""

    values = JsonValues()
    columns = RAW
    commit_time: Column | None = None
    codes = CODES
    ddl_closes = always_sends_before = describes_before = True
    needs_before = ""
    sends_members = False

    def lacks_before(self) -> Column:
        """None does."""
        return F.lit(False)

    def key_rows(self, timezone: str) -> KeyRows:
        """See `Encoding`."""
        return JsonKeyRows(timezone)

    def prepared(self) -> Sequence[Projection]:
        """Read, then sort out."""
        return _prepared()

    def at_once(self, version: TableVersion) -> JsonAtOnce:
        """With the columns of this version."""
        return JsonAtOnce(version)

    def body(self) -> Column:
        """The text."""
        return F.col("value").cast("string")

    def message(self, body: Any) -> Mapping[str, Any] | None:
        """The object of a DDL or BOOTSTRAP message."""
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            return None
        return message if isinstance(message, dict) else None

    def carried(self) -> Column:
        """The keys of an object."""
        text = F.col("value").cast("string")
        sides = (F.json_object_keys(F.get_json_object(text, f"$.{side}")) for side in _SIDES)
        return F.coalesce(*sides)

    def width(self) -> Column | None:
        """A row names its columns."""
        return None

    def decoded(self, versions: Sequence[TableVersion]) -> Sequence[Mapping[str, Column]]:
        """Each version's row; NULL for rows of the others."""
        return ({_alias(version): _row(version) for version in versions},)

    def after(self, version: TableVersion) -> Column:
        """`data`, for deletes `old`."""
        read = F.col(_alias(version))
        return F.when(field_of("op") == Op.DELETE, read.getField("old")).otherwise(read.getField("data"))

    def before(self, version: TableVersion) -> Column:
        """`old`."""
        return F.col(_alias(version)).getField("old")

    def item(self, row: Column, version: TableVersion, place: int) -> Column:
        """By its name."""
        return row.getItem(version.columns[place].name)

    def fault(self, version: TableVersion) -> Column | None:
        """Where Spark could not read something as what the version says."""
        return F.when(F.col(_alias(version)).getField(_CORRUPT).isNotNull(), F.lit(CODES.value))

    def checksum(self, version: TableVersion, after: Column, before: Column, timezone: str) -> Column | None:
        """As `checksum.verdict` says."""
        return checksum.verdict(version, after, before, self.values, timezone)


@dataclass(frozen=True, slots=True)
class JsonAtOnce(JsonEncoding):
    """A whole message in one pass; the head keeps both rows."""

    version: TableVersion

    def prepared(self) -> Sequence[Projection]:
        """Read, then sort out."""
        return _prepared_at_once(self.version)

    def decoded(self, versions: Sequence[TableVersion]) -> Sequence[Mapping[str, Column]]:  # noqa: ARG002 - see the head
        """Nothing: the head has it all."""
        return ()

    def after(self, version: TableVersion) -> Column:  # noqa: ARG002 - there is no other
        """`data`, for deletes `old`."""
        return F.when(field_of("op") == Op.DELETE, field_of("old")).otherwise(field_of("data"))

    def before(self, version: TableVersion) -> Column:  # noqa: ARG002 - there is no other
        """`old`."""
        return field_of("old")

    def fault(self, version: TableVersion) -> Column | None:  # noqa: ARG002 - there is no other
        """Never: such a message has no head."""
        return None


@cache
def _prepared() -> tuple[Projection, ...]:
    text = F.try_validate_utf8(F.col("value").cast("string"))
    options = {**_OPTIONS, "columnNameOfCorruptRecord": "_none"}
    read = F.from_json(end_marker.followed(text), ArrayType(_MESSAGE), options)
    return sorted_out(read, _sent(F.get(F.col(SENT), F.lit(0)), end_marker.is_followed(F.col(SENT))))


@lru_cache(maxsize=256)
def _prepared_at_once(version: TableVersion) -> tuple[Projection, ...]:
    value = F.col("value")
    text = F.when(once() & F.is_valid_utf8(value.cast("string")), end_marker.in_object(value))
    read = F.from_json(F.col(_OBJECT), StructType([*_MESSAGE.fields, *_sides(version)]), _OPTIONS)
    message = F.col(SENT)
    whole = (message.getField(end_marker.FIELD) == end_marker.NUMBER) & message.getField(_CORRUPT).isNull()
    sent = replace(_sent(message, whole), carried={side: message.getField(side) for side in _SIDES})
    return (Projection([*(F.col(name) for name in RAW), text.alias(_OBJECT)]), *sorted_out(read, sent))


def _sent(message: Column, whole: Column) -> MessageFields:
    kind, schema = message.getField("type"), message.getField("tableSchema")
    row = one_of(kind, ROW_TYPES)
    described_by = F.when(kind == MessageKind.BOOTSTRAP, schema)
    return MessageFields(
        whole=whole,
        kind=F.when(row, F.lit(MessageKind.DML.value))
        .when(one_of(kind, (MessageKind.WATERMARK, MessageKind.BOOTSTRAP)), kind)
        .when(one_of(kind, _STATEMENTS), F.lit(MessageKind.DDL.value)),
        version=message.getField("version"),
        op=F.when(row, kind),
        database=F.coalesce(message.getField("database"), described_by.getField("schema")),
        table=F.coalesce(message.getField("table"), described_by.getField("table")),
        schema_version=F.coalesce(message.getField("schemaVersion"), described_by.getField("version")),
        commit_ts=message.getField("commitTs"),
        sql=message.getField("sql"),
        handle_key_only=message.getField("handleKeyOnly"),
        claim_check=message.getField("claimCheckLocation"),
        checksum=message.getField("checksum"),
    )


def _alias(version: TableVersion) -> str:
    return f"_row{version.version}"


def _row(version: TableVersion) -> Column:
    """`data` and `old`."""
    mine = field_of("version") == F.lit(version.version)
    text = F.when(once() & mine, F.col("value").cast("string"))
    return F.from_json(text, StructType(_sides(version)), _OPTIONS)


def _sides(version: TableVersion) -> list[StructField]:
    """`data` and `old`, and whether something could not be read. A column that is listed and not sent is NULL."""
    fields = [
        StructField(column.name, _MOMENT if column.tidb_type.startswith("TIMESTAMP") else _TEXT)
        for column in version.columns
    ]
    return [*(StructField(side, StructType(fields)) for side in _SIDES), StructField(_CORRUPT, _TEXT)]
