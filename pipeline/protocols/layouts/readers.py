"""Which rows are of which version of their table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.messages import EVER
from pipeline.protocols.layouts.head import COMMIT_TS, DELETE, NUMBER, head

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pipeline.model.columns import TableVersion


@dataclass(frozen=True, slots=True)
class VersionRows:
    """One version and which rows are of it: of its layout, and (`since`, `until`) where another has the same."""

    version: TableVersion
    numbers: tuple[int, ...]
    key_only: bool = False
    since: int = 0
    until: int = EVER

    @property
    def mine(self) -> Column:
        """Whether a row is of this version."""
        same = head(NUMBER).isin(*self.numbers)
        if (self.since, self.until) != (0, EVER):
            same = same & head(COMMIT_TS).between(self.since, self.until)
        if self.key_only or is_all_handle(self.version):
            same = same & (head(DELETE) == F.lit(self.key_only))
        return same


def is_all_handle(version: TableVersion) -> bool:
    """Whether the version has no column but the handle."""
    return len(version.handle or ()) == len(version.columns)
