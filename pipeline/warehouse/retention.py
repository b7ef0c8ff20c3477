"""Which snapshots an expiry keeps: one rule, for the maintainer, who lets Iceberg do it, and for those who count.

Source: Iceberg's `RemoveSnapshots`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.warehouse.state import BACKFILLED, CALLED, ENDS

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from pipeline.settings.sections import Maintenance

_MAIN = "main"
CARRYING = (ENDS.name, BACKFILLED.name, CALLED.name)
"""What is read from the newest snapshot that has it: of changes tables, current tables and `ddl_history`."""


@dataclass(frozen=True, slots=True)
class Retention:
    """A snapshot stays if it is among the newest `keep` of a branch, is young enough, or has a tag.

    On main, the newest one with an entry of `carrying` stays, too, with all that came after it: those may be
    compactions.
    """

    keep: int
    older_than_ms: int
    carrying: Collection[str] = ()

    @staticmethod
    def of(thresholds: Maintenance, now: float) -> Retention:
        """As the settings have it; `now` in seconds since the epoch."""
        older_than = int((now - thresholds.keep_for_seconds) * 1000)
        return Retention(thresholds.keep_snapshots, older_than, CARRYING)

    def depth(self, main: Iterable[Container[str]]) -> int:
        """How many of main's snapshots always stay. `main`: their summaries, newest first, read as far as needed."""
        if not self.carrying:
            return self.keep
        for depth, summary in enumerate(main, 1):
            if any(key in summary for key in self.carrying):
                return max(self.keep, depth)
        return self.keep

    def expirable(self, table: TableMetadata, now_ms: int) -> int:
        """How many snapshots of a table an expiry would take now."""
        keep = self.depth(_summary(snapshot) for snapshot in _line(table, table.current_snapshot_id))
        kept: set[int] = set()
        named: set[int] = set()
        for name, ref in table.refs.items():
            tip = table.snapshot_by_id(ref.snapshot_id)
            if tip is None or (name != _MAIN and ref.max_ref_age_ms and now_ms - tip.timestamp_ms > ref.max_ref_age_ms):
                continue  # an expired tag goes, too
            line = list(_line(table, ref.snapshot_id)) if ref.snapshot_ref_type == "branch" else [tip]
            named |= {snapshot.snapshot_id for snapshot in line}
            kept |= self._kept(line, keep) if ref.snapshot_ref_type == "branch" else {tip.snapshot_id}
        young = {s.snapshot_id for s in table.snapshots if s.timestamp_ms >= self.older_than_ms}
        return len({snapshot.snapshot_id for snapshot in table.snapshots} - kept - (young - named))

    def _kept(self, line: Iterable[Snapshot], keep: int) -> set[int]:
        """Of a branch, up to the first that is neither new nor young."""
        kept: set[int] = set()
        for snapshot in line:
            if len(kept) >= keep and snapshot.timestamp_ms < self.older_than_ms:
                break
            kept.add(snapshot.snapshot_id)
        return kept


def _line(table: TableMetadata, newest: int | None) -> Iterator[Snapshot]:
    """A snapshot and those before it, as far as they are there."""
    snapshot = None if newest is None else table.snapshot_by_id(newest)
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)


def _summary(snapshot: Snapshot) -> dict[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties
