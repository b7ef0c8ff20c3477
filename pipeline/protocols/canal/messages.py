"""What a message of Canal-JSON is: a row, a statement, a watermark, or nothing that can be read.

A message is one JSON object. Its row is skipped here: names, types and commit ts are all that is read of it.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from pipeline.model.change import Op
from pipeline.model.columns import FAR_FUTURE, LOGICAL_BITS
from pipeline.model.large_rows import LOCATION
from pipeline.model.messages import INDEX
from pipeline.model.places import PARTITION, POSITION, RAW, STREAM
from pipeline.model.projection import Projection, once, through
from pipeline.protocols.canal.reading import message
from pipeline.protocols.canal.rows import OF_ALIBABA, TIME, is_one_row, sides
from pipeline.protocols.compressed import code_of, is_compressed
from pipeline.protocols.described.head import ROW_TYPES, SENT, one_of, sent_as
from pipeline.protocols.files.head import COMMIT_TS_MISSING
from pipeline.protocols.large.codes import CLAIM_CHECK, HANDLE_KEY_ONLY
from pipeline.protocols.layouts.head import (
    COMMIT_TS,
    DDL,
    DELETE,
    HEAD,
    KIND,
    NUMBER,
    RESOLVED,
    ROW,
    SCHEMA,
    TABLE,
    head,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import Column, DataFrame

    from pipeline.model.columns import TableVersion

OP, SENT_TS = "op", "sent_ts"
"""Fields of `HEAD` besides those of `layouts.head`. `SENT_TS` and `rows.TIME` are there without the extension alone.

Then `COMMIT_TS` is a guess where `SENT_TS` is NULL: the millisecond is known, and in it rows come after statements.
"""
SEVERAL = "several"
"""The kind of a message with several rows, where these are not told apart. TiCDC writes one row a message."""
WATERMARK = "TIDB_WATERMARK"
_TEXT, _LONG = StringType(), LongType()
_SHOWN = "sqlType string, mysqlType string, pkNames array<string>"
_SEVERAL = StructType(
    [
        *(
            StructField(name, _TEXT)
            for name in ("database", "table", "type", "pkNames", "sqlType", "mysqlType", "_tidb")
        ),
        StructField("es", _LONG),
        StructField("old", ArrayType(_TEXT)),
        StructField("data", ArrayType(_TEXT)),
    ]
)
_KIND, _ROWS = "_kind", "_rows"

HEAD_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_none", "maxStringLen": str(2**28)}
"""How Spark reads the few messages of which more is asked than `reading.message` gives."""
MOST_ROWS = 1_000
"""Of a message."""


def are_plain(raw: DataFrame, *, newest: bool = False) -> bool | None:
    """Whether in any partition the first message of TiCDC's has no `enable-tidb-extension`; None if there is none.

    `newest`: the last one. Watermarks are of the extension.
    """
    by_ticdc = F.col(SENT).getField("isDdl").isNotNull() & (F.col(SENT).getField("id") == 0)
    read = message(F.when(once(), F.col("value")))
    sent = raw.select(STREAM, PARTITION, POSITION, read.alias(SENT)).where(by_ticdc)
    has_extension = F.col(SENT).getField("has_extension")
    chosen = F.max_by if newest else F.min_by
    rows = sent.groupBy(STREAM, PARTITION).agg(chosen(has_extension, POSITION).alias("extended")).collect()
    return any(not row.extended for row in rows) if rows else None


def told_apart(raw: DataFrame, *, plain: bool, in_several_rows: bool) -> DataFrame:
    """The raw frame with `INDEX` and `HEAD`. `plain`: rows and statements may be without the extension.

    A message of several rows has the kind `SEVERAL`. With `in_several_rows` it becomes one message for each.
    """
    return through(_steps_of_several(plain=plain) if in_several_rows else _steps(plain=plain), raw)


def told_apart_at_once(raw: DataFrame, version: TableVersion, *, plain: bool) -> DataFrame:
    """The same where all rows are expected to be of this version: `HEAD` has them, too, as `data` and `old`.

    A row that cannot be read so is no event that can be read.
    """
    return through(_steps_at_once(version, plain=plain), raw)


@cache
def _steps(*, plain: bool) -> tuple[Projection, ...]:
    """In steps, each of whose columns is computed once a message, whatever asks for it."""
    read = message(F.when(once(), F.col("value")))
    several = _are_several(plain=plain)
    whole = (_rows() <= MOST_ROWS) & ~several
    return (sent_as(read), _alone(), *_headed(whole, {}, plain=plain, others=F.when(several, F.lit(SEVERAL))))


@cache
def _steps_of_several(*, plain: bool) -> tuple[Projection, ...]:
    """The same, and each row of a message becomes a message."""
    read = message(F.when(once(), F.col("value")))
    are_several = _are_several(plain=plain)
    several = F.from_json(F.when(once() & are_several, F.col("value").cast("string")), _SEVERAL, HEAD_OPTIONS)
    index = F.explode(F.sequence(F.lit(0), F.when(once() & are_several, _rows()).otherwise(1) - 1))
    value = F.when(once() & are_several, _of_one_row(F.col(_ROWS), F.col(INDEX))).otherwise(F.col("value"))
    raw = {name: F.col(name) for name in RAW}
    return (
        sent_as(read),
        Projection([*raw.values(), F.col(SENT), several.alias(_ROWS)]),
        Projection([*raw.values(), F.col(SENT), F.col(_ROWS), index.alias(INDEX)]),
        Projection([*({**raw, "value": value.alias("value")}).values(), F.col(SENT), F.col(INDEX)]),
        *_headed(_rows() <= MOST_ROWS, {}, plain=plain),
    )


def _rows() -> Column:
    """How many rows a message has, at least one; NULL where it is none."""
    sent = F.col(SENT)
    return F.when(sent.isNotNull(), F.greatest(sent.getField("rows"), F.lit(1)))


def _are_several(*, plain: bool) -> Column:
    return F.coalesce(_rows().between(2, MOST_ROWS) & (_kind(F.col(SENT), plain=plain) == ROW), F.lit(False))


def _alone() -> Projection:
    """A message is one event."""
    return Projection([*(F.col(name) for name in RAW), F.col(SENT), F.lit(0).alias(INDEX)])


def _of_one_row(sent: Column, index: Column) -> Column:
    """The message of several rows (`_SEVERAL`), as TiCDC would have sent this one."""
    names = F.to_json(F.struct(*(sent.getField(name).alias(name) for name in ("database", "table", "type"))))
    lists = {side: F.get(sent.getField(side), index) for side in ("old", "data")}
    members = {
        **{name: sent.getField(name).cast("string") for name in ("es", "pkNames", "sqlType", "mysqlType")},
        **{side: F.concat(F.lit("["), row, F.lit("]")) for side, row in lists.items()},
        "_tidb": sent.getField("_tidb"),
    }
    written = [F.concat(F.lit(f',"{name}":'), F.coalesce(text, F.lit("null"))) for name, text in members.items()]
    begin = F.concat(F.lit('{"id":0,"isDdl":false,'), F.substring(names, F.lit(2), F.length(names) - 2))
    return F.concat(begin, *written, F.lit("}")).cast("binary")


@lru_cache(maxsize=256)
def _steps_at_once(version: TableVersion, *, plain: bool) -> tuple[Projection, ...]:
    sent = F.col(SENT)
    whole = sent.isNotNull() & (sent.getField("rows").isNull() | is_one_row(sent))
    return (sent_as(message(F.col("value"), version)), _alone(), *_headed(whole, sides(sent), plain=plain))


def _headed(
    whole: Column, carried: Mapping[str, Column], *, plain: bool, others: Column | None = None
) -> tuple[Projection, Projection]:
    """`others`: the kind of what is not `whole`, NULL for what is no message."""
    raw, sent = [F.col(name) for name in RAW], F.col(SENT)
    kind = F.when(whole, _kind(sent, plain=plain))
    times = _times(sent) if plain else {}
    kind = F.coalesce(kind, *([] if others is None else [others]), F.when(once(), code_of(F.col("value"))))
    return (
        Projection([*raw, sent, F.col(INDEX), F.when(once(), kind).alias(_KIND)]),
        Projection([*raw, F.col(INDEX), _head(sent, {**times, **carried}, plain=plain).alias(HEAD)]),
    )


def _times(sent: Column) -> Mapping[str, Column]:
    return {
        SENT_TS: sent.getField("commitTs"),
        TIME: F.timestamp_millis(F.when(_has_time(sent), sent.getField("es"))),
    }


def _has_time(sent: Column) -> Column:
    return sent.getField("es").between(1, FAR_FUTURE >> LOGICAL_BITS)


def _kind(sent: Column, *, plain: bool) -> Column:
    """NULL for anything incomplete: each `when` that is NULL falls through."""
    named = (sent.getField("database") != "") & (sent.getField("table") != "")
    alone = F.coalesce(sent.getField("rows") <= 1, F.lit(True))
    row = named & (sent.getField("isDdl") == F.lit(False)) & one_of(sent.getField("type"), ROW_TYPES)
    has_ts = sent.getField("commitTs").between(1, FAR_FUTURE)
    if plain:
        has_ts = has_ts | (~sent.getField("has_extension") & _has_time(sent))
    statement = (sent.getField("isDdl") == F.lit(True)) & sent.getField("has_sql")
    watermark = (sent.getField("type") == WATERMARK) & sent.getField("watermarkTs").between(1, FAR_FUTURE)
    described = sent.getField("is_described")
    return (
        F.when(_is_of_alibaba(sent), F.lit(OF_ALIBABA))
        .when(row & has_ts & alone & (sent.getField("claimCheckLocation") != ""), F.lit(CLAIM_CHECK))
        .when(row & has_ts & alone & sent.getField("onlyHandleKey"), F.lit(HANDLE_KEY_ONLY))
        .when(row & has_ts & described, F.lit(ROW))
        .when(statement & has_ts, F.lit(DDL))
        .when(watermark, F.lit(RESOLVED))
        .when((row | statement) & ~sent.getField("has_extension"), F.lit(None if plain else COMMIT_TS_MISSING))
    )


def _is_of_alibaba(sent: Column) -> Column:
    """Whether Alibaba's Canal or Flink has written it: the former counts messages, the latter names no table."""
    rows = one_of(sent.getField("type"), ROW_TYPES) & sent.getField("rows").isNotNull()
    nameless = sent.getField("isDdl").isNull() & sent.getField("database").isNull()
    return (sent.getField("id") != 0) | (rows & nameless)


def _head(sent: Column, carried: Mapping[str, Column], *, plain: bool) -> Column:
    kind = F.col(_KIND)
    sent_ts = sent.getField("commitTs")
    if plain:
        begin = F.shiftleft(sent.getField("es"), LOGICAL_BITS)
        sent_ts = F.coalesce(sent_ts, F.when(kind == DDL, begin).otherwise(begin + ((1 << LOGICAL_BITS) - 1)))
    commit_ts = F.when(kind == RESOLVED, sent.getField("watermarkTs")).otherwise(sent_ts)
    operation = F.lower(sent.getField("type"))
    return F.when(
        once() & kind.isNotNull(),
        F.struct(
            kind.alias(KIND),
            F.coalesce(sent.getField("database"), F.lit("")).alias(SCHEMA),
            F.coalesce(sent.getField("table"), F.lit("")).alias(TABLE),
            commit_ts.alias(COMMIT_TS),
            F.when(kind == ROW, sent.getField("layout")).alias(NUMBER),
            F.coalesce(operation == Op.DELETE, F.lit(False)).alias(DELETE),
            operation.alias(OP),
            F.when(kind == CLAIM_CHECK, sent.getField("claimCheckLocation")).alias(LOCATION),
            *(column.alias(name) for name, column in carried.items()),
        ),
    )


def shown(prepared: DataFrame, numbers: Collection[int], positions: Collection[int]) -> DataFrame:
    """`number`, `names`, `types` and `primary_key` of rows at these positions, of those with one of these numbers."""
    chosen = head(NUMBER).isin(*numbers) & F.col(POSITION).isin(*positions)
    row = F.from_json(F.col("value").cast("string"), _SHOWN, HEAD_OPTIONS)
    return prepared.where(chosen).select(
        head(NUMBER).alias("number"),
        F.json_object_keys(row.getField("sqlType")).alias("names"),
        row.getField("mysqlType").alias("types"),
        row.getField("pkNames").alias("primary_key"),
    )


def statement_text() -> Column:
    """The SQL of a DDL message."""
    return F.from_json(F.col("value").cast("string"), "sql string", HEAD_OPTIONS).getField("sql")


def may_be_statement() -> Column:
    """Whether a raw record is a DDL message, or is compressed inside and may be one. A text has its quotes escaped."""
    return F.contains(F.col("value"), F.lit(b'"isDdl":true')) | is_compressed(F.col("value"))
