"""Which changes that were set aside are superseded by now, or have had their rows moved by EXCHANGE PARTITION."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.ingest.ordering import chosen
from pipeline.model import change
from pipeline.model.change import Op
from pipeline.model.messages import EVER
from pipeline.model.names import folded
from pipeline.warehouse.exchange import exchanges
from pipeline.warehouse.keys import Keys, as_it_was
from pipeline.warehouse.removals import taken
from pipeline.warehouse.shape import current_shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column

    from pipeline.ingest.context import PipelineContext
    from pipeline.warehouse.exchange import Exchange
    from pipeline.warehouse.pairs import TablePair

LATER, MOVED, WAS_MOVED = "_later", "_moved_at", "_was_moved"
"""Columns of `SupersededChanges.of`: whether a later change is there; when an exchange of partitions put its row into
another table, else NULL; whether one did so with the row as it was before."""
READ_IN = "_read_in"
"""Column of changes that were set aside: in which batch they came."""
_PLACE = list(change.POSITION)
_KNOWN = (*change.POSITION, change.COMMIT_TS, change.BATCH_ID)
"""The columns that decide which of two changes of a key is the later one."""
_WAS = "_was"


@dataclass(frozen=True, slots=True)
class SupersededChanges:
    """What has happened to a table since changes of it were set aside."""

    context: PipelineContext
    table: TablePair

    def of(self, rows: DataFrame) -> DataFrame:
        """The rows with `LATER` (TRUE or NULL), `MOVED` and `WAS_MOVED`."""
        rows = self._with_moves(rows)
        return rows.join(self._superseded(rows), _PLACE, "left")

    def _with_moves(self, rows: DataFrame) -> DataFrame:
        """The rows with `MOVED` and `WAS_MOVED`, TRUE also where an exchange may have moved an unknown former row."""
        begun = [one.removal.at for one in self._exchanges(self.table)]
        if not begun:
            return rows.withColumns({MOVED: F.lit(None).cast("bigint"), WAS_MOVED: F.lit(False)})
        taken_at, says = self._taken(), self.table.layout.before
        changes_a_row = ~F.col(change.OP).isin(Op.INSERT.value, Op.DELETE.value)
        unknown = changes_a_row & (F.col(change.BEFORE).isNull() if says else F.lit(True))
        unsure = unknown & (F.col(change.COMMIT_TS) <= max(begun))
        rows = rows.withColumns({MOVED: F.when(taken_at.isin(*begun), taken_at), WAS_MOVED: unsure})
        if not says:
            return rows
        with_image = rows.where(changes_a_row & ~unknown)
        images = with_image.select(*_PLACE, change.COMMIT_TS, change.SCHEMA_ID, *as_it_was(self.table.layout))
        moved_before = images.where(taken_at.isin(*begun)).select(*_PLACE, F.lit(True).alias(_WAS))
        both = F.col(WAS_MOVED) | F.coalesce(F.col(_WAS), F.lit(False))
        return rows.join(moved_before, _PLACE, "left").withColumn(WAS_MOVED, both).drop(_WAS)

    def _exchanges(self, table: TablePair) -> list[Exchange]:
        """Those of a table that one of both tables shows."""
        return [one for one in exchanges(self.context.tables) if one.begun and table in (one.table, one.other)]

    def _taken(self) -> Column:
        moves = [one.removal.at for one in self._exchanges(self.table) if one.other is self.table]
        return taken(self.table.layout, self.context.timezone, moves=moves)

    def _superseded(self, rows: DataFrame) -> DataFrame:
        """Which rows have a later change of their key in the changes table, or were removed by a statement.

        In one partition positions decide; in two, commit timestamps where both are known, else the batch. The rows
        themselves do not count: a first try may have appended them, or Spark may compute this again after the append.
        """
        table, keys = self.table, self._keys(self.table)
        mine = rows.select(*_PLACE, change.COMMIT_TS, READ_IN, MOVED, *(key.alias(name) for name, key in keys.items()))
        others = self._changes(table).join(rows.select(*_PLACE), _PLACE, "left_anti")
        theirs = _others(others, keys)
        if table.layout.before:  # a key that moved away is later than what it was before
            moved = (F.col(change.OP) == Op.UPDATE.value) & F.col(change.BEFORE).isNotNull()
            was = others.where(moved).select(*_KNOWN, change.SCHEMA_ID, *as_it_was(table.layout))
            theirs = theirs.unionByName(_others(was, keys))
        is_later = chosen(self.context, by_offset=_is_later(), by_commit_ts=_is_shown_later(_shown(table)))
        here = F.coalesce(F.col(f"x{change.COMMIT_TS}") <= F.col(MOVED), F.lit(True))
        superseded = [_with_same_key(mine, theirs, keys, is_later & here), rows.where(self._gone())]
        superseded += [self._later_elsewhere(mine, exchange, keys) for exchange in self._exchanges(table) if keys]
        places = reduce(DataFrame.union, (each.select(*_PLACE) for each in superseded))
        return places.select("*", F.lit(True).alias(LATER)).distinct()

    def _changes(self, table: TablePair) -> DataFrame:
        return self.context.spark.table(table.name.changes.sql)

    def _keys(self, table: TablePair) -> dict[str, Column]:
        return Keys(table.layout.key, current_shape(table.layout, self.context.timezone)).expressions

    def _later_elsewhere(self, mine: DataFrame, exchange: Exchange, keys: Mapping[str, Column]) -> DataFrame:
        """Which of the rows that an exchange has moved have changed in the other table before its next exchange."""
        other, moved_at = exchange.other if exchange.table is self.table else exchange.table, exchange.removal.at
        until = min((each.removal.at for each in self._exchanges(other) if each.removal.at > moved_at), default=EVER)
        until = min(until, _shown(other))
        there = self._keys(other)
        if _kinds(self.table) != _kinds(other) or list(there) != list(keys):
            return mine.where(F.lit(False))
        theirs = _others(self._changes(other).where(F.col(change.COMMIT_TS).between(moved_at + 1, until)), there)
        return _with_same_key(mine.where(F.col(MOVED) == moved_at), theirs, keys, F.lit(True))

    def _gone(self) -> Column:
        """Which rows went when their table was emptied, or are inserts that went with their partition.

        An update or delete of a row that went with its partition enters: the table may show the row as it was before.
        """
        taken_at, removals = self._taken(), self.table.layout.by_commit_ts.removals
        emptied = [removal.at for removal in removals if removal.empties]
        alone = [removal.at for removal in removals if not (removal.other or removal.empties)]
        is_new = F.col(change.OP) == Op.INSERT.value
        taken_away = F.coalesce(taken_at.isin(*emptied) | (is_new & taken_at.isin(*alone)), F.lit(False))
        return taken_away | (F.col(change.COMMIT_TS) <= self.table.by_offset.truncated_at)


def _with_same_key(mine: DataFrame, theirs: DataFrame, keys: Mapping[str, Column], further: Column) -> DataFrame:
    """Which rows have one of theirs of the same key."""
    same = [F.col(name).eqNullSafe(F.col(f"x{name}")) for name in keys]
    return mine.join(theirs, reduce(and_, [*same, F.lit(bool(same)), further]), "left_semi")


def _shown(table: TablePair) -> int:
    """Up to which commit ts a table shows its changes; a pair without a current table has nothing to show."""
    return EVER if table.current is None else table.by_commit_ts.cut


def _kinds(table: TablePair) -> list[tuple[str, str]]:
    """The key's columns and their types."""
    return [(folded(column.source), column.type) for column in table.layout.key]


def _others(rows: DataFrame, keys: Mapping[str, Column]) -> DataFrame:
    """The places and keys of changes, under names that begin with x."""
    places = (F.col(name).alias(f"x{name}") for name in _KNOWN)
    return rows.select(*places, *(key.alias(f"x{name}") for name, key in keys.items()))


def _is_shown_later(cut: int) -> Column:
    """By commit ts, a change that the table does not show yet supersedes nothing: an earlier cut would lack both."""
    theirs = F.col(f"x{change.COMMIT_TS}")
    return (theirs > F.col(change.COMMIT_TS)) & (theirs <= cut)


def _is_later() -> Column:
    same_partition = (F.col(change.TOPIC) == F.col(f"x{change.TOPIC}")) & (
        F.col(change.PARTITION) == F.col(f"x{change.PARTITION}")
    )
    by_offset = F.struct(F.col(f"x{change.OFFSET}").alias("o"), F.col(f"x{change.INDEX}").alias("i")) > F.struct(
        F.col(change.OFFSET).alias("o"), F.col(change.INDEX).alias("i")
    )
    ours, other = F.col(change.COMMIT_TS), F.col(f"x{change.COMMIT_TS}")
    elsewhere = F.coalesce(other > ours, F.col(f"x{change.BATCH_ID}") >= F.col(READ_IN))
    return F.when(same_partition, by_offset).otherwise(elsewhere)
