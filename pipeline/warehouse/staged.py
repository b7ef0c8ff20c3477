"""Appends that wait on a branch until somebody has looked at them: write, audit, publish (decision 003)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.warehouse.pairs import STAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pipeline.model.places import PartitionId
    from pipeline.warehouse.changes import Appended, Entry
    from pipeline.warehouse.pairs import TablePair


@dataclass(slots=True)
class Staged:
    """One such append."""

    table: TablePair
    branch: str
    ends: Mapping[PartitionId, int]
    appended: Appended
    waits: bool = True

    @property
    def name(self) -> str:
        """The branch as a table, in SQL."""
        return self.table.name.changes.branch(self.branch)

    def show(self) -> None:
        """Let main have it."""
        self.table.changes.publish(self.branch)
        self.table.ends = {**self.table.ends, **self.ends}
        self.waits = False

    def drop(self) -> None:
        """Let it go, if it still waits."""
        if self.waits:
            self.table.changes.drop_branch(self.branch)
            self.waits = False


def stage(table: TablePair, entry: Entry, append: Callable[[str], Appended]) -> Staged:
    """Append where nobody sees it yet: `append` is given the branch."""
    branch = f"{STAGE}{entry.operation}"
    table.changes.stage(branch)
    return Staged(table, branch, entry.ends, append(branch))
