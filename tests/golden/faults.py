"""Small inputs that once went wrong: Kafka records and registry schemas in the form of the golden data.

`FaultCase` stands where a `GoldenCase` does (`loading.load`, the fixture `running`), but nobody recorded TiDB's rows.
"""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass
from typing import TYPE_CHECKING

from golden.corpus import FOLDER, Record, Registered

if TYPE_CHECKING:
    from pathlib import Path

_SCHEMA_MESSAGE = b"\x00"


@dataclass(frozen=True, slots=True)
class FaultCase:
    """One input. `protocol` and `encoding` are as the settings name them."""

    name: str
    protocol: str = "avro"
    encoding: str | None = None
    partitions: int = 1
    has_extension: bool = True
    decimals_as_text: bool = False
    has_ddl: bool = True

    def __str__(self) -> str:
        return self.name

    @property
    def by_cut(self) -> bool:
        """Whether its changes are ordered by commit ts."""
        return self.protocol != "avro"

    @property
    def records(self) -> tuple[Record, ...]:
        """Everything that was sent; the topics begin with `tidb_`, as those of the golden cases do."""
        lines = (_folder() / f"{self.name}.jsonl").read_text().splitlines()
        return tuple(_record(number, json.loads(line)) for number, line in enumerate(lines))

    @property
    def schemas(self) -> tuple[Registered, ...]:
        """Everything that was registered."""
        if self.protocol != "avro":
            return ()
        listed = json.loads((_folder() / f"{self.name}.registry.json").read_text())
        return tuple(Registered(f"tidb_{one['subject']}", 1, one["id"], one["schema"]) for one in listed)


def _folder() -> Path:
    return FOLDER / "faults"


def _record(number: int, raw: dict[str, str]) -> Record:
    key, value = (None if raw[part] is None else b64decode(raw[part]) for part in ("key", "value"))
    kind = "row" if value is None or value.startswith(_SCHEMA_MESSAGE) else "control"
    return Record(number, number, f"tidb_{raw['topic']}", int(raw["partition"]), key, value, 0, kind, "")
