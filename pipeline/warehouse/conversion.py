"""Old values under a new type, as TiDB's MODIFY COLUMN converts them (design.md, rule 6).

What cannot be converted exactly is NULL, and its text is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import members, text
from pipeline.model import types as t
from pipeline.model.projection import let
from pipeline.model.source_types import FLOATING, WHOLE, SourceType
from pipeline.model.text import Value
from pipeline.warehouse import digits

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pipeline.model.types import WarehouseType

_TIMES = (t.DATE, t.TIMESTAMP_NTZ, t.TIMESTAMP)
_FLOATS = (t.FLOAT, t.DOUBLE)


def converted(value: Column, old: WarehouseType, new: WarehouseType, was: str, becomes: str, timezone: str) -> Value:
    """A value of type `old` as the new column of type `new` shows it.

    `was` and `becomes`: these types at the source, in full (`model.source_types`); `was` is empty if unknown.
    """
    source, target = SourceType.of(was), SourceType.of(becomes)
    read, kind = _read(value, old, new, source, target)
    turned = _turned(read, kind, new, source, target, timezone)
    lost = turned.lost
    if read is not value:
        unread = text.in_bytes(value) if old == t.BINARY else value
        lost = F.when(read.isNull(), unread).otherwise(F.lit(None) if lost is None else lost)
    return Value(_fitted(turned.column, new, target), lost)


def _read(
    value: Column, old: WarehouseType, new: WarehouseType, source: SourceType, target: SourceType
) -> tuple[Column, WarehouseType]:
    """The value as it is converted from: bytes as text; names and times of day as numbers, where a number is wanted."""
    if old == t.BINARY and new != t.BINARY:
        return F.try_validate_utf8(value.cast("string")), t.STRING
    if old != t.STRING or not target.is_number:
        return value, old
    if source.members:
        number = members.number_of if source.name == "ENUM" else members.mask_of
        return number(value, source.members), t.UNSIGNED_BIGINT
    if source.name == "TIME":
        timed = digits.clock(value, 0) if target.name in WHOLE else value
        return F.regexp_replace(timed, ":", ""), t.STRING
    return value, old


def _turned(  # noqa: PLR0911 - a table of types
    value: Column, old: WarehouseType, new: WarehouseType, source: SourceType, target: SourceType, timezone: str
) -> Value:
    """The value as one of the new type, which may have more digits than the column."""
    if target.name == "TIME" and new == t.STRING:
        timed = digits.clock(_clock_text(value, old, source, timezone), target.digits or 0)
        return Value(timed, F.when(timed.isNull(), as_text(value, old, source, timezone)))
    if target.members and (old == t.STRING or _is_number(old)):
        return _named(value, old, target)
    if _is_number(old) and _is_number(new):
        return _number(value, old, new, target)
    if old == new:
        return Value(value)
    if new in (t.STRING, t.BINARY):
        return Value(as_text(value, old, source, timezone).cast(new))
    if t.TIMESTAMP in (old, new) and old in _TIMES and new in _TIMES:
        return text.parsed(_local(value, old, timezone).cast("string"), new, timezone)
    if old == t.STRING or (old in _TIMES) != (new in _TIMES):
        return text.parsed(_spelled(value, old, source, target, timezone), new, timezone)
    return text.casted(value, new)


def _is_number(kind: WarehouseType) -> bool:
    return kind in (t.INT, t.BIGINT, *_FLOATS) or t.decimal_parameters(kind) is not None


def _named(value: Column, old: WarehouseType, target: SourceType) -> Value:
    if old == t.STRING:
        return Value(members.ordered(value, target.members) if target.name == "SET" else value)
    names_of = members.member if target.name == "ENUM" else members.members
    name = names_of(value.cast("string"), target.members)
    return Value(name, F.when(name.isNull(), value.cast("string")))


def _number(value: Column, old: WarehouseType, new: WarehouseType, target: SourceType) -> Value:
    """TiDB rounds DECIMAL half away from zero, FLOAT and DOUBLE half to even."""
    if target.name in WHOLE:
        value = F.rint(value) if old in _FLOATS else F.round(value, 0)
    return Value(value.cast(new)) if old == new else text.casted(value, new)


def _spelled(value: Column, old: WarehouseType, source: SourceType, target: SourceType, timezone: str) -> Column:
    """The text that is read as a time or a number."""
    if old not in _TIMES:
        shown = as_text(value, old, source, timezone)
        if not target.is_number:
            return _as_time(shown)
        if target.name == "YEAR":
            shown = F.when(shown.rlike("^0{1,3}$"), "2000").otherwise(shown)
        exact = source.name not in ("DECIMAL", "TIME")
    else:
        shown, exact = _as_number(value, old, target, timezone), False
    wanted = None if exact or target.name in FLOATING else target.digits
    return shown if wanted is None else digits.decimal(shown, wanted)


def as_text(value: Column, old: WarehouseType, source: SourceType, timezone: str) -> Column:
    """A number or date as TiDB writes it as text; instants as the changefeed's zone shows them."""
    if old in _FLOATS:
        return _plain_number(value)
    if old not in (t.TIMESTAMP, t.TIMESTAMP_NTZ):
        return value.cast("string")
    local = _local(value, old, timezone)
    if source.digits is None:
        return local.cast("string")
    fraction = "." + "S" * source.digits if source.digits else ""
    return F.date_format(local, "yyyy-MM-dd HH:mm:ss" + fraction)


def _local(value: Column, old: WarehouseType, timezone: str) -> Column:
    return F.from_utc_timestamp(value, timezone) if old == t.TIMESTAMP else value


def _clock_text(value: Column, old: WarehouseType, source: SourceType, timezone: str) -> Column:
    if old not in _TIMES:
        return as_text(value, old, source, timezone)
    return F.date_format(_local(value, old, timezone), "HH:mm:ss.SSSSSS")


def _as_number(value: Column, old: WarehouseType, target: SourceType, timezone: str) -> Column:
    """20240102 or 20240102030405, as TiDB has times as numbers; as YEAR the year alone."""
    local = _local(value, old, timezone)
    if target.name == "YEAR":
        return F.year(local).cast("string")
    if old == t.DATE:
        return F.date_format(value, "yyyyMMdd")
    if target.name not in WHOLE:
        return F.date_format(local, "yyyyMMddHHmmss.SSSSSS")
    seconds = F.date_trunc("SECOND", local.cast("timestamp") + F.expr("INTERVAL 500 MILLISECONDS"))
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


def _fitted(value: Column, kind: WarehouseType, target: SourceType) -> Column:
    """The value with as many digits, spaces and zero bytes as TiDB leaves in such a column."""
    match target.name:
        case "CHAR" if kind == t.STRING:
            value = F.rtrim(value)
        case "BINARY" if kind == t.BINARY and target.numbers:
            size = target.numbers[0]
            value = let(value, lambda octets: _padded(octets, size))
        case "YEAR" if _is_number(kind):
            value = let(value, _in_its_century).cast(kind)
    return value if target.digits is None else _of_digits(value, kind, target, target.digits)


def _in_its_century(year: Column) -> Column:
    return year + F.when(year.between(1, 69), 2000).when(year.between(70, 99), 1900).otherwise(0)


def _padded(value: Column, size: int) -> Column:
    return F.when(F.length(value) < size, F.rpad(value, size, F.lit(b"\0"))).otherwise(value)


def _of_digits(value: Column, kind: WarehouseType, target: SourceType, wanted: int) -> Column:
    match target.name:
        case "DECIMAL" if kind == t.STRING:
            return digits.decimal(value, wanted)
        case "DATETIME" | "TIMESTAMP" if kind in _TIMES and wanted < digits.MICROSECOND_DIGITS:
            instant = F.unix_micros(value.cast("timestamp"))  # the session's zone is UTC
            return F.timestamp_micros(digits.rounded_micros(instant, wanted)).cast(kind)
        case "FLOAT" | "DOUBLE" if kind in _FLOATS:
            shift = float(10**wanted)
            return (F.rint(value.cast("double") * shift) / shift).cast(kind)
    return value
