"""What may be deleted of a changefeed's files (`source.cleanup: delete`): a batch has taken it, and nothing needs it.

The newest file of each lane stays, as TiCDC counts on from it (of lanes that differ in the date alone, of the newest),
and with it the schema files of its version. So does what describes a table's newest version.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.model.columns import time_of
from pipeline.observe.logs import get_logger
from pipeline.sources.storage.lanes import live_folders, undated
from pipeline.sources.storage.paths import DataFile, Index, SchemaPath, read_path
from pipeline.sources.storage.plan_log import is_same

if TYPE_CHECKING:
    from collections.abc import Collection

    from pipeline.sources.storage.inventory import Inventory
    from pipeline.sources.storage.lanes import LaneEnd, LiveFolders
    from pipeline.sources.storage.paths import VersionPath
    from pipeline.sources.storage.plan_log import PlanLog
    from pipeline.sources.storage.store import Store, StoredFile

_MOST = 100_000
"""So many files are deleted after one listing; the rest after the next one."""
_CLOCKS_DIFFER_BY = 60.0
_log = get_logger(__name__)


@dataclass(slots=True)
class Removable:
    """Finds what may go while everything is listed. `before`: what was written later stays; seconds since the epoch.

    All that `log` has is finished: the ledger has passed it.
    """

    log: PlanLog
    before: float
    described: Collection[VersionPath]
    files: list[StoredFile] = field(default_factory=list)
    _live: LiveFolders = field(init=False)
    _newest: frozenset[str] = field(init=False)
    _with_rows: frozenset[VersionPath | None] = field(init=False)
    """Versions of which a file stays."""

    def __post_init__(self) -> None:
        self._live = live_folders(self.log.ends, self.described)
        newest: dict[tuple[str, str], tuple[str, LaneEnd]] = {}
        for lane, end in self.log.ends.items():
            key = undated(lane.folder), lane.dispatcher
            newest[key] = max((lane.folder, end), newest.get(key, (lane.folder, end)))
        self._newest = frozenset(end.path for _, end in newest.values())
        files = (read_path(path) for path in self._newest)
        self._with_rows = frozenset(file.under(self.described) for file in files if isinstance(file, DataFile))

    @staticmethod
    def of(inventory: Inventory, complete_up_to: int, keep_for: float) -> Removable:
        """What finds files that are older than `keep_for` seconds, and whose rows lie up to a commit ts."""
        return Removable(inventory.log, written_before(complete_up_to, keep_for), inventory.described)

    def offer(self, entry: StoredFile) -> None:
        """Take note of a file if it may go."""
        if entry.modified < self.before and len(self.files) < _MOST and self._may_go(entry):
            self.files.append(entry)

    def _may_go(self, entry: StoredFile) -> bool:
        match read_path(entry.path):
            case DataFile():
                return entry.path not in self._newest and is_same(self.log.known(entry.path), entry)
            case Index():
                return self._live.is_closed(entry.path.rpartition("/meta/")[0])
            case SchemaPath(describes=version):
                is_used = version in self._with_rows or self._live.tables.get(version.table) == version.folder
                return not is_used and is_same(self.log.known(entry.path), entry)
        return False


def written_before(complete_up_to: int, keep_for: float) -> float:
    """What was written before this (seconds since the epoch) is old enough, and has no row above a commit ts.

    A file is written after its rows were committed.
    """
    complete = time_of(complete_up_to).timestamp() if complete_up_to else 0.0
    return min(time.time() - keep_for, complete - _CLOCKS_DIFFER_BY)


def delete(store: Store, removable: Removable) -> None:
    """Delete what may go. Where that is not allowed, the log says so: a run needs nothing of it."""
    count = 0
    try:
        for entry in removable.files:
            store.delete(entry.path)
            count += 1
    except PermissionError as error:
        path, why = error.filename, error.strerror
        _log.warning("STORE_FORBIDDEN: this user may not delete %s: %s (s3:DeleteObject)", path, why)
    if count:
        _log.info("cleaned-up", files=count, bytes=sum(entry.size for entry in removable.files[:count]))
