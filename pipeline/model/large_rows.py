"""Rows that TiCDC found too large for a message: how a protocol tells them, and what is put in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.model.source_values import Columns, SentValue

KIND, LOCATION = "kind", "location"
"""Fields of the head that a protocol gives to prepared events: what an event is, and where its message lies."""


class Message(NamedTuple):
    """A record's key and value."""

    key: bytes | None
    value: bytes | None


class Images(NamedTuple):
    """The row before a change and after it, each with values by column; None where the change has none.

    Of a message that has keys alone these are the values of the key.
    """

    before: Mapping[str, SentValue] | None
    after: Mapping[str, SentValue] | None


class LargeRows(Protocol):
    """How a protocol tells such rows, and what their messages are when they are whole."""

    @property
    def head(self) -> str:
        """The column of prepared frames that says what an event is: a struct with `KIND` and `LOCATION`."""
        ...

    @property
    def row(self) -> str:
        """Its `KIND` of a row that is whole."""
        ...

    @property
    def about(self) -> Sequence[str]:
        """Its fields that say which row it is: schema, table, commit ts."""
        ...

    def restored(self, sent: Message, stored: Message) -> Message | None:
        """The message in place of the one that was sent, by what was stored; None if that is none."""
        ...

    def keys(self, sent: Message, columns: Columns) -> Images:
        """The keys in a message that has nothing else of its row. Raises `ValueError` if it is damaged."""
        ...

    def whole(self, sent: Message, columns: Columns, rows: Images) -> Message:
        """The message in place of one with keys alone, with these rows."""
        ...

    def marked(self, sent: Message, code: str) -> Message:
        """In place of a message that can't be had: one that tells the code."""
        ...
