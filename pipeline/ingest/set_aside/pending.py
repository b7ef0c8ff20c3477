"""Records that cannot be placed yet: they wait in `_pipeline.held`, and are let in by themselves (decision 004).

These are deferred DDL events, rows after them, and rows whose schema has not come. Rows of a table that a person has
released are pending, too, until the next batch.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.ingest.set_aside import dead_letters
from pipeline.model import change
from pipeline.model.messages import INDEX, Part
from pipeline.model.names import TableName
from pipeline.model.places import (
    PLACE,
    shown,
    stands_at,
)
from pipeline.warehouse import changes
from pipeline.warehouse.raw_records import as_held, as_raw, without
from pipeline.warehouse.records import AT, LET_IN, is_pending, where

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column

    from pipeline.ddl.statement import Statement
    from pipeline.ingest.context import PipelineContext
    from pipeline.ingest.table_work import TableWork
    from pipeline.model.messages import SourceProtocol
    from pipeline.warehouse.records import Records

WAS_PENDING = "_ticdc#was_pending"
"""Column of the prepared raw frame of the ordering by commit ts: whether the record comes from `_pipeline.held`."""
DDL_PENDING, SCHEMA_PENDING, RELEASED = LET_IN
_IDENTITY = (*AT[:3], "key", "value")
_DONE = "_ticdc_done"
_PLACE = dict(zip(change.POSITION, (*PLACE, INDEX), strict=True))


def raw_records(context: PipelineContext) -> DataFrame | None:
    """The pending raw records, released ones among them; None where there are none."""
    records = context.records
    if records.tables["held"].head() is None:
        return None
    held = records.read("held").where(is_pending())
    raw = held.select(*as_raw(context.source.restored()))
    return None if raw.isEmpty() else raw


def released(records: Records) -> frozenset[tuple[str, str]]:
    """The tables (`TableName.key`) whose records a person has released, and that have not come in yet."""
    mine = (F.col("status") == "open") & F.startswith(F.col("reason"), F.lit(RELEASED))
    names = records.read("held").where(mine).select("schema_name", "table_name").distinct().collect()
    return frozenset(TableName(name.schema_name, name.table_name).key for name in names)


def nothing(context: PipelineContext) -> DataFrame:
    """A raw frame without a record."""
    return context.records.read("held").where("false").select(*as_raw(context.source.restored()))


def is_copy_of(statements: Sequence[Statement]) -> Column:
    """Whether a raw record is a copy of one of these statements."""
    return stands_at(place for statement in statements for place in statement.ddl.at.items())


def rows_of(protocol: SourceProtocol, parts: Sequence[Part]) -> Column:
    """Whether a raw record is a row of these parts."""
    return protocol.where_named(parts) if parts else F.lit(False)


def keep(
    context: PipelineContext,
    raw: DataFrame,
    batch_id: int,
    parts: Mapping[Part, str],
    statements: Sequence[tuple[Statement, TableName, str]],
) -> int:
    """Write rows and statements to `_pipeline.held`, each with its reason, unless they are there; returns how many."""
    fresh = raw.where(~F.col(WAS_PENDING))
    schema, table, reason = (F.lit(None).cast("string") for _ in range(3))
    for part, why in parts.items():
        here = rows_of(context.protocol, [part])
        schema = F.when(here, F.lit(part.table.schema)).otherwise(schema)
        table = F.when(here, F.lit(part.table.table)).otherwise(table)
        reason = F.when(here, F.lit(why)).otherwise(reason)
    for statement, name, why in statements:
        here = is_copy_of([statement])
        schema = F.when(here, F.lit(name.schema)).otherwise(schema)
        table = F.when(here, F.lit(name.table)).otherwise(table)
        reason = F.when(here, F.lit(why)).otherwise(reason)
    named = {"schema_name": schema, "table_name": table, "reason": reason}
    rows = fresh.select(*as_held(raw.columns), *(column.alias(name) for name, column in named.items()))
    rows = rows.where(F.col("reason").isNotNull()).withColumn("status", F.lit("open"))
    return context.records.append("held", batch_id, rows)


def write_held(context: PipelineContext, rows: DataFrame, work: TableWork, reason: str, status: str) -> int:
    """Write the raw records of a table that is held to `_pipeline.held`, unless they are there; returns how many."""
    source = work.messages.table
    columns = {"schema_name": source.schema, "table_name": source.table, "reason": reason, "status": status}
    records = rows.select(*as_held(rows.columns), *(F.lit(value).alias(name) for name, value in columns.items()))
    return context.records.append("held", work.routed.batch_id, records)


def not_kept(context: PipelineContext, frame: DataFrame) -> DataFrame:
    """The events of records that do not wait in `_pipeline.held`, by themselves or for a person."""
    held = context.records.read("held").where("status = 'open'").select(*as_raw(context.source.restored()))
    return without(frame, F.broadcast(held.select(*PLACE).distinct()))


def let_in(context: PipelineContext, raw: DataFrame, still: Column | None) -> None:
    """Give pending records that are placed now the status `released`. `still`: which stay pending; None: none."""
    held = where("held").sql
    if still is None:
        context.spark.sql(f"UPDATE {held} SET status = 'released' WHERE {is_pending()}")  # noqa: S608 - constants of ours
    else:
        done = raw.where(F.col(WAS_PENDING) & ~still).select(*as_held(raw.columns)).select(*_IDENTITY)
        done.createOrReplaceTempView(_DONE)
        same = " AND ".join(f"t.{name} <=> s.{name}" for name in _IDENTITY)
        context.spark.sql(
            f"MERGE INTO {held} t USING (SELECT DISTINCT * FROM {_DONE}) s ON {is_pending()} AND {same} "  # noqa: S608
            "WHEN MATCHED THEN UPDATE SET t.status = 'released'"
        )
        context.spark.catalog.dropTempView(_DONE)
    context.records.tables["held"].refresh()


def let_next_batch_take(context: PipelineContext, source: TableName) -> int:
    """Mark a held table's records as RELEASED: the next batch takes them.

    Returns how many open records it has, pending ones too.
    """
    records = context.records
    if records.tables["held"].head() is None:
        return 0
    mine = records.read("held").where(dead_letters.of_table(source) & (F.col("status") == "open"))
    count = mine.count()
    context.spark.sql(
        f"UPDATE {where('held').sql} SET reason = :reason "  # noqa: S608 - names of ours, values as parameters
        "WHERE lower(schema_name) = lower(:schema) AND lower(table_name) = lower(:table) AND status = 'open' "
        f"AND NOT {is_pending()}",
        args={"reason": f"{RELEASED}: by a person", "schema": source.schema, "table": source.table},
    )
    records.tables["held"].refresh()
    return count


def places_set_aside(context: PipelineContext) -> DataFrame:
    """Where the events stand that an unfinished batch has set aside."""
    first_unfinished = context.run.ledger.unfinished
    held = context.records.read("held").where(F.col("batch_id") >= first_unfinished)
    raw = context.protocol.prepare(held.select(*as_raw(context.source.restored())))
    places = raw.select(*(column.alias(name) for name, column in shown(raw.columns).items()), INDEX)
    return reduce(DataFrame.union, _set_aside_since(context, first_unfinished), places).distinct()


def _set_aside_since(context: PipelineContext, batch_id: int) -> Iterator[DataFrame]:
    """Where the dead letters and quarantined events of this batch and later ones stand."""
    for name in ("dead_letters", "quarantine"):
        rows = context.records.read(name).where(F.col("batch_id") >= batch_id)
        yield rows.withColumnRenamed("kafka_partition", "partition").select(*_PLACE.values())


def not_yet_stored(context: PipelineContext, raw: DataFrame) -> DataFrame:
    """Events without those that an unfinished batch has put into a table, dead letters or quarantine.

    Their places are read here and now: the tables may get other names before the events are taken.
    """
    first_unfinished = context.run.ledger.unfinished
    tables = (changes.as_written(context.spark, table) for table in context.tables)
    appended = [rows.where(F.col(change.BATCH_ID) >= first_unfinished) for rows in tables]
    places = [rows.select(*(F.col(name).alias(raw_name) for name, raw_name in _PLACE.items())) for rows in appended]
    places += _set_aside_since(context, first_unfinished)
    placed = reduce(DataFrame.union, places).localCheckpoint()
    return without(raw, F.broadcast(placed))
