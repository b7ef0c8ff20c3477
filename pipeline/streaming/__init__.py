"""The stream: micro-batches from Kafka into the warehouse."""

from pipeline.streaming.pipeline import Pipeline

__all__ = ["Pipeline"]
