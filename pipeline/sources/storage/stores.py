"""The stores that there are: a folder of this machine, a bucket of S3's API, and others by PyArrow."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow.fs import FileSystem

from pipeline.errors import EnvironmentFault
from pipeline.sources.storage.bucket import BucketStore
from pipeline.sources.storage.store import ArrowStore, FolderStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pipeline.settings.sections import SourceSection
    from pipeline.sources.storage.store import Store


def store_of(source: SourceSection) -> Store:
    """The store that `source.path` names. It is asked for nothing yet."""
    return store_at(source.place, source.options)


def store_at(place: str, options: Mapping[str, str]) -> Store:
    """The store at a folder or URL. `options`: how to reach a bucket."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        return FolderStore(Path(scheme))
    if scheme != "s3":
        return ArrowStore(*FileSystem.from_uri(place))
    bucket, _, prefix = rest.partition("/")
    return BucketStore(bucket, f"{prefix}/" if prefix else "", options)


def fault_of(error: Exception, place: str) -> EnvironmentFault | None:
    """What a store says, as an error of ours: `FILE_MISSING`, `STORE_FORBIDDEN`. `place`: `source.path`."""
    match error:
        case FileNotFoundError():
            return EnvironmentFault(
                "FILE_MISSING",
                f"a file that a batch must read is gone: {error.filename or error}",
                "restore it, and run again: the batch takes the same files",
            )
        case PermissionError():
            return EnvironmentFault(
                "STORE_FORBIDDEN",
                f"this user lacks a right below {place}: {error.filename or place}: {error.strerror}",
                "let this user list and read everything below source.path (s3:ListBucket, s3:GetObject)",
            )
    return None


@contextmanager
def faults_told(place: str) -> Iterator[None]:
    """Raise what a store says as `fault_of` has it."""
    try:
        yield
    except (FileNotFoundError, PermissionError) as error:
        raise fault_of(error, place) or error from error
