"""As much of Spark's DataFrame as the micro-batch uses, on dictionaries: the product's expressions run as written.

A row is a dictionary that nobody changes. `value` of a raw record is the record itself: nothing is encoded.
"""

from __future__ import annotations

import json
import operator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from unit.batch_model.iceberg import ModelCatalog

Row = dict[str, Any]


class Col:
    """An expression over one row, with SQL's three values: None is NULL."""

    __hash__ = None
    __slots__ = ("name", "of")

    def __init__(self, of: Callable[[Row], Any], name: str = "") -> None:
        self.of, self.name = of, name

    def _with(self, other: object, compute: Callable[[Any, Any], Any]) -> Col:
        mine = self.of
        if isinstance(other, Col):
            theirs = other.of
            return Col(lambda row: None if None in (a := mine(row), b := theirs(row)) else compute(a, b))
        return Col(lambda row: None if (a := mine(row)) is None else compute(a, other))

    def __eq__(self, other: object) -> Col:  # type: ignore[override]
        return self._with(other, operator.eq)

    def __ne__(self, other: object) -> Col:  # type: ignore[override]
        return self._with(other, operator.ne)

    def __lt__(self, other: object) -> Col:
        return self._with(other, operator.lt)

    def __le__(self, other: object) -> Col:
        return self._with(other, operator.le)

    def __gt__(self, other: object) -> Col:
        return self._with(other, operator.gt)

    def __ge__(self, other: object) -> Col:
        return self._with(other, operator.ge)

    def __add__(self, other: object) -> Col:
        return self._with(other, operator.add)

    def bitwiseAND(self, other: object) -> Col:  # noqa: N802 - Spark's name
        return self._with(other, operator.and_)

    def bitwiseOR(self, other: object) -> Col:  # noqa: N802 - Spark's name
        return self._with(other, operator.or_)

    def eqNullSafe(self, other: object) -> Col:  # noqa: N802 - Spark's name
        mine, theirs = self.of, _lit(other).of
        return Col(lambda row: mine(row) == theirs(row))

    def __and__(self, other: Col) -> Col:
        mine, theirs = self.of, other.of

        def both(row: Row) -> bool | None:
            one = mine(row)
            if one is False:
                return False
            two = theirs(row)
            return two if one else (False if two is False else None)

        return Col(both)

    def __or__(self, other: Col) -> Col:
        mine, theirs = self.of, other.of

        def either(row: Row) -> bool | None:
            one = mine(row)
            if one:
                return True
            two = theirs(row)
            return two if one is False else (True if two else None)

        return Col(either)

    def __invert__(self) -> Col:
        mine = self.of
        return Col(lambda row: None if (one := mine(row)) is None else not one)

    def isNull(self) -> Col:  # noqa: N802 - Spark's name
        mine = self.of
        return Col(lambda row: mine(row) is None)

    def isNotNull(self) -> Col:  # noqa: N802 - Spark's name
        mine = self.of
        return Col(lambda row: mine(row) is not None)

    def __getitem__(self, index: Col) -> Col:
        return self._with(index, operator.getitem)

    def between(self, low: object, high: object) -> Col:
        return (self >= low) & (self <= high)

    def isin(self, *values: object) -> Col:
        mine = self.of
        return Col(lambda row: False if not values else None if (one := mine(row)) is None else one in values)

    def getField(self, name: str) -> Col:  # noqa: N802 - Spark's name
        """A field of a struct, which is a dictionary."""
        mine = self.of
        return Col(lambda row: None if (one := mine(row)) is None else one.get(name))

    def cast(self, _kind: str) -> Col:
        return self

    def alias(self, name: str) -> Col:
        return Col(self.of, name)


class When(Col):
    """CASE WHEN … THEN … ELSE."""

    __slots__ = ("branches",)

    def __init__(self, branches: Sequence[tuple[Col, Col]], otherwise: Col | None = None) -> None:
        self.branches = tuple(branches)
        choices = tuple((condition.of, value.of) for condition, value in branches)
        last = otherwise.of if otherwise is not None else (lambda _row: None)

        def chosen(row: Row) -> Any:
            for met, found in choices:
                if met(row):
                    return found(row)
            return last(row)

        super().__init__(chosen)

    def when(self, condition: Col, value: object) -> When:
        return When((*self.branches, (condition, _lit(value))))

    def otherwise(self, value: object) -> Col:
        return When(self.branches, _lit(value))


class Agg:
    """A number over all rows."""

    def __init__(self, of: Callable[[Sequence[Row]], Any], name: str = "") -> None:
        self.of, self.name = of, name

    def alias(self, name: str) -> Agg:
        return Agg(self.of, name)


def _col(name: str) -> Col:
    plain = name.strip("`")
    return Col(lambda row: row[plain], plain)


def _named(column: Col | str) -> Col:
    return _col(column) if isinstance(column, str) else column


def _lit(value: object) -> Col:
    return value if isinstance(value, Col) else Col(lambda _row: value)


def _coalesce(*columns: Col) -> Col:
    return Col(lambda row: next((v for c in columns if (v := c.of(row)) is not None), None))


def _count(column: Col | str) -> Agg:
    if isinstance(column, str) and column == "*":
        return Agg(len)
    found = _named(column).of
    return Agg(lambda rows: sum(found(row) is not None for row in rows))


def _sum(column: Col) -> Agg:
    found = column.of
    return Agg(lambda rows: sum(found(row) for row in rows) if rows else None)


def _extreme(pick: Callable[..., Any]) -> Callable[[Col | str], Agg]:
    """MIN or MAX: NULL is neither."""

    def aggregate(column: Col | str) -> Agg:
        found = _named(column).of
        return Agg(lambda rows: pick((v for row in rows if (v := found(row)) is not None), default=None))

    return aggregate


def _on(function: Callable[..., Any], *columns: Col | str) -> Col:
    """A function that gives NULL where an argument is NULL."""
    of = tuple(_named(column).of for column in columns)
    return Col(lambda row: None if None in (values := [one(row) for one in of]) else function(*values))


def _all(function: Callable[[list[Any]], Any], *columns: Col | str) -> Col:
    """A function of all values, whatever they are."""
    of = tuple(_named(column).of for column in columns)
    return Col(lambda row: function([one(row) for one in of]))


F = SimpleNamespace(
    col=_col,
    lit=_lit,
    when=lambda condition, value: When([(condition, _lit(value))]),
    coalesce=_coalesce,
    count=_count,
    sum=_sum,
    min=_extreme(min),
    max=_extreme(max),
    lower=lambda column: _on(str.lower, column),
    startswith=lambda column, start: _on(str.startswith, column, start),
    hex=lambda column: _on(bytes.hex, column),
    size=lambda column: _on(len, column),
    shiftright=lambda column, bits: _on(lambda number: number >> bits, column),
    substring=lambda column, start, count: _on(lambda text: str(text)[start - 1 :][:count], column),
    concat=lambda *columns: _on(lambda *parts: "".join(map(str, parts)), *columns),
    concat_ws=lambda glue, *columns: _all(lambda parts: glue.join(p for p in parts if p is not None), *columns),
    array=lambda *columns: _all(list, *columns),
    array_compact=lambda column: _on(lambda values: [v for v in values if v is not None], column),
    array_contains=lambda column, value: _on(lambda values: value in values, column),
    create_map=lambda *columns: _all(lambda values: dict(zip(values[::2], values[1::2], strict=True)), *columns),
    to_json=lambda column, _options: _on(json.dumps, column),
    struct=lambda *columns: _all(tuple, *columns),
    least=lambda *columns: _all(lambda values: min((v for v in values if v is not None), default=None), *columns),
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
            assert condition in ("status = 'open'", "false")
            condition = F.lit(False) if condition == "false" else F.col("status") == "open"
        met = condition.of
        return self._next(lambda: [row for row in self.rows if met(row)])

    def select(self, *wanted: Col | str) -> Frame:
        if all(type(one) is str for one in wanted) and wanted == self.columns:
            return self
        columns: dict[str, Callable[[Row], Any]] = {}
        for one in wanted:
            column = _named(one)
            if column.name == "*":
                columns |= {name: _col(name).of for name in self.columns}
            else:
                assert column.name, "a column without a name is selected"
                columns[column.name] = column.of
        items = tuple(columns.items())
        return self._next(lambda: [{name: of(row) for name, of in items} for row in self.rows], tuple(columns))

    def withColumn(self, name: str, column: Col) -> Frame:  # noqa: N802 - Spark's name
        return self.withColumns({name: column})

    def withColumns(self, added: Mapping[str, Col]) -> Frame:  # noqa: N802 - Spark's name
        def rows() -> list[Row]:
            return [{**row, **{name: column.of(row) for name, column in added.items()}} for row in self.rows]

        return self._next(rows, tuple(dict.fromkeys((*self.columns, *added))))

    def join(self, other: Frame, on: str | Sequence[str] | Col, how: str = "inner") -> Frame:
        on = [on] if isinstance(on, str) else on
        if isinstance(on, Col):
            assert how == "left_semi"
            met = on.of
            return self._next(lambda: [row for row in self.rows if any(met({**row, **one}) for one in other.rows)])
        added = (
            {} if how in ("left_anti", "left_semi") else dict.fromkeys(name for name in other.columns if name not in on)
        )
        assert not added.keys() & set(self.columns)

        def rows() -> list[Row]:
            there: dict[tuple[Any, ...], list[Row]] = {}
            for row in other.rows:
                there.setdefault(tuple(row[name] for name in on), []).append(row)
            joined: list[Row] = []
            for row in self.rows:
                found = there.get(tuple(row[name] for name in on), [])
                if how in ("left_anti", "left_semi"):
                    joined += [row] if bool(found) == (how == "left_semi") else []
                else:
                    assert how in ("inner", "left")
                    joined += [{**row, **one} for one in found or ([added] if how == "left" else [])]
            return joined

        return self._next(rows, (*self.columns, *added))

    def union(self, other: Frame) -> Frame:
        assert self.columns == other.columns
        return self._next(lambda: [*self.rows, *other.rows])

    def unionByName(self, other: Frame) -> Frame:  # noqa: N802 - Spark's name
        assert set(self.columns) == set(other.columns)
        return self.union(other.select(*self.columns))

    def withColumnRenamed(self, old: str, new: str) -> Frame:  # noqa: N802 - Spark's name
        names = tuple(new if name == old else name for name in self.columns)
        return self._next(
            lambda: [dict(zip(names, (row[n] for n in self.columns), strict=True)) for row in self.rows], names
        )

    def localCheckpoint(self) -> Frame:  # noqa: N802 - Spark's name
        return self._next(list(self.rows))

    def distinct(self) -> Frame:
        return self._next(lambda: list({tuple(row.values()): row for row in self.rows}.values()))

    def persist(self, _level: object) -> Self:
        return self

    def unpersist(self) -> None:
        pass

    def drop(self, *names: str) -> Frame:
        return self.select(*(name for name in self.columns if name not in names))

    def limit(self, count: int) -> Frame:
        return self._next(lambda: list(self.rows[:count]))

    @property
    def num_rows(self) -> int:
        return len(self.rows)

    def toArrow(self) -> Frame:  # noqa: N802 - Spark's name
        return self._next(list(self.rows))

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

    def groupBy(self, name: str) -> Groups:  # noqa: N802 - Spark's name
        """Groups by one column."""
        return Groups(self, name)

    def writeTo(self, table: str) -> Writer:  # noqa: N802 - Spark's name
        return Writer(self, table)


class Groups:
    """Of which numbers are asked."""

    def __init__(self, frame: Frame, name: str) -> None:
        self.frame, self.name = frame, name

    def count(self) -> Frame:
        return self.agg(F.count("*").alias("count"))

    def agg(self, *numbers: Agg) -> Frame:
        groups: dict[Any, list[Row]] = {}
        for row in self.frame.rows:
            groups.setdefault(row[self.name], []).append(row)
        rows = [{self.name: key, **{one.name: one.of(rows) for one in numbers}} for key, rows in groups.items()]
        return Frame(rows, (self.name, *(one.name for one in numbers)), self.frame.catalog)


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
