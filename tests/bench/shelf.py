"""How many files a warehouse has, and how large its metadata is, while it is being written."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from machine import Sampler

if TYPE_CHECKING:
    from pathlib import Path

    from figures import Sample

_DATA = ".parquet"


def taken(folder: Path) -> dict[str, int]:
    """Data and delete files, metadata files and the bytes of the latter; a file that goes meanwhile does not count."""
    found = {"data_files": 0, "metadata_files": 0, "metadata_bytes": 0}
    for where, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".crc"):
                continue
            if name.endswith(_DATA):
                found["data_files"] += 1
                continue
            try:
                found["metadata_bytes"] += os.stat(os.path.join(where, name)).st_size  # noqa: PTH116, PTH118 - thousands
            except OSError:
                continue
            found["metadata_files"] += 1
    return found


class Shelf(Sampler):
    """How full a warehouse's folder is, and when: `samples`."""

    every = 2.0

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.samples: list[Sample] = []
        self._folder = folder
        self._began = time.monotonic()

    def look(self) -> None:
        """See `Sampler.look`."""
        if self._folder.exists():
            self.samples.append((time.monotonic() - self._began, taken(self._folder)))
