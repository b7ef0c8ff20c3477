"""What a batch holds, as one small aggregate sees it: groups of events."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from pipeline.model.conditions import any_of
from pipeline.model.names import TableName
from pipeline.model.places import POSITION
from pipeline.protocols import compressed
from pipeline.protocols.grouping import PlacedGroup, by_place, counts
from pipeline.protocols.large import codes as large
from pipeline.protocols.layouts.head import COMMIT_TS, DELETE, KIND, NUMBER, ROW, SCHEMA, TABLE, head

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

_BY = ("stream", "partition", "kind", "schema", "table", "number", "delete", "era")


class Sort(NamedTuple):
    """What the events of a group have in common with those of other partitions and eras."""

    kind: str | None
    schema: str
    table: str
    number: int | None
    delete: bool

    @property
    def name(self) -> TableName:
        """Their table."""
        return TableName(self.schema, self.table)


@dataclass(frozen=True, slots=True)
class Group(PlacedGroup):
    """Events of one partition, kind and, if they are rows, table and layout; of rows that are not whole the table.

    `era` counts the definitions of the table's columns that the batch has before them (`grouped`).
    """

    kind: str | None
    schema: str
    table: str
    number: int | None
    delete: bool
    era: int
    since: int | None
    until: int | None

    @property
    def name(self) -> TableName:
        """Their table."""
        return TableName(self.schema, self.table)

    @property
    def sort(self) -> Sort:
        """Whatever place and time they have."""
        return Sort(self.kind, self.schema, self.table, self.number, self.delete)


def grouped(prepared: DataFrame, eras: Mapping[TableName, Sequence[int]]) -> list[Group]:
    """The groups of a prepared frame. `eras`: the commit ts at which rows of a table are to be told apart."""
    is_row = head(KIND) == ROW
    is_named = head(KIND).isin(ROW, *compressed.SENTENCES, *large.SENTENCES)
    keys = [
        *by_place(),
        head(KIND).alias("kind"),
        F.when(is_named, head(SCHEMA)).otherwise("").alias("schema"),
        F.when(is_named, head(TABLE)).otherwise("").alias("table"),
        F.when(is_row, head(NUMBER)).alias("number"),
        F.coalesce(is_row & head(DELETE), F.lit(False)).alias("delete"),
        _era(eras).alias("era"),
    ]
    commit_ts = head(COMMIT_TS)
    counted = (
        prepared.select(*keys, POSITION, commit_ts.alias("ts"))
        .groupBy(*_BY)
        .agg(
            *counts(),
            F.min("ts").alias("since"),
            F.max("ts").alias("until"),
        )
    )
    return [Group(**row.asDict()) for row in counted.collect()]


def _era(eras: Mapping[TableName, Sequence[int]]) -> Column:
    era: Column = F.lit(0)
    for name, bounds in eras.items():
        mine = (head(SCHEMA) == name.schema) & (head(TABLE) == name.table)
        passed = [(head(COMMIT_TS) > bound).cast("int") for bound in bounds]
        era = F.when(mine, reduce(lambda one, other: one + other, passed)).otherwise(era)
    return era


def named(names: Iterable[tuple[TableName, Column]]) -> Column:
    """Whether a row event is of one of these tables, by names without case, under the condition beside each."""
    ours = [
        (F.lower(head(SCHEMA)) == F.lower(F.lit(name.schema)))
        & (F.lower(head(TABLE)) == F.lower(F.lit(name.table)))
        & when
        for name, when in names
    ]
    return F.coalesce((head(KIND) == ROW) & any_of(ours), F.lit(False))
