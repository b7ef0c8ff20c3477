"""What every case stands on: broker, registry, a folder, sizes; and configurations of the product."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import yaml
from machine import cores
from remote import Remote

if TYPE_CHECKING:
    from pathlib import Path

    from pipeline.devstack import Devstack

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything; the defaults are what the targets mean."""

    rows: int = MILLION
    """Records of the topic, and rows of every large table."""
    runs: int = 3
    """Timed runs of each side of `throughput`."""
    repeats: int = 3
    """Timed batches that carry many tables: each is dear, and an average over its tables already."""
    tables: int = 100
    many: int = 200
    thousand: int = 1_000
    steady: int = 1_000
    huge: int = 100 * MILLION
    """Rows of the one table of `huge`."""
    full: bool = True
    """With the cases that take long: ten times the rows for `evolution`, and `backlog`."""

    @property
    def batch(self) -> int:
        """`max_offsets_per_trigger`: the product's default at full size, half the topic otherwise."""
        return max(self.rows // 2, 1)

    def reduced(self, *names: str) -> str:
        """Where these sizes are below what the targets mean: `rows 50000 of 1000000`; empty at full size."""
        full = Sizes()
        below = [name for name in names if getattr(self, name) < getattr(full, name)]
        return ", ".join(f"{name} {getattr(self, name)} of {getattr(full, name)}" for name in below)


SHORT = replace(Sizes(), repeats=1, steady=200, huge=10 * MILLION, full=False)
"""What `make bench` does: nothing that takes long, and 200 small batches instead of 1,000."""

QUICK = Sizes(rows=100_000, runs=1, repeats=1, tables=10, many=20, thousand=40, steady=40, huge=200_000, full=False)
"""Whether the bench itself works."""


@dataclass(frozen=True, slots=True)
class Ground:
    """A running stack and an empty folder."""

    stack: Devstack
    folder: Path

    def config(
        self,
        name: str,
        topics: dict[str, Any],
        *,
        batch: int,
        quality: dict[str, Any] | None = None,
        protocol: str = "avro",
        **warehouse: Any,
    ) -> str:
        """Write a configuration for a warehouse of its own. `topics`: `topics` or `topic_pattern` of the source."""
        source = {
            "kind": "kafka",
            "protocol": protocol,
            "bootstrap_servers": self.stack.bootstrap_servers,
            "max_offsets_per_trigger": batch,
            **topics,
        }
        registry = {"registry": {"url": self.stack.registry_url}} if protocol == "avro" else {}
        return self._written(name, {"source": source, **registry, "quality": quality or {}}, warehouse)

    def storage_config(
        self, name: str, protocol: str, path: str, *, most_bytes: int = 512 << 20, **warehouse: Any
    ) -> str:
        """The same for a folder of files; `most_bytes` in one batch."""
        source = {"kind": "storage", "protocol": protocol, "path": path, "max_bytes_per_trigger": str(most_bytes)}
        return self._written(name, {"source": source}, warehouse)

    def _written(self, name: str, sections: dict[str, Any], warehouse: dict[str, Any]) -> str:
        folder = self.folder / name
        folder.mkdir(parents=True)
        settings = {
            "name": "bench",
            **sections,
            "warehouse": {"path": str(folder / "warehouse"), **warehouse},
            "checkpoint": str(folder / "checkpoint"),
            "spark": {"master": f"local[{cores()}]"},
        }
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump(settings, sort_keys=False))
        return str(path)

    def warehouse(self, name: str) -> Path:
        """Where the warehouse of a configuration lies."""
        return self.folder / name / "warehouse"

    def worker(self, kind: str, name: str) -> Remote:
        """A process for Spark; its log lies in the folder."""
        return Remote(kind, self.folder / "logs" / f"{name}.log")
