"""The loop of a source of files: plan, take, wait, and again. Spark keeps no checkpoint of it: `PlanLog` does."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pipeline.model.places import FILES, RECORD_BITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.sources.source import Committed, Taken
    from pipeline.sources.storage.plan_log import PlannedFile

_LONGEST_BATCH = 3600
"""Seconds for which a batch that is under way is waited for when the feed is stopped."""
_SETTLING = 15.0
"""Seconds for which `--available-now` waits until no DDL event of the commit ts in `metadata` can still come."""
_SOON = 1.0


class Batch(NamedTuple):
    """The files of a batch. `moved`: whether the tables are complete further than before, with files or without.

    `settled`: whether waiting brings nothing more of what is there now. `reached`: whether the tables are complete,
    with the batch, up to what `metadata` said when the run began.
    """

    files: tuple[PlannedFile, ...]
    moved: bool
    settled: bool
    reached: bool


class Batches(Protocol):
    """What gives the batches."""

    def next_batch(self, ordinal: int) -> Batch:
        """The next batch; `ordinal`: of the first file that no committed batch has taken."""
        ...

    def taken(self, batch: Batch, number: int) -> Taken:
        """The batch with its raw frame."""
        ...

    def stop(self) -> None:
        """Wait no longer for a store that does not answer."""
        ...


class StorageFeed(threading.Thread):
    """A `Feed`, in a thread of its own."""

    def __init__(
        self,
        batches: Batches,
        take: Callable[[Taken], None],
        committed: Committed,
        trigger_seconds: float,
        *,
        available_now: bool,
    ) -> None:
        super().__init__(name="storage", daemon=True)
        self._batches, self._take, self._trigger_seconds = batches, take, trigger_seconds
        self._available_now = available_now
        self._ordinal = -(-committed.ends.get((FILES, 0), 0) >> RECORD_BITS)  # a batch takes whole files
        self._stopping = threading.Event()
        self._error: Exception | None = None

    @property
    def runs(self) -> bool:
        """See `Feed.runs`."""
        return self.is_alive()

    def wait(self, seconds: float) -> None:
        """See `Feed.wait`."""
        self.join(seconds)

    def error(self) -> Exception | None:
        """See `Feed.error`."""
        return self._error

    def stop(self) -> None:
        """See `Feed.stop`."""
        self._stopping.set()
        self._batches.stop()
        self.join(_LONGEST_BATCH)

    def run(self) -> None:
        """Until it is stopped, or everything that is there now is taken."""
        try:
            self._run()
        except Exception as error:  # noqa: BLE001 - `error` tells it
            self._error = error

    def _run(self) -> None:
        """A batch begins `trigger` after the one before it began, or at once with `--available-now`.

        Then a changefeed that never rests does not keep the run: what was there at its begin is enough.
        """
        number, deadline = 0, time.monotonic() + _SETTLING
        pause = _SOON if self._available_now else self._trigger_seconds
        while not self._stopping.is_set():
            due = time.monotonic() + pause
            batch = self._batches.next_batch(self._ordinal)
            has_news = bool(batch.files) or batch.moved
            if has_news:
                self._take(self._batches.taken(batch, number))
                number += 1
                if batch.files:
                    self._ordinal = batch.files[-1].ordinal + 1
                if self._available_now and batch.reached and time.monotonic() > deadline:
                    return
            elif self._available_now and (batch.settled or time.monotonic() > deadline):
                return
            if not (has_news and self._available_now):
                self._stopping.wait(max(0.0, due - time.monotonic()))
