"""The stores that there are: a folder of this machine, a bucket of S3's API, and others by PyArrow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow.fs import FileSystem

from pipeline.sources.storage.bucket import BucketStore
from pipeline.sources.storage.store import ArrowStore, FolderStore

if TYPE_CHECKING:
    from collections.abc import Mapping

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
