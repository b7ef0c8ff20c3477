"""Conditions of many parts."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column


def any_of(conditions: Iterable[Column | None]) -> Column:
    """Whether one of them holds; False if there is none. None is left out.

    It is a tree, not a chain: Spark follows an expression on its stack, and a few hundred levels are too deep.
    """
    parts = [condition for condition in conditions if condition is not None]
    while len(parts) > 1:
        parts = [reduce(or_, parts[start : start + 2]) for start in range(0, len(parts), 2)]
    return parts[0] if parts else F.lit(False)


def how_many(condition: Column) -> Column:
    """The number of rows for which a condition holds, as an aggregate.

    Spark computes the condition of `count_if` in a step of its own, which copies each row.
    """
    return F.count(F.when(condition, F.lit(1)))
