"""Whether what a check compares can be compared: the families of types, and the values of a suite among them.

Spark would compare more, by a cast of every row: text with a number, until a row holds no number.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pipeline.model.names import confusable
from pipeline.settings.faults import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pipeline.quality.suites import Check


class Family(StrEnum):
    """Types whose values can be compared."""

    NUMBER = "a number"
    TEXT = "text"
    TIME = "a time"
    TRUTH = "a boolean"
    OTHER = "neither"


_FAMILIES = {
    Family.NUMBER: r"tinyint|smallint|int|bigint|float|double|decimal\(.*\)",
    Family.TEXT: "string",
    Family.TIME: "date|timestamp|timestamp_ntz",
    Family.TRUTH: "boolean",
}
_LIMITS, _MEMBERS = ("min_value", "max_value"), ("value_set",)
_COMPARED = {
    "expect_column_distinct_values_to_be_in_set": _MEMBERS,
    "expect_column_distinct_values_to_contain_set": _MEMBERS,
    "expect_column_distinct_values_to_equal_set": _MEMBERS,
    "expect_column_max_to_be_between": _LIMITS,
    "expect_column_min_to_be_between": _LIMITS,
    "expect_column_most_common_value_to_be_in_set": _MEMBERS,
    "expect_column_values_to_be_between": _LIMITS,
    "expect_column_values_to_be_in_set": _MEMBERS,
    "expect_column_values_to_not_be_in_set": _MEMBERS,
}
"""Arguments that hold what the column's values are compared with."""
_NUMERIC = frozenset(
    {
        "expect_column_mean_to_be_between",
        "expect_column_median_to_be_between",
        "expect_column_quantile_values_to_be_between",
        "expect_column_stdev_to_be_between",
        "expect_column_sum_to_be_between",
        "expect_column_value_z_scores_to_be_less_than",
        "expect_column_values_to_not_be_outliers",
        "expect_multicolumn_sum_to_equal",
    }
)
_ALIKE = frozenset(
    {
        "expect_column_pair_values_a_to_be_greater_than_b",
        "expect_column_pair_values_to_be_equal",
        "expect_multicolumn_values_to_be_equal",
        "expect_select_column_values_to_be_unique_within_record",
    }
)
"""They compare their columns with each other."""


def family(kind: str) -> Family:
    """What a Spark SQL type belongs to."""
    return next((one for one, kinds in _FAMILIES.items() if re.fullmatch(kinds, kind)), Family.OTHER)


def misfits(check: Check, types: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """What cannot be compared, as (keys of the argument, sentence). `types`: by column, as `confusable` has it."""
    kinds = {name: types[confusable(name)] for name in check.columns}
    if check.expectation in _NUMERIC:
        for name, kind in kinds.items():
            if family(kind) is not Family.NUMBER:
                yield (), f"`{name}` is {kind}, but this check needs numbers"
    first, *others = kinds or ("",)
    if check.expectation in _ALIKE:
        for name in others:
            if family(kinds[name]) is not family(kinds[first]):
                yield (), f"`{first}` is {kinds[first]} and `{name}` is {kinds[name]}: they cannot be compared"
    for keys, name, value in _values(check):
        if not _fits(family(kinds[name]), value):
            yield keys, f"`{name}` is {kinds[name]}: it cannot be compared with {_written(value)}"


def _values(check: Check) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Every value that a column is compared with: its keys, the column, the value."""
    for key in _COMPARED.get(check.expectation, ()):
        given = check.arguments.get(key)
        if isinstance(given, list | tuple | set):
            for number, value in enumerate(given):
                yield (key, str(number)), check.columns[0], value
        else:
            yield (key,), check.columns[0], given
    if check.expectation == "expect_column_pair_values_to_be_in_set":
        for number, pair in enumerate(check.arguments.get("value_pairs_set") or ()):
            for name, value in zip(check.columns, pair, strict=False):
                yield ("value_pairs_set", str(number)), name, value


def _fits(kind: Family, value: Any) -> bool:
    if value is None or kind is Family.OTHER:
        return True
    match kind:
        case Family.NUMBER:
            return not isinstance(value, bool) and (isinstance(value, int | float) or _reads(Decimal, value))
        case Family.TEXT:
            return isinstance(value, str)
        case Family.TIME:
            return isinstance(value, date) or _reads(datetime.fromisoformat, value)
    return isinstance(value, bool)


def _reads(read: Any, value: Any) -> bool:
    try:
        read(value)
    except (ValueError, TypeError, InvalidOperation):
        return False
    return True


def _written(value: Any) -> str:
    shown = printable(repr(value) if isinstance(value, str) else str(value))
    quoted = not isinstance(value, str | bool)
    return f"{shown} (in quotes it is text)" if quoted else shown
