"""Names as TiCDC's Avro encoder forms them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_FORBIDDEN: Final = re.compile(r"[^A-Za-z0-9_]")
_KEY_SUFFIX: Final = "-key"
_VALUE_SUFFIX: Final = "-value"


@dataclass(frozen=True, slots=True)
class Subjects:
    """The two subjects of one topic (TopicNameStrategy)."""

    key: str
    value: str


def sanitise(name: str) -> str:
    """Form the Avro name of a TiDB schema, table or column.

    Every code point outside `[A-Za-z0-9_]` becomes `_`, a leading digit gets `_` in front: `SanitizeName` in
    TiCDC's pkg/sink/codec/common. Not reversible, and two names may meet (`a b` and `a_b`).
    """
    safe = _FORBIDDEN.sub("_", name)
    return f"_{safe}" if safe[:1].isdigit() else safe


def subjects_of(topic: str) -> Subjects:
    """Name the key's and the value's subject of `topic`.

    TiCDC writes `_` for every `.` in the subject, the Kafka topic itself keeps its dots (`sanitizeTopic`).
    """
    stem = topic.replace(".", "_")
    return Subjects(key=stem + _KEY_SUFFIX, value=stem + _VALUE_SUFFIX)
