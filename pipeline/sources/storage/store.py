"""Where the files of a changefeed are: a folder, or a bucket. Each is asked for the same few things.

A path is below the root, with `/` between folders and none at its beginning.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class StoredFile(NamedTuple):
    """A file as a listing has it. `modified`: seconds since the epoch.

    One that was written anew under its path has another size or another `etag`.
    """

    path: str
    size: int
    etag: str
    modified: float


class Store(Protocol):
    """A place of files. Raises `FileNotFoundError` for a path that has none."""

    def entries(self) -> Iterator[StoredFile]:
        """All files, in no order."""
        ...

    def entry(self, path: str) -> StoredFile:
        """One file as it is now."""
        ...

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        """The bytes from `start` on, all or at most `size`."""
        ...


@dataclass(slots=True)
class FolderStore:
    """A folder of this machine. Links are not followed: they may lead anywhere."""

    root: Path
    passed_over: int = field(default=0, init=False)
    """How many links the last listing has passed over."""

    def entries(self) -> Iterator[StoredFile]:
        """See `Store.entries`."""
        self.passed_over = 0
        folders = [""]
        while folders:
            folder = folders.pop()
            with os.scandir(self.root / folder) as items:
                for item in items:
                    path = f"{folder}{item.name}"
                    if item.is_symlink():
                        self.passed_over += 1
                    elif item.is_dir():
                        folders.append(f"{path}/")
                    elif item.is_file():
                        yield _entry(path, item.stat())

    def entry(self, path: str) -> StoredFile:
        """See `Store.entry`."""
        return _entry(path, (self.root / path).lstat())

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        """See `Store.read`."""
        with (self.root / path).open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FileNotFoundError(path)
            file.seek(start)
            return file.read(-1 if size is None else size)


def _entry(path: str, state: os.stat_result) -> StoredFile:
    return StoredFile(path, state.st_size, f"{state.st_mtime_ns:x}", state.st_mtime_ns / 1e9)
