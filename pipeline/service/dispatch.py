"""What a person asks for on an open warehouse: by a command that has the lock, or by a request to a living `run`."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pipeline.errors import Refused
from pipeline.model.names import TableName
from pipeline.observe.logs import bound
from pipeline.operations.redrive import Selection, redrive
from pipeline.operations.release import release
from pipeline.operations.whole_table_checks import audit
from pipeline.warehouse.maintenance import CUTS
from pipeline.warehouse.rebuild import rebuild
from pipeline.warehouse.records import where
from pipeline.warehouse.tags import tag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pipeline.ingest.context import PipelineContext
    from pipeline.warehouse.iceberg import Table
    from pipeline.warehouse.maintenance import Maintainer
    from pipeline.warehouse.pairs import TablePair
    from pipeline.warehouse.tables import Tables

MAINTAIN, ORPHANS, REBUILD, RELEASE = "maintain", "orphans", "rebuild", "release"
REDRIVE, CHECK, TAG = "redrive", "check", "tag"
SEPARATE = frozenset({MAINTAIN, ORPHANS, CHECK, TAG})
"""Those of which each step is a commit of its own: where one fails, no batch trips over what the others have done."""
NO_CURRENT_TABLE = "NO_CURRENT_TABLE"


def operation(context: PipelineContext, maintainer: Maintainer, what: str, names: Sequence[str]) -> Mapping[str, Any]:
    """Do one of the above.

    `names`: warehouse tables to maintain or to rid of orphans, a selection to redrive, what to tag (`tagged`), else
    source tables, each as schema and name.
    """
    done: dict[str, Callable[[], Mapping[str, Any]]] = {
        MAINTAIN: lambda: maintained(maintainer, _named(context, names), context.tables),
        ORPHANS: lambda: removed(maintainer, _named(context, names)),
        REBUILD: lambda: {"keys": _rebuilt(context, with_current(context.tables, TableName(*names)))},
        RELEASE: lambda: {"records": release(context, TableName(*names))},
        REDRIVE: lambda: asdict(redrive(_by_suites_of_now(context), Selection(*names))),
        CHECK: lambda: _checked(_by_suites_of_now(context), names),
        TAG: lambda: tagged(context.tables, names),
    }
    if what not in done:
        hint = "use the same version for the command and the run"
        raise Refused("REQUEST_UNKNOWN", f"this run does not know how to {what}", hint)
    return done[what]()


def _rebuilt(context: PipelineContext, table: TablePair) -> int:
    context.cuts.unrecorded.add(table.uuid)
    return rebuild(context.spark, context.tables, table, context.timezone)


def _by_suites_of_now(context: PipelineContext) -> PipelineContext:
    """For what judges; the batches of a `run` that does it go on by the suites of its start."""
    return replace(context, rulebook=context.rulebook.renewed(context.settings.quality))


def _checked(context: PipelineContext, names: Sequence[str]) -> Mapping[str, Any]:
    wanted = {TableName(*names[at : at + 2]).key for at in range(0, len(names), 2)}
    tables = [table for table in context.tables if not wanted or table.source.key in wanted]
    return {name: [asdict(one) for one in results] for name, results in audit(context, tables).items()}


def maintained(maintainer: Maintainer, tables: Sequence[Table], pairs: Iterable[TablePair]) -> Mapping[str, Any]:
    """Compact and expire these tables, whatever the thresholds say; of cuts forget what of `pairs` has expired."""
    for table in sorted(tables, key=_is_of_cuts):
        if table.head() is None:
            continue
        with bound(table=str(table.name)):
            if _is_of_cuts(table):
                maintainer.forget_cuts(table, pairs)
            maintainer.compact(table)
            maintainer.expire(table)
    return {}


def _is_of_cuts(table: Table) -> bool:
    return table.name == where(CUTS)


def removed(maintainer: Maintainer, tables: Sequence[Table], *, really: bool = True) -> dict[str, list[str]]:
    """Remove the files of these tables that no snapshot names, by table; not `really`: only name them."""
    seconds = maintainer.thresholds.orphans_after_seconds
    return {str(table.name): table.orphans(seconds, remove=really) for table in tables}


def tagged(tables: Tables, names: Sequence[str]) -> dict[str, Any]:
    """Tag a cut. `names`: the tag, for how many milliseconds, then each table's uuid and its snapshot."""
    name, keep_ms, *cut = names
    return {"tagged": tag(tables, name, int(keep_ms), dict(zip(cut[::2], map(int, cut[1::2]), strict=True)))}


def with_current(tables: Tables, source: TableName) -> TablePair:
    """The source's pair. Raises `Refused` where it has no current table."""
    table = tables.find(source)
    if table is None or table.current is None:
        raise Refused(
            NO_CURRENT_TABLE,
            f"{source} has no current table to build",
            "ticdc-warehouse tables list shows what there is; with `warehouse.current: true` a run makes current "
            "tables",
        )
    return table


def _named(context: PipelineContext, names: Sequence[str]) -> list[Table]:
    pairs = [table for pair in context.tables for table in (pair.current, pair.changes) if table is not None]
    return [table for table in (*pairs, *context.records.tables.values()) if str(table.name) in names]
