"""The user's own types of columns (`warehouse.columns`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pipeline.ddl import AddColumn, ModifyColumn
from pipeline.model.names import folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pipeline.ddl import Action
    from pipeline.model.names import TableName
    from pipeline.model.types import WarehouseType

T = TypeVar("T")


def overrides_for(columns: Mapping[str, T], schema: str, table: str) -> dict[str, T]:
    """The part of `warehouse.columns` (`schema.table.column` → what it says) that is about one table, by column."""
    prefix = folded(f"{schema}.{table}.")
    return {folded(name[len(prefix) :]): kind for name, kind in columns.items() if folded(name).startswith(prefix)}


def overridden(
    actions: Iterable[Action], overrides: Mapping[str, WarehouseType], table: TableName
) -> tuple[Action, ...]:
    """The actions of a statement about a table, its columns of the user's types: as those of its rows will be."""
    types = overrides_for(overrides, table.schema, table.table)
    return tuple(_overridden(action, types) for action in actions)


def _overridden(action: Action, types: Mapping[str, WarehouseType]) -> Action:
    match action:
        case AddColumn(column) | ModifyColumn(_, column) if folded(column.name) in types:
            return replace(action, column=replace(column, type=types[folded(column.name)]))
    return action
