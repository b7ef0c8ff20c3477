"""Messages that TiCDC has compressed inside (`large-message-handle-compression`), recognised by their first bytes.

Nothing in a message says so. lz4 is sent as a frame, which has a magic number; Snappy as a block, which has none: it is
recognised where its length and its first literal fit, and the literal begins as a message does (LZ4 Frame Format;
Snappy, "format description"; wire-formats.md, "Large messages"). What Kafka itself compresses arrives as it was.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

MESSAGE_COMPRESSED: Final = "MESSAGE_COMPRESSED"
MESSAGE_TOO_LARGE: Final = "MESSAGE_TOO_LARGE"
MOST_BYTES: Final = 1 << 28
"""Of a message that is unpacked (`unpacking`)."""
SENTENCES: Final = {
    MESSAGE_COMPRESSED: "the message is compressed inside (large-message-handle-compression) and damaged, so that it "
    "cannot be unpacked",
    MESSAGE_TOO_LARGE: f"the message is compressed inside, and unpacked it would have more than {MOST_BYTES >> 20} "
    "MiB, or it is damaged",
}

LZ4: Final = "lz4"
SNAPPY: Final = "snappy"

_LZ4_FRAME: Final = b"\x04\x22\x4d\x18"
_BRACE: Final = b"{"
_HEAD: Final = 13
"""Bytes that are looked at: five of a length, five of a literal's, three of what it begins with."""
_LENGTH: Final = r"\A(?:[89A-F].){0,4}[0-7]."
"""In hexadecimal digits the length without compression: seven bits of each byte, of which the eighth says: more."""
_LITERAL: Final = r"(?:[0-9A-E][048C]|F0..|F4.{4}|F8.{6}|FC.{8})"
"""The tag of a literal, whose lowest two bits are 0, and its length, where that stands after the tag."""
_BEGINNING: Final = r"(?:7B22|160[0246]0[0246])"
"""What a message begins with: `{"`, or Simple's union in Avro with its two branches."""
_BLANKS: Final = r"\A(?:09|0A|0D|20)20"
"""Before a brace these are JSON's, and damaged: no block of such a length has a first literal so short."""
_BLOCK: Final = rf"(?!{_BLANKS})" + _LENGTH + _LITERAL + _BEGINNING
_LONG: Final = 60
"""From so many bytes on a literal's length stands after its tag."""
LZ4_RATIO: Final = 255
"""What LZ4 makes of a byte has at most so many."""
_LONGEST_LENGTH: Final = 5
_CONTINUED: Final = 0x80
_MOST_MORE: Final = 32
"""With a sixth of the length: how many bytes more than before a block may have (`MaxCompressedLength`)."""


def codec_of(value: bytes) -> str:
    """By what a message is compressed; empty where it is not, or where that is not certain."""
    if value.startswith(_LZ4_FRAME):
        return LZ4
    return SNAPPY if _is_block(value) else ""


def is_compressed(value: Column) -> Column:
    """The same of a column of bytes: whether `codec_of` names a codec. What begins as JSON is not looked at further."""
    plain = F.substring(value, 1, 1) == F.lit(_BRACE)
    head = _head(value)
    block = head.rlike(_BLOCK) & _fits_on_jvm(head, F.octet_length(value))
    return F.coalesce(~plain & (_is_frame(value) | block), F.lit(False))


def code_of(value: Column) -> Column:
    """Of a message that is still compressed: the code that says why; NULL for others.

    Five bytes of a block's length say that it has 2^28 bytes or more.
    """
    large_frame = _is_frame(value) & (F.octet_length(value) > MOST_BYTES // LZ4_RATIO)
    large_block = _size_of_length(_head(value)) == _LONGEST_LENGTH
    code = F.when(large_frame | large_block, F.lit(MESSAGE_TOO_LARGE)).otherwise(MESSAGE_COMPRESSED)
    return F.when(is_compressed(value), code)


def length_of_block(value: bytes) -> int:
    """The length without compression that a block of Snappy begins with."""
    length = 0
    for place, octet in enumerate(value[:_LONGEST_LENGTH]):
        length |= (octet & 0x7F) << 7 * place
        if octet < _CONTINUED:
            break
    return length


def _is_block(value: bytes) -> bool:
    head = value[:_HEAD].hex().upper()
    length = re.match(_LENGTH, head)
    if length is None or not re.match(_BLOCK, head):
        return False
    size = len(length[0]) // 2
    most = value[0] if size == 1 else 128**size - 1
    literal = min(value[size] >> 2, _LONG) + 1
    return literal <= most and size + 1 + literal <= len(value) <= most + most // 6 + _MOST_MORE


def _fits_on_jvm(head: Column, octets: Column) -> Column:
    """Whether a block of so many bytes can have the length and the literal that it begins with."""
    size = _size_of_length(head)
    most = F.when(size == 1, _byte(head, F.lit(0))).otherwise(F.pow(F.lit(128), size) - 1)
    literal = F.least(F.floor(_byte(head, size) / 4), F.lit(_LONG)) + 1
    return (literal <= most) & (size + 1 + literal <= octets) & (octets <= most + F.floor(most / 6) + _MOST_MORE)


def _is_frame(value: Column) -> Column:
    return F.substring(value, 1, len(_LZ4_FRAME)) == F.lit(_LZ4_FRAME)


def _head(value: Column) -> Column:
    """What is looked at, in hexadecimal digits."""
    return F.hex(F.substring(value, 1, _HEAD))


def _size_of_length(head: Column) -> Column:
    """How many bytes of a block are its length."""
    return F.length(F.regexp_extract(head, _LENGTH, 0)) / 2


def _byte(head: Column, place: Column) -> Column:
    return F.conv(F.substr(head, (2 * place + 1).cast("int"), F.lit(2)), 16, 10).cast("bigint")
