"""RENAME TABLE, for both regimes: the pair gets its source's new name, or waits where that is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.streaming.landing import NAME_TAKEN

if TYPE_CHECKING:
    from pipeline.model.messages import Ddl
    from pipeline.model.names import TableName
    from pipeline.streaming.workbench import Workbench
    from pipeline.warehouse.tables import Span, WarehouseTable


def give_name(
    bench: Workbench,
    pair: WarehouseTable,
    new: TableName,
    ddl: Ddl,
    spans: tuple[Span, ...] = (),
    until: int | None = None,
) -> None:
    """Rename a pair, or hold it (`Tables.put_off`); what is set aside of it goes along. `until`: see `mark_dropped`."""
    tables, at = bench.tables, ddl.commit_ts
    taken = tables.obstacle(new, pair)
    if taken is None:
        bench.records.rename_aside(pair.source, new, until)
        waited = f"its name was taken until it became {new}; to go on: ticdc-warehouse tables release {new}"
        tables.rename(pair, new, at, spans, f"{NAME_TAKEN}: {waited}" if pair.due else "")
    else:
        bench.records.rename_aside(pair.source, tables.put_off_name(pair, new, at), until)
        tables.put_off(pair, new, at, f"{NAME_TAKEN}: {taken}: {ddl.sql}", spans)
