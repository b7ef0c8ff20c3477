"""Where the files of a changefeed are: a folder, or a bucket. Each is asked for the same few things.

A path is below the root, with `/` between folders and none at its beginning; a folder is such a path, "" the root.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass, field
from errno import ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, ENXIO
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pyarrow import fs

from pipeline.sources.storage.paths import DataFile, read_path

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from pipeline.sources.storage.lanes import LiveFolders

_NO_FILE = (ENOENT, ENOTDIR, ENAMETOOLONG, ELOOP, ENXIO)
_SETTLES_IN_NS = 2_000_000_000
"""For so long after a change a folder may change again without another time."""


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

    def everything(self) -> Iterator[StoredFile]:
        """All files, in no order."""
        ...

    def recent(self, live: LiveFolders) -> Iterator[StoredFile]:
        """At least all files that are new since the last time and stand in these folders, or in new ones."""
        ...

    def inside(self, folder: str) -> Iterable[StoredFile]:
        """The files that stand in a folder itself; none if there is no such folder."""
        ...

    def entry(self, path: str) -> StoredFile:
        """One file as it is now."""
        ...

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        """The bytes from `start` on, all or at most `size`."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file; one that is gone is no error. Raises `PermissionError`."""
        ...

    def stop(self) -> None:
        """Wait no longer for a place that does not answer; may be called from another thread."""
        ...


class Inside(NamedTuple):
    """What is in a folder: files, folders by their paths, and the paths of what is no file, whatever its name says."""

    files: list[StoredFile]
    folders: list[str]
    no_files: Sequence[str] = ()


@dataclass(slots=True)
class FolderStore:
    """A folder of this machine. Links are not followed: they may lead anywhere."""

    root: Path
    no_files: list[str] = field(default_factory=list, init=False)
    """Links, and folders called as files of rows are, that the last listing of everything has met."""
    _listed: dict[str, tuple[int, bool]] = field(default_factory=dict, init=False)
    """When a folder was last changed that was listed, and whether a later change has another time."""

    def everything(self) -> Iterator[StoredFile]:
        """See `Store.everything`."""
        self.no_files.clear()
        for inside in walked(self._inside, {""}, lambda _: False):
            self.no_files += inside.no_files
            yield from inside.files

    def recent(self, live: LiveFolders) -> Iterator[StoredFile]:
        """See `Store.recent`. A folder that was not changed since it was listed has nothing new."""
        folders = live.folders | self._listed.keys()
        for inside in walked(self._changed, folders, live.is_closed):
            yield from inside.files

    def inside(self, folder: str) -> Iterable[StoredFile]:
        """See `Store.inside`."""
        return self._inside(folder).files if (self.root / folder).is_dir() else ()

    def entry(self, path: str) -> StoredFile:
        """See `Store.entry`."""
        return _entry(path, (self.root / path).lstat())

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        """See `Store.read`."""
        with os.fdopen(_opened(self.root / path), "rb") as file:
            file.seek(start)
            return file.read(-1 if size is None else size)

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        (self.root / path).unlink(missing_ok=True)

    def stop(self) -> None:
        """See `Store.stop`: nothing is waited for."""

    def _changed(self, folder: str) -> Inside:
        """What is in a folder; nothing if that was listed since its last change."""
        try:
            changed = (self.root / folder).lstat().st_mtime_ns
            if self._listed.get(folder) == (changed, True):
                return Inside([], [])
            settled = changed < time.time_ns() - _SETTLES_IN_NS
            inside = self._inside(folder)
        except FileNotFoundError:
            self._listed.pop(folder, None)
            return Inside([], [])
        self._listed[folder] = changed, settled
        return inside

    def _inside(self, folder: str) -> Inside:
        inside, no_files = Inside([], []), list[str]()
        with os.scandir(self.root / folder) as items:
            for item in items:
                path = f"{folder}/{item.name}" if folder else item.name
                if item.is_symlink() or (item.is_dir() and isinstance(read_path(path), DataFile)):
                    no_files.append(path)
                elif item.is_dir():
                    inside.folders.append(path)
                elif item.is_file():
                    with suppress(FileNotFoundError):  # TiCDC writes under another name first
                        inside.files.append(_entry(path, item.stat()))
        return inside._replace(no_files=no_files)


@dataclass(slots=True)
class ArrowStore:
    """A folder of a store that PyArrow has a file system for. `root`: its path there."""

    files: fs.FileSystem
    root: str

    def everything(self) -> Iterator[StoredFile]:
        """See `Store.everything`."""
        for inside in walked(self._inside, {""}, lambda _: False):
            yield from inside.files

    def recent(self, live: LiveFolders) -> Iterator[StoredFile]:
        """See `Store.recent`: whole folders are listed, since PyArrow can't begin behind a name."""
        for inside in walked(self._inside, live.folders, live.is_closed):
            yield from inside.files

    def inside(self, folder: str) -> Iterable[StoredFile]:
        """See `Store.inside`."""
        return self._inside(folder).files

    def entry(self, path: str) -> StoredFile:
        """See `Store.entry`."""
        info = self.files.get_file_info(f"{self.root}/{path}")
        if info.type != fs.FileType.File:
            raise FileNotFoundError(0, "there is no such file", path)
        return self._entry(info)

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        """See `Store.read`."""
        with self.files.open_input_file(f"{self.root}/{path}") as file:
            file.seek(min(start, file.size()))
            content: bytes = file.read(size)
            return content

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        with suppress(FileNotFoundError):
            self.files.delete_file(f"{self.root}/{path}")

    def stop(self) -> None:
        """See `Store.stop`: PyArrow's clients have their own patience."""

    def _inside(self, folder: str) -> Inside:
        listed = self.files.get_file_info(fs.FileSelector(f"{self.root}/{folder}".rstrip("/"), allow_not_found=True))
        return Inside(
            [self._entry(info) for info in listed if info.type == fs.FileType.File],
            [self._path(info) for info in listed if info.type == fs.FileType.Directory],
        )

    def _entry(self, info: fs.FileInfo) -> StoredFile:
        changed = info.mtime_ns or 0
        return StoredFile(self._path(info), info.size, f"{changed:x}", changed / 1e9)

    def _path(self, info: fs.FileInfo) -> str:
        path: str = info.path.removeprefix(f"{self.root}/")
        return path


def _opened(path: Path) -> int:
    """A file that is open. Raises `FileNotFoundError` for what is none, be it a folder, a link or an odd name."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _NO_FILE:
            raise FileNotFoundError(error.errno, error.strerror, str(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise FileNotFoundError(ENOENT, "it is no file", str(path))
    return number


def walked(
    inside: Callable[[str], Inside], folders: Collection[str], is_closed: Callable[[str], bool]
) -> Iterator[Inside]:
    """What these folders have, and all that are in them and not closed."""
    met = {*folders}
    waiting = sorted(folders)
    while waiting:
        has = inside(waiting.pop())
        new = [folder for folder in has.folders if folder not in met and not is_closed(folder)]
        met.update(new)
        waiting += new
        yield has


def _entry(path: str, state: os.stat_result) -> StoredFile:
    return StoredFile(path, state.st_size, f"{state.st_mtime_ns:x}", state.st_mtime_ns / 1e9)
