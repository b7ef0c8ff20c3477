"""The demo's own logic: a shop that works in parts, what is expected of it, and the proof that its tables arrived."""

from pipeline.demo import checks, snippets
from pipeline.demo.source import DemoSource, Stretch, from_files, from_kafka, recall, remember
from pipeline.demo.truth import TableVerdict, compare, quarantined_keys

__all__ = [
    "DemoSource",
    "Stretch",
    "TableVerdict",
    "checks",
    "compare",
    "from_files",
    "from_kafka",
    "quarantined_keys",
    "recall",
    "remember",
    "snippets",
]
