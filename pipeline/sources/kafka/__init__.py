"""Kafka as a source: topics are streams, offsets are positions."""

from pipeline.sources.kafka.offsets import REFUSALS
from pipeline.sources.kafka.source import KafkaSource

__all__ = ["REFUSALS", "KafkaSource"]
