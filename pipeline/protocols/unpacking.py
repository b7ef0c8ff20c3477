"""Messages that TiCDC has compressed inside, as they were before (`large-message-handle-compression`).

LZ4 comes as a frame, Snappy as a block (wire-formats.md, "Large messages"). Canal-JSON and Simple compress a message as
a whole, Open each row's value inside its record. What cannot be unpacked stays as it is, and so keeps its code.

Messages are unpacked on the JVM (`Unpacking.java`). `message` and `record` do the same to what Python has: the objects
of a claim-check.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import lz4.frame
import pyarrow as pa
from pyspark.sql import functions as F

from pipeline.protocols.compressed import LZ4, LZ4_RATIO, MOST_BYTES, SENTENCES, SNAPPY, codec_of, length_of_block
from pipeline.runtime.shipped import called

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

_SOURCE = Path(__file__).with_name("Unpacking.java")
_CHUNK = 1 << 20
_LENGTH_BYTES = 8
OPEN_VERSION = b"\x00\x00\x00\x01"


@dataclass(slots=True)
class Unpacking:
    """What a protocol does to raw frames, from the first message on that is compressed inside; before it, nothing.

    `of_records`: whether a value is a record of Open.
    """

    of_records: bool = False
    _has_begun: bool = False

    def plain(self, raw: DataFrame) -> DataFrame:
        """The raw frame, unpacked if it has begun."""
        return unpacked(raw, of_records=self.of_records) if self._has_begun else raw

    def begins(self, kinds: Iterable[str | None]) -> bool:
        """Whether these kinds of messages make it begin: then their frame has to be prepared once more."""
        if self._has_begun or SENTENCES.keys().isdisjoint(kinds):
            return False
        self._has_begun = True
        return True


def unpacked(raw: DataFrame, *, of_records: bool) -> DataFrame:
    """A raw frame whose messages are plain, in its columns; see `Unpacking`."""
    plain = called(_SOURCE, "binary", F.lit(of_records), F.col("key"), F.col("value"))
    return raw.select(*(plain.alias(name) if name == "value" else F.col(name) for name in raw.columns))


def message(_key: bytes | None, value: bytes | None) -> bytes | None:
    """A message that is compressed as a whole."""
    return value if value is None else _plain(value)


def record(key: bytes | None, value: bytes | None) -> bytes | None:
    """A record of Open: a length and a value, for each event. What is framed otherwise stays as it is."""
    if key is None or value is None or key[4:8] != OPEN_VERSION:
        return value
    parts: list[bytes] = []
    place = 0
    while place < len(value):
        begin = place + _LENGTH_BYTES
        place = begin + int.from_bytes(value[place:begin])
        if place > len(value) or begin > len(value):
            return value
        plain = _plain(value[begin:place])
        parts += (len(plain).to_bytes(_LENGTH_BYTES), plain)
    return b"".join(parts)


def _plain(value: bytes) -> bytes:
    """What was compressed; the same bytes where nothing was, or where it cannot be had."""
    codec = codec_of(value)
    if codec == SNAPPY:
        return _of_block(value)
    return _of_frame(value) if codec == LZ4 else value


def _of_block(value: bytes) -> bytes:
    size = length_of_block(value)
    if size > MOST_BYTES:
        return value
    try:
        return bytes(pa.decompress(value, decompressed_size=size, codec=SNAPPY, asbytes=True))
    except (OSError, ValueError):
        return value


def _of_frame(value: bytes) -> bytes:
    try:
        if len(value) * LZ4_RATIO <= MOST_BYTES:
            plain, read = lz4.frame.decompress(value, return_bytes_read=True)
            return plain if read == len(value) else value
        return _in_pieces(value)
    except (RuntimeError, ValueError):
        return value


def _in_pieces(value: bytes) -> bytes:
    """A large one, up to a limit."""
    reader, pieces, size = lz4.frame.LZ4FrameDecompressor(), [], 0
    piece = reader.decompress(value, max_length=_CHUNK)
    while piece and size <= MOST_BYTES:
        pieces.append(piece)
        size += len(piece)
        piece = b"" if reader.eof else reader.decompress(b"", max_length=_CHUNK)
    whole = reader.eof and not reader.unused_data and size <= MOST_BYTES
    return b"".join(pieces) if whole else value
