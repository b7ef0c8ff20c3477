"""A bucket of S3's API as a `Store`.

A listing is paid for by the request, a thousand keys each. So a batch asks only for the keys behind the newest ones
that are known, a request for each partition of a table that is written to.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import EACCES, ENOENT
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from pipeline.errors import EnvironmentFault
from pipeline.observe.logs import get_logger
from pipeline.sources.storage.lanes import folders_above, undated
from pipeline.sources.storage.paths import Foreign, Index, read_path
from pipeline.sources.storage.store import StoredFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pipeline.sources.storage.lanes import LiveFolders

T = TypeVar("T")
CREDENTIALS = {
    "s3.access-key-id": "access_key",
    "s3.secret-access-key": "secret_key",
    "s3.session-token": "session_token",
}
"""Keys of `source.options`, as PyIceberg and `warehouse.catalog` call them, and the client's words for them."""
PATH_STYLE = "s3.path-style-access"
_AWS = "https://s3.amazonaws.com"
_PAGE = 1000
"""Keys that one request lists."""
_PATIENCE = 600.0
"""Seconds for which a store that does not answer is asked again."""
_LONGEST_PAUSE = 30.0
_NOT_THERE = ("NoSuchKey", "NotFound", "NoSuchBucket", "KeyTooLongError", "XMinioInvalidObjectName")
_FORBIDDEN = ("AccessDenied", "Forbidden", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken")
_BEYOND_ITS_END = ("InvalidRange",)
_LONGEST_NAME = 1024
"""Bytes, as S3 has it."""
_BUSY = ("SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "503 Slow Down")
_SERVER_ERRORS = (500, 502, 503, 504)
_log = get_logger(__name__)


@dataclass(slots=True)
class BucketStore:
    """The keys of a bucket that begin with `prefix`, which ends with `/` unless it is empty.

    `options`: as in `source.options`; credentials that are not there come from where AWS's clients look for them.
    """

    bucket: str
    prefix: str
    options: Mapping[str, str] = field(repr=False)
    _client: Any = field(default=None, init=False, repr=False)
    _foreign: set[str] = field(default_factory=set, init=False, repr=False)
    """Large folders in which nothing is TiCDC's."""
    _indexes: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    """The entity tags of the index files that were looked at: each has the name of its folder's newest file."""
    _stopping: threading.Event = field(default_factory=threading.Event, init=False, repr=False)

    def __reduce__(self) -> tuple[type[BucketStore], tuple[str, str, Mapping[str, str]]]:
        return BucketStore, (self.bucket, self.prefix, self.options)  # an executor has a client of its own

    def everything(self) -> Iterator[StoredFile]:
        """See `Store.everything`."""
        return self._keys("")

    def recent(self, live: LiveFolders) -> Iterator[StoredFile]:
        """See `Store.recent`. Keys come in the order of their names, and new ones behind older ones of their folder."""
        expected = {*live.tables, *live.databases, *(folder for t in live.tables for folder in folders_above(t))}
        for folder in sorted(live.databases | {""}):
            for inside in self._folders(f"{folder}/" if folder else ""):
                if inside.removesuffix("/") not in expected and inside not in self._foreign:
                    yield from self._unknown(inside)
        for version, groups in live.versions.items():
            yield from self._of_version(live, version, groups)

    def inside(self, folder: str) -> Iterator[StoredFile]:
        """See `Store.inside`."""
        below = f"{folder}/" if folder else ""
        return (entry for entry in self._keys(below) if "/" not in entry.path.removeprefix(below))

    def entry(self, path: str) -> StoredFile:
        """See `Store.entry`."""
        stat = self._asked("read", path, lambda s3: s3.stat_object(self.bucket, self.prefix + path))
        return StoredFile(path, stat.size, stat.etag, stat.last_modified.timestamp())

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        """See `Store.read`."""

        def content(s3: Any) -> bytes:
            got = s3.get_object(self.bucket, self.prefix + path, offset=start, length=size or 0)
            try:
                body: bytes = got.data
                return body
            finally:
                got.close()
                got.release_conn()

        try:
            return b"" if size == 0 else self._asked("read", path, content)
        except _BeyondItsEnd:
            return b""

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        self._asked("delete", path, lambda s3: s3.remove_object(self.bucket, self.prefix + path))

    def stop(self) -> None:
        """See `Store.stop`."""
        self._stopping.set()

    def _unknown(self, folder: str) -> Iterator[StoredFile]:
        """A folder that may be a new database or table, a database's own DDL, or somebody else's."""
        count, is_ours = 0, False
        for entry in self._keys(folder):
            count, is_ours = count + 1, is_ours or not isinstance(read_path(entry.path), Foreign)
            yield entry
        if count > _PAGE and not is_ours:
            self._foreign.add(folder)

    def _of_version(self, live: LiveFolders, version: str, groups: Mapping[str, Any]) -> Iterator[StoredFile]:
        """What is new of a version. With a table's newest one: newer versions, and schema files."""
        table = version.rpartition("/")[0]
        in_order = sorted(groups.items())
        if any(group != version for group in groups):  # partitions, and there may be a new one anywhere
            for inside in self._folders(f"{version}/"):
                folder = inside.removesuffix("/")
                if folder not in groups and undated(folder) not in groups:
                    yield from self._keys(inside)
        if live.tables.get(table) == version:
            after = in_order.pop()[1].after if in_order else f"{version}/"
            yield from self._behind(f"{table}/", after)
        for group, newest in in_order:
            yield from self._behind(f"{group}/", newest.after)

    def _behind(self, prefix: str, after: str) -> Iterator[StoredFile]:
        """A path and what comes behind it: TiCDC may write its newest file anew.

        The numbers of later files may have more digits, and then they come before it. Such a file shows by the index
        of its folder, which names it, while nothing new is there.
        """
        listed: set[str] = set()
        indexes: list[StoredFile] = []
        for entry in self._keys(prefix, after[:-1]):
            if isinstance(read_path(entry.path), Index):
                indexes.append(entry)
            else:
                listed.add(entry.path)
            yield entry
        with_news = {path.rpartition("/")[0] for path in listed - {after}}
        for index in indexes:
            folder, before = index.path.rpartition("/meta/")[0], self._indexes.get(index.path)
            self._indexes[index.path] = index.etag
            if before == index.etag or (before is not None and folder in with_news):
                continue
            if f"{folder}/{self._named(index)}" not in listed:
                yield from self._keys(f"{folder}/CDC")

    def _named(self, index: StoredFile) -> str:
        """The file that an index names."""
        try:
            return self.read(index.path, 0, _LONGEST_NAME).decode("utf-8", "replace").strip()
        except FileNotFoundError:
            return ""

    def _keys(self, prefix: str, after: str = "") -> Iterator[StoredFile]:
        """The files below a prefix and behind a path, in the order of their names."""
        for item in self._listed(prefix, after, recursive=True):
            path = item.object_name.removeprefix(self.prefix)
            if not path.endswith("/"):
                yield StoredFile(path, item.size, item.etag, item.last_modified.timestamp())

    def _folders(self, prefix: str) -> Iterator[str]:
        """The folders in a folder, each with a slash at its end."""
        for item in self._listed(prefix, "", recursive=False):
            if item.is_dir:
                yield item.object_name.removeprefix(self.prefix)

    def _listed(self, prefix: str, after: str, *, recursive: bool) -> Iterator[Any]:
        """What a listing gives; where the store stops to answer, it goes on behind the last name."""
        last = self.prefix + after if after else None
        patience = _Patience(self._stopping)
        while True:
            try:
                with self._answers("list", prefix) as s3:
                    for item in s3.list_objects(
                        self.bucket, prefix=self.prefix + prefix or None, recursive=recursive, start_after=last
                    ):
                        yield item
                        last = item.object_name
                    return
            except _Away as away:
                patience.wait(away)

    def _asked(self, action: str, path: str, ask: Callable[[Any], T]) -> T:
        """The answer of the store, which is asked again for a while if it does not answer."""
        patience = _Patience(self._stopping)
        while True:
            try:
                with self._answers(action, path) as s3:
                    return ask(s3)
            except _Away as away:
                patience.wait(away)

    @contextmanager
    def _answers(self, action: str, path: str) -> Iterator[Any]:
        """The client. Raises `FileNotFoundError` and `PermissionError`, with `path` for their file name.

        `action`: what the client is asked for, as a verb.
        """
        from minio.error import MinioException, S3Error  # noqa: PLC0415 - an extra, and only buckets need it
        from urllib3.exceptions import HTTPError  # noqa: PLC0415

        try:
            if self._client is None:
                self._client = client_of(self.options)
            yield self._client
        except S3Error as error:
            if error.code in _NOT_THERE:
                raise FileNotFoundError(ENOENT, "there is no such file", path) from None
            if error.code in _FORBIDDEN:
                refusal = f"the store does not let it {action} this ({error.code}: {error.message})"
                raise PermissionError(EACCES, refusal, path) from None
            if error.code in _BEYOND_ITS_END:
                raise _BeyondItsEnd from None
            if error.code not in _BUSY:
                raise
            raise _Away(f"the store says {error.code}") from error
        except (HTTPError, MinioException) as error:
            raise _Away(f"the store does not answer ({type(error).__name__})") from error


class _Away(Exception):
    """The store does not answer, or says that it can't at the moment."""


class _BeyondItsEnd(Exception):
    """A file has nothing from a place on."""


@dataclass(slots=True)
class _Patience:
    """Waits longer each time, and gives up after a while, or once the run stops."""

    stopping: threading.Event
    until: float = field(default_factory=lambda: time.monotonic() + _PATIENCE)
    pause: float = 1.0

    def wait(self, away: _Away) -> None:
        """Wait; raises `EnvironmentFault` at the end of the patience."""
        if time.monotonic() > self.until or self.stopping.is_set():
            raise EnvironmentFault(
                "STORE_UNREACHABLE",
                f"{away}, for {(_PATIENCE - self.until + time.monotonic()) / 60:.0f} minutes",
                "check source.options and the store; the next run goes on where this one was",
            ) from away
        _log.warning("%s; trying again", away)
        self.stopping.wait(self.pause)
        self.pause = min(2 * self.pause, _LONGEST_PAUSE)


def client_of(options: Mapping[str, str]) -> Any:
    """A client for `source.options`. Raises `EnvironmentFault` if none is installed."""
    try:
        import urllib3  # noqa: PLC0415
        from minio import Minio  # noqa: PLC0415 - an extra
        from minio.credentials import providers  # noqa: PLC0415
    except ImportError:
        raise EnvironmentFault(
            "S3_MISSING",
            "this installation has no S3 client",
            "install it with its extra s3; in a checkout `make setup` does, or pip install '.[s3]'",
        ) from None
    url = urlsplit(options.get("s3.endpoint", _AWS))
    given: dict[str, Any] = {name: options[key] for key, name in CREDENTIALS.items() if key in options}
    if not given:
        given["credentials"] = providers.ChainedProvider(
            [providers.EnvAWSProvider(), providers.AWSConfigProvider(), providers.IamAwsProvider()]
        )
    pool = urllib3.PoolManager(
        timeout=urllib3.Timeout(connect=10, read=60),
        retries=urllib3.Retry(total=3, backoff_factor=0.5, status_forcelist=_SERVER_ERRORS),
    )
    client: Any = Minio(
        endpoint=url.netloc, secure=url.scheme == "https", region=options.get("s3.region"), http_client=pool, **given
    )
    if options.get(PATH_STYLE, "").lower() == "true":
        client.disable_virtual_style_endpoint()
    return client
