"""What writes the warehouse on a person's request: each function takes the lock and starts Spark."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipeline.errors import Refused
from pipeline.streaming import Pipeline
from pipeline.streaming.lock import JvmLock, WriterLock
from pipeline.streaming.release import release as released
from pipeline.streaming.session import session
from pipeline.warehouse.iceberg import Catalog
from pipeline.warehouse.maintenance import Maintainer
from pipeline.warehouse.orphans import lost_tables
from pipeline.warehouse.rebuild import rebuild as rebuilt
from pipeline.warehouse.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

    from pipeline.model.names import TableName, WarehouseName
    from pipeline.settings import Settings

NO_CURRENT_TABLE = "NO_CURRENT_TABLE"


def maintain(settings: Settings, wanted: Iterable[WarehouseName]) -> None:
    """Compact these tables and expire their old snapshots."""
    with _catalog(settings, "tables maintain") as (spark, catalog):
        maintainer = Maintainer(spark, settings.warehouse.maintenance, lambda _step: None)
        for name in wanted:
            table = catalog.table(name)
            if table is not None and table.head() is not None:
                maintainer.compact(table)
                maintainer.expire(table)


def rebuild(settings: Settings, source: TableName) -> int:
    """Replay a table's changes into its current table; how many keys that wrote."""
    with _catalog(settings, "tables rebuild") as (spark, catalog):
        warehouse = settings.warehouse
        tables = Tables(catalog, warehouse.path, namespace=warehouse.namespace, with_current=warehouse.current)
        tables.load()
        table = tables.find(source)
        if table is None or table.current is None:
            raise Refused(
                NO_CURRENT_TABLE,
                f"{source} has no current table to build",
                "ticdc-warehouse tables list shows what there is; `warehouse.current` makes current tables",
            )
        return rebuilt(spark, table, settings.changefeed.timezone)


def release(settings: Settings, source: TableName) -> int:
    """Replay what a held table waits with; how many records that were. Needs Kafka and the registry."""
    with Pipeline.open(settings, purpose="tables release") as pipeline:
        return released(pipeline.bench, source)


def restore(settings: Settings) -> list[tuple[str, str]]:
    """Register the tables that the catalog has lost; their names and metadata files."""
    with _catalog(settings, "tables restore") as (_, catalog):
        found = lost_tables(catalog, settings.warehouse.path)
        for name, metadata in found.values():
            catalog.register(name, str(metadata))
        return [(name, str(metadata)) for name, (_, metadata) in found.items()]


@contextmanager
def _catalog(settings: Settings, purpose: str) -> Iterator[tuple[SparkSession, Catalog]]:
    with WriterLock(settings.warehouse.path, purpose):
        spark = session(settings)
        with JvmLock(spark, settings.warehouse.path):
            yield spark, Catalog(spark)
