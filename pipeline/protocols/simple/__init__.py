"""TiCDC's Simple protocol, in JSON and in Avro."""

from pipeline.protocols.simple.protocol import SimpleProtocol

__all__ = ["SimpleProtocol"]
