"""Which change of a key is its last, and how its row is found in the current table.

Ordering: by offset (design.md, rule 1). Keys compare null-safe as (value, `_unrepresentable[column]`), so that two
dates which no warehouse date can hold are still two keys (rule 7).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pipeline.model import change, types
from pipeline.model.change import ARRIVED_AT
from pipeline.model.names import quoted
from pipeline.model.projection import Projection

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, Row

    from pipeline.warehouse.layout import Column, Layout
    from pipeline.warehouse.shape import Shape

PLACE, SOURCE, LAST = "_place", "_source", "_last"
ORDER = "_order"
"""By commit ts: twice the commit ts, and one more for a row that is there after the change."""
_INDEX_BITS = 20
_LOST = "\ufffd"
_ORDERED = frozenset({types.INT, types.BIGINT, types.STRING, types.UNSIGNED_BIGINT})
_LITERAL = _ORDERED | {types.BINARY}

Key = tuple[Any, ...]
"""A value for each handle column."""


def survive(values: Iterable[Any]) -> bool:
    """Whether these came to the driver as they are: of bytes that are no UTF-8 each is U+FFFD here."""
    return not any(isinstance(value, str) and _LOST in value for value in values)


@dataclass(frozen=True)
class Keys:
    """The handle columns of one table, and the shape that gives them. What is made of them is made once."""

    columns: tuple[Column, ...]
    shape: Shape

    @property
    def few_are_literals(self) -> bool:
        """Whether key values survive the way to the driver and back as SQL parameters, bit by bit."""
        return all(c.type in _LITERAL or types.decimal_parameters(c.type) for c in self.columns)

    @property
    def prunable(self) -> bool:
        """Whether files can be told apart by the first key column."""
        return self.columns[0].type in _ORDERED

    @cached_property
    def expressions(self) -> dict[str, SparkColumn]:
        """k0, k1 … of a changes row; a column that may lose values also by the text it could not hold, k0t."""
        key: dict[str, SparkColumn] = {}
        for number, column in enumerate(self.columns):
            key[f"k{number}"] = self.shape.columns[column.name]
            if column.loses:
                key[f"k{number}t"] = self.shape.unrepresentable.getItem(column.name)
        return key

    @cached_property
    def images(self) -> Projection:
        """The current row of a changes row."""
        columns = [value.alias(name) for name, value in self.shape.columns.items()]
        lost = self.shape.unrepresentable.alias(change.UNREPRESENTABLE)
        return Projection([*columns, F.col(change.COMMIT_TS), lost])

    @cached_property
    def _narrow(self) -> Projection:
        """The key and the place of each row, and nothing else."""
        return self._with_key(SOURCE, PLACE)

    @cached_property
    def _ordered(self) -> Projection:
        return self._with_key(ORDER, SOURCE, PLACE)

    def ordered(self, rows: DataFrame) -> DataFrame:
        """The key, the order and the place of each row, and nothing else."""
        return self._ordered.of(rows)

    def _with_key(self, *further: str) -> Projection:
        key = (column.alias(name) for name, column in self.expressions.items())
        return Projection([*key, *(F.col(name) for name in further)])

    def of_current(self, rows: DataFrame) -> DataFrame:
        """The keys of rows of the current table."""
        key: list[SparkColumn] = []
        for number, column in enumerate(self.columns):
            key.append(F.col(quoted(column.name)).alias(f"k{number}"))
            if column.loses:
                key.append(F.col(change.UNREPRESENTABLE).getItem(column.name).alias(f"k{number}t"))
        return rows.select(*key)

    def literal(self, row: Row) -> Key | None:
        """The key of a row that came to the driver; None where `literals` could not find it by that.

        It is a text that Python cannot hold, or has a value that its column cannot.
        """
        values: list[Any] = []
        for number, column in enumerate(self.columns):
            value = row[f"k{number}"]
            if column.loses and (value is None or row[f"k{number}t"] is not None):
                return None
            values.append(bytes(value) if isinstance(value, bytearray) else value)
        return tuple(values) if survive(values) else None

    def few_last_places(self, rows: DataFrame) -> list[tuple[Key, int, int]] | None:
        """(key, source, place) of each key's last change, for a handful of rows: picked here, without a shuffle.

        None where a key has changes in more than one partition, or is not `literal`.
        """
        last: dict[Key, tuple[int, int]] = {}
        for row in self._narrow.of(rows).collect():
            key = self.literal(row)
            if key is None:
                return None
            source, place = last.get(key, (row[SOURCE], row[PLACE]))
            if source != row[SOURCE]:
                return None
            last[key] = source, max(place, row[PLACE])
        return [(key, source, place) for key, (source, place) in last.items()]

    def last_places(self, rows: DataFrame) -> DataFrame:
        """Per key: the place of its last change, and the partitions that have changes of it.

        Only fixed-width numbers are aggregated, which Spark does in a hash table.
        """
        return self._narrow.of(rows).groupBy(*self.expressions).agg(*_bounds())

    def last_arrivals(self, rows: DataFrame, arrivals: DataFrame | None) -> DataFrame:
        """As `last_places`, if keys have changes in several partitions: the last one is that of the latest record."""
        if arrivals is not None:
            rows = rows.join(arrivals, [change.TOPIC, change.PARTITION, change.OFFSET], "left")
        else:
            rows = rows.withColumn(ARRIVED_AT, F.col(change.COMMIT_TIME))
        best = F.max_by(F.struct(PLACE, SOURCE), F.struct(ARRIVED_AT, SOURCE, PLACE)).alias("best")
        grouped = self._with_key(SOURCE, PLACE, ARRIVED_AT).of(rows).groupBy(*self.expressions).agg(best)
        return grouped.select(
            *self.expressions, F.col(f"best.{PLACE}").alias(LAST), F.col(f"best.{SOURCE}").alias("s_high")
        )

    def match(self, low: Any, high: Any) -> tuple[str, dict[str, Any]]:
        """The MERGE condition of target `t` and keys `s`, and its parameters; pruned to [low, high] if known."""
        terms: list[str] = []
        arguments: dict[str, Any] = {}
        for number, column in enumerate(self.columns):
            name = quoted(column.name)
            if column.loses:
                arguments[f"n{number}"] = column.name
                text = f"t.{change.UNREPRESENTABLE}[:n{number}]"
                terms.append(f"t.{name} <=> s.k{number} AND {text} <=> s.k{number}t")
            else:
                terms.append(f"t.{name} = s.k{number}")
        if low is not None:
            first = f"t.{quoted(self.columns[0].name)}"
            between = f"{first} BETWEEN :low AND :high"
            terms.append(f"({between} OR {first} IS NULL)" if self.columns[0].loses else between)
            arguments |= {"low": low, "high": high}
        return " AND ".join(terms), arguments

    def literals(self, few: Sequence[Key]) -> tuple[str, dict[str, Any]]:
        """A predicate for `few` keys, by their values, and its parameters."""
        whole_values, arguments = self._nothing_lost()
        names = [quoted(column.name) for column in self.columns]
        for index, key in enumerate(few):
            for number, (column, value) in enumerate(zip(self.columns, key, strict=True)):
                plain = str(value) if types.decimal_parameters(column.type) else value
                arguments[f"p{index}_{number}"] = plain
        listed = ", ".join(self._parameter(index, 0) for index in range(len(few)))
        first = f"{names[0]} IN ({listed}){whole_values}"  # prunes files
        if len(names) == 1:
            return first, arguments
        keys = (", ".join(self._parameter(index, number) for number in range(len(names))) for index in range(len(few)))
        whole = ", ".join(f"({key})" for key in keys)
        return f"{first} AND ({', '.join(names)}) IN ({whole})", arguments

    def _nothing_lost(self) -> tuple[str, dict[str, Any]]:
        """That nothing of a row's key has lost its value, as further terms, and their parameters."""
        losing: dict[str, Any] = {f"n{at}": column.name for at, column in enumerate(self.columns) if column.loses}
        return "".join(f" AND {change.UNREPRESENTABLE}[:{name}] IS NULL" for name in losing), losing

    def _parameter(self, index: int, number: int) -> str:
        return f"CAST(:p{index}_{number} AS {self.columns[number].type})"  # rows of keys compare only type by type


def as_it_was(layout: Layout) -> list[SparkColumn]:
    """The columns of a change that carries the row as it was, as if that row had been sent."""
    names = (change.UNREPRESENTABLE, *(column.name for column in layout.columns))
    return [F.col(change.BEFORE).getField(name).alias(name) for name in names]


def placed(news: DataFrame) -> DataFrame:
    """Rows with their place in their partition, and stream and partition as one number."""
    return _places().of(news)


@lru_cache(maxsize=1)
def _places() -> Projection:
    place = F.shiftleft(F.col(change.OFFSET), _INDEX_BITS) + F.col(change.INDEX)
    source = F.xxhash64(change.TOPIC, change.PARTITION)
    return Projection([F.col("*"), place.alias(PLACE), source.alias(SOURCE)])


@lru_cache(maxsize=1)
def _bounds() -> tuple[SparkColumn, ...]:
    return F.max(PLACE).alias(LAST), F.min(SOURCE).alias("s_low"), F.max(SOURCE).alias("s_high")
