"""What a message is: one struct, `HEAD`, that is computed once a record and that all else asks.

`kind` is a member of `MessageKind`, a code of `REFUSED`, or NULL where the message is none that TiCDC writes; the other
fields are NULL where the kind does not have them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.change import Op
from pipeline.model.columns import FAR_FUTURE
from pipeline.model.large_rows import LOCATION
from pipeline.model.messages import INDEX
from pipeline.model.places import RAW
from pipeline.model.projection import Projection, once
from pipeline.protocols.compressed import code_of
from pipeline.protocols.large.codes import CLAIM_CHECK, HANDLE_KEY_ONLY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column

HEAD = "head"
"""Column that `DescribedProtocol.prepare` adds."""

SENT = "sent"
"""What encodings call the message that they have decoded."""

ROW_TYPES = tuple(op.value.upper() for op in (Op.INSERT, Op.UPDATE, Op.DELETE))
"""What JSON calls the `type` of a row."""

_KIND = "_kind"
_VERSION = 1


class MessageKind(StrEnum):
    """What TiCDC sends."""

    DML = "DML"
    DDL = "DDL"
    BOOTSTRAP = "BOOTSTRAP"
    WATERMARK = "WATERMARK"


NAMED = (MessageKind.DML.value, MessageKind.BOOTSTRAP.value, HANDLE_KEY_ONLY, CLAIM_CHECK)
"""Kinds that are of one table and one version of it."""


@dataclass(frozen=True, slots=True)
class MessageFields:
    """The fields of a decoded message, each NULL where it has none.

    `kind` is the word of the outer type; `carried` are further columns of the head.
    """

    whole: Column
    kind: Column
    version: Column
    op: Column
    database: Column
    table: Column
    schema_version: Column
    commit_ts: Column
    sql: Column
    handle_key_only: Column
    claim_check: Column
    checksum: Column
    carried: Mapping[str, Column] = field(default_factory=dict)


def field_of(name: str) -> Column:
    """A field of the head."""
    return F.col(HEAD).getField(name)


def one_of(column: Column, words: Iterable[str]) -> Column:
    """Whether it is one of a few words: compared one by one, which for each row is less than a look into a set."""
    return reduce(or_, (column == F.lit(str(word)) for word in words))


def sent_as(read: Column, columns: Iterable[str] = RAW) -> Projection:
    """From a frame with these columns to one that has `SENT` beside them."""
    return Projection([*(F.col(name) for name in columns), read.alias(SENT)])


def sorted_out(read: Column, sent: MessageFields) -> tuple[Projection, ...]:
    """From the raw frame to `RAW`, `INDEX` and `HEAD`: each message is `read` once, and its kind is found once.

    `sent` is about the column `SENT`, which `read` becomes.
    """
    raw = [F.col(name) for name in RAW]
    return (
        Projection([*raw, F.lit(0).alias(INDEX), read.alias(SENT)]),
        Projection([*raw, F.col(INDEX), F.col(SENT), _kind(sent).alias(_KIND)]),
        Projection([*raw, F.col(INDEX), _head(sent)]),
    )


def _head(sent: MessageFields) -> Column:
    kind = F.col(_KIND)
    named = one_of(kind, NAMED)
    is_ours = kind.isNotNull()
    return F.struct(
        kind.alias("kind"),
        F.when(named, sent.database).alias("database"),
        F.when(named, sent.table).alias("table"),
        F.when(named, sent.schema_version).alias("version"),
        F.when(is_ours, sent.commit_ts).alias("commit_ts"),
        F.lower(sent.op).alias("op"),
        F.when(kind == MessageKind.DML.value, sent.checksum).alias("checksum"),
        F.when(kind == CLAIM_CHECK, sent.claim_check).alias(LOCATION),
        *(column.alias(name) for name, column in sent.carried.items()),
    ).alias(HEAD)


def _kind(sent: MessageFields) -> Column:
    """NULL for anything incomplete: each `when` that is NULL falls through."""
    names = _all_sent(sent.database, sent.table, sent.schema_version)
    row = names & (sent.commit_ts > 0) & (sent.commit_ts <= F.lit(FAR_FUTURE)) & one_of(sent.op, ROW_TYPES)
    outside = F.when(sent.claim_check != "", F.lit(CLAIM_CHECK)).when(sent.handle_key_only, F.lit(HANDLE_KEY_ONLY))
    ours = sent.whole & (sent.version == _VERSION)
    kind = (
        F.when((sent.kind == MessageKind.DML) & row, F.coalesce(outside, F.lit(MessageKind.DML.value)))
        .when((sent.kind == MessageKind.WATERMARK) & sent.commit_ts.isNotNull(), F.lit(MessageKind.WATERMARK.value))
        .when((sent.kind == MessageKind.BOOTSTRAP) & names, F.lit(MessageKind.BOOTSTRAP.value))
        .when((sent.kind == MessageKind.DDL) & _all_sent(sent.commit_ts, sent.sql), F.lit(MessageKind.DDL.value))
    )
    compressed = F.when(once() & ~F.coalesce(ours, F.lit(False)), code_of(F.col("value")))
    return F.coalesce(F.when(once() & ours, kind), compressed)


def _all_sent(*columns: Column) -> Column:
    return reduce(and_, (column.isNotNull() for column in columns))
