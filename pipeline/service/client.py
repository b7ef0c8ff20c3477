"""What writes the warehouse on a person's request: with the lock and a Spark of its own, or by asking a living run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pipeline.operations.release import release as released
from pipeline.runtime.lock import JvmLock, WriterLock
from pipeline.runtime.session import looking, session
from pipeline.service import Pipeline
from pipeline.service.dispatch import (
    CHECK,
    MAINTAIN,
    ORPHANS,
    REBUILD,
    REDRIVE,
    RELEASE,
    TAG,
    maintained,
    removed,
    tagged,
    with_current,
)
from pipeline.service.mailbox import in_turn
from pipeline.warehouse.iceberg import Catalog, Table
from pipeline.warehouse.maintenance import CUTS, Maintainer
from pipeline.warehouse.orphans import lost_tables
from pipeline.warehouse.place import catalog_folder, check_catalog, check_copied, check_place, location_in, placed
from pipeline.warehouse.rebuild import rebuild as rebuilt
from pipeline.warehouse.records import where
from pipeline.warehouse.state import ROLE
from pipeline.warehouse.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from pipeline.model.names import TableName, WarehouseName
    from pipeline.settings import Settings


def _silent(_who: str) -> None:
    """Say nothing of the process that one waits for."""


def maintain(settings: Settings, wanted: Sequence[WarehouseName], waiting: Callable[[str], None] = _silent) -> None:
    """Compact these tables and expire their old snapshots, and the rows of `_pipeline.cuts` that name those."""

    def directly() -> dict[str, Any]:
        with _catalog(settings, "tables maintain") as (spark, catalog):
            maintainer = Maintainer(spark, settings.warehouse.maintenance, lambda _step: None)
            pairs = _tables(settings, catalog) if where(CUTS) in wanted else ()
            maintained(maintainer, _ours(settings, catalog, wanted), pairs)
        return {}

    in_turn(settings.warehouse.path, (MAINTAIN, [str(name) for name in wanted]), directly, waiting)


def orphans(
    settings: Settings, wanted: Sequence[WarehouseName], waiting: Callable[[str], None] = _silent, *, really: bool
) -> dict[str, list[str]]:
    """Remove files that no snapshot of these tables names, by table; not `really`: name them, without the lock."""

    def done(spark: SparkSession, catalog: Catalog) -> dict[str, list[str]]:
        maintainer = Maintainer(spark, settings.warehouse.maintenance, lambda _step: None)
        return removed(maintainer, _ours(settings, catalog, wanted), really=really)

    def directly() -> dict[str, Any]:
        with _catalog(settings, "tables maintain") as (spark, catalog):
            return dict(done(spark, catalog))

    if not really:
        check_catalog(settings.warehouse)
        spark = looking(settings)
        return done(spark, Catalog(spark))
    names = [str(name) for name in wanted]
    return dict(in_turn(settings.warehouse.path, (ORPHANS, names), directly, waiting))


def _ours(settings: Settings, catalog: Catalog, wanted: Sequence[WarehouseName]) -> list[Table]:
    """Those of these tables that exist and that this product has made."""
    tables = (catalog.table(name) for name in wanted)
    ours = [table for table in tables if table is not None and ROLE.is_in(table.properties)]
    check_place(placed(ours), settings.warehouse)
    return ours


def rebuild(settings: Settings, source: TableName, waiting: Callable[[str], None] = _silent) -> int:
    """Replay a table's changes into its current table; how many keys that wrote."""

    def directly() -> dict[str, Any]:
        with _catalog(settings, "tables rebuild") as (spark, catalog):
            tables = _tables(settings, catalog)
            pair = with_current(tables, source)
            return {"keys": rebuilt(spark, tables, pair, settings.changefeed.timezone)}

    return int(in_turn(settings.warehouse.path, (REBUILD, (source.schema, source.table)), directly, waiting)["keys"])


def tag(
    settings: Settings,
    name: str,
    keep_ms: int,
    snapshots: Mapping[str, int],
    waiting: Callable[[str], None] = _silent,
) -> int:
    """Tag the snapshots of a cut, by the tables' uuids; how many had no such tag yet."""
    names = [name, str(keep_ms), *(part for uuid, snapshot in snapshots.items() for part in (uuid, str(snapshot)))]

    def directly() -> dict[str, Any]:
        with _catalog(settings, "tables as-of") as (_, catalog):
            return tagged(_tables(settings, catalog), names)

    return int(in_turn(settings.warehouse.path, (TAG, names), directly, waiting)["tagged"])


def release(settings: Settings, source: TableName, waiting: Callable[[str], None] = _silent) -> int:
    """Replay what a held table waits with; how many records that were. Needs Kafka and the registry."""

    def directly() -> dict[str, Any]:
        with Pipeline.open(settings, purpose="tables release") as pipeline:
            return {"records": released(pipeline.context, source)}

    return int(in_turn(settings.warehouse.path, (RELEASE, (source.schema, source.table)), directly, waiting)["records"])


def redrive(settings: Settings, selection: Sequence[str], waiting: Callable[[str], None] = _silent) -> dict[str, Any]:
    """Let quarantined rows or dead letters enter that may by now (`Selection`). Needs Kafka and the registry."""

    def directly() -> dict[str, Any]:
        with Pipeline.open(settings, purpose="quarantine redrive") as pipeline:
            return dict(pipeline.operation(REDRIVE, selection))

    return dict(in_turn(settings.warehouse.path, (REDRIVE, selection), directly, waiting))


def check(
    settings: Settings, sources: Sequence[TableName], waiting: Callable[[str], None] = _silent
) -> dict[str, list[dict[str, Any]]]:
    """Run the suites on whole current tables (none named: on all); results by source table."""
    names = [part for source in sources for part in (source.schema, source.table)]

    def directly() -> dict[str, Any]:
        with Pipeline.open(settings, purpose="checks run") as pipeline:
            return dict(pipeline.operation(CHECK, names))

    return dict(in_turn(settings.warehouse.path, (CHECK, names), directly, waiting))


def restore(settings: Settings) -> list[tuple[str, str]]:
    """Register the tables that the catalog has lost; their names and metadata files."""
    with _catalog(settings, "tables restore") as (_, catalog):
        lost = lost_tables(catalog, settings.warehouse.local_data)
        check_place({name: location_in(metadata) for name, (_, metadata) in lost.items()}, settings.warehouse)
        for name, metadata in lost.values():
            catalog.register(name, str(metadata))
        return [(name, str(metadata)) for name, (_, metadata) in lost.items()]


def _tables(settings: Settings, catalog: Catalog) -> Tables:
    warehouse = settings.warehouse
    tables = Tables(catalog, warehouse.data, namespace=warehouse.namespace, with_current=warehouse.current)
    tables.load()
    check_place(placed(tables.loaded()), warehouse)
    tables.may_change()
    return tables


@contextmanager
def _catalog(settings: Settings, purpose: str) -> Iterator[tuple[SparkSession, Catalog]]:
    with WriterLock(settings.warehouse.path, purpose):
        check_catalog(settings.warehouse)
        spark = session(settings)
        with JvmLock(spark, settings.warehouse.path):
            catalog = Catalog(spark)
            _check_copied(settings, catalog)
            yield spark, catalog


def _check_copied(settings: Settings, catalog: Catalog) -> None:
    batches = catalog.table(where("batches")) if catalog_folder(settings.warehouse) else None
    if batches is not None:
        check_copied(batches.properties, settings.warehouse)
