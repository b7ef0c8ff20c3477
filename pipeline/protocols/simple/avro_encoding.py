"""Simple in Avro: TiCDC's one schema, a union that `Message` is the last branch of (wire-formats.md).

The head keeps both rows of a message, so that it is decoded once for all tables.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pipeline.model import text
from pipeline.model import types as t
from pipeline.model.change import Op
from pipeline.model.members import name_of
from pipeline.model.places import RAW
from pipeline.model.text import number_of
from pipeline.protocols import end_marker
from pipeline.protocols.described.head import SENT, MessageFields, MessageKind, field_of, sorted_out
from pipeline.protocols.described.values import member_of, members_of, zoned_timestamp
from pipeline.protocols.simple import checksum
from pipeline.protocols.simple.by_key import AvroKeyRows
from pipeline.protocols.simple.codes import CODES
from pipeline.protocols.simple.union import MESSAGE, OCTETS, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, Row

    from pipeline.model.columns import TableVersion
    from pipeline.model.projection import Projection
    from pipeline.model.text import Value
    from pipeline.model.types import WarehouseType
    from pipeline.protocols.large.form import KeyRows

_WATERMARK, _BOOTSTRAP, _DDL, _DML = (f"member{number}" for number in range(4))
_LONG, _FLOAT, _DOUBLE, _STRING, _BYTES, _TIMESTAMP, _UNSIGNED = (f"member{number}" for number in range(7))
_TWO_64 = str(2**64)


class AvroValues:
    """Every value is a branch of a union, which Spark reads as a struct with a member for each."""

    def whole(self, sent: Column, kind: WarehouseType) -> Column:
        """A signed whole number."""
        return sent.getField(_LONG).try_cast(kind)

    def unsigned(self, sent: Column) -> Column:
        """BIGINT UNSIGNED has a branch of its own, BIT is a long; two's complement above 2^63-1, undone.

        The newer TiCDC sends BIT as a text of the number, as its documents say of BIGINT UNSIGNED above 2^63-1.
        """
        number = F.coalesce(sent.getField(_UNSIGNED).getField("value"), sent.getField(_LONG))
        wide = number.cast(t.UNSIGNED_BIGINT)
        unwrapped = (wide + F.lit(_TWO_64).cast(t.UNSIGNED_BIGINT)).cast(t.UNSIGNED_BIGINT)
        by_text = number_of(F.when(sent.getField(_STRING).rlike("^[0-9]+$"), sent.getField(_STRING)), t.UNSIGNED_BIGINT)
        return F.when(number < 0, unwrapped).otherwise(F.coalesce(wide, by_text))

    def real(self, sent: Column, kind: WarehouseType) -> Column:
        """FLOAT or DOUBLE."""
        return F.coalesce(sent.getField(_FLOAT).cast("double"), sent.getField(_DOUBLE)).cast(kind)

    def text(self, sent: Column) -> Column:
        """A string."""
        return sent.getField(_STRING)

    def sound(self, sent: Column) -> Value:
        """Avro does not ask whether a string is UTF-8."""
        return text.sound(self.text(sent))

    def replaced(self, sent: Column) -> Column | None:  # noqa: ARG002 - it is sent as it is
        """Never."""
        return None

    def octets(self, sent: Column) -> Column:
        """Bytes."""
        return sent.getField(_BYTES)

    def moment(self, sent: Column) -> Column:
        """The record of a TIMESTAMP."""
        return sent.getField(_TIMESTAMP)

    def instant(self, sent: Column, timezone: str) -> Value:
        """By its record."""
        return zoned_timestamp(self.moment(sent), timezone)

    def mask(self, sent: Column) -> Column:
        """The 64 bits of a SET."""
        return sent.getField(_LONG)

    def member(self, sent: Column, members: tuple[str, ...]) -> Value:
        """By its number."""
        return member_of(self.whole(sent, t.INT), members)

    def members(self, sent: Column, members: tuple[str, ...]) -> Value:
        """By the number of their bits."""
        return members_of(self.mask(sent), members)


class AvroEncoding:
    """See `Encoding`."""

    values = AvroValues()
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
        return AvroKeyRows(timezone)

    def prepared(self) -> Sequence[Projection]:
        """Decode, then sort out."""
        return _prepared()

    def at_once(self, version: TableVersion) -> AvroEncoding:  # noqa: ARG002 - every message is read at once
        """As it is."""
        return self

    def body(self) -> Column:
        """The message decoded anew: the head has no schemas."""
        return _decoded(OCTETS)

    def message(self, body: Any) -> Mapping[str, Any] | None:
        """The payload of a DDL or BOOTSTRAP message; fields are called as in JSON, but for `database`."""
        payload: Row | None = body and (body.payload[_DDL] or body.payload[_BOOTSTRAP])
        return _texts(payload.asDict(recursive=True)) if payload else None

    def carried(self) -> Column:
        """The keys of a map."""
        return F.map_keys(F.coalesce(field_of("data"), field_of("old")))

    def width(self) -> Column | None:
        """A row names its columns."""
        return None

    def decoded(self, versions: Sequence[TableVersion]) -> Sequence[Mapping[str, Column]]:  # noqa: ARG002 - see the head
        """Nothing: the head has it all."""
        return ()

    def after(self, version: TableVersion) -> Column:
        """`data`, for deletes `old`."""
        row = F.when(field_of("op") == Op.DELETE, field_of("old")).otherwise(field_of("data"))
        return F.when(field_of("version") == F.lit(version.version), row)

    def before(self, version: TableVersion) -> Column:
        """`old`."""
        return F.when(field_of("version") == F.lit(version.version), field_of("old"))

    def item(self, row: Column, version: TableVersion, place: int) -> Column:
        """By its name."""
        return row.getItem(version.columns[place].name)

    def fault(self, version: TableVersion) -> Column | None:  # noqa: ARG002 - Avro is typed
        """Never: a body that is not the schema's has no head."""
        return None

    def checksum(self, version: TableVersion, after: Column, before: Column, timezone: str) -> Column | None:
        """As `checksum.verdict` says."""
        return checksum.verdict(version, after, before, self, timezone)


_SHOWN = ("sql", "default")
"""Texts that are read, where they are no UTF-8, with U+FFFD for what is lost: as JSON has them."""
_MEMBERS = "elements"


def _texts(sent: Any, name: str = "") -> Any:
    """The bytes of a message as texts. A name that is no UTF-8 has half a surrogate pair, which no table's name has."""
    if isinstance(sent, dict):
        return {key: _texts(part, key) for key, part in sent.items()}
    if isinstance(sent, list):
        return [_texts(part, name) for part in sent]
    if not isinstance(sent, bytearray):
        return sent
    octets = bytes(sent)
    return name_of(octets) if name == _MEMBERS else octets.decode(errors="replace" if name in _SHOWN else _ESCAPED)


_ESCAPED = "surrogateescape"


def _decoded(schema: Mapping[str, Any] = SCHEMA) -> Column:
    """A whole message with its sentinel, or NULLs.

    The options are one value of a map, not the expression of one that PySpark's `from_avro` makes: expressions that
    build maps are not for two threads at once, and tables of one batch share them.
    """
    body = F.concat(F.expr(f"substring(value, {len(MESSAGE) + 1})"), F.lit(end_marker.zigzag(end_marker.NUMBER)))
    ours = F.substring("value", 1, len(MESSAGE)) == F.lit(MESSAGE)
    options = F.from_json(F.lit(json.dumps({"mode": "PERMISSIVE"})), "map<string,string>")
    return F.call_function("from_avro", F.when(ours, body), F.lit(json.dumps(schema)), options)


@cache
def _prepared() -> tuple[Projection, ...]:
    return sorted_out(_decoded(), _sent())


def _sent() -> MessageFields:
    sent = F.col(SENT)
    payload = sent.getField("payload")
    watermark, bootstrap, ddl, dml = (payload.getField(name) for name in (_WATERMARK, _BOOTSTRAP, _DDL, _DML))
    schema = bootstrap.getField("tableSchema")
    payloads = {
        MessageKind.WATERMARK: watermark,
        MessageKind.BOOTSTRAP: bootstrap,
        MessageKind.DDL: ddl,
        MessageKind.DML: dml,
    }
    kinds = [F.when(one.isNotNull(), F.lit(kind.value)) for kind, one in payloads.items()]
    kind = F.coalesce(*kinds)
    return MessageFields(
        whole=(sent.getField(end_marker.FIELD) == end_marker.NUMBER) & (sent.getField("type") == kind),
        kind=kind,
        version=F.coalesce(*(one.getField("version") for one in payloads.values())),
        op=dml.getField("type"),
        database=_name(dml.getField("database"), schema.getField("database")),
        table=_name(dml.getField("table"), schema.getField("table")),
        schema_version=F.coalesce(dml.getField("schemaVersion"), schema.getField("version")),
        commit_ts=F.coalesce(*(one.getField("commitTs") for one in (dml, ddl, watermark))),
        sql=ddl.getField("sql"),
        handle_key_only=dml.getField("handleKeyOnly"),
        claim_check=dml.getField("claimCheckLocation"),
        checksum=dml.getField("checksum"),
        carried={side: dml.getField(side) for side in ("data", "old")},
    )


def _name(*sent: Column) -> Column:
    """A name; NULL for one that is no UTF-8, which no table has."""
    return F.try_validate_utf8(F.coalesce(*sent))
