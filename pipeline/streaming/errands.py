"""What a person asks for on an open warehouse: by a command that has the lock, or by a request to a living `run`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pipeline.errors import Refused
from pipeline.model.names import TableName
from pipeline.streaming.audit import audit
from pipeline.streaming.redrive import Selection, redrive
from pipeline.streaming.release import release
from pipeline.warehouse.rebuild import rebuild
from pipeline.warehouse.tags import tag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.streaming.workbench import Workbench
    from pipeline.warehouse.iceberg import Table
    from pipeline.warehouse.maintenance import Maintainer
    from pipeline.warehouse.tables import Tables, WarehouseTable

MAINTAIN, REBUILD, RELEASE, REDRIVE, CHECK, TAG = "maintain", "rebuild", "release", "redrive", "check", "tag"
NO_CURRENT_TABLE = "NO_CURRENT_TABLE"


def errand(bench: Workbench, maintainer: Maintainer, what: str, names: Sequence[str]) -> Mapping[str, Any]:
    """Do one of the above.

    `names`: warehouse tables to maintain, a selection to redrive, what to tag (`tagged`), else source tables, each as
    schema and name.
    """
    if what == MAINTAIN:
        maintained(maintainer, [table for table in _tables(bench) if str(table.name) in names])
        return {}
    if what == REDRIVE:
        return asdict(redrive(bench, Selection(*names)))
    if what == TAG:
        return tagged(bench.tables, names)
    if what == CHECK:
        wanted = {TableName(*names[at : at + 2]).key for at in range(0, len(names), 2)}
        tables = [table for table in bench.tables if not wanted or table.source.key in wanted]
        return {name: [asdict(one) for one in results] for name, results in audit(bench, tables).items()}
    source = TableName(*names)
    if what == REBUILD:
        return {"keys": rebuild(bench.spark, with_current(bench.tables, source), bench.timezone)}
    if what == RELEASE:
        return {"records": release(bench, source)}
    raise Refused("REQUEST_UNKNOWN", f"this run does not know how to {what}", "both must be of the same version")


def maintained(maintainer: Maintainer, tables: Sequence[Table]) -> None:
    """Compact and expire these tables, whatever the thresholds say."""
    for table in tables:
        if table.head() is not None:
            maintainer.compact(table)
            maintainer.expire(table)


def tagged(tables: Tables, names: Sequence[str]) -> dict[str, Any]:
    """Tag a cut. `names`: the tag, for how many milliseconds, then each table's uuid and its snapshot."""
    name, keep_ms, *cut = names
    return {"tagged": tag(tables, name, int(keep_ms), dict(zip(cut[::2], map(int, cut[1::2]), strict=True)))}


def with_current(tables: Tables, source: TableName) -> WarehouseTable:
    """The source's pair. Raises `Refused` where it has no current table."""
    table = tables.find(source)
    if table is None or table.current is None:
        raise Refused(
            NO_CURRENT_TABLE,
            f"{source} has no current table to build",
            "ticdc-warehouse tables list shows what there is; `warehouse.current` makes current tables",
        )
    return table


def _tables(bench: Workbench) -> list[Table]:
    pairs = [table for pair in bench.tables for table in (pair.current, pair.changes) if table is not None]
    return [*pairs, *bench.records.tables.values()]
