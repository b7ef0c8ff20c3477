"""DDL statements of a changefeed as actions on the warehouse (design.md, rules 5 and 6).

Text in, data out: no Spark, no logging, and no exception, whatever the text. A statement that is not
understood is `NotUnderstood`, and holds its table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.ddl.actions import (
    Action,
    AddColumn,
    AddPartitions,
    CoalescePartitions,
    CreateDatabase,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropPartitions,
    DropTable,
    ExchangePartition,
    ModifyColumn,
    NoEffect,
    NotUnderstood,
    PartitionBy,
    RemovePartitioning,
    RenameColumn,
    RenameTable,
    ReorganizePartitions,
    SetDefault,
    TruncatePartitions,
    TruncateTable,
    UnclearPartitions,
)
from pipeline.ddl.alter import StatementContext, read_alter
from pipeline.ddl.indexes import only_adds_indexes
from pipeline.ddl.kinds import (
    COLUMN_KINDS,
    NO_EFFECT,
    NOT_HANDLED,
    PARTITION_KINDS,
    PRIMARY_KEY_KINDS,
    ActionType,
    known,
)
from pipeline.ddl.lexemes import Cursor, NotParsedError, lexemes
from pipeline.ddl.rename import read_renames

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pipeline.model.names import TableName

__all__ = [
    "Action",
    "ActionType",
    "AddColumn",
    "AddPartitions",
    "CoalescePartitions",
    "CreateDatabase",
    "CreateTable",
    "DropColumn",
    "DropDatabase",
    "DropPartitions",
    "DropTable",
    "ExchangePartition",
    "ModifyColumn",
    "NoEffect",
    "NotUnderstood",
    "PartitionBy",
    "RemovePartitioning",
    "RenameColumn",
    "RenameTable",
    "ReorganizePartitions",
    "SetDefault",
    "TruncatePartitions",
    "TruncateTable",
    "UnclearPartitions",
    "altered",
    "named_database",
    "named_tables",
    "parse",
]


_WHOLE_TABLE: Mapping[ActionType, Callable[[TableName], Action]] = {
    ActionType.CREATE_TABLE: CreateTable,
    ActionType.DROP_TABLE: DropTable,
    ActionType.TRUNCATE_TABLE: TruncateTable,
}
"""Statements about the table that the message names: TiCDC sends one message for each of several tables."""


def parse(  # noqa: PLR0913 - what a protocol may tell besides the text
    kind: int,
    sql: str,
    table: TableName,
    *,
    old: TableName | None = None,
    decimals_as_text: bool = False,
    partitions: bool = False,
    keys: bool = False,
) -> tuple[Action, ...]:
    """Read one DDL message as what it asks for: at least one action, in the order of its clauses.

    `kind` is TiDB's ActionType, `table` the table (or, with an empty table, the database) that the message
    names, for a rename the new name; `old` is the name before it, where the protocol tells that.
    `decimals_as_text`: the protocol sends DECIMAL as text, so such columns are STRING. A CHANGE COLUMN that renames
    is `RenameColumn`, then `ModifyColumn` under the new name.
    `partitions`: the caller keeps how its tables are partitioned (`ddl.partitions`); without it a statement that
    takes rows of a partition away is not understood. `keys`: the protocol tells the handle; without it a statement
    that changes the primary key is not understood.
    """
    action_type = known(kind)
    if action_type is None:
        return (_of_unknown_kind(kind, sql),)
    if keys and action_type in PRIMARY_KEY_KINDS:
        return (NoEffect("the primary key, which the protocol sends"),)
    if not (partitions and action_type in PARTITION_KINDS):
        if action_type in NO_EFFECT:
            return (NoEffect(NO_EFFECT[action_type]),)
        if action_type in NOT_HANDLED:
            return (NotUnderstood(NOT_HANDLED[action_type]),)
    try:
        return _read(action_type, sql, StatementContext(table, decimals_as_text, partitions, keys, old))
    except NotParsedError as error:
        return (NotUnderstood(str(error)),)


def _of_unknown_kind(kind: int, sql: str) -> Action:
    """Read a statement of a kind that this version has not heard of: its text alone may say that no row changes."""
    if only_adds_indexes(sql):
        return NoEffect("an index")
    return NotUnderstood(f"this version does not know TiDB's DDL type {kind}")


def _read(kind: ActionType, sql: str, statement: StatementContext) -> tuple[Action, ...]:
    table = statement.table
    if kind is ActionType.CREATE_SCHEMA:
        return (CreateDatabase(_database(sql, table, "CREATE")),)
    if kind is ActionType.DROP_SCHEMA:
        return (DropDatabase(_database(sql, table, "DROP")),)
    if kind in _WHOLE_TABLE:
        return (_WHOLE_TABLE[kind](_named(table)),)
    cursor = Cursor(lexemes(sql))
    if kind in COLUMN_KINDS or kind in PARTITION_KINDS:
        _named(table)
        return read_alter(cursor, statement)
    if kind is ActionType.CREATE_TABLES:
        return _creates(cursor, table)
    return read_renames(cursor, _named(table), statement.old)


def _named(table: TableName) -> TableName:
    if not table.table:
        raise NotParsedError("the message names no table")
    return table


def _database(sql: str, table: TableName, verb: str) -> str:
    """Name the database, from the text where the message does not name it (Simple protocol)."""
    if table.schema:
        return table.schema
    cursor = Cursor(lexemes(sql))
    cursor.expect(verb)
    if not cursor.accept_any("DATABASE", "SCHEMA"):
        raise cursor.fault("DATABASE")
    return _database_name(cursor)


def _database_name(cursor: Cursor) -> str:
    _ = cursor.accept("IF", "NOT", "EXISTS") or cursor.accept("IF", "EXISTS")
    return cursor.name()


def _creates(cursor: Cursor, table: TableName) -> tuple[Action, ...]:
    """CREATE TABLE statements of a restore, joined by semicolons."""
    created: list[Action] = []
    while not created or (cursor.accept_symbol(";") and not cursor.at_end()):
        cursor.expect("CREATE", "TABLE")
        cursor.accept("IF", "NOT", "EXISTS")
        created.append(CreateTable(cursor.table_name(table.schema)))
        while not (cursor.at_end() or cursor.at_symbol(";")):
            cursor.take()
    return tuple(created)


def altered(kind: int, sql: str, table: TableName) -> TableName:
    """The table that a statement alters, where its message may name another one.

    EXCHANGE PARTITION: TiCDC's new architecture names the table that the partition is exchanged with, the text both
    (wire-formats.md). A text that cannot be read leaves what the message says.
    """
    if known(kind) is not ActionType.EXCHANGE_TABLE_PARTITION:
        return table
    try:
        cursor = Cursor(lexemes(sql))
        cursor.expect("ALTER")
        cursor.accept("IGNORE")
        cursor.expect("TABLE")
        return cursor.table_name(table.schema)
    except NotParsedError:
        return table


def named_tables(sql: str, table: TableName, old: TableName | None = None) -> tuple[TableName, ...]:
    """Every table that the text names after the word TABLE, and `table` and `old`.

    An unclear statement may be about each. `old` as for `parse`: the text of a rename has it after TABLE.
    """
    schema = table.schema if old is None else old.schema
    names = {name.key: name for name in (table, old) if name is not None}
    try:
        cursor = Cursor(lexemes(sql))
        while not cursor.at_end():
            if cursor.accept("TABLE"):
                name = cursor.table_name(schema)
                names.setdefault(name.key, name)
            else:
                cursor.take()
    except NotParsedError:
        pass
    return tuple(names.values())


def named_database(sql: str, table: TableName) -> str:
    """The database that its message names, or else the text, after DATABASE or SCHEMA; empty where neither does."""
    if table.schema:
        return table.schema
    try:
        cursor = Cursor(lexemes(sql))
        while not cursor.at_end():
            if cursor.accept_any("DATABASE", "SCHEMA"):
                return _database_name(cursor)
            cursor.take()
    except NotParsedError:
        pass
    return ""
