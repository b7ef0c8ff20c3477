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
    """Whether one of them holds; False where there is none, and None is left out.

    A tree, and no chain: Spark follows an expression on its stack, level by level, and a few hundred are too deep.
    """
    found = [one for one in conditions if one is not None]
    while len(found) > 1:
        found = [reduce(or_, found[at : at + 2]) for at in range(0, len(found), 2)]
    return found[0] if found else F.lit(False)
