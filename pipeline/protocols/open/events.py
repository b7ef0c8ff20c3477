"""What each event is (`layouts.head`), from its bytes.

The layout of a row event is its columns with their types and flags, in the order in which they are sent. It is the
version of the table (decision 004). An event carries a number that stands for it, which is found without reading the
JSON where that is written as TiCDC writes it: a hash of what is left of the text without the values.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from pipeline.model.columns import FAR_FUTURE
from pipeline.model.large_rows import LOCATION
from pipeline.model.messages import INDEX
from pipeline.model.places import POSITION, RAW
from pipeline.model.projection import Projection, once, through
from pipeline.protocols import end_marker
from pipeline.protocols.compressed import code_of, is_compressed
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
from pipeline.protocols.open import framing
from pipeline.protocols.open.framing import FRAMED
from pipeline.protocols.open.shapes import (
    ARRAY,
    DELETED,
    MOST_COLUMNS,
    is_listed,
    is_plain,
    is_shaped,
    listed,
    shape_of,
    width_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from pipeline.model.names import TableName
    from pipeline.protocols.open.shapes import Wanted

Shapes = tuple[tuple[int, str], ...]
"""Plain shapes (`shapes`), each with its number."""

LIMITS = {"maxStringLen": str(2**31 - 1)}
"""Of the JSON reader: a LONGTEXT may be longer than its 20 million characters."""

NOT_NOISE = 1 | 2 | 4 | 64 | 128
"""Flags that say something of the column: binary, handle, generated, nullable, unsigned. The others are of indexes."""

_END = f"{end_marker.FIELD}: bigint"
_KEY_FIELDS = f"struct<ts: bigint, scm: string, tbl: string, t: int, ohk: boolean, ccl: string, {_END}>"
_IMAGE = "map<string, struct<t: int, h: boolean, f: bigint>>"
_BROKEN = "broken"
_VALUE_FIELDS = f"struct<u: {_IMAGE}, d: {_IMAGE}, {_END}, {_BROKEN}: string>"
_STATEMENT = f"struct<q: string, t: int, {_END}>"
_ROW, _DDL, _RESOLVED = 1, 2, 3
_KEY_OF_ROW = (
    r'\A\{{"ts":([1-9]\d{{0,18}}),"scm":{},"tbl":{}(?:,"rid":-?\d++)?(?:,"ptn":\d++)?,"t":1(?:,"ptn":\d++)?\}}\z'
)
"""A row's key as versions of TiCDC write it, for one table."""


MOST_LIKELY = 4
"""How many shapes are tried before an event's own is found out: each takes a fraction of that."""
_SAMPLE = 256


@dataclass(frozen=True, slots=True)
class Familiar:
    """A table and the shapes (`shapes`) that its rows are expected to have, each with its number.

    `wanted`: what `ARRAY` is to have of them, if there are not too many columns for that.
    """

    table: TableName
    shapes: Shapes
    wanted: Wanted | None


def taken_apart(raw: DataFrame, likely: Shapes = ()) -> DataFrame:
    """The raw frame with a row per event (`SourceProtocol.prepare`). `likely`: shapes that many of them will have."""
    return through((*_one_by_one(), *_sorted_out(likely)), raw)


def compared(raw: DataFrame, familiar: Familiar) -> DataFrame:
    """The same, but statements and rows of other tables and shapes have no kind; `ARRAY` has what is `wanted`.

    It takes less to see that a text is like another than what it is.
    """
    return through((*_one_by_one(), *_compared(familiar)), raw)


def likely_shapes(raw: DataFrame) -> Shapes:
    """The plain shapes of which most of a few hundred events are."""
    shapes = through((*_one_by_one(), *_shapes_of_events()), raw.limit(_SAMPLE))
    counted = shapes.where(is_plain(F.col("shape"))).groupBy(F.xxhash64("shape").alias("number"), "shape").count()
    most = counted.orderBy(F.desc("count")).limit(MOST_LIKELY).collect()
    return tuple((row.number, row.shape) for row in most if width_of(row.shape) <= MOST_COLUMNS)


@cache
def _one_by_one() -> tuple[Projection, ...]:
    """From records to a row per event."""
    envelope = [F.col(name) for name in RAW if name not in ("key", "value")]
    event = F.explode(framing.events(F.col("key"), F.col("value"))).alias("_event")
    return Projection([*envelope, event]), Projection([*envelope, F.col("_event.*")])


@cache
def _shapes_of_events() -> tuple[Projection, ...]:
    """From events to their shapes, of those that could be taken apart."""
    shape = F.when(F.col(FRAMED), shape_of(framing.value_json(F.col("value"))))
    return (Projection([shape.alias("shape")]),)


def _texts() -> list[Column]:
    framed = once() & F.col(FRAMED)
    return [
        F.when(framed, framing.key_json(F.col("key"))).alias("_key"),
        F.when(framed, framing.value_json(F.col("value"))).alias("_value"),
    ]


@lru_cache(maxsize=256)
def _compared(familiar: Familiar) -> tuple[Projection, ...]:
    """As `_sorted_out`, by comparison with what is expected."""
    event = [F.col(name) for name in (*RAW, INDEX)]
    key, value, commit_ts = (F.col(name) for name in ("_key", "_value", "_ts"))
    is_text = once() & F.is_valid_utf8(key) & F.is_valid_utf8(value)
    names = (json.dumps(name, ensure_ascii=False) for name in (familiar.table.schema, familiar.table.table))
    pattern = _KEY_OF_ROW.format(*map(re.escape, names))
    read = F.regexp_extract(key, pattern, 1).try_cast("bigint")
    keys = [F.when(is_text, key).alias("_key"), value, F.when(is_text, read).alias("_ts")]
    of_table = F.struct(
        commit_ts.alias("ts"),
        F.lit(familiar.table.schema).alias("scm"),
        F.lit(familiar.table.table).alias("tbl"),
        F.lit(_ROW).alias("t"),
        F.lit(None).cast("boolean").alias("ohk"),
        F.lit(None).cast("string").alias("ccl"),
        F.lit(end_marker.NUMBER).alias(end_marker.FIELD),
    )
    is_row = once() & commit_ts.isNotNull()
    read_keys = [F.when(is_row, of_table).otherwise(F.from_json(_ended(key), _KEY_FIELDS)).alias("_key"), value]
    is_row, wanted = once() & (key["t"] == _ROW), familiar.wanted
    arrays = {} if wanted is None else {f"_array{place}": one for place, one in enumerate(familiar.shapes)}
    taken = [F.when(is_row, listed(value, shape, wanted)).alias(name) for name, (_, shape) in arrays.items() if wanted]
    by_array = [F.when(is_listed(name), F.lit(number)) for name, (number, _) in arrays.items()]
    array = F.coalesce(F.lit(None), *(F.when(is_listed(name), F.col(name)) for name in arrays)).alias(ARRAY)
    number = F.when(is_row, F.coalesce(*by_array, _compared_with(value, familiar.shapes))).alias("_number")
    numbers = [key, array, number, (value == "").alias("_empty")]
    described = [
        key,
        F.col(ARRAY),
        F.col("_number"),
        F.col("_number").isin(_deletes_of(familiar.shapes)).alias("_delete"),
        F.lit(False).alias("_statement"),
        F.col("_empty"),
    ]
    steps = (_texts(), keys, read_keys, [key, value, *taken], numbers, described, [_head().alias(HEAD), F.col(ARRAY)])
    return tuple(Projection([*event, *step]) for step in steps)


@lru_cache(maxsize=256)
def _sorted_out(likely: Shapes) -> tuple[Projection, ...]:
    """From events to their heads, in steps that Spark may not repeat."""
    event = [F.col(name) for name in (*RAW, INDEX)]
    key, value, shape, plain, likely_number = (F.col(name) for name in ("_key", "_value", "_shape", "_plain", "_known"))
    packed = once() & is_compressed(framing.value_bytes(F.col("value")))
    is_text = once() & F.is_valid_utf8(key) & (F.is_valid_utf8(value) | packed)
    keys = [
        F.from_json(F.when(is_text, _ended(key)), _KEY_FIELDS).alias("_key"),
        F.when(~packed, value).alias("_value"),
    ]
    is_row = once() & (key["t"] == _ROW)
    number = _compared_with(value, likely)
    tried = [key, value, F.when(is_row, number).alias("_known")]
    shapes = [key, value, likely_number, F.when(is_row & likely_number.isNull(), shape_of(value)).alias("_shape")]
    checked = [key, value, likely_number, shape, (once() & is_plain(shape)).alias("_plain")]
    deleted = F.when(likely_number.isNotNull(), likely_number.isin(_deletes_of(likely))).otherwise(
        shape.startswith(DELETED)
    )
    sent = [
        key,
        F.coalesce(likely_number, F.when(once() & plain, F.xxhash64(shape))).alias("_hash"),
        deleted.alias("_delete"),
        F.when(once() & likely_number.isNull() & ~plain & (key["t"] == _ROW), _images(value)).alias("_value"),
        F.when(once() & (key["t"] == _DDL), F.from_json(_ended(value), _STATEMENT, LIMITS)).alias("_statement"),
        (value == "").alias("_empty"),
    ]
    value, statement = F.col("_value"), F.col("_statement")
    by_json = F.when(once() & value.isNotNull(), _layout(value))
    described = [
        key,
        F.coalesce(F.col("_hash"), F.when(by_json.isNotNull(), F.xxhash64(by_json))).alias("_number"),
        F.when(value.isNull(), F.col("_delete")).otherwise(_deletes(value)).alias("_delete"),
        (is_whole(statement) & statement["q"].isNotNull() & statement["t"].isNotNull()).alias("_statement"),
        F.col("_empty"),
    ]
    steps = (_texts(), keys, tried, shapes, checked, sent, described, [_head().alias(HEAD)])
    return tuple(Projection([*event, *step]) for step in steps)


def _compared_with(value: Column, shapes: Shapes) -> Column:
    """The number of the shape that an event has, of these; NULL for one of another."""
    numbers = [F.when(is_shaped(value, shape), F.lit(number)) for number, shape in shapes]
    return F.coalesce(F.lit(None).cast("bigint"), *numbers)


def _deletes_of(shapes: Shapes) -> list[int]:
    return [number for number, shape in shapes if shape.startswith(DELETED)]


def _head() -> Column:
    """A delete needs no more than the handle."""
    key, number = F.col("_key"), F.col("_number")
    unread = number.isNull() & ~F.coalesce("_statement", F.lit(False)) & is_whole(key)
    packed = F.when(once() & unread, code_of(framing.value_bytes(F.col("value"))))
    row = (key["t"] == _ROW) & (key["scm"] != "") & (key["tbl"] != "") & (key["ts"] <= F.lit(FAR_FUTURE))
    kind = (
        F.when(row & (key["ccl"] != ""), F.lit(CLAIM_CHECK))
        .when(row & key["ohk"] & ~F.coalesce("_delete", F.lit(False)), F.lit(HANDLE_KEY_ONLY))
        .when(row & number.isNotNull(), F.lit(ROW))
        .when((key["t"] == _DDL) & F.col("_statement"), F.lit(DDL))
        .when((key["t"] == _RESOLVED) & F.col("_empty"), F.lit(RESOLVED))
        .when(row | (key["t"] == _DDL), packed)
    )
    described = F.struct(
        F.when(key["ts"] > 0, kind).alias(KIND),
        F.coalesce(key["scm"], F.lit("")).alias(SCHEMA),
        F.coalesce(key["tbl"], F.lit("")).alias(TABLE),
        key["ts"].alias(COMMIT_TS),
        number.alias(NUMBER),
        F.col("_delete").alias(DELETE),
        F.when(key["ccl"] != "", key["ccl"]).alias(LOCATION),
    )
    return F.when(is_whole(key), described)


def is_whole(read: Column) -> Column:
    """Whether an object with a sentinel is all that its text has."""
    return F.coalesce(read[end_marker.FIELD] == end_marker.NUMBER, F.lit(False))


def _ended(text: Column) -> Column:
    return end_marker.in_object(text.cast("binary"))


def _images(text: Column) -> Column:
    return F.from_json(_ended(text), _VALUE_FIELDS, LIMITS | {"columnNameOfCorruptRecord": _BROKEN})


def _deletes(value: Column) -> Column:
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
    is_table = (F.size(image) > 0) & (F.size(names) == F.size(image)) & ~F.array_contains(names, "")
    typed = F.forall(F.map_values(image), lambda value: value["t"].isNotNull())
    return F.when(value[_BROKEN].isNull() & is_whole(value) & is_table & typed, F.to_json(columns))


class SeenLayout(NamedTuple):
    """What a number stands for: a layout (`columns.read_layout`), and a shape, if the event was a plain one."""

    layout: str | None
    shape: str | None


def shown(prepared: DataFrame, firsts: Mapping[int, int]) -> dict[int, SeenLayout]:
    """What numbers stand for, each read from one event. `firsts` says at which position there is such an event."""
    value = framing.value_json(F.col("value"))
    shape = shape_of(value)
    plain = F.when(is_plain(shape), shape)
    chosen = head(NUMBER).isin(list(firsts)) & F.col(POSITION).isin(list(set(firsts.values())))
    texts = prepared.where(chosen).select(head(NUMBER).alias(NUMBER), value.alias("value"), plain.alias("shape"))
    sent = _images(F.coalesce("shape", "value")).alias("sent")  # of a shape all events have one layout
    rows = texts.select(NUMBER, "shape", sent).select(NUMBER, _layout(F.col("sent")), "shape").collect()
    return {number: SeenLayout(layout, shape) for number, layout, shape in rows}


def statement() -> tuple[Column, Column]:
    """The SQL of a DDL event, and what it does."""
    sent = F.from_json(framing.value_json(F.col("value")), "struct<q: string, t: int>", LIMITS)
    return sent.getField("q"), sent.getField("t")
