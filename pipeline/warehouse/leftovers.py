"""Folders in the warehouse that no table has: what a run leaves that was killed in the middle of CREATE TABLE."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.warehouse.locations import real_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_METADATA = re.compile(r"\.?(\d+)-[^/]*\.metadata\.json(\.crc)?")
"""Iceberg's metadata files, and the checksums that Hadoop writes beside them."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A folder of no table. `is_empty`: nothing was ever committed in it, so nothing is lost with it."""

    folder: Path
    is_empty: bool


def leftovers(data: Path, locations: Iterable[str], before: float) -> list[Leftover]:
    """The folders of `data` in which no location lies, and nothing is younger than a moment (seconds since the epoch).

    A younger one may be of a table that is being made. What has ever had a snapshot may be a table that the catalog
    has lost (`orphans.lost_tables`) or one that was dropped and kept: that is a person's matter.
    """
    owned = {path for location in locations if (path := real_path(location)) is not None}
    return [
        Leftover(folder, _is_empty(folder))
        for folder in sorted(data.iterdir() if data.is_dir() else ())
        if folder.is_dir() and not folder.is_symlink() and not _is_owned(Path(os.path.realpath(folder)), owned)
        if all(path.lstat().st_mtime < before for path in _within(folder))
    ]


def _is_owned(folder: Path, owned: set[Path]) -> bool:
    """Whether a table lies in the folder, or the folder in a table."""
    return any(folder == place or folder in place.parents or place in folder.parents for place in owned)


def _within(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.rglob("*")


def _is_empty(folder: Path) -> bool:
    return all(_is_uncommitted(path, folder) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())


def _is_uncommitted(file: Path, folder: Path) -> bool:
    """Whether a file is the metadata of a table that has no snapshot; a torn one, if it is the first of its table."""
    match = _METADATA.fullmatch(file.name)
    if match is None or file.parent != folder / "metadata" or file.is_symlink():
        return False
    if match[2]:
        return True
    try:
        metadata: dict[str, Any] = json.loads(file.read_bytes())
    except ValueError:
        return int(match[1]) == 0
    return metadata.get("current-snapshot-id", -1) in (-1, None) and not metadata.get("snapshots")
