"""What each event is, in one column that is made once: its kind, its table, its commit ts, its layout.

The layout of a row event is its columns with their types and flags, in the order in which they are sent. It is the
version of the table (decision 004). An event carries a number that stands for it, which is found without reading the
JSON where that is written as TiCDC writes it: a hash of what is left of the text without the values.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.messages import INDEX, RAW
from pipeline.model.projection import Projection, once, through
from pipeline.protocols.open import framing
from pipeline.protocols.open.framing import FRAMED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

HEAD = "_open"
"""The column that `prepare` adds: a struct of the names below; NULL for what cannot be read."""
KIND, SCHEMA, TABLE, COMMIT_TS, NUMBER, DELETE = "kind", "schema", "table", "ts", "number", "delete"

ROW, DDL, RESOLVED = "row", "ddl", "resolved"
"""Kinds; NULL for an event that cannot be read."""

LIMITS = {"maxStringLen": str(2**31 - 1)}
"""Of the JSON reader: a LONGTEXT may be longer than its 20 million characters."""

NOT_NOISE = 1 | 2 | 4 | 64 | 128
"""Flags that say something of the column: binary, handle, generated, nullable, unsigned. The others are of indexes."""

_KEY_FIELDS = "struct<ts: bigint, scm: string, tbl: string, t: int>"
_IMAGE = "map<string, struct<t: int, h: boolean, f: bigint>>"
_BROKEN = "broken"
_VALUE_FIELDS = f"struct<u: {_IMAGE}, d: {_IMAGE}, {_BROKEN}: string>"
_STATEMENT = "struct<q: string, t: int>"
_ROW, _DDL, _RESOLVED = 1, 2, 3

_OLD_IMAGE = r'(?s)\}\},"p":\{.*'
_VALUE, _NO_VALUE = r'(?s)"v":(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|[-+.\w]++)', '"v":0'
_COLUMN = rf'"[^"\\]++":\{{"t":\d{{1,3}}(?:,"h":true)?(?:,"f":\d{{1,9}})?,{_NO_VALUE}\}}'
_COLUMNS = rf'^\{{"[ud]":\{{{_COLUMN}(?:,{_COLUMN})*+\}}\}}$'
"""A row event without values and old image. What repeats is possessive: else Java's stack grows with each time."""
_DELETED = '{"d":{'


def head(name: str) -> Column:
    """One field of the head."""
    return F.col(HEAD).getField(name)


def taken_apart(raw: DataFrame) -> DataFrame:
    """The raw frame with a row per event (`SourceProtocol.prepare`)."""
    envelope = [name for name in RAW if name not in ("key", "value")]
    event = F.explode(framing.events(F.col("key"), F.col("value"))).alias("_event")
    single = raw.select(*envelope, event).select(*envelope, "_event.*")
    return through(_sorted_out(), single)


@cache
def _sorted_out() -> tuple[Projection, ...]:
    """From events to their heads, in steps that Spark may not repeat."""
    event = [F.col(name) for name in (*RAW, INDEX)]
    framed = once() & F.col(FRAMED)
    texts = [
        F.when(framed, framing.key_json(F.col("key"))).alias("_key"),
        F.when(framed, framing.value_json(F.col("value"))).alias("_value"),
    ]
    key, value, shape, is_plain = (F.col(name) for name in ("_key", "_value", "_shape", "_plain"))
    is_text = once() & F.is_valid_utf8(key) & F.is_valid_utf8(value)
    keys = [F.from_json(F.when(is_text, key), _KEY_FIELDS).alias("_key"), value]
    is_row = once() & (key["t"] == _ROW)
    shapes = [key, value, F.when(is_row, _shape(value)).alias("_shape")]
    checked = [key, value, shape, (once() & _is_plain(shape)).alias("_plain")]
    sent = [
        key,
        F.when(once() & is_plain, F.xxhash64(shape)).alias("_hash"),
        shape.startswith(_DELETED).alias("_delete"),
        F.when(once() & ~is_plain & (key["t"] == _ROW), _images(value)).alias("_value"),
        F.when(once() & (key["t"] == _DDL), F.from_json(value, _STATEMENT, LIMITS)).alias("_statement"),
        (value == "").alias("_empty"),
    ]
    value = F.col("_value")
    by_json = F.when(once() & value.isNotNull(), _layout(value))
    said = [
        key,
        F.coalesce(F.col("_hash"), F.when(by_json.isNotNull(), F.xxhash64(by_json))).alias("_number"),
        F.when(value.isNull(), F.col("_delete")).otherwise(_is_delete(value)).alias("_delete"),
        (F.col("_statement")["q"].isNotNull() & F.col("_statement")["t"].isNotNull()).alias("_statement"),
        F.col("_empty"),
    ]
    steps = (texts, keys, shapes, checked, sent, said, [_head().alias(HEAD)])
    return tuple(Projection([*event, *step]) for step in steps)


def _shape(value: Column) -> Column:
    """The text of a row event without values and without `p`.

    Within a JSON text every quotation mark has a backslash before it, so that the patterns find members of objects
    and nothing in values.
    """
    return F.regexp_replace(F.regexp_replace(value, _OLD_IMAGE, "}}}"), _VALUE, _NO_VALUE)


def _is_plain(shape: Column) -> Column:
    """Whether a shape has columns, all of them written as TiCDC writes them."""
    return F.coalesce(shape.rlike(_COLUMNS), F.lit(False))


def _head() -> Column:
    key, number = F.col("_key"), F.col("_number")
    named = (key["scm"] != "") & (key["tbl"] != "")
    kind = (
        F.when((key["t"] == _ROW) & named & number.isNotNull(), F.lit(ROW))
        .when((key["t"] == _DDL) & F.col("_statement"), F.lit(DDL))
        .when((key["t"] == _RESOLVED) & F.col("_empty"), F.lit(RESOLVED))
    )
    described = F.struct(
        F.when(key["ts"] > 0, kind).alias(KIND),
        F.coalesce(key["scm"], F.lit("")).alias(SCHEMA),
        F.coalesce(key["tbl"], F.lit("")).alias(TABLE),
        key["ts"].alias(COMMIT_TS),
        number.alias(NUMBER),
        F.col("_delete").alias(DELETE),
    )
    return F.when(key.isNotNull(), described)


def _images(text: Column) -> Column:
    return F.from_json(text, _VALUE_FIELDS, LIMITS | {"columnNameOfCorruptRecord": _BROKEN})


def _is_delete(value: Column) -> Column:
    return value["u"].isNull() & value["d"].isNotNull()


def _layout(value: Column) -> Column:
    """The layout of a row event; NULL for one that no table has: without columns or types, or with two of one name."""
    image = F.coalesce(value["u"], value["d"])
    columns = F.transform(
        F.map_entries(image),
        lambda entry: F.struct(
            entry["key"].alias("n"),
            entry["value"]["t"].alias("t"),
            entry["value"]["f"].bitwiseAND(F.lit(NOT_NOISE)).alias("f"),
            entry["value"]["h"].alias("h"),
        ),
    )
    names = F.array_distinct(F.split(F.lower(F.array_join(F.map_keys(image), "\0")), "\0"))
    is_whole = (F.size(image) > 0) & (F.size(names) == F.size(image)) & ~F.array_contains(names, "")
    typed = F.forall(F.map_values(image), lambda value: value["t"].isNotNull())
    return F.when(value[_BROKEN].isNull() & is_whole & typed, F.to_json(columns))


def layouts(prepared: DataFrame, firsts: Mapping[int, int]) -> dict[int, str | None]:
    """The layouts behind numbers (`columns.read_layout`), each from an event at an offset where it is to be found."""
    value = framing.value_json(F.col("value"))
    shape = _shape(value)
    text = F.when(_is_plain(shape), shape).otherwise(value)  # of a shape all events have one layout
    chosen = head(NUMBER).isin(list(firsts)) & F.col("offset").isin(list(set(firsts.values())))
    found = prepared.where(chosen).select(head(NUMBER).alias(NUMBER), _images(text).alias("sent"))
    return dict(found.select(NUMBER, _layout(F.col("sent"))).collect())
