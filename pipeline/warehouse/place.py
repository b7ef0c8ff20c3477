"""Where tables lie, against where the settings say that they do.

A table's metadata and the catalog name files by absolute path. So the catalog of a copied warehouse names the files of
the original. Whoever writes, compacts or expires through it changes the original (this has happened: its snapshots and
metadata were gone). The catalog of a warehouse that was moved names files that no longer exist.
"""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from pipeline.errors import Refused
from pipeline.model.names import CATALOG, PIPELINE_NAMESPACE
from pipeline.warehouse.locations import as_path
from pipeline.warehouse.state import CATALOG_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pipeline.settings.sections import Warehouse
    from pipeline.warehouse.iceberg import Table

WAREHOUSE_ELSEWHERE = "WAREHOUSE_ELSEWHERE"
WAREHOUSE_COPIED = "WAREHOUSE_COPIED"
_ALIKE = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}
"""Schemes of one store: by which client it is reached."""
_OWN = "SELECT table_name, metadata_location FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ?"
_LOCK_SECONDS = 10.0
_METADATA = re.compile(r"/metadata/[^/]*\.metadata\.json$")
_LISTED = 3


def lies_in(location: str, folder: str) -> bool:
    """Whether a location lies in a folder or under a URL; links, mounts and ways to write them do not matter."""
    path, place = as_path(location), as_path(folder)
    if path is not None and place is not None:
        return any(_inside(one, place) for one in (path, Path(unquote(str(path)))))
    if path is not None or place is not None:
        return False
    (kind, host, parts), (other, its, begin) = _in_store(location), _in_store(folder)
    return kind == other and (host == its or "" in {host, its}) and parts[: len(begin)] == begin


def _inside(path: Path, folder: Path) -> bool:
    if path.resolve().is_relative_to(folder.resolve()):
        return True
    return folder.exists() and any(parent.exists() and parent.samefile(folder) for parent in path.parents)


def _in_store(url: str) -> tuple[str, str, list[str]]:
    """Scheme, host or bucket, and the parts of the path."""
    scheme, _, rest = url.partition(":")
    host, _, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
    return _ALIKE.get(scheme.lower(), scheme.lower()), host, [part for part in path.split("/") if part]


def elsewhere(locations: Mapping[str, str], warehouse: Warehouse) -> dict[str, str]:
    """Those of our tables that do not lie where the settings say, by name; a REST catalog places tables as it likes."""
    if warehouse.catalog.type == "rest":
        return {}
    place = warehouse.data.rpartition("/")[0] or "/"  # what lies beside the tables' folder is of this place, too
    return {name: location for name, location in locations.items() if not lies_in(location, place)}


def check_place(locations: Mapping[str, str], warehouse: Warehouse) -> None:
    """Refuse tables that lie elsewhere, by name → location: who writes or maintains them has another lock.

    Raises `Refused`: WAREHOUSE_ELSEWHERE.
    """
    strays = elsewhere(locations, warehouse)
    if strays:
        raise Refused(WAREHOUSE_ELSEWHERE, sentence(strays, warehouse), _todo(next(iter(strays.values())), warehouse))


def sentence(strays: Mapping[str, str], warehouse: Warehouse) -> str:
    """Name both places."""
    names = ", ".join(sorted(strays)[:_LISTED]) + (" …" if len(strays) > _LISTED else "")
    places = " and ".join(sorted({_folder_of(location) for location in strays.values()})[:_LISTED])
    return f"the catalog says that {names} lie in {places}, but the settings say {warehouse.data}"


def _folder_of(location: str) -> str:
    """The folder of all tables, from the location of one or of its metadata file."""
    path = as_path(location)
    return _METADATA.sub("", location if path is None else str(path)).rstrip("/").rpartition("/")[0]


def _todo(stray: str, warehouse: Warehouse) -> str:
    """What to do about it: a folder was moved, or it was copied."""
    there, here = as_path(stray), warehouse.local_data
    key = "warehouse.catalog.warehouse" if "warehouse" in warehouse.catalog.properties else "warehouse.path"
    place = _folder_of(stray).rpartition("/")[0]
    if there is None or here is None or there.exists():
        return (
            f"to go on with those tables, set {key}: {place}. A copy is a backup, and works only at the path where it "
            "was made. For a second warehouse name an empty warehouse.path and checkpoint: its run reads what is there"
        )
    old = as_path(place) or there
    if old.exists():
        return f"if it was moved, move it back: something else is at its old path {old} now"
    link = f"ln -s {shlex.quote(str(here.parent))} {shlex.quote(str(old))}"
    make = "" if old.parent.exists() else f"mkdir -p {shlex.quote(str(old.parent))} && "
    return f"if it was moved, move it back, or make the old path a link to it: {make}{link}"


def check_catalog(warehouse: Warehouse) -> None:
    """Look before any table is loaded: those of a warehouse that was moved cannot be. Raises as `check_place`."""
    check_place(_own_locations(warehouse), warehouse)


def check_readable(warehouse: Warehouse) -> None:
    """Refuse a warehouse that was moved, as `check_place` does; one that was copied can be looked at."""
    locations = {name: location for name, location in _own_locations(warehouse).items() if _METADATA.search(location)}
    check_place(locations, warehouse)


def _own_locations(warehouse: Warehouse) -> dict[str, str]:
    """Name → location of the pipeline's own tables in the embedded catalog; their metadata file, where that is gone."""
    if not warehouse.catalog.embedded:
        return {}
    paths = {name: (location, as_path(location)) for name, location in _own_tables(warehouse.path / "catalog.db")}
    return {name: _location(location, path) for name, (location, path) in paths.items() if path is not None}


def _location(metadata: str, path: Path) -> str:
    try:
        return location_in(path)
    except (OSError, ValueError, KeyError):  # gone, or no metadata
        return metadata


def _own_tables(file: Path) -> list[tuple[str, str]]:
    """Names and metadata files of the pipeline's own tables in the embedded catalog; none where it cannot be read."""
    if not file.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", _LOCK_SECONDS, uri=True)) as database:
            rows = database.execute(_OWN, (CATALOG, PIPELINE_NAMESPACE)).fetchall()
    except sqlite3.Error:  # who reads it next says why
        return []
    return [(f"{PIPELINE_NAMESPACE}.{name}", location) for name, location in rows]


def location_in(metadata: Path) -> str:
    """The location of a table, by its metadata file."""
    return str(json.loads(metadata.read_text(encoding="utf-8"))["location"])


def catalog_folder(warehouse: Warehouse) -> str | None:
    """The folder of the embedded catalog, where its tables lie in a store or in another folder; else None.

    A copy of such a catalog names the same tables, and they lie where the settings say. Only the catalog's own place
    shows that it is a copy.
    """
    if not warehouse.catalog.embedded or lies_in(warehouse.data, str(warehouse.path)):
        return None
    return str(warehouse.path.resolve())


def check_copied(properties: Mapping[str, str], warehouse: Warehouse) -> None:
    """Refuse the copy of an embedded catalog whose tables lie elsewhere. `properties`: of `batches`.

    Raises `Refused`: WAREHOUSE_COPIED. A catalog that does not say where it was may be anywhere.
    """
    before, now = CATALOG_FOLDER.read(properties), catalog_folder(warehouse)
    if before and now and not (lies_in(now, before) and lies_in(before, now)):
        raise Refused(
            WAREHOUSE_COPIED,
            f"the catalog of the tables in {warehouse.data} was in {before}, and is in {now}: two catalogs of the "
            "same tables remove each other's files",
            f"if you moved it, and nothing uses {before} any more: ticdc-warehouse run --accept {WAREHOUSE_COPIED}; "
            f"otherwise go on there, with warehouse.path: {before}",
        )


def placed(tables: Iterable[Table]) -> dict[str, str]:
    """Name → location of tables that are loaded."""
    return {str(table.name): table.location for table in tables}
