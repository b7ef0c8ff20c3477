"""Lanes: files whose numbers count up, those of one folder and dispatcher. And where new ones may come.

A changefeed keeps writing into few of its folders. Only these are looked into with every batch (`LiveFolders`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pipeline.sources.storage.paths import DataFile, VersionPath, read_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

LANE_PATH = r"^(.*)/CDC(?:_([0-9A-Za-z-]+)_)?([0-9]{6,20})\.(?:csv|json)$"
"""The path of a file of rows, for Java: folder, dispatcher, number."""
LANE = re.compile(
    r"(?P<folder>.*)/CDC(?:_(?P<dispatcher>[0-9A-Za-z-]+)_)?(?P<number>[0-9]{6,20})\.(?:csv|json)", re.DOTALL
)
MONTH_OR_DAY = "/[0-9]{4}-[0-9]{2}(-[0-9]{2})?$"
"""The date of a folder. A year alone may also be a partition."""
_MONTH_OR_DAY = re.compile(MONTH_OR_DAY)
_STAYS_LIVE = 86_400.0
"""Seconds for which a version that is not its table's newest is looked into after its newest file."""


class Lane(NamedTuple):
    """Files whose numbers count up. `dispatcher` is "" unless several write one table."""

    folder: str
    dispatcher: str


class LaneEnd(NamedTuple):
    """The newest file of a lane that a batch has taken. `modified`: seconds since the epoch."""

    number: int
    path: str
    modified: float


def undated(folder: str) -> str:
    """A folder of files without its date."""
    return _MONTH_OR_DAY.sub("", folder)


class Newest(NamedTuple):
    """The newest folder of one partition of a version, and the path behind which the next files of it come."""

    folder: str
    after: str


@dataclass(frozen=True, slots=True)
class LiveFolders:
    """Where new files may come, and where none come: older dates, older versions.

    `tables`: the folder of the newest version, by the folder of a table. `versions`: by the folder of each version to
    which files may come, what it has, by folders without their dates. `closed`: folders of the other versions.
    """

    tables: Mapping[str, str]
    versions: Mapping[str, Mapping[str, Newest]]
    closed: frozenset[str]

    @property
    def folders(self) -> frozenset[str]:
        """Every folder in which something new may come."""
        inside = [(undated, newest.folder) for groups in self.versions.values() for undated, newest in groups.items()]
        named = {*self.tables, *self.versions, *(folder for pair in inside for folder in pair)}
        above = {folder for name in named for folder in folders_above(name)}
        meta = {f"{folder}/meta" for folder in (*self.tables, *self.databases)}
        return frozenset(named | above | meta)

    @property
    def databases(self) -> frozenset[str]:
        """Every folder in which folders of tables are, but for the root."""
        return frozenset(folder for table in self.tables for folder in folders_above(table) if folder)

    def is_closed(self, folder: str) -> bool:
        """Whether nothing new comes there, as far as the names tell."""
        group = undated(folder)
        newest = next((groups[group] for groups in self.versions.values() if group in groups), None)
        return folder in self.closed or (newest is not None and group != folder and folder < newest.folder)


def live_folders(
    ends: Mapping[Lane, LaneEnd], described: Collection[VersionPath], left_out: Collection[VersionPath] = ()
) -> LiveFolders:
    """Where new files may come. `ends`: the newest file of each lane; `described`: versions with a schema file.

    `left_out`: versions of tables that are not read.

    TiCDC writes to a table's newest version, or goes on with an older one that has the same columns.
    """
    newest_version: dict[str, int] = {}
    for any_version in described:
        newest_version[any_version.table] = max(any_version.version, newest_version.get(any_version.table, 0))
    tables = {table: VersionPath(table, version).folder for table, version in newest_version.items()}
    now = max((end.modified for end in ends.values()), default=0.0)
    versions: dict[str, dict[str, Newest]] = {folder: {} for folder in tables.values()}
    modified: dict[str, float] = {}
    for lane, end in ends.items():
        file = read_path(end.path)
        version = file.under(described) if isinstance(file, DataFile) else None
        if version is None:
            continue
        folder, group = version.folder, undated(lane.folder)
        newest = Newest(lane.folder, f"{lane.folder}/" if lane.dispatcher else end.path)
        groups = versions.setdefault(folder, {})
        groups[group] = max(newest, groups.get(group, newest))
        modified[folder] = max(end.modified, modified.get(folder, end.modified))
    live = {*tables.values(), *(folder for folder, last in modified.items() if last >= now - _STAYS_LIVE)}
    live -= {version.folder for version in left_out}
    closed = frozenset(version.folder for version in described) - live
    return LiveFolders(tables, {folder: groups for folder, groups in versions.items() if folder in live}, closed)


def folders_above(folder: str) -> Iterator[str]:
    """The folders that a folder is in, down from the root, which is ""."""
    names = folder.split("/")
    return ("/".join(names[:depth]) for depth in range(len(names)))
