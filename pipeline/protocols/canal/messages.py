"""What a message of Canal-JSON is: a row, a statement, a watermark, or nothing that can be read.

A message is one JSON object. Its row is skipped here: names, types and commit ts are all that is read of it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType

from pipeline.model.change import Op
from pipeline.model.columns import FAR_FUTURE
from pipeline.model.messages import INDEX
from pipeline.model.places import POSITION, RAW
from pipeline.model.projection import Projection, once, through
from pipeline.protocols import end_marker
from pipeline.protocols.compressed import MESSAGE_COMPRESSED, is_compressed
from pipeline.protocols.described.head import one_of
from pipeline.protocols.files.head import COMMIT_TS_MISSING
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
from pipeline.protocols.too_large import CLAIM_CHECK, HANDLE_KEY_ONLY

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import Column, DataFrame

OP = "op"
"""A field of `HEAD` besides those of `layouts.head`."""
ROW_TYPES = tuple(op.value.upper() for op in (Op.INSERT, Op.UPDATE, Op.DELETE))
WATERMARK = "TIDB_WATERMARK"
_TEXT, _LONG, _BOOLEAN = StringType(), LongType(), BooleanType()
_EXTENSION = StructType(
    [
        StructField("commitTs", _LONG),
        StructField("watermarkTs", _LONG),
        StructField("onlyHandleKey", _BOOLEAN),
        StructField("claimCheckLocation", _TEXT),
    ]
)
_MESSAGE = StructType(
    [
        StructField("database", _TEXT),
        StructField("table", _TEXT),
        StructField("type", _TEXT),
        StructField("isDdl", _BOOLEAN),
        StructField("sql", _TEXT),
        StructField("pkNames", ArrayType(_TEXT)),
        StructField("sqlType", _TEXT),  # its JSON, as that of `mysqlType`
        StructField("mysqlType", _TEXT),
        StructField("_tidb", _EXTENSION),
        StructField(end_marker.FIELD, _LONG),
    ]
)
OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_none", "maxStringLen": str(2**28)}
_SENT, _PLAIN, _KIND = "_sent", "_plain", "_kind"


def told_apart(raw: DataFrame) -> DataFrame:
    """The raw frame with `INDEX` and `HEAD`."""
    return through(_steps(), raw)


@cache
def _steps() -> tuple[Projection, ...]:
    """In steps, each of whose columns is computed once a message, whatever asks for it."""
    raw = [F.col(name) for name in RAW]
    text = F.try_validate_utf8(F.when(once(), F.col("value").cast("string")))
    wrapped = F.concat(F.lit("["), text, F.lit(f',{{"{end_marker.FIELD}":{end_marker.NUMBER}}}]'))
    read = F.from_json(wrapped, ArrayType(_MESSAGE), OPTIONS)
    kind = F.coalesce(_kind(), F.when(once() & is_compressed(F.col("value")), MESSAGE_COMPRESSED))
    return (
        Projection([*raw, read.alias(_SENT)]),
        Projection([*raw, F.col(_SENT), F.when(once(), kind).alias(_KIND)]),
        Projection([*raw, F.lit(0).alias(INDEX), _head().alias(HEAD)]),
    )


def _message() -> Column:
    return F.get(F.col(_SENT), F.lit(0))


def _kind() -> Column:
    """NULL for anything incomplete: each `when` that is NULL falls through."""
    message, extension = _message(), _message().getField("_tidb")
    end = F.get(F.col(_SENT), F.lit(1)).getField(end_marker.FIELD)
    whole = (F.size(F.col(_SENT)) == F.lit(2)) & (end == end_marker.NUMBER)
    named = (message.getField("database") != "") & (message.getField("table") != "")
    row = named & (message.getField("isDdl") == F.lit(False)) & one_of(message.getField("type"), ROW_TYPES)
    has_ts = extension.getField("commitTs").between(1, FAR_FUTURE)
    statement = (message.getField("isDdl") == F.lit(True)) & message.getField("sql").isNotNull()
    watermark = (message.getField("type") == WATERMARK) & extension.getField("watermarkTs").between(1, FAR_FUTURE)
    described = message.getField("sqlType").isNotNull() & message.getField("mysqlType").isNotNull()
    kind = (
        F.when(row & has_ts & (extension.getField("claimCheckLocation") != ""), F.lit(CLAIM_CHECK))
        .when(row & has_ts & extension.getField("onlyHandleKey"), F.lit(HANDLE_KEY_ONLY))
        .when(row & has_ts & described, F.lit(ROW))
        .when(statement & has_ts, F.lit(DDL))
        .when(watermark, F.lit(RESOLVED))
        .when((row | statement) & extension.isNull(), F.lit(COMMIT_TS_MISSING))
    )
    return F.when(whole, kind)


def _head() -> Column:
    message, kind = _message(), F.col(_KIND)
    extension = message.getField("_tidb")
    commit_ts = F.when(kind == RESOLVED, extension.getField("watermarkTs")).otherwise(extension.getField("commitTs"))
    operation = F.lower(message.getField("type"))
    number = F.xxhash64(
        F.json_object_keys(message.getField("sqlType")),
        F.sort_array(F.split(message.getField("mysqlType"), ",")),  # it comes in any order
        message.getField("pkNames"),
    )
    return F.when(
        once() & kind.isNotNull(),
        F.struct(
            kind.alias(KIND),
            F.coalesce(message.getField("database"), F.lit("")).alias(SCHEMA),
            F.coalesce(message.getField("table"), F.lit("")).alias(TABLE),
            commit_ts.alias(COMMIT_TS),
            F.when(kind == ROW, number).alias(NUMBER),
            F.coalesce(operation == Op.DELETE, F.lit(False)).alias(DELETE),
            operation.alias(OP),
        ),
    )


def shown(prepared: DataFrame, numbers: Collection[int], positions: Collection[int]) -> DataFrame:
    """`number`, `names`, `types` and `primary_key` of rows at these positions, of those with one of these numbers."""
    chosen = head(NUMBER).isin(*numbers) & F.col(POSITION).isin(*positions)
    row = F.from_json(F.col("value").cast("string"), _MESSAGE, OPTIONS)
    return prepared.where(chosen).select(
        head(NUMBER).alias("number"),
        F.json_object_keys(row.getField("sqlType")).alias("names"),
        row.getField("mysqlType").alias("types"),
        row.getField("pkNames").alias("primary_key"),
    )


def statement_text() -> Column:
    """The SQL of a DDL message."""
    return F.from_json(F.col("value").cast("string"), _MESSAGE, OPTIONS).getField("sql")
