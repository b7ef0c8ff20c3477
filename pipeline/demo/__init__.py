"""The demo's own logic: a shop that works in parts, what is expected of it, and the proof that its tables arrived."""

from pipeline.demo import checks, snippets
from pipeline.demo.source import SENT, DemoSource, Stretch, from_files, from_kafka, from_topic, recall, remember
from pipeline.demo.truth import TableVerdict, compare, quarantined_keys

__all__ = [
    "SENT",
    "DemoSource",
    "Stretch",
    "TableVerdict",
    "checks",
    "compare",
    "from_files",
    "from_kafka",
    "from_topic",
    "quarantined_keys",
    "recall",
    "remember",
    "snippets",
]
