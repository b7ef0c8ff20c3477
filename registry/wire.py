"""The first bytes of a TiCDC Avro message.

A row is `00`, a 4-byte big-endian schema id and Avro binary (Confluent's wire format). With
avro-enable-watermark=true the first byte of a value may also be one of TiCDC's own three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NewType

from registry.errors import NoWireHeader

SchemaId = NewType("SchemaId", int)
"""A registry's id of one schema text: unsigned, 32 bits on the wire."""

MAGIC: Final = 0
"""First byte of a key or value with a schema id (Confluent wire format; TiCDC `magicByte`)."""

HEADER_BYTES: Final = 5
"""The magic byte and the schema id; the Avro body starts here."""

DDL: Final = 1
"""First byte of a DDL: JSON `query`, `type` (a number), `schema`, `table`, `commitTs` follow (`ddlByte`)."""

CHECKPOINT: Final = 2
"""First byte of a watermark: an 8-byte big-endian ts follows (`checkpointByte`)."""

DELETE: Final = 3
"""First byte of a delete of newer TiCDC: its commit ts follows, 8 bytes, big-endian (`deleteByte`)."""

_MAX_ID: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Header:
    """A message taken apart: the id of its writer schema, and the Avro binary."""

    schema_id: SchemaId
    body: bytes


def split(message: bytes) -> Header:
    """Take the wire header off `message`.

    The id is read unsigned, as TiCDC's own decoder does. Raises NoWireHeader.
    """
    if len(message) < HEADER_BYTES:
        raise NoWireHeader(
            "NO_WIRE_HEADER",
            f"{len(message)} bytes are too few for a wire header of {HEADER_BYTES}.",
            "Is the changefeed's protocol avro?",
        )
    if message[0] != MAGIC:
        raise NoWireHeader(
            "NO_WIRE_HEADER",
            f"The first byte is {message[0]:02x}, a message with a schema id begins with 00.",
            "01, 02, 03 are TiCDC's DDL, watermark and delete messages; anything else is not TiCDC's Avro.",
        )
    return Header(SchemaId(int.from_bytes(message[1:HEADER_BYTES], "big")), bytes(message[HEADER_BYTES:]))


def join(schema_id: int, body: bytes) -> bytes:
    """Put the wire header before `body`. Raises ValueError for an id that 4 bytes cannot hold."""
    if not 0 <= schema_id <= _MAX_ID:
        raise ValueError(f"schema id {schema_id} does not fit 4 bytes")
    return bytes([MAGIC]) + schema_id.to_bytes(HEADER_BYTES - 1, "big") + body
