"""The stream: micro-batches from a source into the warehouse."""

from pipeline.streaming.pipeline import Pipeline

__all__ = ["Pipeline"]
