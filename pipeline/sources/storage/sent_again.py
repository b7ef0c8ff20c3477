"""Which files TiCDC has sent again, after it died while it wrote them.

A file that ends within a record is of a TiCDC that had a crash. No row of it was acknowledged, so the changefeed begins
again before the first of them. A later file of the same folder shows that by its own first row. Where a file has lost
its end otherwise, in a copy of the bucket say, the files behind it begin with newer rows: then nothing was sent again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.sources.storage.lanes import LANE, undated

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pipeline.sources.storage.plan_log import PlannedFile
    from pipeline.sources.storage.store import Store

_INCARNATION = re.compile(r"(?<=[vn])@[0-9]+$")
"""What `PlannedFile.shown_path` has behind `.csv` or `.json`."""
_FIRST_BYTES = 1 << 20
"""So much of a file is read for the commit ts of its first row."""


@dataclass(frozen=True, slots=True)
class SentAgain:
    """Looks for the rows of torn files in those of a batch. `begins`: `Lines.begins_at_most`."""

    store: Store
    begins: Callable[[bytes], int]

    def among(self, torn: Collection[str], files: Sequence[PlannedFile]) -> frozenset[str]:
        """Which of the torn files, named as users see them, have their rows again in these, or in their new content."""
        return frozenset(name for name in torn if self._is_again(name, files))

    def _is_again(self, name: str, files: Sequence[PlannedFile]) -> bool:
        path = _INCARNATION.sub("", name)
        later = list(_later(name, path, files))
        if not later:
            return False
        first = self._begin(path)
        return any(0 < self._begin(file.path) <= first for file in later)

    def _begin(self, path: str) -> int:
        """The commit ts of a file's first row; 0 where nobody knows it, or the file is gone."""
        try:
            return self.begins(self.store.read(path, 0, _FIRST_BYTES))
        except FileNotFoundError:
            return 0


def _later(name: str, path: str, files: Sequence[PlannedFile]) -> Iterator[PlannedFile]:
    """The files behind a torn one that may have its rows: of the same folder, whatever its date."""
    place = next((number for number, file in enumerate(files) if file.shown_path == name), -1)
    folder = _folder(path)
    return (file for file in files[place + 1 :] if file.has_rows and _folder(file.path) == folder)


def _folder(path: str) -> str:
    match = LANE.fullmatch(path)
    return undated(match["folder"]) if match else path
