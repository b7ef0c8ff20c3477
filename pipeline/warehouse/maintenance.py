"""Keeping tables small between batches: compaction and snapshot expiry, by the settings' thresholds."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.observe.logs import bound
from pipeline.warehouse import cuts
from pipeline.warehouse.retention import Retention
from pipeline.warehouse.state import LAYOUT, ROLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession

    from pipeline.settings.sections import Maintenance
    from pipeline.warehouse.iceberg import Table
    from pipeline.warehouse.pairs import TablePair
    from pipeline.warehouse.records import Records

CUTS = "cuts"
_CURRENT = "current"
_DELETED_SHARE = 0.34
"""A large data file is rewritten when so much of its rows is deleted."""
_DELETED_IN_ALL = 0.5
"""A table is compacted when so much of its rows has been deleted: files of a batch begin with a third that is dead."""
_FEW_DELETED = 100_000
"""So many deleted rows cost a reader nothing to speak of: small tables are compacted by the number of their files."""
_FEW_CUTS = 10_000
"""So many rows of `_pipeline.cuts` are read in no time."""
_SORTED_FROM = 5_000_000
"""A current table of so many rows is compacted in the order of its keys: a publish then reads few of its row groups."""
_ROW_GROUP, _ROW_GROUP_BYTES = "write.parquet.row-group-size-bytes", str(16 << 20)
"""Some 100,000 rows, so that a changed key costs the reading of so many."""
_SORTING = {"max-file-group-size-bytes": str(8 << 30), "max-concurrent-file-group-rewrites": "1"}
"""Spark writes what it sorts into its scratch folder: so much of a table at a time."""
_NOTHING = {"data-files": 0, "delete-files": 0, "position-deletes": 0}


@dataclass(slots=True)
class Maintainer:
    """Compacts and expires what has grown past a threshold since it was last done."""

    spark: SparkSession
    thresholds: Maintenance
    step: Callable[[str], None]
    _totals_after: dict[str, dict[str, int]] = field(default_factory=dict)
    _commits: dict[str, int] = field(default_factory=dict)
    _cuts_left: int = 0

    def after_batch(self, written: Iterable[TablePair], records: Records, pairs: Iterable[TablePair]) -> None:
        """Look after the tables that a batch has written, and after the pipeline's own. `pairs`: all that there are."""
        for pair in written:
            for table in (pair.current, pair.changes):
                if table is not None:
                    self._look_after(table)
        self._forget_cuts_if_due(records.tables[CUTS], pairs)
        for table in records.tables.values():
            self._look_after(table)

    def _look_after(self, table: Table) -> None:
        with bound(table=str(table.name)):
            self._compact_if_due(table)
            self._expire_if_due(table)

    def _forget_cuts_if_due(self, table: Table, pairs: Iterable[TablePair]) -> None:
        """Where they are twice as many as were left the last time: most snapshots that they name have expired."""
        if table.totals()["records"] > 2 * max(self._cuts_left, _FEW_CUTS):
            self.forget_cuts(table, pairs)

    def forget_cuts(self, table: Table, pairs: Iterable[TablePair]) -> None:
        """Delete the rows of `_pipeline.cuts` that answer nothing any more."""
        cuts.forget(self.spark, table, pairs)
        self._cuts_left = table.totals()["records"]

    def _compact_if_due(self, table: Table) -> None:
        now, before = table.totals(), self._totals_after.setdefault(table.uuid, _NOTHING)
        files, deletes, rows = (now[name] - before[name] for name in _NOTHING)
        if (
            files >= self.thresholds.compact_files
            or deletes >= self.thresholds.compact_deletes
            or rows > max(_DELETED_IN_ALL * now["records"], _FEW_DELETED)
        ):
            self.compact(table)

    def compact(self, table: Table) -> None:
        """Rewrite small data files into large ones, and those of which much is deleted; the rows stay the same.

        A large current table is sorted by its key, unless a user has given it an order or partitions. What was
        rewritten before is not sorted anew.

        What that costs is bounded by the size of a file and by what was deleted, not by the table's size: a large file
        with few deletes stays as it is, with the file or two that have its deletes.
        """
        table.refresh()
        order = _order(table)
        options = {"min-input-files": "2", "delete-ratio-threshold": str(_DELETED_SHARE)}
        table.rewrite({**options, **(_SORTING if order else {})}, order)
        table.refresh()
        now = table.totals()
        if (
            now["delete-files"] - 2 * now["data-files"] >= self.thresholds.compact_deletes
        ):  # most are of files that went
            table.rewrite_deletes()
            table.refresh()
        self._totals_after[table.uuid] = table.totals()
        self.step("compacted")

    def _expire_if_due(self, table: Table) -> None:
        """By the commits since it was last done; in a new process, which may end after one batch, by the snapshots."""
        head = table.head_sequence()
        if table.uuid not in self._commits:
            beyond = table.snapshot_count() - self.thresholds.keep_snapshots
            self._commits[table.uuid] = head - max(0, beyond)
        if head - self._commits[table.uuid] >= self.thresholds.expire_after_commits:
            self.expire(table)

    def expire(self, table: Table) -> None:
        """Forget old snapshots and delete the files that only they had."""
        table.expire(Retention.of(self.thresholds, time.time()))
        self._commits[table.uuid] = table.head_sequence()
        self.step("expired")


def _order(table: Table) -> Sequence[str]:
    """The columns by which a table is sorted: the key of a large current one, if they are all there.

    Such a table has small row groups from now on. In a held table a user may have renamed a column of the key.
    """
    if ROLE.read(table.properties) != _CURRENT or table.totals()["records"] < _SORTED_FROM or table.is_arranged():
        return ()
    layout = LAYOUT.read(table.properties)
    key = [column.name for column in layout.key] if layout else []
    if not set(key) <= set(table.columns()):
        return ()
    if key and _ROW_GROUP not in table.properties:
        table.set_properties({_ROW_GROUP: _ROW_GROUP_BYTES})
    return key
