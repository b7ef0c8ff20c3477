"""What protocols differ in, where a row was too large for its message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F

from pipeline.model.large_rows import Message
from pipeline.protocols import unpacking

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

    from pipeline.model.large_rows import Images
    from pipeline.model.source_values import Columns

_MARK = b"\x00ticdc-warehouse:"
_LONGEST_MARK = 64
_VERSION_BYTES = LENGTH_BYTES = 8
_HALF = 4


class KeyRows(Protocol):
    """How a row's message is written in which there are keys alone, and how it would be whole."""

    def keys(self, value: bytes, columns: Columns) -> Images:
        """The keys that it has. Raises `ValueError` if it is damaged."""
        ...

    def whole(self, value: bytes, columns: Columns, rows: Images) -> bytes:
        """The same message with these rows."""
        ...


@dataclass(frozen=True, slots=True)
class LargeMessages:
    """A message is a row."""

    head: str
    row: str
    about: tuple[str, ...]
    by_key: KeyRows

    def restored(self, sent: Message, stored: Message) -> Message | None:
        """Without compression."""
        return Message(sent.key, unpacking.message(stored.key, stored.value))

    def keys(self, sent: Message, columns: Columns) -> Images:
        """See `KeyRows`."""
        return self.by_key.keys(sent.value or b"", columns)

    def whole(self, sent: Message, columns: Columns, rows: Images) -> Message:
        """See `KeyRows`."""
        return Message(sent.key, self.by_key.whole(sent.value or b"", columns, rows))

    def marked(self, sent: Message, code: str) -> Message:
        """A mark alone."""
        return Message(sent.key, _mark(code))


@dataclass(frozen=True, slots=True)
class LargeEvents:
    """A record has several rows, each with a key and a value (Open). What is stored is a record of one row."""

    head: str
    row: str
    about: tuple[str, ...]
    by_key: KeyRows
    key_of_row: Callable[[bytes], bytes]
    """The JSON of a key as that of a row that is sent whole."""

    def restored(self, sent: Message, stored: Message) -> Message | None:
        """Without compression, and under the number that the event has in the record that was sent."""
        key, value = stored
        if not (key and value and sent.key):
            return None
        first = key[_VERSION_BYTES:]
        if key[_HALF:_VERSION_BYTES] != unpacking.OPEN_VERSION or not (_is_one(first) and _is_one(value)):
            return None
        key = sent.key[:_HALF] + key[_HALF:]
        return Message(key, unpacking.record(key, value))

    def keys(self, sent: Message, columns: Columns) -> Images:
        """See `KeyRows`."""
        return self.by_key.keys((sent.value or b"")[LENGTH_BYTES:], columns)

    def whole(self, sent: Message, columns: Columns, rows: Images) -> Message:
        """Under the number that the event has."""
        key, value = sent.key or b"", (sent.value or b"")[LENGTH_BYTES:]
        described = self.key_of_row(key[_VERSION_BYTES + LENGTH_BYTES :])
        return Message(key[:_VERSION_BYTES] + _framed(described), _framed(self.by_key.whole(value, columns, rows)))

    def marked(self, sent: Message, code: str) -> Message:
        """The value of an event is its length and its bytes."""
        return Message(sent.key, _framed(_mark(code)))


def code_of_mark(value: Column) -> Column:
    """The code that a mark tells; NULL of a value that is none."""
    end = F.substring(value, -_LONGEST_MARK, _LONGEST_MARK).cast("string")
    code = F.regexp_extract(end, f"{_MARK.decode()}([A-Z_]+)$", 1)
    return F.when((F.octet_length(value) < _LONGEST_MARK) & (code != ""), code)


def _mark(code: str) -> bytes:
    return _MARK + code.encode()


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(LENGTH_BYTES) + part


def _is_one(framed: bytes) -> bool:
    return len(framed) == LENGTH_BYTES + int.from_bytes(framed[:LENGTH_BYTES])
