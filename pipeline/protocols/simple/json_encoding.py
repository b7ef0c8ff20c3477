"""Simple in JSON: a head that skips the row, then each version's row as texts (Simple Protocol, TiCDC).

Where the version is known before, head and row are read in one pass.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pipeline.model.places import RAW
from pipeline.model.projection import Projection, once
from pipeline.protocols.described.head import ROW_TYPES, SENT, MessageFields, MessageKind, field_of, one_of, sorted_out
from pipeline.protocols.described.text_values import NumberedMembers
from pipeline.protocols.described.values import zoned_timestamp
from pipeline.protocols.simple import checksum
from pipeline.protocols.simple.by_key import JsonKeyRows
from pipeline.protocols.simple.codes import CODES
from pipeline.protocols.simple.reading import item, message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

    from pipeline.model.columns import TableVersion
    from pipeline.model.text import Value
    from pipeline.protocols.large.form import KeyRows


_SIDES = ("data", "old")
_STATEMENTS = ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY")


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
        return F.col(_alias(version)).getField("after")

    def before(self, version: TableVersion) -> Column:
        """`old`."""
        return F.col(_alias(version)).getField("before")

    def item(self, row: Column, version: TableVersion, place: int) -> Column:
        """By its place."""
        return item(row, version, place)

    def fault(self, version: TableVersion) -> Column | None:
        """Where something is not what the version says."""
        return F.when(~F.col(_alias(version)).getField("is_sound"), F.lit(CODES.value))

    def checksum(self, version: TableVersion, after: Column, before: Column, timezone: str) -> Column | None:
        """As `checksum.verdict` says."""
        return checksum.verdict(version, after, before, self, timezone)


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
        return field_of("data")

    def before(self, version: TableVersion) -> Column:  # noqa: ARG002 - there is no other
        """`old`."""
        return field_of("old")

    def fault(self, version: TableVersion) -> Column | None:  # noqa: ARG002 - there is no other
        """Never: such a message has no head."""
        return None


@cache
def _prepared() -> tuple[Projection, ...]:
    return sorted_out(message(F.when(once(), F.col("value"))), _sent(F.col(SENT).isNotNull()))


@lru_cache(maxsize=256)
def _prepared_at_once(version: TableVersion) -> tuple[Projection, ...]:
    rows = {"data": F.col(SENT).getField("after"), "old": F.col(SENT).getField("before")}
    sent = replace(_sent(F.col(SENT).getField("is_sound")), carried=rows)
    return sorted_out(message(F.when(once(), F.col("value")), version), sent)


def _sent(whole: Column) -> MessageFields:
    sent = F.col(SENT)
    kind = sent.getField("type")
    row, is_bootstrap = one_of(kind, ROW_TYPES), kind == MessageKind.BOOTSTRAP
    described = {
        name: F.when(is_bootstrap, sent.getField(f"described_{name}")) for name in ("schema", "table", "version")
    }
    return MessageFields(
        whole=whole,
        kind=F.when(row, F.lit(MessageKind.DML.value))
        .when(one_of(kind, (MessageKind.WATERMARK, MessageKind.BOOTSTRAP)), kind)
        .when(one_of(kind, _STATEMENTS), F.lit(MessageKind.DDL.value)),
        version=sent.getField("version"),
        op=F.when(row, kind),
        database=F.coalesce(sent.getField("database"), described["schema"]),
        table=F.coalesce(sent.getField("table"), described["table"]),
        schema_version=F.coalesce(sent.getField("schemaVersion"), described["version"]),
        commit_ts=sent.getField("commitTs"),
        sql=F.when(sent.getField("has_sql"), F.lit("")),
        handle_key_only=sent.getField("handleKeyOnly"),
        claim_check=sent.getField("claimCheckLocation"),
        checksum=sent.getField("checksum"),
    )


def _alias(version: TableVersion) -> str:
    return f"_row{version.version}"


def _row(version: TableVersion) -> Column:
    """`data` and `old`."""
    mine = field_of("version") == F.lit(version.version)
    return message(F.when(once() & mine, F.col("value")), version)
