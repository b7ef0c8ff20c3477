"""What the next batch is expected to have, as `speculation` predicts it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.model.messages import Kind, Messages
    from pipeline.model.names import TableName

_REMEMBERED = 8
"""Kinds of messages are expected for so many batches after the last that had them."""


@dataclass(slots=True)
class BatchProfile:
    """What the next batch is expected to have: messages of one table, of the kinds that the last few batches had."""

    table: TableName | None = None
    seen: deque[frozenset[Kind]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    begins: bool = True  # no batch has had rows

    @property
    def kinds(self) -> frozenset[Kind]:
        """All of them."""
        return frozenset().union(*self.seen)

    def learn(self, messages: Messages, dead_letters: int) -> None:
        """Take note of a committed batch; one with several tables, dead letters or what waits teaches nothing.

        Rows that were passed over are of another table.

        Nor does one with statements, but for the first: a stream begins with them.
        """
        self.begins = self.begins and not messages.tables
        only = messages.tables[0].table if len(messages.tables) == 1 else None
        altered = messages.ddl and self.seen
        others = messages.passed_over or messages.unknown or messages.pending_events
        if only is None or only != self.table:
            self.seen.clear()
        self.table = None if altered or others or dead_letters else only
        self.seen.append(messages.kinds)
