"""As much of Spark's DataFrame as the micro-batch uses, on dictionaries: the product's expressions run as written.

A row is a dictionary that nobody changes. `value` of a raw record is the record itself: nothing is encoded.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from unit.batch_model.iceberg import ModelCatalog

Row = dict[str, Any]


class Col:
    """An expression over one row; comparisons with NULL are false, which is as good as NULL in a filter."""

    __hash__ = None
    __slots__ = ("name", "of")

    def __init__(self, of: Callable[[Row], Any], name: str = "") -> None:
        self.of, self.name = of, name

    def _with(self, other: object, compare: Callable[[Any, Any], bool]) -> Col:
        mine = self.of
        if isinstance(other, Col):
            theirs = other.of
            return Col(lambda row: None not in (a := mine(row), b := theirs(row)) and compare(a, b))
        return Col(lambda row: (a := mine(row)) is not None and compare(a, other))

    def __eq__(self, other: object) -> Col:  # type: ignore[override]
        return self._with(other, lambda a, b: a == b)

    def __lt__(self, other: object) -> Col:
        return self._with(other, lambda a, b: a < b)

    def __ge__(self, other: object) -> Col:
        return self._with(other, lambda a, b: a >= b)

    def __and__(self, other: Col) -> Col:
        mine, theirs = self.of, other.of
        return Col(lambda row: mine(row) and theirs(row))

    def __or__(self, other: Col) -> Col:
        mine, theirs = self.of, other.of
        return Col(lambda row: mine(row) or theirs(row))

    def __invert__(self) -> Col:
        mine = self.of
        return Col(lambda row: not mine(row))

    def isNull(self) -> Col:  # noqa: N802 - Spark's name
        mine = self.of
        return Col(lambda row: mine(row) is None)

    def isNotNull(self) -> Col:  # noqa: N802 - Spark's name
        mine = self.of
        return Col(lambda row: mine(row) is not None)

    def otherwise(self, other: Col) -> Col:
        mine, theirs = self.of, other.of
        return Col(lambda row: theirs(row) if (found := mine(row)) is None else found)

    def __add__(self, other: int) -> Col:
        mine = self.of
        return Col(lambda row: mine(row) + other)

    def __getitem__(self, index: Col) -> Col:
        mine, at = self.of, index.of
        return Col(lambda row: mine(row)[at(row)])

    def isin(self, *values: object) -> Col:
        mine = self.of
        return Col(lambda row: mine(row) in values)

    def cast(self, _kind: str) -> Col:
        return self

    def alias(self, name: str) -> Col:
        return Col(self.of, name)


class Agg:
    """A number over all rows."""

    def __init__(self, of: Callable[[Sequence[Row]], Any], name: str = "") -> None:
        self.of, self.name = of, name

    def alias(self, name: str) -> Agg:
        return Agg(self.of, name)


def _col(name: str) -> Col:
    plain = name.strip("`")
    return Col(lambda row: row[plain], plain)


def _when(condition: Col, value: Col) -> Col:
    met, found = condition.of, value.of
    return Col(lambda row: found(row) if met(row) else None)


def _coalesce(*columns: Col) -> Col:
    return Col(lambda row: next((v for c in columns if (v := c.of(row)) is not None), None))


def _count_if(condition: Col) -> Agg:
    met = condition.of
    return Agg(lambda rows: sum(bool(met(row)) for row in rows))


F = SimpleNamespace(
    col=_col,
    lit=lambda value: value if isinstance(value, Col) else Col(lambda _row: value),
    when=_when,
    coalesce=_coalesce,
    count=lambda _column: Agg(len),
    count_if=_count_if,
    lower=lambda name: Col(lambda row: None if row[name] is None else row[name].lower()),
    array=lambda *columns: Col(lambda row: [column.of(row) for column in columns]),
    least=lambda *columns: Col(lambda row: min(column.of(row) for column in columns)),
    timestamp_micros=lambda column: column,
    current_timestamp=lambda: Col(lambda _row: 0),
    broadcast=lambda frame: frame,
)
"""In place of `pyspark.sql.functions`."""


class Observation:
    """In place of Spark's: what was counted in passing."""

    def __init__(self) -> None:
        self.get: Mapping[str, Any] = {}


class Frame:
    """Rows that are computed when someone looks."""

    __slots__ = ("_make", "_rows", "catalog", "columns")

    def __init__(
        self, rows: Sequence[Row] | Callable[[], list[Row]], columns: Sequence[str], catalog: ModelCatalog | None = None
    ) -> None:
        self._rows, self._make = (None, rows) if callable(rows) else (rows, None)
        self.columns, self.catalog = tuple(columns), catalog

    @property
    def rows(self) -> Sequence[Row]:
        if self._rows is None:
            self._rows = self._make()
        return self._rows

    def _next(self, rows: Sequence[Row] | Callable[[], list[Row]], columns: Sequence[str] | None = None) -> Frame:
        return Frame(rows, self.columns if columns is None else columns, self.catalog)

    def where(self, condition: Col | str) -> Frame:
        if isinstance(condition, str):
            assert condition == "status = 'open'"
            condition = F.col("status") == "open"
        met = condition.of
        return self._next(lambda: [row for row in self.rows if met(row)])

    def select(self, *wanted: Col | str) -> Frame:
        if all(type(one) is str for one in wanted) and wanted == self.columns:
            return self
        columns: dict[str, Callable[[Row], Any]] = {}
        for one in wanted:
            if isinstance(one, str) and one == "*":
                columns |= {name: _col(name).of for name in self.columns}
            else:
                column = _col(one) if isinstance(one, str) else one
                columns[column.name] = column.of
        items = tuple(columns.items())
        return self._next(lambda: [{name: of(row) for name, of in items} for row in self.rows], tuple(columns))

    def withColumn(self, name: str, column: Col) -> Frame:  # noqa: N802 - Spark's name
        return self.withColumns({name: column})

    def withColumns(self, added: Mapping[str, Col]) -> Frame:  # noqa: N802 - Spark's name
        def rows() -> list[Row]:
            return [{**row, **{name: column.of(row) for name, column in added.items()}} for row in self.rows]

        return self._next(rows, tuple(dict.fromkeys((*self.columns, *added))))

    def join(self, other: Frame, on: Sequence[str], how: str) -> Frame:
        assert how == "left_anti"

        def rows() -> list[Row]:
            there = {tuple(row[name] for name in on) for row in other.rows}
            return [row for row in self.rows if tuple(row[name] for name in on) not in there]

        return self._next(rows)

    def union(self, other: Frame) -> Frame:
        assert self.columns == other.columns
        return self._next(lambda: [*self.rows, *other.rows])

    def distinct(self) -> Frame:
        return self._next(lambda: list({tuple(row.values()): row for row in self.rows}.values()))

    def persist(self, _level: object) -> Self:
        return self

    def unpersist(self) -> None:
        pass

    def coalesce(self, _partitions: int) -> Self:
        return self

    def isEmpty(self) -> bool:  # noqa: N802 - Spark's name
        return not self.rows

    def count(self) -> int:
        return len(self.rows)

    def collect(self) -> list[Row]:
        return list(self.rows)

    def observe(self, observation: Observation, *numbers: Agg) -> Frame:
        def rows() -> list[Row]:
            observation.get = {number.name: number.of(self.rows) for number in numbers}
            return list(self.rows)

        return self._next(rows)

    def groupBy(self, name: str) -> Frame:  # noqa: N802 - Spark's name
        """Groups, of which only `agg` with one number and then `collect` is asked."""
        groups: dict[Any, list[Row]] = {}
        for row in self.rows:
            groups.setdefault(row[name], []).append(row)
        return SimpleNamespace(  # type: ignore[return-value]
            agg=lambda number: SimpleNamespace(
                collect=lambda: [{name: key, number.name: number.of(rows)} for key, rows in groups.items()]
            )
        )

    def writeTo(self, table: str) -> Writer:  # noqa: N802 - Spark's name
        return Writer(self, table)


class Projection:
    """In place of the product's: columns that are selected often."""

    def __init__(self, columns: Iterable[Col]) -> None:
        self.columns = tuple(columns)

    def of(self, frame: Frame) -> Frame:
        return frame.select(*self.columns)


class Writer:
    """Spark's `DataFrameWriterV2`."""

    def __init__(self, frame: Frame, table: str) -> None:
        self.frame, self.table = frame, table
        self.summary: dict[str, str] = {}

    def option(self, key: str, value: str) -> Writer:
        self.summary[key.removeprefix("snapshot-property.")] = value
        return self

    def append(self) -> None:
        catalog = self.frame.catalog
        assert catalog is not None
        table = catalog.by_sql(self.table)
        *_, last = self.table.strip("`").split("`.`")
        branch = last.removeprefix("branch_") if last.startswith("branch_") else "main"
        table.append(table.stored(self.frame.rows), self.summary, branch)


def raw_frame(rows: Iterable[Row], catalog: ModelCatalog) -> Frame:
    """A raw frame."""
    return Frame(tuple(rows), ("topic", "partition", "offset", "timestamp", "key", "value"), catalog)
