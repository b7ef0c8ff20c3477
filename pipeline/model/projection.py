"""Select lists that are built once and used for every batch.

A Python `Column` is an object of the JVM, and each function, cast and alias in it is a call there: fifty
microseconds, thousands of times a batch. What depends only on a table's columns is therefore made once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import Column, DataFrame


def once() -> Column:
    """True, though Spark cannot know it: what depends on it is computed where it stands, and once a row.

    Filters are otherwise pushed below a projection, with all that they ask for in place of its names: the decoding of
    a message as often as the filter has conditions.
    """
    return F.spark_partition_id() >= 0


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """What `body` makes of a value that is computed once, however often `body` uses it."""
    return F.transform(F.array(value), body)[0]


def walled(frame: DataFrame) -> DataFrame:
    """A frame that conditions on it are not pushed into.

    Spark would write out what a condition names wherever it is named, and plan for a minute where a table has a handful
    of versions.
    """
    return frame.observe(Observation(), F.count(F.lit(1)).alias("rows"))


def through(steps: Iterable[Projection], frame: DataFrame) -> DataFrame:
    """One select list after the other."""
    for step in steps:
        frame = step.of(frame)
    return frame


class Projection:
    """A select list that crosses to the JVM as one object."""

    def __init__(self, columns: Iterable[Column]) -> None:
        self._columns = tuple(columns)
        self._java: Any = None

    def of(self, frame: DataFrame) -> DataFrame:
        """`frame.select(*columns)`."""
        classic = cast("Any", frame)
        if self._java is None:
            self._java = classic._jcols(*self._columns)  # noqa: SLF001 - `select` would build it anew
        selected = classic._jdf.select(self._java)  # noqa: SLF001
        return cast("DataFrame", ClassicDataFrame(selected, classic.sparkSession))
