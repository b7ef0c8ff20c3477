"""A broker without topic ids: a real one, behind a proxy that hides what brokers before 2.8 did not have.

Kafka's clients ask a broker first which versions of which requests it takes. The proxy lowers the newest version of
METADATA and FETCH to the last one without topic ids (KIP-516), and leaves out requests that came later; and it
gives its own address for the broker's. Everything else goes through as it is.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

_FETCH, _METADATA, _FIND_COORDINATOR, _API_VERSIONS = 1, 3, 10, 18
_LAST = {_FETCH: 12, _METADATA: 9}
_HIDDEN = {60, 75}  # DescribeCluster, DescribeTopicPartitions
_FLEXIBLE = 3  # since when ApiVersions has varints and tags
_HEAD = 6  # correlation id, error code
_MOST = 128
_HOST = "127.0.0.1"


class OldBroker:
    """Listens at `bootstrap_servers` until closed; `upstream` is the broker's port on this machine."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._listener = socket.create_server((_HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self.bootstrap_servers = f"{_HOST}:{self.port}"
        self._sockets = [self._listener]
        _thread(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._sockets:
            _shut(one)

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            broker = socket.create_connection((_HOST, self._upstream))
            self._sockets += [client, broker]
            asked: dict[bytes, tuple[int, int]] = {}
            _thread(lambda c=client, b=broker, a=asked: _pump(c, b, lambda sent: _noted(sent, a)))
            _thread(lambda c=client, b=broker, a=asked: _pump(b, c, lambda got: self._aged(got, a)))

    def _aged(self, answer: bytes, asked: dict[bytes, tuple[int, int]]) -> bytes:
        kind, version = asked.pop(answer[:4], (-1, 0))
        if kind == _API_VERSIONS:
            return _lowered(answer, flexible=version >= _FLEXIBLE)
        if kind in {_METADATA, _FIND_COORDINATOR}:
            ours, theirs = (_HOST.encode() + struct.pack(">i", port) for port in (self.port, self._upstream))
            return answer.replace(theirs, ours)
        return answer


def _thread(work: Callable[[], None]) -> None:
    def quietly() -> None:
        with suppress(OSError):
            work()

    threading.Thread(target=quietly, daemon=True).start()


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def _pump(source: socket.socket, target: socket.socket, changed: Callable[[bytes], bytes]) -> None:
    """Pass on one message after the other, each with its length before it, until either side goes."""
    try:
        with source.makefile("rb") as stream:
            while len(length := stream.read(4)) == 4:
                body = changed(stream.read(*struct.unpack(">i", length)))
                target.sendall(struct.pack(">i", len(body)) + body)
    finally:
        _shut(source)
        _shut(target)


def _noted(request: bytes, asked: dict[bytes, tuple[int, int]]) -> bytes:
    """A request as it is; what it asks for is remembered under its correlation id."""
    kind, version = struct.unpack(">hh", request[:4])
    asked[request[4:8]] = (kind, version)
    return request


def _lowered(answer: bytes, *, flexible: bool) -> bytes:
    """The answer to ApiVersions of a broker that is older: `[key, least, newest]` of each request."""
    if flexible:
        assert answer[_HEAD] < _MOST  # so that each count is a varint of one byte
        count, at, tail = answer[_HEAD] - 1, _HEAD + 1, b"\0"
    else:
        (count,), at, tail = struct.unpack_from(">i", answer, _HEAD), _HEAD + 4, b""
    size = 6 + len(tail)
    listed = [struct.unpack_from(">hhh", answer, at + number * size) for number in range(count)]
    kept = [
        struct.pack(">hhh", kind, least, min(newest, _LAST.get(kind, newest))) + tail
        for kind, least, newest in listed
        if kind not in _HIDDEN
    ]
    number = bytes([len(kept) + 1]) if flexible else struct.pack(">i", len(kept))
    return answer[:_HEAD] + number + b"".join(kept) + answer[at + count * size :]
