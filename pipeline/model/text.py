"""TiDB's text forms of values as warehouse values: pure functions, Column in, `Value` out.

Every function gives NULL for NULL. A value that the warehouse type cannot hold is NULL, and its text is `lost`
(design.md, rule 7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import types as t

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pipeline.model.types import WarehouseType

_ZONE = r"^[A-Za-z+\-][A-Za-z0-9_+\-/:]*\z"
_LONGEST_NUMBER = 100
"""Characters of a number's text: a DECIMAL(65,30) has 67."""
_SMALL_EXPONENT = r"[eE][+-]?\d{1,3}$"
_YEAR_DIGITS = 4
_OVERLAPS_SECONDS = (1800, 3600, 7200)
"""By how much clocks are set back where they are: half an hour on Lord Howe, two for double summer time."""
AS_BYTES = "\\x"
"""What a text begins with that is its bytes in hexadecimal."""


@dataclass(frozen=True, slots=True)
class Value:
    """A warehouse value and, where the type cannot hold every sent value, the text of what it lost.

    `text`: the text that was sent, if exactly the values that are NULL are lost. `materialised` then needs no column of
    its own for `lost`. Example: a DATE has it, since each text that is no date is NULL and lost. A TIMESTAMP of a
    changefeed whose zone is not UTC has none: a wall clock that occurs twice is lost, and is not NULL.
    """

    column: Column
    lost: Column | None = None
    text: Column | None = None


def sound(value: Column) -> Value:
    """Text; NULL and its bytes (`in_bytes`) where it is no UTF-8.

    Spark writes any bytes into a STRING of Parquet, but other readers check them: they refuse the whole table then.
    """
    return Value(F.try_validate_utf8(value), F.when(~F.is_valid_utf8(value), in_bytes(value)), value)


def in_bytes(value: Column) -> Column:
    r"""The bytes of a text in hexadecimal: `\xA5` and so on."""
    return F.concat(F.lit(AS_BYTES), F.hex(value))


def kept(value: Column) -> Column:
    """A text as `_unrepresentable` keeps it: as it was sent, and by its bytes where it is no UTF-8.

    So is one that looks like bytes: two texts are never kept as the same.
    """
    return F.when(F.is_valid_utf8(value) & ~value.startswith(AS_BYTES), value).otherwise(in_bytes(value))


def vector(value: Column) -> Column:
    """VECTOR: the text `[1,2.5]`."""
    return F.from_json(value, t.VECTOR)


def date(value: Column) -> Value:
    """DATE: NULL and the text for year 0000, month or day 00, which no warehouse date can be."""
    return _calendar(value, _of_four_digits(value).try_cast("date"))


def datetime(value: Column) -> Value:
    """DATETIME(f): a wall clock without a zone."""
    return _calendar(value, _of_four_digits(value).try_cast("timestamp_ntz"))


def timestamp(value: Column, timezone: str) -> Value:
    """TIMESTAMP(f): an instant, sent as the wall clock of the changefeed's time zone.

    A wall clock that occurs twice when clocks are set back takes the earlier instant and keeps its text.
    """
    sound = _of_four_digits(value)
    if timezone == "UTC":
        return _calendar(value, sound.try_cast("timestamp"))
    local = sound.try_cast("timestamp_ntz").cast("timestamp")  # the session's zone is UTC
    instant = F.to_utc_timestamp(local, timezone)
    twice = F.lit(False)
    for seconds in _OVERLAPS_SECONDS:
        later = instant + F.expr(f"INTERVAL {seconds} SECONDS")
        twice = twice | (F.from_utc_timestamp(later, timezone) == local)
    parsed = _calendar(value, instant)
    return Value(parsed.column, F.when(twice, kept(value)).otherwise(parsed.lost))


def zoned(value: Column, zone: Column) -> Value:
    """TIMESTAMP(f) as the wall clock of a zone that each row names; a name that is no zone gives NULL and the text.

    A wall clock that occurs twice is kept as by `timestamp`.
    """
    sound, named = _of_four_digits(value), F.when(zone.rlike(_ZONE), zone)  # reading trims names, converting does not
    instant = F.concat(sound, named).try_cast("timestamp")
    local = sound.try_cast("timestamp_ntz").cast("timestamp")
    twice = F.lit(False)
    for seconds in _OVERLAPS_SECONDS:
        later = instant + F.expr(f"INTERVAL {seconds} SECONDS")
        twice = twice | (F.from_utc_timestamp(later, named) == local)
    parsed = _calendar(value, instant)
    safe = F.when(parsed.column.isNotNull(), twice).otherwise(False)  # `twice` is an error for a name that is no zone
    return Value(parsed.column, F.when(safe, kept(value)).otherwise(parsed.lost))


def _of_four_digits(value: Column) -> Column:
    """Text that begins with a year of four digits: TiDB has no others, and times at the edges of BIGINT raise."""
    return F.when(F.instr(value, "-") == _YEAR_DIGITS + 1, value)


def number_of(value: Column, kind: WarehouseType) -> Column:
    """Text as DECIMAL; NULL where it is none, or is one that Spark cannot read without an overflow or without end."""
    return F.when(_is_readable(value), value).try_cast(kind)


def _is_readable(number: Column) -> Column:
    plain = ~(number.contains("e") | number.contains("E")) | number.rlike(_SMALL_EXPONENT)
    return (F.octet_length(number) <= _LONGEST_NUMBER) & plain


def _calendar(text: Column, parsed: Column) -> Value:
    representable = parsed.isNotNull() & ~text.startswith("0000")
    return Value(F.when(representable, parsed), F.when(~representable, kept(text)), text)


def exact_decimal(value: Column, kind: WarehouseType) -> Value:
    """Decimal text as DECIMAL(p,s) where not a digit is lost, else NULL and the text."""
    _, scale = t.decimal_parameters(kind) or (0, 0)
    parsed = number_of(value, kind)
    point = F.instr(value, ".")
    fraction = F.length(F.regexp_extract(value, r"\.(\d*?)0*$", 1))
    exact = parsed.isNotNull() & ((point == 0) | (F.octet_length(value) - point <= scale) | (fraction <= scale))
    return Value(F.when(exact, parsed), F.when(~exact, kept(value)), value)


def casted(value: Column, kind: WarehouseType) -> Value:
    """Any value under a type of the user's (`warehouse.columns`): what does not cast keeps its text."""
    readable = F.when(_is_readable(value.cast("string")), value) if t.decimal_parameters(kind) else value
    parsed, sent = readable.try_cast(kind), value.cast("string")
    if kind == t.STRING:
        parsed = F.try_validate_utf8(parsed)
    return Value(parsed, F.when(parsed.isNull(), kept(sent)), sent)


def under(natural: Value, own: WarehouseType, kind: WarehouseType, *, exact: bool = False) -> Value:
    """A value of its natural type `own` as one of `kind`, which may be a type of the user's.

    What either type cannot hold keeps its text. `exact`: a decimal, of which not a digit may be lost. Of a date or time
    that is to be a text see `_shown`.
    """
    if kind == own:
        return natural
    if kind == t.STRING and own in t.CALENDAR:
        return _shown(natural, own)
    if kind == t.BINARY and own == t.STRING and natural.text is not None:
        return Value(natural.text.cast(kind))
    if natural.lost is None and t.absorbs(kind, own):
        return Value(natural.column.cast(kind))
    if exact and t.decimal_parameters(kind):
        read = exact_decimal(natural.column.cast("string"), kind)
    else:
        read = casted(natural.column, kind)
    lost = [one for one in (natural.lost, read.lost) if one is not None]
    return Value(read.column, F.coalesce(*lost))


def _shown(natural: Value, own: WarehouseType) -> Value:
    """A date or time as text: as it was sent, but an instant as UTC's clock shows it.

    What was sent is lost then where it is two instants (`timestamp`).
    """
    if own != t.TIMESTAMP and natural.text is not None:
        return sound(natural.text)
    lost = F.lit(None).cast(t.STRING) if natural.lost is None else natural.lost
    read = natural.column.cast(t.STRING)
    return Value(F.coalesce(read, lost), F.when(read.isNotNull(), lost))


def parsed(text: Column, kind: WarehouseType, timezone: str) -> Value:  # noqa: PLR0911 - a table of types
    """Text in TiDB's form as a value of `kind`; binary text is hexadecimal."""
    match kind:
        case t.STRING:
            return Value(text)
        case t.BINARY:
            return Value(F.unhex(text))
        case t.VECTOR:
            return Value(vector(text))
        case t.DATE:
            return date(text)
        case t.TIMESTAMP_NTZ:
            return datetime(text)
        case t.TIMESTAMP:
            return timestamp(text, timezone)
    if t.decimal_parameters(kind):
        return exact_decimal(text, kind)
    return casted(text, kind)
