"""Which files TiCDC has sent again, after it died while it wrote them.

A file that ends within a record is of a TiCDC that had a crash. No row of it was acknowledged, so the changefeed begins
again before the first of them. A later file of the same folder shows that by its own first row. Where a file has lost
its end otherwise, in a copy of the bucket say, the files behind it begin with newer rows: then nothing was sent again.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from pipeline.sources.storage.batches import FIRST_BYTES
from pipeline.sources.storage.lanes import undated

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pipeline.sources.storage.plan_log import PlannedFile
    from pipeline.sources.storage.store import Store

_INCARNATION = re.compile(r"(?<=[vn])@[0-9]+$")
"""What `PlannedFile.shown_path` has behind `.csv` or `.json`."""


def sent_again(
    torn: Collection[str], files: Sequence[PlannedFile], store: Store, begins: Callable[[bytes], int]
) -> frozenset[str]:
    """Which of the torn files, named as users see them, have their rows again in these, or in their new content.

    `begins`: `Lines.begins_at_most`.
    """

    @cache
    def first(path: str) -> int:
        """The commit ts of a file's first row; 0 where nobody knows it, or the file is gone."""
        try:
            return begins(store.read(path, 0, FIRST_BYTES))
        except FileNotFoundError:
            return 0

    def is_again(name: str) -> bool:
        path = _INCARNATION.sub("", name)
        return any(0 < first(file.path) <= first(path) for file in _later(name, path, files))

    return frozenset(filter(is_again, torn))


def _later(name: str, path: str, files: Sequence[PlannedFile]) -> Iterator[PlannedFile]:
    """The files behind a torn one that may have its rows: of the same folder, whatever its date."""
    place = next((number for number, file in enumerate(files) if file.shown_path == name), -1)
    folder = _folder(path)
    return (file for file in files[place + 1 :] if file.has_rows and _folder(file.path) == folder)


def _folder(path: str) -> str:
    return undated(path.rpartition("/")[0])
