"""Old values under a new type, as TiDB's MODIFY COLUMN converts them (DESIGN rule 6).

What cannot be converted exactly is NULL, and its text is kept.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import text
from pipeline.model import types as t
from pipeline.model.text import Value

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pipeline.model.types import WarehouseType

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_FRACTION = re.compile(r"(DATETIME|TIMESTAMP|TIME)\((\d)\)")
_MICROSECOND_DIGITS = 6
_TIMES = (t.DATE, t.TIMESTAMP_NTZ, t.TIMESTAMP)


def converted(value: Column, old: WarehouseType, new: WarehouseType, tidb_type: str, timezone: str) -> Value:
    """A value of type `old` as the new column of type `new` (in TiDB: `tidb_type`) shows it."""
    if old == new:
        return Value(_rewritten(value, new, tidb_type))
    if old == t.BINARY:
        shown = F.try_validate_utf8(value.cast("string"))
        read = converted(shown, t.STRING, new, tidb_type, timezone)
        lost = F.lit(None) if read.lost is None else read.lost
        return Value(read.column, F.when(shown.isNull(), F.hex(value)).otherwise(lost))
    if new in (t.STRING, t.BINARY):
        shown = as_text(value, old, timezone)
        return Value(shown.cast("binary") if new == t.BINARY else _rewritten(shown, new, tidb_type))
    if t.TIMESTAMP in (old, new) and old in _TIMES and new in _TIMES:
        local = F.from_utc_timestamp(value, timezone) if old == t.TIMESTAMP else value
        return text.parsed(local.cast("string"), new, timezone)
    if old == t.STRING or (old in _TIMES) != (new in _TIMES):
        shown = _as_number(value, old, timezone) if old in _TIMES else as_text(value, old, timezone)
        return text.parsed(_as_time(shown) if new in _TIMES else shown, new, timezone)
    return text.casted(F.round(value, 0) if new in (t.INT, t.BIGINT) else value, new)


def as_text(value: Column, old: WarehouseType, timezone: str) -> Column:
    """A number or date as TiDB writes it as text; instants as the changefeed's zone shows them."""
    if old in (t.FLOAT, t.DOUBLE):
        return _plain_number(value)
    if old == t.TIMESTAMP:
        return F.from_utc_timestamp(value, timezone).cast("string")
    return value.cast("string")


def _as_number(value: Column, old: WarehouseType, timezone: str) -> Column:
    """20240102 or 20240102030405, as TiDB has times as numbers."""
    if old == t.DATE:
        return F.date_format(value, "yyyyMMdd")
    local = F.from_utc_timestamp(value, timezone) if old == t.TIMESTAMP else value.cast("timestamp")
    seconds = F.date_trunc("SECOND", local + F.expr("INTERVAL 500 MILLISECONDS"))
    return F.date_format(seconds, "yyyyMMddHHmmss")


def _as_time(number: Column) -> Column:
    """What such a number says, as text; others stay as they are, which no time is."""
    dated = F.regexp_replace(number, r"^(\d{4})(\d{2})(\d{2})$", "$1-$2-$3")
    return F.regexp_replace(dated, r"^(\d{4})(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})$", "$1-$2-$3 $4:$5:$6")


def _plain_number(value: Column) -> Column:
    """A float without exponent and without `.0` (Go's 'f' format with the shortest digits)."""
    shortest = value.cast("string")
    plain = shortest.try_cast("decimal(38,18)").cast("string")
    trimmed = F.regexp_replace(F.regexp_replace(plain, r"(\.\d*?)0+$", "$1"), r"\.$", "")
    return F.coalesce(trimmed, shortest)


def _rewritten(value: Column, kind: WarehouseType, tidb_type: str) -> Column:
    decimal = _DECIMAL.fullmatch(tidb_type)
    if decimal and kind == t.STRING:
        return _decimal_text(value, int(decimal[1]), int(decimal[2]))
    fraction = _FRACTION.fullmatch(tidb_type)
    if fraction and kind in (t.TIMESTAMP, t.TIMESTAMP_NTZ):
        return _rounded(value, kind, int(fraction[2]))
    return value


def _decimal_text(value: Column, precision: int, scale: int) -> Column:
    """Decimal text with exactly `scale` digits; beyond 38 digits only zeros are added."""
    if precision <= t.MAX_DECIMAL_PRECISION:
        return F.coalesce(value.try_cast(f"decimal({precision},{scale})").cast("string"), value)
    whole, fraction = F.substring_index(value, ".", 1), F.regexp_extract(value, r"\.(\d+)", 1)
    padded = F.rpad(fraction, scale, "0")
    return F.when(F.length(fraction) < scale, F.concat(whole, F.lit("."), padded)).otherwise(value)


def _rounded(value: Column, kind: WarehouseType, digits: int) -> Column:
    step = 10 ** (_MICROSECOND_DIGITS - digits)
    instant = F.unix_micros(value.cast("timestamp"))  # the session's zone is UTC
    return F.timestamp_micros((F.round(instant / step) * step).cast("bigint")).cast(kind)
