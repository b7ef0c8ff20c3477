"""Tables that have files in the warehouse but are not in the catalog (design.md, rule 3)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Protocol

from pipeline.warehouse.state import NAME, NEXT_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pipeline.model.names import WarehouseName

_VERSION = re.compile(r"(\d+)-.*\.metadata\.json")


class Knowing(Protocol):
    """A catalog, by whichever library."""

    def names(self) -> Iterable[WarehouseName]:
        """Every table that it knows."""
        ...


def lost_tables(catalog: Knowing, data: Path | None) -> dict[str, tuple[WarehouseName, Path]]:
    """Name → (warehouse name, newest metadata file) of every table with data that the catalog has forgotten.

    `data`: the folder of the tables. None if they are in a store: whoever runs the store looks after its catalog. A
    crash in the middle of CREATE TABLE leaves a folder without a snapshot: nothing is lost with it.
    """
    if data is None:
        return {}
    in_catalog = {str(name) for name in catalog.names()}
    lost: dict[str, tuple[WarehouseName, Path]] = {}
    for folder in sorted(data.glob("*/metadata")):
        newest, metadata = _newest(folder)
        properties = metadata.get("properties", {})
        name, next_name = NAME.read(properties), NEXT_NAME.read(properties)
        if name is None or metadata.get("current-snapshot-id", -1) in (-1, None):
            continue
        if in_catalog.isdisjoint(str(own) for own in (name, next_name) if own is not None):
            lost[str(name)] = (name, newest)
    return lost


def _newest(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The newest metadata that is whole: a writer that was killed leaves a torn file, which was never committed."""
    for file in sorted(folder.glob("*.metadata.json"), key=_age, reverse=True):
        try:
            return file, json.loads(file.read_text())
        except ValueError:
            continue
    return folder, {}


def _age(file: Path) -> tuple[int, float]:
    """The later of two files with one number is the one that was committed: the other's writer died before."""
    match = _VERSION.fullmatch(file.name)
    return int(match[1]) if match else -1, file.stat().st_mtime
