"""The user's own types of columns (`warehouse.columns`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")


def overrides_for(columns: Mapping[str, T], schema: str, table: str) -> dict[str, T]:
    """The part of `warehouse.columns` (`schema.table.column` → what it says) that is about one table, by column."""
    prefix = f"{schema}.{table}.".casefold()
    return {
        name[len(prefix) :].casefold(): kind for name, kind in columns.items() if name.casefold().startswith(prefix)
    }
