"""DDL in the names that rows have: a protocol may write names otherwise than the source does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.ddl.actions import (
    AddColumn,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTable,
    ModifyColumn,
    RenameColumn,
    RenameTable,
    SetDefault,
    TruncateTable,
)
from pipeline.model.names import TableName

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.ddl.actions import Action


def spelled(action: Action, name: Callable[[str], str], table: Callable[[TableName], TableName]) -> Action:
    """An action with the names that rows have. `name`: of a database or a column, `table`: of a table that there is.

    The name that a RENAME gives is no table's yet, so it is spelled and no more. Statements about partitions are left
    as they are: no protocol that spells names anew has them read.
    """
    match action:
        case CreateTable(named):
            return CreateTable(table(named))
        case DropTable(named):
            return DropTable(table(named))
        case TruncateTable(named):
            return TruncateTable(table(named))
        case RenameTable(old, new):
            return RenameTable(table(old), TableName(name(new.schema), name(new.table)))
        case DropDatabase(database):
            return DropDatabase(name(database))
    return _of_columns(action, name)


def _of_columns(action: Action, name: Callable[[str], str]) -> Action:
    match action:
        case AddColumn(column):
            return AddColumn(replace(column, name=name(column.name)))
        case DropColumn(column):
            return DropColumn(name(column))
        case RenameColumn(old, new):
            return RenameColumn(name(old), name(new))
        case ModifyColumn(old, column):
            return ModifyColumn(name(old), replace(column, name=name(column.name)))
        case SetDefault(column, default):
            return SetDefault(name(column), default)
    return action
