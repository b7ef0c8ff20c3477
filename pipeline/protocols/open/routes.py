"""What a batch holds, as one small aggregate sees it: groups of events, and the statements among them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from pipeline.ddl import altered
from pipeline.model.columns import CommitTs
from pipeline.model.conditions import any_of
from pipeline.model.messages import Ddl
from pipeline.model.names import TableName
from pipeline.model.places import PLACE, POSITION, Partition, place_of
from pipeline.protocols import too_large
from pipeline.protocols.compressed import MESSAGE_COMPRESSED
from pipeline.protocols.ddl import collected
from pipeline.protocols.grouping import PlacedGroup, by_place, counts
from pipeline.protocols.open import events, framing
from pipeline.protocols.open.events import head

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

_STATEMENT = "struct<q: string, t: int>"

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
    is_row = head(events.KIND) == events.ROW
    is_named = head(events.KIND).isin(events.ROW, MESSAGE_COMPRESSED, *too_large.SENTENCES)
    keys = [
        *by_place(),
        head(events.KIND).alias("kind"),
        F.when(is_named, head(events.SCHEMA)).otherwise("").alias("schema"),
        F.when(is_named, head(events.TABLE)).otherwise("").alias("table"),
        F.when(is_row, head(events.NUMBER)).alias("number"),
        F.coalesce(is_row & head(events.DELETE), F.lit(False)).alias("delete"),
        _era(eras).alias("era"),
    ]
    commit_ts = head(events.COMMIT_TS)
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
        mine = (head(events.SCHEMA) == name.schema) & (head(events.TABLE) == name.table)
        passed = [(head(events.COMMIT_TS) > bound).cast("int") for bound in bounds]
        era = F.when(mine, reduce(lambda one, other: one + other, passed)).otherwise(era)
    return era


def statements(prepared: DataFrame) -> tuple[Ddl, ...]:
    """The DDL statements of a prepared frame in their order, each once, with every place where it stands."""
    sent = F.from_json(framing.value_json(F.col("value")), _STATEMENT, events.LIMITS)
    names = {"ts": head(events.COMMIT_TS), "schema": head(events.SCHEMA), "table": head(events.TABLE)}
    rows = collected(
        prepared.where(head(events.KIND) == events.DDL)
        .select(*PLACE, *(c.alias(n) for n, c in names.items()), sent.alias("sent"))
        .orderBy(POSITION)
    )
    copies: dict[tuple[int, TableName, int, str], dict[Partition, int]] = defaultdict(dict)
    for row in rows:
        table = altered(row.sent.t, row.sent.q, TableName(row.schema, row.table))
        key = (row.ts, table, row.sent.t, row.sent.q)
        copies[key].setdefault(*place_of(row))
    ddl = [Ddl(CommitTs(ts), table, kind, sql, places) for (ts, table, kind, sql), places in copies.items()]
    return tuple(sorted(ddl, key=lambda statement: statement.commit_ts))


def named(names: Iterable[tuple[TableName, Column]]) -> Column:
    """Whether a row event is of one of these tables, by names without case, under the condition beside each."""
    ours = [
        (F.lower(head(events.SCHEMA)) == F.lower(F.lit(name.schema)))
        & (F.lower(head(events.TABLE)) == F.lower(F.lit(name.table)))
        & when
        for name, when in names
    ]
    return F.coalesce((head(events.KIND) == events.ROW) & any_of(ours), F.lit(False))
