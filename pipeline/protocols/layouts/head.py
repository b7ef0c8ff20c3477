"""What an event is, in one column that is made once: its kind, its table, its commit ts, the number of its layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

HEAD = "event"
"""The column that `LayoutProtocol.prepare` adds: a struct of the names below; NULL for what cannot be read.

`NUMBER` stands for the layout of a row: equal numbers, equal layouts. `DELETE` says whether the row is deleted.
"""
KIND, SCHEMA, TABLE, COMMIT_TS, NUMBER, DELETE = "kind", "schema", "table", "ts", "number", "delete"

ROW, DDL, RESOLVED = "row", "ddl", "resolved"
"""Kinds, besides codes of events that are refused. NULL for an event that cannot be read."""


def head(name: str) -> Column:
    """One field of the head."""
    return F.col(HEAD).getField(name)
