"""The running pipeline, and how another process asks it for an operation."""

from pipeline.service.pipeline import Pipeline

__all__ = ["Pipeline"]
