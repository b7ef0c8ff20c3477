"""What each event is, in one column that is made once: its kind, its table, its commit ts, its layout.

The layout of a row event is the text of its columns with their types and flags, in the order in which they are sent.
It is the version of the table (decision 004): a hash of it is the version's number.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.messages import INDEX, RAW
from pipeline.model.projection import Projection, once
from pipeline.protocols.open import framing
from pipeline.protocols.open.columns import LAYOUT_BITS
from pipeline.protocols.open.framing import FRAMED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HEAD = "_open"
"""The column that `prepare` adds: a struct of the names below; NULL for what cannot be read."""
KIND, SCHEMA, TABLE, COMMIT_TS, LAYOUT, DELETE = "kind", "schema", "table", "ts", "layout", "delete"

ROW, DDL, RESOLVED = "row", "ddl", "resolved"
"""Kinds; NULL for an event that cannot be read."""

LIMITS = {"maxStringLen": str(2**31 - 1)}
"""Of the JSON reader: a LONGTEXT may be longer than its 20 million characters."""

NOT_NOISE = 1 | 2 | 4 | 64 | 128
"""Flags that say something of the column: binary, handle, generated, nullable, unsigned. The others are of indexes."""

_KEY_FIELDS = "struct<ts: bigint, scm: string, tbl: string, t: int>"
_IMAGE = "map<string, struct<t: int, h: boolean, f: bigint>>"
_VALUE_FIELDS = f"struct<u: {_IMAGE}, d: {_IMAGE}, q: string, t: int>"
_ROW, _DDL, _RESOLVED = 1, 2, 3


def head(name: str) -> Column:
    """One field of the head."""
    return F.col(HEAD).getField(name)


def taken_apart(raw: DataFrame) -> DataFrame:
    """The raw frame with a row per event (`SourceProtocol.prepare`)."""
    envelope = [name for name in RAW if name not in ("key", "value")]
    event = F.explode(framing.events(F.col("key"), F.col("value"))).alias("_event")
    single = raw.select(*envelope, event).select(*envelope, "_event.*")
    for step in _sorted_out():
        single = step.of(single)
    return single


@cache
def _sorted_out() -> tuple[Projection, ...]:
    """From events to their heads, in steps that Spark may not repeat: texts, JSON, the layout, the head."""
    event = [F.col(name) for name in (*RAW, INDEX)]
    framed = once() & F.col(FRAMED)
    texts = [
        F.when(framed, framing.key_json(F.col("key"))).alias("_key"),
        F.when(framed, framing.value_json(F.col("value"))).alias("_value"),
    ]
    key, value = F.col("_key"), F.col("_value")
    is_text = once() & F.is_valid_utf8(key) & F.is_valid_utf8(value)
    sent = [
        F.from_json(F.when(is_text, key), _KEY_FIELDS).alias("_key"),
        F.from_json(F.when(is_text, value), _VALUE_FIELDS, LIMITS).alias("_value"),
        (value == "").alias("_empty"),
    ]
    is_row = once() & (key["t"] == _ROW)
    said = [
        key,
        F.when(is_row, _layout(F.coalesce(value["u"], value["d"]))).alias("_layout"),
        (value["u"].isNull() & value["d"].isNotNull()).alias("_delete"),
        (value["q"].isNotNull() & value["t"].isNotNull()).alias("_statement"),
        F.col("_empty"),
    ]
    steps = ([*event, *texts], [*event, *sent], [*event, *said], [*event, _head().alias(HEAD)])
    return tuple(Projection(step) for step in steps)


def _head() -> Column:
    key, layout = F.col("_key"), F.col("_layout")
    named = (key["scm"] != "") & (key["tbl"] != "")
    kind = (
        F.when((key["t"] == _ROW) & named & layout.isNotNull(), F.lit(ROW))
        .when((key["t"] == _DDL) & F.col("_statement"), F.lit(DDL))
        .when((key["t"] == _RESOLVED) & F.col("_empty"), F.lit(RESOLVED))
    )
    described = F.struct(
        F.when(key["ts"] > 0, kind).alias(KIND),
        F.coalesce(key["scm"], F.lit("")).alias(SCHEMA),
        F.coalesce(key["tbl"], F.lit("")).alias(TABLE),
        key["ts"].alias(COMMIT_TS),
        layout.alias(LAYOUT),
        F.col("_delete").alias(DELETE),
    )
    return F.when(key.isNotNull(), described)


def _layout(image: Column) -> Column:
    """The layout of an image; NULL for one that no table has: without columns or types, or with two of one name."""
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
    return F.when(is_whole & typed, F.to_json(columns))


def layout_number() -> Column:
    """A number that stands for the layout: see `columns.version_of`."""
    return F.shiftrightunsigned(F.xxhash64(head(LAYOUT)), 64 - LAYOUT_BITS)
