"""The demo's own logic: a shop that works in parts, and the proof that the warehouse shows what it did."""

from pipeline.demo import snippets
from pipeline.demo.source import DemoSource, Part, recall, remember
from pipeline.demo.truth import TableVerdict, compare

__all__ = ["DemoSource", "Part", "TableVerdict", "compare", "recall", "remember", "snippets"]
