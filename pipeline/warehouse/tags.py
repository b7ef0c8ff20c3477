"""Tags on current tables: the snapshots of one cut under one name, kept from expiry for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pipeline.warehouse.iceberg import Table
    from pipeline.warehouse.tables import Tables

TAG_TAKEN = "TAG_TAKEN"
CUT_EXPIRED = "CUT_EXPIRED"


def tag(tables: Tables, name: str, keep_ms: int, snapshots: Mapping[str, int]) -> int:
    """Tag the current tables of these pairs (uuid → snapshot), all or none; how many had no such tag yet.

    Raises `Refused`: `TAG_TAKEN` where the name is used for something else, `CUT_EXPIRED` where a snapshot is gone.
    """
    due = list(_due(tables, name, snapshots))
    for table, snapshot in due:
        table.tag(name, snapshot, keep_ms)
    return len(due)


def _due(tables: Tables, name: str, snapshots: Mapping[str, int]) -> Iterator[tuple[Table, int]]:
    for uuid, snapshot in snapshots.items():
        pair = tables.by_uuid(uuid)
        table = None if pair is None else pair.current
        if table is None:
            raise Refused(CUT_EXPIRED, f"the table {uuid} is gone", "run it again: ticdc-warehouse tables as-of")
        table.refresh()
        head = table.head(name)
        if head is not None and (head != snapshot or name in table.branches()):
            raise taken(name, str(table.name), head)
        if not table.has(snapshot):
            raise Refused(
                CUT_EXPIRED,
                f"snapshot {snapshot} of {table.name} is expired",
                "run ticdc-warehouse tables as-of again: it names the oldest cut that can be read",
            )
        if head is None:
            yield table, snapshot


def taken(name: str, table: str, snapshot: int) -> Refused:
    """The refusal of a name that is already used for something else."""
    return Refused(
        TAG_TAKEN,
        f"{name} exists already: it is snapshot {snapshot} of {table}, which is not in this cut",
        "choose another name (--tag), or drop that one: "
        f"ALTER TABLE … DROP TAG `{name}` in Spark SQL, for each table that has it",
    )
