"""Decimals and times that stand as text, rounded without a number that is too small for them. Column in, Column out."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipeline.model.projection import let

MICROSECOND_DIGITS = 6
_DECIMAL = r"^-?(\d+)(?:\.(\d*))?$"
_CLOCK = r"^-?(\d{1,3}):([0-5]?\d)(?::([0-5]?\d))?(?:\.(\d*))?$"
_COMPACT = r"^-?\d{1,7}(?:\.\d*)?$"
_SECOND = 1_000_000


def decimal(value: Column, digits: int) -> Column:
    """A decimal with so many digits after the point, half away from zero; other text stays as it is."""
    return let(value, lambda text: F.when(text.rlike(_DECIMAL), _decimal(text, digits)).otherwise(text))


def _decimal(text: Column, digits: int) -> Column:
    whole, fraction = F.regexp_extract(text, _DECIMAL, 1), F.regexp_extract(text, _DECIMAL, 2)
    kept = F.concat(whole, F.rpad(fraction, digits, "0"))
    up = fraction.substr(digits + 1, 1) >= "5"
    rounded = let(kept, lambda number: F.when(up, _one_more(number)).otherwise(number))
    sign = F.regexp_extract(text, "^-", 0)
    return let(rounded, lambda number: _with_point(number, sign, digits))


def _one_more(number: Column) -> Column:
    """A row of digits, counted up by one."""
    head, nines = F.regexp_extract(number, r"^(\d*?)9*$", 1), F.regexp_extract(number, "9*$", 0)
    return F.concat(let(head, _last_one_more), F.regexp_replace(nines, "9", "0"))


def _last_one_more(head: Column) -> Column:
    last = (F.substring(head, -1, 1).try_cast("int") + 1).cast("string")
    return F.when(head == "", "1").otherwise(F.concat(head.substr(F.lit(1), F.length(head) - 1), last))


def _with_point(number: Column, sign: Column, digits: int) -> Column:
    places = F.length(number) - digits
    point = [F.lit("."), number.substr(places + 1, F.lit(digits))] if digits else []
    signed = F.when(number.rlike("[1-9]"), sign).otherwise("")
    return F.concat(signed, number.substr(F.lit(1), places), *point)


def clock(value: Column, digits: int) -> Column:
    """TIME with so many digits of its seconds: of `1:2:3`, or of the number 10203; NULL for what is neither."""
    return let(let(value, _with_colons), lambda text: F.when(text.rlike(_CLOCK), _clock(text, digits)))


def _with_colons(text: Column) -> Column:
    whole = F.lpad(F.regexp_extract(text, r"^-?(\d*)", 1), 7, "0")
    sign, fraction = F.regexp_extract(text, "^-", 0), F.regexp_extract(text, r"\.\d*$", 0)
    spread = F.regexp_replace(whole, r"^(\d{3})(\d{2})(\d{2})$", "$1:$2:$3")
    return F.when(text.rlike(_COMPACT), F.concat(sign, spread, fraction)).otherwise(text)


def _clock(text: Column, digits: int) -> Column:
    parts = [F.regexp_extract(text, _CLOCK, group) for group in range(1, 5)]
    hours, minutes, seconds = (F.coalesce(part.try_cast("bigint"), F.lit(0)) for part in parts[:3])
    micros = F.rpad(parts[3], MICROSECOND_DIGITS, "0").try_cast("bigint")
    length = ((hours * 60 + minutes) * 60 + seconds) * _SECOND + micros
    signed = length * F.when(text.startswith("-"), -1).otherwise(1)
    return let(rounded_micros(signed, digits), lambda whole: _as_clock(whole, digits))


def _as_clock(micros: Column, digits: int) -> Column:
    length, sign = F.abs(micros), F.when(micros < 0, "-").otherwise("")
    fraction = F.lpad((length % _SECOND).cast("string"), MICROSECOND_DIGITS, "0").substr(1, digits)
    hours, minutes, seconds = (_times(length, part * _SECOND) for part in (3600, 60, 1))
    text = F.format_string("%s%02d:%02d:%02d", sign, hours, minutes % 60, seconds % 60)
    return F.concat(text, F.lit("."), fraction) if digits else text


def _times(number: Column, part: int) -> Column:
    """How many times the part is in a number, without the rest."""
    return ((number - number % part) / part).cast("bigint")


def rounded_micros(micros: Column, digits: int) -> Column:
    """Microseconds as a time of so many digits has them; what lies in the middle becomes the later one."""
    step = 10 ** (MICROSECOND_DIGITS - digits)
    return let(micros + F.lit(step // 2), lambda later: later - F.pmod(later, F.lit(step)))
