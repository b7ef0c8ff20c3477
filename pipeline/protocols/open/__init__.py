"""TiCDC's Open protocol."""

from pipeline.protocols.open.protocol import OpenProtocol

__all__ = ["OpenProtocol"]
