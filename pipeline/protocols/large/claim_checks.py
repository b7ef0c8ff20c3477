"""Messages that lie in external storage, since they were too large for a record (`claim-check`).

An object has the whole record: as JSON with its key and value in base64, or the value alone (`claim-check-raw-value`).
The value is compressed as the changefeed's other messages are (wire-formats.md, "Large messages").
"""

from __future__ import annotations

import base64
import json
import re
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F

from pipeline.errors import EnvironmentFault
from pipeline.model.large_rows import Message
from pipeline.protocols.compressed import MOST_BYTES
from pipeline.protocols.large.codes import CLAIM_CHECK_MISSING, CLAIM_CHECK_UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from pyspark.sql import Column

    from pipeline.model.large_rows import LargeRows

_AT_ONCE = 8
"""Objects that a task asks for at the same time."""
_WRAPPED = b'{"key":'
_LOCAL = "file"
_ALIKE = (("s3", "s3a", "s3n"), ("gs", "gcs"), ("abfs", "abfss", "azure", "azblob"), (_LOCAL, "local"))
"""Schemes of one kind of store, as TiCDC and others call it."""
_BELOW = r"((?:(?!\.{1,2}/)[^/\\?#%\x00-\x1f]+/)*(?!\.{1,2}$)[^/\\?#%\x00-\x1f]+)"
"""A path whose segments are names, and nothing that leads elsewhere."""


class Objects(Protocol):
    """Where objects are."""

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        """The bytes from `start` on, at most `size`. Raises `FileNotFoundError`, `PermissionError`."""
        ...


@dataclass(frozen=True, slots=True)
class ClaimChecks:
    """The objects of a changefeed. `written_as`: the folder or URL below which TiCDC has written them."""

    written_as: str
    objects: Objects = field(repr=False)

    def path(self, location: Column) -> Column:
        """Which object is at a location; "" if it lies elsewhere."""
        return F.regexp_extract(location, pattern_of(self.written_as), 1)

    def messages(self, asked: Iterable[tuple[Message, str]], form: LargeRows) -> Iterator[Message]:
        """The whole messages for those that were sent, each with the path of its object; marks where it can't be had.

        Raises `EnvironmentFault`: `STORE_FORBIDDEN`, `STORE_UNREACHABLE`.
        """
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            yield from _in_order(threads, (partial(self._message, sent, path, form) for sent, path in asked))

    def _message(self, sent: Message, path: str, form: LargeRows) -> Message:
        try:
            content = self.objects.read(path, 0, MOST_BYTES + 1)
        except FileNotFoundError:
            return form.marked(sent, CLAIM_CHECK_MISSING)
        except PermissionError as error:
            raise EnvironmentFault(
                "STORE_FORBIDDEN",
                f"this user may not read {path} below source.claim_check.path: {error.strerror}",
                "let this user read and list everything below it (s3:GetObject, s3:ListBucket)",
            ) from error
        stored = _unwrapped(sent, content) if len(content) <= MOST_BYTES else None
        whole = form.restored(sent, stored) if stored else None
        return whole or form.marked(sent, CLAIM_CHECK_UNREADABLE)


def pattern_of(place: str) -> str:
    """A regular expression, Java's and Python's, for locations below a folder or URL; its group is the rest.

    TiCDC writes some URLs with one slash behind the scheme.
    """
    scheme, separator, rest = place.partition(":/")
    scheme = scheme.lower() if separator else _LOCAL
    parts = [re.escape(part) for part in (rest if separator else place).split("/") if part]
    alike = next((schemes for schemes in _ALIKE if scheme in schemes), (re.escape(scheme),))
    begin = rf"(?:(?i:{'|'.join(alike)}):)?/+" if scheme == _LOCAL else rf"(?i:{'|'.join(alike)}):/+"
    return rf"\A{begin}{'/+'.join((*parts, ''))}{_BELOW}\z"


def _unwrapped(sent: Message, content: bytes) -> Message | None:
    """The stored record; None if it is damaged."""
    if not content.startswith(_WRAPPED):
        return Message(sent.key, content)
    try:
        record = json.loads(content)
        key, value = (record[part] and base64.b64decode(record[part], validate=True) for part in ("key", "value"))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return Message(key, value) if value else None


def _in_order(threads: ThreadPoolExecutor, tasks: Iterable[Callable[[], Message]]) -> Iterator[Message]:
    """What these give, in their order; no more than a few wait at a time."""
    begun: deque[Future[Message]] = deque()
    for task in tasks:
        begun.append(threads.submit(task))
        if len(begun) > _AT_ONCE:
            yield begun.popleft().result()
    while begun:
        yield begun.popleft().result()
