"""Where a storage changefeed's files are written: a folder of this machine, or a bucket."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pipeline.sources.storage.bucket import client_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_METADATA = "metadata"


class FilePlace(Protocol):
    """A place of files; a path is below its root."""

    def write(self, path: str, content: bytes) -> None:
        """Write a file whole, or not at all."""
        ...

    def has_some(self, beginning: str) -> bool:
        """Whether a changefeed has written here before; `beginning` is that of topics, and means nothing."""
        ...

    def is_signed(self, sign: str) -> bool:
        """Whether an earlier changefeed has left this sign."""
        ...

    def sign(self, sign: str) -> None:
        """Leave a sign: an empty file that is not TiCDC's."""
        ...


@dataclass(frozen=True, slots=True)
class FolderPlace:
    """A folder of this machine."""

    root: Path

    def write(self, path: str, content: bytes) -> None:
        """See `FilePlace.write`."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f"{file.name}.tmp")
        unfinished.write_bytes(content)
        unfinished.replace(file)

    def has_some(self, beginning: str) -> bool:
        """See `FilePlace.has_some`."""
        del beginning
        return (self.root / _METADATA).exists()

    def is_signed(self, sign: str) -> bool:
        """See `FilePlace.is_signed`."""
        return (self.root / sign).exists()

    def sign(self, sign: str) -> None:
        """See `FilePlace.sign`."""
        self.write(sign, b"")


class BucketPlace:
    """A bucket of S3's API. `prefix` ends with a slash unless it is empty; `options`: as in `source.options`."""

    def __init__(self, bucket: str, prefix: str, options: Mapping[str, str]) -> None:
        self._client: Any = client_of(options)
        self._bucket, self._prefix = bucket, prefix

    def write(self, path: str, content: bytes) -> None:
        """See `FilePlace.write`."""
        self._client.put_object(self._bucket, self._prefix + path, BytesIO(content), len(content))

    def has_some(self, beginning: str) -> bool:
        """See `FilePlace.has_some`."""
        del beginning
        return self.is_signed(_METADATA)

    def is_signed(self, sign: str) -> bool:
        """See `FilePlace.is_signed`."""
        return any(True for _ in self._client.list_objects(self._bucket, prefix=self._prefix + sign))

    def sign(self, sign: str) -> None:
        """See `FilePlace.sign`."""
        self.write(sign, b"")


def place_of(path: str, options: Mapping[str, str]) -> FilePlace:
    """The place that a `source.path` names: `s3://bucket/prefix`, or a folder of this machine."""
    _, separator, rest = path.partition("://")
    if not separator:
        return FolderPlace(Path(path))
    bucket, _, prefix = rest.partition("/")
    return BucketPlace(bucket, f"{prefix}/" if prefix else "", options)
