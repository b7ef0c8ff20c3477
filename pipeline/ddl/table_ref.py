"""What a table name means: a pair, or a table that has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.model.names import Name


@dataclass(frozen=True, slots=True)
class PairRef:
    """A table that has a pair, by the pair's uuid."""

    uuid: str


@dataclass(frozen=True, slots=True)
class CreatedTable:
    """A table that a CREATE TABLE has made, and that has no pair yet.

    One commit ts may create many tables (a restore by BR, a batch CREATE), so it takes the table's name as well: the
    one that the statement gave, whatever a later RENAME has made of it.
    """

    commit_ts: int
    name: Name


@dataclass(frozen=True, slots=True)
class UnseenTable:
    """A table of which only rows can tell: no statement gave it the name that it has after the commit ts `since`."""

    since: int
    name: Name


@dataclass(frozen=True, slots=True)
class RemovedTable:
    """A table that was dropped, and whose pair is removed."""


TableRef = PairRef | CreatedTable | UnseenTable | RemovedTable
