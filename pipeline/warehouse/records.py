"""The tables of `warehouse._pipeline`: what was done, what was set aside, what is where (design.md, 4.3)."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pipeline.errors import Refused
from pipeline.model.holding import ENTER_BY_THEMSELVES
from pipeline.model.names import PIPELINE_NAMESPACE, TableName, WarehouseName
from pipeline.model.set_aside import FILE_TRUNCATED, OPEN
from pipeline.runtime.driver.catalyst import TEXT, Catalyst, NotInDriver
from pipeline.runtime.driver.kept import Kept
from pipeline.warehouse.alterations import COLUMNS_CHANGED, compared, fields, former_ids, undone_by
from pipeline.warehouse.driver_write import begun, plan_of_append, written
from pipeline.warehouse.state import APPEND, CATALOG_FOLDER, FORM, NAME, OWNER, ROLE, STATE_FORM
from pipeline.warehouse.tables import PROPERTIES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

    from pipeline.runtime.driver.catalyst import DriverPlan
    from pipeline.warehouse.alterations import Place
    from pipeline.warehouse.iceberg import Catalog, Table

_SHARED = "pipeline STRING, batch_id BIGINT, recorded_at TIMESTAMP"
_SET_ASIDE_COLUMNS = (
    "topic STRING, kafka_partition INT, offset BIGINT, index INT, key BINARY, value BINARY, "
    "schema_name STRING, table_name STRING, code STRING, message STRING, rules ARRAY<STRING>, "
    "fingerprint STRING, commit_ts BIGINT, key_values STRING, status STRING"
)
DEFINITIONS = {
    "batches": "query_id STRING, start_offsets STRING, end_offsets STRING, rows_in BIGINT, inserts BIGINT, "
    "updates BIGINT, deletes BIGINT, quarantined BIGINT, dead_letters BIGINT, seconds DOUBLE, level STRING, "
    "committed BOOLEAN",
    "dead_letters": _SET_ASIDE_COLUMNS,
    "quarantine": _SET_ASIDE_COLUMNS,
    "held": "topic STRING, kafka_partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, "
    "schema_name STRING, table_name STRING, reason STRING, status STRING",
    "cuts": "cut_ts BIGINT, cut_time TIMESTAMP, table_uuid STRING, schema_name STRING, table_name STRING, "
    "snapshot_id BIGINT, level STRING, reason STRING",
    "ddl_history": "commit_ts BIGINT, schema_name STRING, table_name STRING, ddl_type STRING, sql STRING, "
    "action STRING, status STRING",
    "quality_results": "schema_name STRING, table_name STRING, rule STRING, severity STRING, "
    "fingerprint STRING, engine STRING, evaluated BIGINT, unexpected BIGINT, success BOOLEAN, "
    "snapshot_id BIGINT, sample STRING",
    "schemas": "schema_name STRING, table_name STRING, version BIGINT, columns STRING",
    "tables": "schema_name STRING, table_name STRING, warehouse_name STRING, uuid STRING, location STRING, "
    "handle_columns ARRAY<STRING>, state STRING, held_reason STRING",
}
"""Columns of each table after `pipeline, batch_id, recorded_at`."""
OF_SOURCES = {
    "files": "ordinal BIGINT, path STRING, incarnation INT, size BIGINT, etag STRING, modified TIMESTAMP, kind STRING, "
    "schema_name STRING, table_name STRING, version BIGINT, progress BIGINT",
}
"""The same of tables that a warehouse has only if its source writes them."""

SET_ASIDE = ("dead_letters", "quarantine", "held")
"""Tables of what did not enter the warehouse's others."""

SUPERSEDED, DROPPED = "superseded", "dropped"
"""What open rows become when the source drops their table: set aside ones, and those in `held`."""

LET_IN = (*ENTER_BY_THEMSELVES, "RELEASED")
"""Beginnings of the reasons in `held` that end by themselves (ordering by commit ts)."""

HeldCounts = Mapping[tuple[TableName, str], int]
"""How many records of `held` are open, by source table and the one of `LET_IN` they wait for ("": a person)."""

AT = ("topic", "kafka_partition", "offset", "index")
"""The place of a change, by the columns of `dead_letters` and `quarantine`."""

_FOUND = "_ticdc_found"
_LEDGER_PROPERTIES = {**PROPERTIES, "write.metadata.previous-versions-max": "5"}


WAREHOUSE_OF_ANOTHER = "WAREHOUSE_OF_ANOTHER"


@dataclass(slots=True)
class Records:
    """Writes and reads the pipeline's own tables."""

    spark: SparkSession
    catalog: Catalog
    data: str
    """In which each of them has a folder."""
    pipeline: str
    tables: dict[str, Table]
    counted: HeldCounts = field(default_factory=dict)
    """What `held_counts` has found last."""
    _counted_at: int | None = None
    _torn_files: frozenset[str] = frozenset()
    _torn_at: int | None = None

    @staticmethod
    def open(spark: SparkSession, catalog: Catalog, data: str, pipeline: str, of_source: Sequence[str] = ()) -> Records:
        """All tables, made where they are missing. Raises `Refused`: WAREHOUSE_NEWER, COLUMNS_CHANGED.

        `of_source`: which of `OF_SOURCES` are among them.
        """
        batches = catalog.table(where("batches"))
        check_form(batches.properties if batches else {}, data)
        records = Records(spark, catalog, data, pipeline, {})
        for name in (*DEFINITIONS, *of_source):
            table = catalog.table(where(name))
            records.tables[name] = table or records._make(name)
            _check_columns(name, records.tables[name])
        return records

    def _make(self, name: str) -> Table:
        columns = [(field.name, field.dataType.simpleString()) for field in schema(name).fields]
        location = f"{self.data}/{PIPELINE_NAMESPACE}-{name}-{uuid.uuid4()}"
        properties = {**ROLE.entry(name), **STATE_FORM.entry(FORM), **NAME.entry(where(name))}
        return self.catalog.create(where(name), columns, location, {**_LEDGER_PROPERTIES, **properties})

    def claim(self, catalog_folder: str | None = None) -> None:
        """Remember whose warehouse this is (`check_owner`), and where its catalog is (`check_copied`)."""
        batches = self.tables["batches"]
        ours = OWNER.entry(self.pipeline) | (CATALOG_FOLDER.entry(catalog_folder) if catalog_folder else {})
        if not ours.items() <= batches.properties.items():
            batches.set_properties(ours)

    def read(self, name: str) -> DataFrame:
        """One table as it stands."""
        return self.spark.table(where(name).sql)

    def write(
        self,
        name: str,
        batch_id: int,
        rows: Sequence[Mapping[str, Any]],
        summary: Mapping[str, str] | None = None,
    ) -> None:
        """Append a few rows that the driver knows, in one commit with these summary entries."""
        if not rows and summary is None:
            return
        try:
            self._append_few(name, self._texts(batch_id, rows), summary or {})
        except NotInDriver:  # a user wants them sorted, or in partitions
            self._append(name, self._frame(name, batch_id, rows), summary or {})

    def append(self, name: str, batch_id: int, frame: DataFrame) -> int:
        """Append a frame that has the table's own columns; how many rows were committed.

        That is what Iceberg says of the commit. Several threads may append to one table, so each finds its own.
        """
        stamped = frame.select(
            F.lit(self.pipeline).alias("pipeline"),
            F.lit(batch_id).cast("bigint").alias("batch_id"),
            F.current_timestamp().alias("recorded_at"),
            *schema(name, shared=False).names,
        )
        mark = uuid.uuid4().hex
        self._append(name, stamped, APPEND.entry(mark))
        return self.tables[name].added_by(APPEND, mark)

    def _append_few(self, name: str, texts: Sequence[str], summary: Mapping[str, str]) -> None:
        """Append rows, each as a JSON text, without a job. Raises `NotInDriver`."""
        catalyst, table = Catalyst.of(self.spark), self.tables[name]
        plan = _plans.get(_TextsPlanKey(name, table.uuid, table.schema_id, self), _planned)
        write = begun(table, plan)
        rows, _ = catalyst.run(catalyst.texts(texts), plan)
        table.append_files(written(catalyst, table, write, rows), summary)
        table.refresh()

    def _append(self, name: str, frame: DataFrame, summary: Mapping[str, str]) -> None:
        writer = self.completed(name, frame).writeTo(where(name).sql)
        for key, value in summary.items():
            writer = writer.option(f"snapshot-property.{key}", value)
        writer.append()
        self.tables[name].refresh()

    def completed(self, name: str, frame: DataFrame) -> DataFrame:
        """Rows with NULL in the columns of users."""
        ours = set(schema(name).names)
        others = [field["name"] for field in self.tables[name].schema()["fields"] if field["name"] not in ours]
        return frame.select("*", *(F.lit(None).alias(other) for other in others)) if others else frame

    def replace(self, name: str, batch_id: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Let the table have these rows of this pipeline and no others."""
        frame = self._frame(name, batch_id, rows)
        self.completed(name, frame).coalesce(1).writeTo(where(name).sql).overwrite(F.col("pipeline") == self.pipeline)
        self.tables[name].refresh()

    def _frame(self, name: str, batch_id: int, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
        """A few rows as one JSON literal: `createDataFrame` would start a Python worker for them.

        All that differs from batch to batch is in that text, so that Spark compiles its code once.
        """
        text = f"[{', '.join(self._texts(batch_id, rows))}]"
        kind = f"array<{schema(name).simpleString()}>"
        return self.spark.range(1).select(F.inline(F.from_json(F.lit(text), kind, {"mode": "FAILFAST"})))

    def _texts(self, batch_id: int, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Each row as a JSON text."""
        now = dt.datetime.now(dt.UTC)
        shared = {"pipeline": self.pipeline, "batch_id": batch_id, "recorded_at": now}
        return [json.dumps({**shared, **row}, default=dt.datetime.isoformat) for row in rows]

    def open_up_to(self, name: str, commit_ts: int) -> int:
        """How many records of `dead_letters` or `quarantine` are open that may be missing up to a commit ts."""
        if self.tables[name].head() is None:
            return 0
        row_ts = F.col("commit_ts")
        rows = self.read(name).where((F.col("status") == "open") & (row_ts.isNull() | (row_ts <= commit_ts)))
        return rows.count()

    def newest_cuts(self) -> dict[str, tuple[int, str]]:
        """Snapshot and level of the newest row of `cuts` of each table, by its uuid."""
        newest = F.max_by(F.struct("snapshot_id", "level"), F.struct("batch_id", "recorded_at")).alias("newest")
        rows = self.read("cuts").groupBy("table_uuid").agg(newest).collect()
        return {row["table_uuid"]: (row["newest"]["snapshot_id"], row["newest"]["level"]) for row in rows}

    def held_counts(self) -> HeldCounts:
        """What `held` has open: counted again where the table has another snapshot than last time."""
        head = self.tables["held"].head()
        if head != self._counted_at:
            self.counted, self._counted_at = self._count_held(), head
        return self.counted

    def _count_held(self) -> HeldCounts:
        rows = counts_in(self.read("held")).collect()
        return {(_named(row), row["code"]): row["count"] for row in rows}

    def mark_held(self, source: TableName, status: str) -> None:
        """Give what waits of a source table another status."""
        self._update("held", source, "status = :status", {"status": status})

    def drop_held(self, source: TableName, streams: Collection[str]) -> None:
        """Drop what waits under a table's name but comes from streams of another table: it must not enter this one."""
        for stream in sorted(streams):
            self._update("held", source, "status = :status", {"status": DROPPED, "topic": stream}, "topic = :topic")

    def mark_dropped(self, source: TableName, until: int | None = None) -> None:
        """Close what is set aside of a table that was dropped, so that it does not enter a new table of that name.

        The rows stay, with their bytes. A DROP TABLE is later than any change, so it supersedes them.

        `until`: what has a later commit ts is another table's. So may be what waits by itself in `held`. Other rows of
        `held` have no commit ts, and belong to the table that has the name today.
        """
        for name in self._used_set_aside():
            self._close(name, source, _up_to(name, until))

    def rename_set_aside(self, source: TableName, to: TableName, until: int | None = None) -> None:
        """Let what is set aside of a source table follow it to its new name; `until` as in `mark_dropped`."""
        for name in self._used_set_aside():
            self._give(name, source, to, _up_to(name, until))

    def dead_letters_follow(
        self, source: TableName, to: TableName | None, when: tuple[int, int], batch_id: int
    ) -> None:
        """Let dead letters under a name that another table has today follow the table that they are of.

        These are dead letters of `batch_id` and later batches with a commit ts in `when` (after, up to). Older ones of
        that name have followed already, and are of today's table. `to`: the name that their table has today; None if
        it is gone.
        """
        since, until = when
        which = f"batch_id >= {batch_id:d} AND commit_ts > {since:d} AND commit_ts <= {until:d}"
        if self.tables["dead_letters"].head() is None:
            return
        if to is None:
            self._close("dead_letters", source, which)
        else:
            self._give("dead_letters", source, to, which)

    def _used_set_aside(self) -> list[str]:
        return [name for name in SET_ASIDE if self.tables[name].head() is not None]

    def _close(self, name: str, source: TableName, which: str) -> None:
        status = DROPPED if name == "held" else SUPERSEDED
        self._update(name, source, "status = :status", {"status": status}, which)

    def _give(self, name: str, source: TableName, to: TableName, which: str) -> None:
        names = {"to_schema": to.schema, "to_table": to.table}
        self._update(name, source, "schema_name = :to_schema, table_name = :to_table", names, which)

    def _update(
        self, name: str, source: TableName, change: str, values: Mapping[str, str], which: str = "true"
    ) -> None:
        self.spark.sql(
            f"UPDATE {where(name).sql} SET {change} WHERE lower(schema_name) = lower(:schema) "  # noqa: S608 - names of ours, values as parameters
            f"AND lower(table_name) = lower(:table) AND status = 'open' AND {which}",
            args={"schema": source.schema, "table": source.table, **values},
        )
        self.tables[name].refresh()

    def torn_files(self) -> frozenset[str]:
        """Files of which the end is an open dead letter (`FILE_TRUNCATED`), read where that table has changed."""
        head = self.tables["dead_letters"].head()
        if head != self._torn_at:
            rows = self._torn().select("topic").distinct().collect() if head is not None else []
            self._torn_files, self._torn_at = frozenset(row["topic"] for row in rows), head
        return self._torn_files

    def supersede_torn(self, files: Collection[str]) -> None:
        """Close the dead letters of files' ends: the files' rows have come again."""
        if files:
            ends = self._torn().where(F.col("topic").isin(*files))
            self.mark("dead_letters", ends.select(*AT, F.lit(SUPERSEDED).alias("status")))

    def _torn(self) -> DataFrame:
        return self.read("dead_letters").where((F.col("status") == OPEN) & (F.col("code") == FILE_TRUNCATED))

    def mark(self, name: str, statuses: DataFrame) -> None:
        """Give open records a new status, by their place (`AT`). `statuses`: place and `status`."""
        statuses.createOrReplaceTempView(_FOUND)
        same = " AND ".join(f"t.{column} = s.{column}" for column in AT)
        self.spark.sql(
            f"MERGE INTO {where(name).sql} t USING {_FOUND} s ON t.status = 'open' AND {same} "
            "WHEN MATCHED THEN UPDATE SET status = s.status"
        )
        self.spark.catalog.dropTempView(_FOUND)
        self.tables[name].refresh()


@dataclass(frozen=True, slots=True)
class _TextsPlanKey:
    """All that the plan of a table's appends depends on."""

    name: str
    uuid: str
    schema_id: int
    records: Records = field(compare=False)


_plans: Kept[_TextsPlanKey, DriverPlan] = Kept(64)


def _planned(wanted: _TextsPlanKey) -> DriverPlan:
    """From JSON texts to the rows of one of our tables. Raises `NotInDriver`."""
    records, catalyst = wanted.records, Catalyst.of(wanted.records.spark)
    row = F.from_json(F.col(TEXT), schema(wanted.name).simpleString(), {"mode": "FAILFAST"})
    frame = catalyst.empty_texts().select(row.alias("row")).select("row.*")
    return plan_of_append(catalyst, records.tables[wanted.name], records.completed(wanted.name, frame))


def _named(row: Row) -> TableName:
    return TableName(row["schema_name"] or "", row["table_name"] or "")


def counts_in(held: DataFrame) -> DataFrame:
    """Rows of `held` as `HeldCounts`: schema_name, table_name, code, count."""
    code = F.lit("")
    for begin in LET_IN:
        code = F.when(F.startswith(F.col("reason"), F.lit(begin)), F.lit(begin)).otherwise(code)
    return held.where("status = 'open'").groupBy("schema_name", "table_name", code.alias("code")).count()


def is_pending() -> str:
    """The condition, in SQL, that a row of `held` is let in without a person."""
    reasons = " OR ".join(f"startswith(reason, '{reason}')" for reason in LET_IN)
    return f"(status = 'open' AND ({reasons}))"


def _up_to(name: str, until: int | None) -> str:
    if until is None:
        return "true"
    return f"NOT {is_pending()}" if name == "held" else f"coalesce(commit_ts, 0) <= {until:d}"


def where(name: str) -> WarehouseName:
    """One of our tables by its short name."""
    return WarehouseName(PIPELINE_NAMESPACE, name)


def schema(name: str, *, shared: bool = True) -> StructType:
    """The columns of one of our tables, with or without the three that all share."""
    own = DEFINITIONS[name] if name in DEFINITIONS else OF_SOURCES[name]
    ddl = f"{_SHARED}, {own}" if shared else own
    return cast("StructType", StructType.fromDDL(ddl))


def _check_columns(name: str, table: Table) -> None:
    """Raise `Refused` if one of our tables can no longer be written: without it the pipeline cannot go on."""
    wanted: dict[Place, str] = {(column.name,): column.dataType.simpleString() for column in schema(name).fields}
    now = fields(table.schema())
    former = former_ids(table.former_schemas()) if wanted.keys() - now.keys() else {}
    faults = compared(table.name, wanted, now, former).faults
    if faults:
        sentences = "; ".join(fault.sentence for fault in faults)
        raise Refused(COLUMNS_CHANGED, sentences, f"run this in Spark SQL: {undone_by(faults)}")


def check_form(properties: Mapping[str, str], data: str) -> None:
    """An older version must not write what it does not understand."""
    form = STATE_FORM.read(properties)
    if form is not None and form > FORM:
        raise Refused(
            "WAREHOUSE_NEWER",
            f"a newer ticdc-warehouse wrote {data}: its form is {form}, and this version knows {FORM}",
            "install that version again, or go back to a copy of the warehouse that was made before that version "
            "wrote it",
        )


def check_owner(properties: Mapping[str, str], pipeline: str, data: str) -> None:
    """Refuse a warehouse of another pipeline: what is older than that one's cut would count as a redelivery.

    `properties`: of `batches`. A warehouse without an owner is free for any pipeline.
    """
    owner = OWNER.read(properties)
    if owner is not None and owner != pipeline:
        raise Refused(
            WAREHOUSE_OF_ANOTHER,
            f"{data} belongs to the pipeline {owner}, but these settings are for {pipeline}: each would take the "
            "other's progress and cuts for its own, and lose changes",
            f"give {pipeline} a warehouse.path and a catalog of its own; if {owner} was renamed, or has ended for "
            f"good: ticdc-warehouse run --accept {WAREHOUSE_OF_ANOTHER}",
        )
