"""What names meant and mean, as pairs have it recorded (ordering by commit ts)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ddl.name_history import NameBinding
from pipeline.ddl.table_ref import PairRef, RemovedTable
from pipeline.model.names import TableName
from pipeline.warehouse.state import GONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.ddl.table_ref import TableRef
    from pipeline.warehouse.pairs import StoredBinding
    from pipeline.warehouse.records import Records
    from pipeline.warehouse.tables import Tables


def recorded_bindings(tables: Tables, records: Records) -> Iterator[NameBinding]:
    """The names that pairs have had; of pairs that have been removed the history has them."""
    for pair in tables:
        for stored in pair.by_commit_ts.bindings:
            yield _binding(stored, PairRef(pair.uuid))
    for stored in GONE.read(records.tables["ddl_history"].properties) or ():
        yield _binding(stored, RemovedTable())


def _binding(stored: StoredBinding, table_ref: TableRef) -> NameBinding:
    name = TableName(stored.schema, stored.table).key
    return NameBinding(name, table_ref, stored.since, stored.until, stored.cause)
