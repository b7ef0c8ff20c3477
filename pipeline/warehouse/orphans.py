"""Tables whose files lie in the warehouse while the catalog does not know them (DESIGN rule 3)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pipeline.model.names import WarehouseName
from pipeline.warehouse.tables import NAME

if TYPE_CHECKING:
    from pathlib import Path

    from pipeline.warehouse.iceberg import Catalog

_VERSION = re.compile(r"(\d+)-.*\.metadata\.json")


def lost_tables(catalog: Catalog, warehouse: Path) -> dict[str, tuple[WarehouseName, Path]]:
    """Name → (warehouse name, newest metadata file) of every table with data that the catalog has forgotten.

    A folder without a snapshot is what a crash in the middle of CREATE TABLE leaves behind: nothing is lost with it.
    """
    known = {f"{name.namespace}.{name.name}" for name in catalog.names()}
    found: dict[str, tuple[WarehouseName, Path]] = {}
    for folder in sorted((warehouse / "data").glob("*/metadata")):
        newest = max(folder.glob("*.metadata.json"), key=_number, default=None)
        if newest is None:
            continue
        metadata = json.loads(newest.read_text())
        name = metadata.get("properties", {}).get(NAME)
        if name is None or metadata.get("current-snapshot-id", -1) in (-1, None):
            continue
        namespace, table = json.loads(name)
        if f"{namespace}.{table}" not in known:
            found[f"{namespace}.{table}"] = (WarehouseName(namespace, table), newest)
    return found


def _number(file: Path) -> int:
    match = _VERSION.fullmatch(file.name)
    return int(match[1]) if match else -1
