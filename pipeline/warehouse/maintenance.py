"""Keeping tables small between batches: compaction and snapshot expiry, by the settings' thresholds."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from pipeline.settings.sections import Maintenance
    from pipeline.warehouse.iceberg import Table
    from pipeline.warehouse.records import Records
    from pipeline.warehouse.tables import Tables


@dataclass(slots=True)
class Maintainer:
    """Compacts and expires what has grown past a threshold since it was last done."""

    spark: SparkSession
    thresholds: Maintenance
    step: Callable[[str], None]
    _files_after: dict[str, dict[str, int]] = field(default_factory=dict)
    _commits: dict[str, int] = field(default_factory=dict)

    def after_batch(self, tables: Tables, records: Records) -> None:
        """Look after every table that this process writes."""
        for pair in tables:
            if pair.current is not None:
                self._compact_if_due(pair.current)
                self._expire_if_due(pair.current)
            self._compact_if_due(pair.changes)
            self._expire_if_due(pair.changes)
        for table in records.tables.values():
            self._compact_if_due(table)
            self._expire_if_due(table)

    def _compact_if_due(self, table: Table) -> None:
        now = table.totals()
        before = self._files_after.setdefault(table.uuid, {"data-files": 0, "delete-files": 0})
        grown = now["data-files"] - before["data-files"] >= self.thresholds.compact_files
        deletes = now["delete-files"] - before["delete-files"] >= self.thresholds.compact_deletes
        if grown or deletes:
            self.compact(table)

    def compact(self, table: Table) -> None:
        """Rewrite small files and files with deletes into large ones; the rows stay the same."""
        options = {"min-input-files": "2", "delete-file-threshold": "1", "remove-dangling-deletes": "true"}
        table.rewrite(options)
        table.refresh()
        self._files_after[table.uuid] = table.totals()
        self.step("compacted")

    def _expire_if_due(self, table: Table) -> None:
        head = table.head_sequence()
        if head - self._commits.setdefault(table.uuid, head) >= self.thresholds.expire_after_commits:
            self.expire(table)

    def expire(self, table: Table) -> None:
        """Forget old snapshots and delete the files that only they had."""
        older_than = int((time.time() - self.thresholds.keep_for_seconds) * 1000)
        table.expire(self.thresholds.keep_snapshots, older_than)
        self._commits[table.uuid] = table.head_sequence()
        self.step("expired")
