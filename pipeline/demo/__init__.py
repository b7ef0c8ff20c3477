"""The demo's own logic: a shop that sells in parts, and the proof that the warehouse shows what it sold."""

from pipeline.demo.source import DemoSource
from pipeline.demo.truth import TableVerdict, compare

__all__ = ["DemoSource", "TableVerdict", "compare"]
