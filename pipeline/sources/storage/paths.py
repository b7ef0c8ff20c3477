"""What a file of a storage changefeed is, by its path below the root.

TiCDC does not escape names, so a path can be read in several ways: in `a/b/45001/1/CDC000001.csv`, `1` may be a
physical partition, or the version of a table whose name is `b/45001`. Which it is, the schema file tells that describes
the version: `DataFile.under` takes the reading that has one. What a table is called the schema file says too, never the
path.

Written as: docs/explanation/wire-formats.md, "Storage sink".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

METADATA = "metadata"
EXTENSIONS = {"csv": "csv", "json": "canal-json"}
"""The protocol of a data file, by its extension."""

_DATA = re.compile(r"CDC(?:_(?P<dispatcher>[0-9A-Za-z-]+)_)?(?P<number>[0-9]{6,20})\.(?P<extension>csv|json)")
_INDEX = re.compile(r"CDC(?:_[0-9A-Za-z-]+)?\.index")
_SCHEMA = re.compile(r"schema_(?P<version>[0-9]{1,20})_(?P<checksum>[0-9]{10})\.json")
_DATE = re.compile(r"[0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2})?)?")
_NUMBER = re.compile(r"[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class VersionPath:
    """A version of a table: the folder of the table, and the number of the version."""

    table: str
    version: int

    @property
    def folder(self) -> str:
        """The folder of the version."""
        return f"{self.table}/{self.version}"


@dataclass(frozen=True, slots=True)
class SchemaPath:
    """A file that describes a version of a table, or a database. TiCDC 6.5 writes no checksum (None)."""

    describes: VersionPath
    checksum: int | None


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows. `readings`: the versions that its path may mean, the likeliest first.

    `folder` is where its numbers are counted. `dispatcher` is "" unless several dispatchers write one table.
    """

    folder: str
    dispatcher: str
    number: int
    protocol: str
    readings: tuple[VersionPath, ...]

    def under(self, described: Container[VersionPath]) -> VersionPath | None:
        """The version that the path means; None as long as none of its readings is described."""
        return next((reading for reading in self.readings if reading in described), None)


@dataclass(frozen=True, slots=True)
class Metadata:
    """The file that says up to which commit ts all rows are written."""


@dataclass(frozen=True, slots=True)
class Index:
    """The name of the newest file of a folder; nothing that is read depends on it, as TiCDC may write it too early."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A file that is not TiCDC's."""


File = Metadata | SchemaPath | DataFile | Index | Foreign


def read_path(path: str) -> File:
    """What the file at a path below the root is; `path` has no leading slash."""
    *folders, name = path.split("/")
    if path == METADATA:
        return Metadata()
    if folders and (match := _DATA.fullmatch(name)) is not None:
        readings = tuple(_readings(folders))
        if not readings:
            return Foreign()
        number, protocol = int(match["number"]), EXTENSIONS[match["extension"]]
        return DataFile("/".join(folders), match["dispatcher"] or "", number, protocol, readings)
    if len(folders) > 1 and folders[-1] == "meta":
        return _meta(folders[:-1], name)
    if name == "schema.json" and len(folders) > 1 and _NUMBER.fullmatch(folders[-1]):  # TiCDC 6.5
        return SchemaPath(VersionPath("/".join(folders[:-1]), int(folders[-1])), None)
    return Foreign()


def path_of(path: str, number: int) -> str:
    """The path that a file of rows would have under another number."""
    folder, _, name = path.rpartition("/")
    stem, _, extension = name.rpartition(".")
    width = len(stem) - len(stem.rstrip("0123456789"))
    return f"{folder}/{stem[:-width]}{number:0{width}}.{extension}"


def _meta(folders: list[str], name: str) -> File:
    match = _SCHEMA.fullmatch(name)
    if match is not None:
        return SchemaPath(VersionPath("/".join(folders), int(match["version"])), int(match["checksum"]))
    return Index() if _INDEX.fullmatch(name) else Foreign()


def _readings(folders: list[str]) -> list[VersionPath]:
    """Which versions the folders of a data file may mean: table, version, perhaps partition, perhaps date.

    A date or a partition is likelier than a table of such a name.
    """
    readings: list[VersionPath] = []
    for levels in (2, 1, 0):
        place = len(folders) - 1 - levels
        if place < 1 or not _NUMBER.fullmatch(folders[place]):
            continue
        if _are_below_a_version(folders[place + 1 :]):
            readings.append(VersionPath("/".join(folders[:place]), int(folders[place])))
    return readings


def _are_below_a_version(levels: list[str]) -> bool:
    match levels:
        case [partition, date]:
            return bool(_NUMBER.fullmatch(partition) and _DATE.fullmatch(date))
        case [either]:
            return bool(_NUMBER.fullmatch(either) or _DATE.fullmatch(either))
    return True
