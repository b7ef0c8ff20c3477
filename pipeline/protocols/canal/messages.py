"""What a message of Canal-JSON is: a row, a statement, a watermark, or nothing that can be read.

A message is one JSON object. Its row is skipped here: names, types and commit ts are all that is read of it.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType

from pipeline.model.change import Op
from pipeline.model.columns import FAR_FUTURE
from pipeline.model.messages import INDEX
from pipeline.model.places import POSITION, RAW
from pipeline.model.projection import Projection, once, through
from pipeline.protocols import end_marker
from pipeline.protocols.canal.rows import CORRUPT, HEAD_OPTIONS, ROW_OPTIONS, is_one_row, row_fields, sides
from pipeline.protocols.compressed import MESSAGE_COMPRESSED, is_compressed
from pipeline.protocols.described.head import ROW_TYPES, SENT, one_of, sent_as
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
    from collections.abc import Collection, Mapping

    from pyspark.sql import Column, DataFrame

    from pipeline.model.columns import TableVersion

OP = "op"
"""A field of `HEAD` besides those of `layouts.head`."""
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
_KIND = "_kind"


def told_apart(raw: DataFrame) -> DataFrame:
    """The raw frame with `INDEX` and `HEAD`."""
    return through(_steps(), raw)


def told_apart_at_once(raw: DataFrame, version: TableVersion) -> DataFrame:
    """The same where all rows are expected to be of this version: `HEAD` has them, too, as `data` and `old`.

    A row that cannot be read so is no event that can be read.
    """
    return through(_steps_at_once(version), raw)


@cache
def _steps() -> tuple[Projection, ...]:
    """In steps, each of whose columns is computed once a message, whatever asks for it."""
    text = F.try_validate_utf8(F.when(once(), F.col("value").cast("string")))
    read = F.from_json(end_marker.followed(text), ArrayType(_MESSAGE), HEAD_OPTIONS)
    message = F.get(F.col(SENT), F.lit(0))
    return (sent_as(read), *_headed(message, end_marker.is_followed(F.col(SENT)), {}))


@lru_cache(maxsize=256)
def _steps_at_once(version: TableVersion) -> tuple[Projection, ...]:
    text = F.when(once() & F.is_valid_utf8(F.col("value").cast("string")), end_marker.in_object(F.col("value")))
    fields = {field.name: field for field in (*_MESSAGE.fields, *row_fields(version))}
    message = F.col(SENT)
    read = F.from_json(message, StructType(list(fields.values())), ROW_OPTIONS)
    no_row = message.getField("data").isNull() & message.getField(CORRUPT).isNull()
    whole = (message.getField(end_marker.FIELD) == end_marker.NUMBER) & (no_row | is_one_row(message))
    return (sent_as(text), sent_as(read), *_headed(message, whole, sides(message)))


def _headed(message: Column, whole: Column, carried: Mapping[str, Column]) -> tuple[Projection, Projection]:
    raw = [F.col(name) for name in RAW]
    kind = F.when(whole, _kind(message))
    kind = F.coalesce(kind, F.when(once() & is_compressed(F.col("value")), MESSAGE_COMPRESSED))
    return (
        Projection([*raw, F.col(SENT), F.when(once(), kind).alias(_KIND)]),
        Projection([*raw, F.lit(0).alias(INDEX), _head(message, carried).alias(HEAD)]),
    )


def _kind(message: Column) -> Column:
    """NULL for anything incomplete: each `when` that is NULL falls through."""
    extension = message.getField("_tidb")
    named = (message.getField("database") != "") & (message.getField("table") != "")
    row = named & (message.getField("isDdl") == F.lit(False)) & one_of(message.getField("type"), ROW_TYPES)
    has_ts = extension.getField("commitTs").between(1, FAR_FUTURE)
    statement = (message.getField("isDdl") == F.lit(True)) & message.getField("sql").isNotNull()
    watermark = (message.getField("type") == WATERMARK) & extension.getField("watermarkTs").between(1, FAR_FUTURE)
    described = message.getField("sqlType").isNotNull() & message.getField("mysqlType").isNotNull()
    return (
        F.when(row & has_ts & (extension.getField("claimCheckLocation") != ""), F.lit(CLAIM_CHECK))
        .when(row & has_ts & extension.getField("onlyHandleKey"), F.lit(HANDLE_KEY_ONLY))
        .when(row & has_ts & described, F.lit(ROW))
        .when(statement & has_ts, F.lit(DDL))
        .when(watermark, F.lit(RESOLVED))
        .when((row | statement) & extension.isNull(), F.lit(COMMIT_TS_MISSING))
    )


def _head(message: Column, carried: Mapping[str, Column]) -> Column:
    kind = F.col(_KIND)
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
            *(column.alias(name) for name, column in carried.items()),
        ),
    )


def shown(prepared: DataFrame, numbers: Collection[int], positions: Collection[int]) -> DataFrame:
    """`number`, `names`, `types` and `primary_key` of rows at these positions, of those with one of these numbers."""
    chosen = head(NUMBER).isin(*numbers) & F.col(POSITION).isin(*positions)
    row = F.from_json(F.col("value").cast("string"), _MESSAGE, HEAD_OPTIONS)
    return prepared.where(chosen).select(
        head(NUMBER).alias("number"),
        F.json_object_keys(row.getField("sqlType")).alias("names"),
        row.getField("mysqlType").alias("types"),
        row.getField("pkNames").alias("primary_key"),
    )


def statement_text() -> Column:
    """The SQL of a DDL message."""
    return F.from_json(F.col("value").cast("string"), _MESSAGE, HEAD_OPTIONS).getField("sql")
