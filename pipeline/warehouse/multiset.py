"""Tables without a handle: their rows have no identity, so a current table is a multiset (design.md, 4.3).

A delete removes one equal row. TiCDC may send the same changes several times. How often an equal change counts at a
commit ts is the greatest number that any one delivery has of it. One ends where the commit ts of a partition goes back,
and where watermarks show it (`PairByCommitTs.deliveries`).

Two rows are equal if they agree in the columns that the source had at the time of the change. Columns that were dropped
or replaced by then stay in the current table, with values that no later image has. So changes apply era by era; an era
is the time between two such statements. Among equal rows, those with such values go first, in the order of the values.
Rows of the era itself have none, so it does not matter which changes come in one batch. A row that is older than a
column shows NULL in it if the column's default is unknown. Such a row goes if no equal one is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.change import Op
from pipeline.model.names import quoted
from pipeline.warehouse.keys import PLACE, SOURCE, as_it_was, placed
from pipeline.warehouse.shape import Era, era_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.model.columns import SchemaId
    from pipeline.warehouse.keys import Keys
    from pipeline.warehouse.layout import Layout
    from pipeline.warehouse.publisher import Publisher

_LOST, _DELIVERY, _SIGN, _TIMES, _ERA = "_lost", "_delivery", "_sign", "_times", "_era"
_MORE, _FEWER = "_more", "_fewer"
_KEPT, _STAY = "_kept_lost", "_stay"
_NOTED, _STARTS = "_noted", "_starts"


def show(publisher: Publisher, keys: Keys, rows: DataFrame) -> int:
    """Bring the branch up to these changes (`by_delivery`); how many different rows that concerned."""
    names = [name for name in keys.shape.columns if name != change.COMMIT_TS]
    eras = _eras(publisher.table.layout)
    net = _net(publisher, keys, rows, names, eras).persist(StorageLevel.MEMORY_AND_DISK_DESER)
    try:
        fewer = F.count_if(F.col(_FEWER) > 0).alias("fewer")
        counted = net.groupBy(_ERA).agg(F.count(F.lit(1)).alias("all"), fewer).collect()
        order = list(eras)
        for era in sorted(counted, key=lambda era: era[_ERA]):
            mine = net.where(F.col(_ERA) == era[_ERA])
            _go_through(publisher, mine, names, order[era[_ERA]], fewer=era["fewer"] > 0)
        return sum(int(era["all"]) for era in counted)
    finally:
        net.unpersist()


def _eras(layout: Layout) -> dict[Era, list[SchemaId]]:
    """All eras with their versions, oldest first. In the first one all columns count and nothing is guessed."""
    eras: dict[Era, list[SchemaId]] = {Era(): []}
    for version in sorted(layout.versions, key=lambda version: version.number):
        eras.setdefault(era_of(layout, version), []).append(version.version)
    return eras


def _era(eras: Mapping[Era, Sequence[SchemaId]]) -> Column:
    """The number of a change's era."""
    era_number = F.lit(0)
    for number, versions in enumerate(eras.values()):
        if number:
            era_number = F.when(F.col(change.SCHEMA_ID).isin(*versions), number).otherwise(era_number)
    return era_number


def _go_through(publisher: Publisher, mine: DataFrame, names: list[str], era: Era, *, fewer: bool) -> None:
    """Apply the changes of an era to the branch."""
    added = mine.where(F.col(_FEWER) == 0).select(*_own(names), _LOST, change.COMMIT_TS, F.col(_MORE).alias(_TIMES))
    there = fewer and not publisher.current.is_empty(publisher.branch)
    if there or (fewer and era.dead):
        gone = mine.where(F.col(_FEWER) > 0).withColumn(_KEPT, _kept(F.col(_LOST), era.dead))
        counted = _take(publisher, gone, names, era, there=there)
        for guess in era.guesses if there else ():
            gone = _unfound(counted, names, era, guess)
            if gone.isEmpty():
                break
            _append(publisher, _stay(counted, names), names)
            counted = _take(publisher, gone, names, era, there=there)
        added = added.unionByName(_stay(counted, names))
    publisher.step("keys-deleted")
    _append(publisher, added, names)


def _take(publisher: Publisher, gone: DataFrame, names: list[str], era: Era, *, there: bool) -> DataFrame:
    """Delete every row that has an equal among those to go. How many of each there were, and how many stay.

    With guesses, also those of which none stay.
    """
    counted = _found(_candidates(publisher, gone, names, era), names, era.dead)
    counted = counted if era.guesses else counted.where(F.col(_STAY) > 0)
    counted = counted.localCheckpoint()  # Spark would ask a cached one of the table again
    if there:
        _delete(publisher, gone, names, era.dead)
    return counted


def _unfound(counted: DataFrame, names: list[str], era: Era, guess: frozenset[str]) -> DataFrame:
    """The rows that were to go and were not there, with NULL in the columns of a guess: so older rows show them."""
    live = _live(names, era.dead)
    missing, newest = F.max(_FEWER) - F.sum(_TIMES), F.max(change.COMMIT_TS).alias(change.COMMIT_TS)
    rows = counted.groupBy(*_own(live), _KEPT).agg(missing.alias(_FEWER), newest).where(F.col(_FEWER) > 0)
    without = era.dead | guess
    images = [
        F.lit(None).cast(counted.schema[name].dataType).alias(name) if name in without else F.col(quoted(name))
        for name in names
    ]
    older = rows.select(*images, _kept(F.col(_KEPT), guess).alias(_KEPT), change.COMMIT_TS, _FEWER)
    each = older.groupBy(*_own(names), _KEPT).agg(newest, F.sum(_FEWER).alias(_FEWER))
    return each.withColumns({_LOST: F.col(_KEPT), _MORE: F.lit(0).cast("bigint")})


def _own(names: list[str]) -> list[Column]:
    return [F.col(quoted(name)) for name in names]


def _net(
    publisher: Publisher, keys: Keys, sent: DataFrame, names: list[str], eras: Mapping[Era, Sequence[SchemaId]]
) -> DataFrame:
    """Every row that the changes of an era concern: how many come, how many go, and the newest commit ts."""
    if publisher.table.by_offset.truncated_at:
        sent = sent.where(F.col(change.COMMIT_TS) > publisher.table.by_offset.truncated_at)
    sign = F.when(F.col(change.OP) == Op.DELETE.value, -1).otherwise(1)
    layout = publisher.table.layout
    era = _era(eras)
    signed = _imaged(keys, sent, sign, era)
    if layout.before:
        old = as_it_was(layout)
        own = [F.col(name) for name in (change.SCHEMA_ID, change.COMMIT_TS, SOURCE, _DELIVERY)]
        updates = (F.col(change.OP) == Op.UPDATE.value) & F.col(change.BEFORE).isNotNull()
        signed = signed.unionByName(_imaged(keys, sent.where(updates).select(*own, *old), F.lit(-1), era))
    same = [*_own(names), F.col(_LOST), F.col(_ERA), F.col(change.COMMIT_TS), F.col(_SIGN), F.col(SOURCE)]
    once = signed.groupBy(*same, _DELIVERY).agg(F.count(F.lit(1)).alias(_TIMES))
    most = once.groupBy(*same).agg(F.max(_TIMES).alias(_TIMES))
    more = F.sum(F.when(F.col(_SIGN) > 0, F.col(_TIMES)).otherwise(0)).alias(_MORE)
    fewer = F.sum(F.when(F.col(_SIGN) < 0, F.col(_TIMES)).otherwise(0)).alias(_FEWER)
    newest = F.max(change.COMMIT_TS).alias(change.COMMIT_TS)
    both = most.groupBy(*_own(names), _LOST, _ERA).agg(more, fewer, newest)
    plain = [number for number, one in enumerate(eras) if not one.dead]
    paired = F.when(F.col(_ERA).isin(*plain), F.least(_MORE, _FEWER)).otherwise(0)  # any equal row may go
    settled = {_MORE: F.col(_MORE) - paired, _FEWER: F.col(_FEWER) - paired}
    return both.withColumns(settled).where((F.col(_MORE) > 0) | (F.col(_FEWER) > 0))


def by_delivery(publisher: Publisher, rows: DataFrame) -> DataFrame:
    """Changes with the number of their delivery: a new one begins where the commit ts goes back, or where noted.

    A file is a delivery of its own: it has all rows that a transaction has of a table. Only the path of a file has a
    slash.

    It needs all rows between those that are compared, whatever their commit ts.
    """
    noted, rows = publisher.table.by_commit_ts.deliveries, placed(rows)
    if noted:
        schema = f"{change.TOPIC} string, {change.PARTITION} int, {change.OFFSET} bigint, {change.INDEX} int"
        noted_places = placed(publisher.spark.createDataFrame(sorted(noted), schema)).select(SOURCE, PLACE)
        rows = rows.unionByName(noted_places.withColumn(_NOTED, F.lit(1)), allowMissingColumns=True)
    else:
        rows = rows.withColumn(_NOTED, F.lit(None).cast("int"))
    order = Window.partitionBy(SOURCE).orderBy(PLACE, F.col(_NOTED).asc_nulls_last())
    goes_back = F.lag(change.COMMIT_TS).over(order) > F.col(change.COMMIT_TS)
    starts = F.when(goes_back | F.col(_NOTED).isNotNull(), 1).otherwise(0)
    numbered = rows.withColumn(_STARTS, starts).withColumn(_DELIVERY, F.sum(_STARTS).over(order))
    of_file = F.contains(change.TOPIC, F.lit("/"))
    by_file = {
        SOURCE: F.when(of_file, F.lit(0)).otherwise(F.col(SOURCE)),
        _DELIVERY: F.when(of_file, F.xxhash64(change.TOPIC)).otherwise(F.col(_DELIVERY)),
    }
    return numbered.where(F.col(_NOTED).isNull()).withColumns(by_file)


def _imaged(keys: Keys, sent: DataFrame, sign: Column, era: Column) -> DataFrame:
    """The rows as the current table shows them."""
    columns = [value.alias(name) for name, value in keys.shape.columns.items()]
    own = [F.col(name) for name in (change.COMMIT_TS, SOURCE, _DELIVERY)]
    lost = _entries(keys.shape.unrepresentable).alias(_LOST)
    return sent.select(*columns, lost, *own, era.alias(_ERA), sign.alias(_SIGN))


def _entries(lost: Column) -> Column:
    """`_unrepresentable` as something that can be compared."""
    return F.sort_array(F.map_entries(lost))


def _kept(lost: Column, dead: frozenset[str]) -> Column:
    """Of the entries of `_unrepresentable` those that count."""
    if not dead:
        return lost
    kept = F.filter(lost, lambda entry: ~entry["key"].isin(*dead))
    return F.when(F.size(kept) > 0, kept)


def _candidates(publisher: Publisher, gone: DataFrame, names: list[str], era: Era) -> DataFrame:
    """All equals of the rows that are to go: those that the table has, and those that the era itself brings."""
    lost = _entries(F.col(change.UNREPRESENTABLE))
    stored = publisher.spark.table(publisher.target).select(
        *_own(names), lost.alias(_LOST), _kept(lost, era.dead).alias(_KEPT), change.COMMIT_TS
    )
    there = stored.alias("t").join(gone.alias("s"), F.expr(_same(names, era.dead, f"t.{_KEPT}")))
    own = [F.col(f"t.{quoted(name)}").alias(name) for name in (*names, _LOST, _KEPT, change.COMMIT_TS)]
    stored_rows = there.select(*own, F.col(f"s.{_FEWER}").alias(_FEWER), F.lit(1).cast("bigint").alias(_TIMES))
    if era == Era():
        return stored_rows
    brought = gone.withColumn(_TIMES, F.col(_MORE))  # mostly zero: it makes known what was not there
    return stored_rows.unionByName(brought.select(*stored_rows.columns))


def _found(candidates: DataFrame, names: list[str], dead: frozenset[str]) -> DataFrame:
    """How many there are of each candidate, and how many of it stay."""
    newest = F.max(change.COMMIT_TS).alias(change.COMMIT_TS)
    each = candidates.groupBy(*_own(names), _LOST, _KEPT).agg(
        newest, F.max(_FEWER).alias(_FEWER), F.sum(_TIMES).alias(_TIMES)
    )
    go = F.col(_FEWER)
    if dead:
        equal = Window.partitionBy(*_own(_live(names, dead)), _KEPT)
        order = equal.orderBy(*(F.col(quoted(name)).asc_nulls_last() for name in (*sorted(dead), _LOST)))
        before = F.sum(_TIMES).over(order.rowsBetween(Window.unboundedPreceding, -1))
        go = F.greatest(go - F.coalesce(before, F.lit(0)), F.lit(0))
    return each.withColumn(_STAY, F.col(_TIMES) - go)


def _stay(counted: DataFrame, names: list[str]) -> DataFrame:
    rows = counted.where(F.col(_STAY) > 0)
    return rows.select(*_own(names), _LOST, change.COMMIT_TS, F.col(_STAY).alias(_TIMES))


def _live(names: list[str], dead: frozenset[str]) -> list[str]:
    return [name for name in names if name not in dead]


def _same(names: list[str], dead: frozenset[str], lost: str) -> str:
    """Whether a row `t` and a change `s` are equal in what counts."""
    terms = [f"t.{quoted(name)} <=> s.{quoted(name)}" for name in _live(names, dead)]
    return " AND ".join([*terms, f"{lost} <=> s.{_KEPT}"])


def _delete(publisher: Publisher, gone: DataFrame, names: list[str], dead: frozenset[str]) -> None:
    """Delete every row that has an equal among those to go."""
    view = f"rows_{publisher.operation}_{publisher.table.uuid.replace('-', '')}"
    gone.createOrReplaceTempView(view)
    lost, arguments = _kept_of_stored(dead)
    publisher.spark.sql(
        f"MERGE INTO {publisher.target} t USING {view} s ON {_same(names, dead, lost)} WHEN MATCHED THEN DELETE",
        args=arguments,
    )
    publisher.spark.catalog.dropTempView(view)


def _kept_of_stored(dead: frozenset[str]) -> tuple[str, dict[str, Any]]:
    """`_kept` of the row `t`, in SQL, and its parameters."""
    entries = f"sort_array(map_entries(t.{change.UNREPRESENTABLE}))"
    if not dead:
        return entries, {}
    arguments: dict[str, Any] = {f"d{number}": name for number, name in enumerate(sorted(dead))}
    kept = f"filter({entries}, entry -> entry.key NOT IN ({', '.join(f':{name}' for name in arguments)}))"
    return f"IF(size({kept}) > 0, {kept}, NULL)", arguments


def _append(publisher: Publisher, rows: DataFrame, names: list[str]) -> None:
    """Each row as often as it says."""
    lost = F.map_from_entries(_LOST).alias(change.UNREPRESENTABLE)
    copies = rows.select(*_own(names), change.COMMIT_TS, lost, F.explode(F.sequence(F.lit(1), _TIMES)).alias("_copy"))
    publisher.fresh(copies.drop("_copy")).append()
