"""The report for programs: the tree of `facts` as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.report.facts import Report


def document(report: Report) -> str:
    """Write it as one JSON object; times are ISO 8601 in UTC."""
    return json.dumps(asdict(report), indent=2, ensure_ascii=False, default=_plain) + "\n"


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(type(value).__name__)
