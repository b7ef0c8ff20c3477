"""TiCDC's Simple protocol, in JSON and in Avro (TiCDC Simple Protocol; wire-formats.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.protocols.described.protocol import DescribedProtocol
from pipeline.protocols.simple.avro_encoding import AvroEncoding
from pipeline.protocols.simple.json_encoding import JsonEncoding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.model.messages import KnownVersions
    from pipeline.model.types import WarehouseType
    from pipeline.protocols.described.encoding import Encoding

__all__ = ["simple_protocol"]

_ENCODINGS: Mapping[str, Encoding] = {"json": JsonEncoding(), "avro": AvroEncoding()}


def simple_protocol(
    encoding: str, timezone: str, overrides: Mapping[str, WarehouseType], remembered: KnownVersions
) -> DescribedProtocol:
    """The Simple protocol; `encoding` is the changefeed's `encoding-format`, for the others see `DescribedProtocol`."""
    return DescribedProtocol(_ENCODINGS[encoding], timezone, overrides, remembered)
