"""Sides c and d, and every other case: the product, through its public way."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bulk
from machine import cpu_seconds

from pipeline.service import Pipeline
from pipeline.settings import load
from pipeline.settings.sections import CatalogSettings
from pipeline.warehouse.iceberg import Table
from pipeline.warehouse.maintenance import Maintainer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.ingest.phases import CommittedBatch


class Ours:
    """Commands of the worker: `open` a configuration, `run` it as often as wanted, `close`."""

    def open(self, config: str) -> None:
        """Open the pipeline; the first time this starts Spark."""
        self._pipeline = Pipeline.open(load(Path(config)), listener=self._committed)
        self._steps: list[tuple[str, float]] = []
        told = self._pipeline.context.step

        def step(name: str) -> None:
            self._steps.append((name, time.monotonic()))
            told(name)

        self._pipeline.context = replace(self._pipeline.context, step=step)

    def far(self, seconds: float) -> None:
        """From here on the catalog counts as one elsewhere, and each commit of a table waits so long for it."""
        for name in ("_commit", "show"):
            setattr(Table, name, _waiting(getattr(Table, name), seconds))
        setattr(CatalogSettings, "embedded", False)  # noqa: B010 - a property of theirs

    def close(self) -> None:
        """Let the warehouse go; Spark stays."""
        self._pipeline.close()

    def run(self) -> dict[str, Any]:
        """Take everything that is there: the wall time of `Pipeline.run`, and what each batch took of it."""
        self._batches: list[dict[str, Any]] = []
        cpu, self._started = cpu_seconds(os.getpid()), time.monotonic()
        self._pipeline.run(available_now=True)
        ended = time.monotonic()
        return {
            "seconds": ended - self._started,
            "cpu_seconds": cpu_seconds(os.getpid()) - cpu,
            "batches": self._batches,
        }

    def _committed(self, number: int, outcome: CommittedBatch, seconds: float) -> None:
        now = time.monotonic()
        batch: dict[str, Any] = {
            "batch": number,
            "rows": outcome.messages.events,
            "tables": len(outcome.tables),
            "seconds": round(seconds, 3),
            "committed_at": now - self._started,
            "slowest_table": round(max((landed.seconds for landed in outcome.tables), default=0.0), 3),
        }
        if len(outcome.tables) == 1:  # the steps of several tables run side by side
            batch["steps"] = self._durations(now - seconds)
        self._steps.clear()
        self._batches.append(batch)

    def _durations(self, started: float) -> dict[str, float]:
        """What lay between each durable step of the batch and the one before it."""
        found: dict[str, float] = {}
        for name, at in self._steps:
            if at >= started:
                found[name] = round(found.get(name, 0.0) + at - started, 3)
                started = at
        return found

    def grow(self, tables: list[str], rows: int, *, shuffled: bool = False) -> None:
        """Fill current tables with rows of keys 1 to `rows`; see `bulk`."""
        bulk.grow(self._pipeline.context.spark, tables, rows, shuffled=shuffled)

    def compact(self) -> float:
        """Compact all current tables, as `tables maintain` does; the seconds."""
        started, context = time.monotonic(), self._pipeline.context
        maintainer = Maintainer(context.spark, context.settings.warehouse.maintenance, context.step)
        for pair in context.tables:
            if pair.current is not None:
                maintainer.compact(pair.current)
        return time.monotonic() - started


def _waiting(commit: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    def waits(*given: Any) -> Any:
        time.sleep(seconds)
        return commit(*given)

    return waits
