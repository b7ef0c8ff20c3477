"""What the ledger says, the newest commit of `_pipeline.batches`, for commands that only look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import Refused
from pipeline.lake.catalog import inherited, reader
from pipeline.model.messages import Ordering
from pipeline.model.names import PIPELINE_NAMESPACE, WarehouseName
from pipeline.warehouse.state import ORDERING

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from pipeline.settings import Settings

_NAME = WarehouseName(PIPELINE_NAMESPACE, "batches")


def ledger(settings: Settings) -> TableMetadata | None:
    """The metadata of its table; None if there is no warehouse yet."""
    try:
        lake = reader(settings)
    except Refused:
        return None
    return lake.metadata(_NAME) if _NAME in lake.names() else None


def ordering(settings: Settings) -> Ordering | None:
    """In which order the warehouse has applied changes, and will; None where no message has told it yet."""
    metadata = ledger(settings)
    name = metadata and inherited(metadata, ORDERING)
    return Ordering(name) if name else None
