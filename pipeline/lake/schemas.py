"""What `_pipeline.schemas` says of versions, for commands that only look (`model.messages.KnownVersions`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.errors import Refused
from pipeline.lake.catalog import reader, records
from pipeline.model.names import PIPELINE_NAMESPACE, WarehouseName
from pipeline.warehouse.descriptions import from_row, known_as

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pipeline.model.columns import SchemaId, TableVersion
    from pipeline.model.names import TableName
    from pipeline.settings import Settings
    from pipeline.warehouse.descriptions import Known

_NAME = WarehouseName(PIPELINE_NAMESPACE, "schemas")
_COLUMNS = ("schema_name", "table_name", "version", "columns")


class DescribedVersions:
    """Read once, when first asked; of several rows of a version the newest."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[Known, TableVersion] | None = None

    def versions(self, wanted: Collection[tuple[TableName, SchemaId]]) -> Mapping[Known, TableVersion]:
        """See `DescribedVersions.versions`."""
        described = self._all()
        names = [(table.key, version) for table, version in wanted]
        return {name: described[name] for name in names if name in described}

    def of_tables(self, tables: Collection[TableName]) -> Collection[TableVersion]:
        """See `DescribedVersions.of_tables`."""
        names = {table.key for table in tables}
        return [version for (name, _), version in self._all().items() if name in names]

    def _all(self) -> dict[Known, TableVersion]:
        if self._known is None:
            self._known = {}
            for row in self._rows():
                version = from_row(*(row[name] for name in _COLUMNS))
                self._known[known_as(version)] = version
        return self._known

    def _rows(self) -> list[dict[str, Any]]:
        try:
            lake = reader(self._settings)
        except Refused:  # nothing was written yet
            return []
        if _NAME not in lake.names() or lake.metadata(_NAME).current_snapshot() is None:
            return []
        rows: list[dict[str, Any]] = records(lake, "schemas", (*_COLUMNS, "batch_id")).sort_by("batch_id").to_pylist()
        return rows
