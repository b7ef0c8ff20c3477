"""What each event is (`layouts.head`), from its bytes.

The layout of a row event is its columns with their types and flags, in the order in which they are sent. It is the
version of the table (decision 004). An event carries a number that stands for it: a hash of what it shows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.columns import FAR_FUTURE
from pipeline.model.large_rows import LOCATION
from pipeline.model.messages import INDEX
from pipeline.model.places import POSITION, RAW
from pipeline.model.projection import Projection, once, through
from pipeline.protocols.compressed import code_of
from pipeline.protocols.described.head import SENT
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
from pipeline.protocols.open.reading import event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from pipeline.protocols.open.reading import Wanted

AFTER, BEFORE = "_after", "_before"
"""The rows of an event that is read for what is `Wanted` of a table."""

_NOT_NOISE = 1 | 2 | 4 | 64 | 128
"""Flags that say something of the column: binary, handle, generated, nullable, unsigned. The others are of indexes."""

_LIMITS = {"maxStringLen": str(2**31 - 1)}
"""Of Spark's JSON reader: a LONGTEXT may be longer than its 20 million characters."""

_IMAGE = "map<string, struct<t: int, h: boolean, f: bigint>>"
_BROKEN = "broken"
_IMAGES = f"struct<u: {_IMAGE}, d: {_IMAGE}, {_BROKEN}: string>"
_ROW, _DDL, _RESOLVED = 1, 2, 3


def taken_apart(raw: DataFrame, wanted: Wanted | None = None) -> DataFrame:
    """The raw frame with a row per event, `INDEX` and `HEAD`; with `wanted` also `AFTER` and `BEFORE`."""
    return through(_steps(wanted), raw)


@lru_cache(maxsize=256)
def _steps(wanted: Wanted | None) -> tuple[Projection, ...]:
    """In steps that Spark may not repeat."""
    envelope = [F.col(name) for name in RAW if name not in ("key", "value")]
    one_by_one = F.explode(framing.events(F.col("key"), F.col("value"))).alias("_event")
    kept = [F.col(name) for name in (*RAW, INDEX)]
    read = event(F.when(once() & F.col(FRAMED), F.col("key")), F.col("value"), wanted)
    return (
        Projection([*envelope, one_by_one]),
        Projection([*envelope, F.col("_event.*")]),
        Projection([*kept, read.alias(SENT)]),
        Projection([*kept, _head(F.col(SENT)).alias(HEAD), *([] if wanted is None else sides())]),
    )


def reading(wanted: Wanted) -> Column:
    """A column of an event that is there already, from which `sides` are taken."""
    return event(F.when(once(), F.col("key")), F.col("value"), wanted).alias(SENT)


def sides() -> list[Column]:
    """`AFTER` and `BEFORE`."""
    return [F.col(SENT).getField("after").alias(AFTER), F.col(SENT).getField("before").alias(BEFORE)]


def _head(sent: Column) -> Column:
    """A delete needs no more than the handle."""
    is_row, is_ddl = sent.getField("t") == _ROW, sent.getField("t") == _DDL
    layout, is_delete, location = (sent.getField(name) for name in ("layout", "is_delete", "ccl"))
    named = (sent.getField("scm") != "") & (sent.getField("tbl") != "")
    is_row = is_row & named & (sent.getField("ts") <= F.lit(FAR_FUTURE))
    packed = F.when(once() & (is_row | is_ddl), code_of(framing.value_bytes(F.col("value"))))
    kind = (
        F.when(is_row & (location != ""), F.lit(CLAIM_CHECK))
        .when(is_row & sent.getField("ohk") & ~is_delete, F.lit(HANDLE_KEY_ONLY))
        .when(is_row & layout.isNotNull(), F.lit(ROW))
        .when(is_ddl & sent.getField("is_statement"), F.lit(DDL))
        .when((sent.getField("t") == _RESOLVED) & sent.getField("is_empty"), F.lit(RESOLVED))
        .otherwise(packed)
    )
    described = F.struct(
        F.when(sent.getField("ts") > 0, kind).alias(KIND),
        F.coalesce(sent.getField("scm"), F.lit("")).alias(SCHEMA),
        F.coalesce(sent.getField("tbl"), F.lit("")).alias(TABLE),
        sent.getField("ts").alias(COMMIT_TS),
        layout.alias(NUMBER),
        is_delete.alias(DELETE),
        F.when(location != "", location).alias(LOCATION),
    )
    return F.when(sent.isNotNull(), described)


def shown(prepared: DataFrame, firsts: Mapping[int, int]) -> dict[int, str | None]:
    """The layouts (`columns.read_layout`) that numbers stand for; None for one that no table has.

    Each is read from one event. `firsts` says at which position there is one.
    """
    chosen = head(NUMBER).isin(list(firsts)) & F.col(POSITION).isin(list(set(firsts.values())))
    options = _LIMITS | {"columnNameOfCorruptRecord": _BROKEN}
    images = F.from_json(framing.value_json(F.col("value")), _IMAGES, options)
    sent = prepared.where(chosen).select(head(NUMBER).alias(NUMBER), images.alias(SENT))
    return dict(sent.select(NUMBER, _layout(F.col(SENT))).collect())


def _layout(images: Column) -> Column:
    """The layout of a row event; NULL for one that no table has: without columns or types, or with two of one name."""
    image = F.coalesce(images["u"], images["d"])
    columns = F.transform(
        F.map_entries(image),
        lambda entry: F.struct(
            entry["key"].alias("n"),
            entry["value"]["t"].alias("t"),
            entry["value"]["f"].bitwiseAND(F.lit(_NOT_NOISE)).alias("f"),
            entry["value"]["h"].alias("h"),
        ),
    )
    names = F.array_distinct(F.split(F.lower(F.array_join(F.map_keys(image), "\0")), "\0"))
    is_table = (F.size(image) > 0) & (F.size(names) == F.size(image)) & ~F.array_contains(names, "")
    typed = F.forall(F.map_values(image), lambda value: value["t"].isNotNull())
    return F.when(images[_BROKEN].isNull() & is_table & typed, F.to_json(columns))


def statement() -> tuple[Column, Column]:
    """The SQL of a DDL event, and what it does."""
    sent = F.from_json(framing.value_json(F.col("value")), "struct<q: string, t: int>", _LIMITS)
    return sent.getField("q"), sent.getField("t")
