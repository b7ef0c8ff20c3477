"""TiCDC's Avro protocol with a Confluent-API schema registry."""

from pipeline.protocols.avro.protocol import AvroProtocol

__all__ = ["AvroProtocol"]
