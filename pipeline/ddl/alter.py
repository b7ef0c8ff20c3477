"""ALTER TABLE, clause by clause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.ddl.actions import AddColumn, DropColumn, ModifyColumn, NoEffect, NotUnderstood, RenameColumn, SetDefault
from pipeline.ddl.definition import read_definition
from pipeline.ddl.lexemes import LexemeKind
from pipeline.ddl.literals import as_written, read_default
from pipeline.ddl.partitions.statements import Altered, read_partition_clause
from pipeline.model.columns import NULL_DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.ddl.actions import Action
    from pipeline.ddl.definition import Definition
    from pipeline.ddl.lexemes import Cursor
    from pipeline.model.names import TableName

_INDEX = NoEffect("an index or a constraint")
_VIRTUAL = NoEffect("a virtual generated column is not sent")
_IN_A_COMMENT = NoEffect("what TiDB writes into a comment of its own")
_NEW_KEY = NotUnderstood("a primary key changes what identifies a row")
_KEY_TOLD = NoEffect("the primary key, which the protocol sends")
_ROWS = NotUnderstood("TiCDC does not send the rows that the statement brings into a partition or takes out of it")
_INDEX_WORDS = (
    "INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "COLUMNAR", "FOREIGN", "CHECK",
    "STATS_EXTENDED",
)  # fmt: skip
_PARTITION_ROWS = ("TRUNCATE", "EXCHANGE", "IMPORT", "DISCARD")
_OPTION_WORDS = (
    "ALGORITHM", "ATTRIBUTES", "AUTO_ID_CACHE", "AUTO_INCREMENT", "AUTO_RANDOM_BASE", "AVG_ROW_LENGTH",
    "CACHE", "CHARACTER", "CHARSET", "CHECKSUM", "COALESCE", "COLLATE", "COMMENT", "COMPRESSION",
    "CONNECTION", "CONVERT", "DEFAULT", "DELAY_KEY_WRITE", "DISABLE", "ENABLE", "ENCRYPTION", "ENGINE",
    "ENGINE_ATTRIBUTE", "FORCE", "INSERT_METHOD", "KEY_BLOCK_SIZE", "LOCK", "MAX_ROWS", "MIN_ROWS",
    "NOCACHE", "ORDER", "PACK_KEYS", "PARTITION", "PLACEMENT", "PRE_SPLIT_REGIONS", "REMOVE", "REORGANIZE",
    "ROW_FORMAT", "SECONDARY_ENGINE", "SECONDARY_ENGINE_ATTRIBUTE", "SET", "SHARD_ROW_ID_BITS",
    "STATS_AUTO_RECALC", "STATS_BUCKETS", "STATS_COL_CHOICE", "STATS_COL_LIST", "STATS_OPTIONS",
    "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "STATS_SAMPLE_RATE", "STATS_TOPN", "TTL", "TTL_ENABLE",
    "TTL_JOB_INTERVAL", "WITH", "WITHOUT",
)  # fmt: skip
"""First words of clauses about the table as a whole that leave rows and columns as they are."""


@dataclass(frozen=True, slots=True)
class StatementContext:
    """What the message says besides its text."""

    table: TableName
    decimals_as_text: bool
    partitions: bool = False
    """Whether clauses about partitions are read; else those that remove rows unseen are not understood."""
    keys: bool = False
    """Whether the protocol tells the handle by itself; else a clause that changes the primary key is not understood."""
    old: TableName | None = None
    """The name before a rename, where the protocol tells it."""


def read_alter(cursor: Cursor, statement: StatementContext) -> tuple[Action, ...]:
    """Read one ALTER TABLE; a single clause that is not understood makes the whole so."""
    cursor.expect("ALTER")
    cursor.accept("IGNORE")
    cursor.expect("TABLE")
    altered = Altered(statement.table, written=cursor.table_name(""))
    actions = list(_clause(cursor, statement, altered))
    while cursor.accept_symbol(","):
        actions.extend(_clause(cursor, statement, altered))
    cursor.expect_end()
    if statement.keys:
        actions = [_KEY_TOLD if action is _NEW_KEY else action for action in actions]
    unclear = next((action for action in actions if isinstance(action, NotUnderstood)), None)
    return tuple(actions) if unclear is None else (unclear,)


def _clause(cursor: Cursor, statement: StatementContext, altered: Altered) -> tuple[Action, ...]:
    about_partitions = read_partition_clause(cursor, altered) if statement.partitions else None
    if about_partitions is not None:
        return (about_partitions,)
    verb = cursor.accept_any(*_VERBS)
    return _VERBS[verb](cursor, statement) if verb else (_option(cursor),)


def _add(cursor: Cursor, statement: StatementContext) -> tuple[Action, ...]:
    if not cursor.accept("COLUMN"):
        other = _add_other(cursor)
        if other is not None:
            return (other,)
    cursor.accept("IF", "NOT", "EXISTS")
    if not cursor.accept_symbol("("):
        return (_added(read_definition(cursor), statement),)
    actions = [_added_in_list(cursor, statement)]
    while cursor.accept_symbol(","):
        actions.append(_added_in_list(cursor, statement))
    cursor.expect_symbol(")")
    return tuple(actions)


def _add_other(cursor: Cursor) -> Action | None:
    """Read what else than a column ADD may name; None for a column."""
    if cursor.accept("PARTITION"):
        cursor.skip_clause()
        return NoEffect("new partitions are empty")
    if cursor.accept("CONSTRAINT"):
        if cursor.peek().text not in ("PRIMARY", *_INDEX_WORDS) or cursor.peek().kind is not LexemeKind.WORD:
            cursor.name()
        return _add_other(cursor) or _fault(cursor)
    if cursor.accept("PRIMARY", "KEY"):
        cursor.skip_clause()
        return _NEW_KEY
    if cursor.accept_any(*_INDEX_WORDS) or cursor.accept("HYBRID", "INDEX"):
        cursor.skip_clause()
        return _INDEX
    return None


def _fault(cursor: Cursor) -> Action:
    raise cursor.fault("a constraint")


def _added_in_list(cursor: Cursor, statement: StatementContext) -> Action:
    return _add_other(cursor) or _added(read_definition(cursor), statement)


def _added(definition: Definition, statement: StatementContext) -> Action:
    if definition.virtual:
        return _VIRTUAL
    if definition.key and not statement.keys:
        return _NEW_KEY
    return AddColumn(definition.column(decimals_as_text=statement.decimals_as_text))


def _drop(cursor: Cursor, _: StatementContext) -> tuple[Action, ...]:
    if cursor.accept("PRIMARY", "KEY"):
        return (_NEW_KEY,)
    if cursor.accept("PARTITION"):
        cursor.skip_clause()
        return (_ROWS,)
    if not cursor.accept("COLUMN") and cursor.accept_any("CONSTRAINT", *_INDEX_WORDS):
        cursor.skip_clause()
        return (_INDEX,)
    cursor.accept("IF", "EXISTS")
    name = cursor.column_name()
    cursor.accept_any("RESTRICT", "CASCADE")
    return (DropColumn(name),)


def _modify(cursor: Cursor, statement: StatementContext) -> tuple[Action, ...]:
    cursor.accept("COLUMN")
    cursor.accept("IF", "EXISTS")
    return (_modified(read_definition(cursor), statement),)


def _change(cursor: Cursor, statement: StatementContext) -> tuple[Action, ...]:
    cursor.accept("COLUMN")
    cursor.accept("IF", "EXISTS")
    old = cursor.column_name()
    definition = read_definition(cursor)
    action = _modified(definition, statement)
    if old == definition.name or not isinstance(action, ModifyColumn):
        return (action,)
    return RenameColumn(old, definition.name), action


def _modified(definition: Definition, statement: StatementContext) -> Action:
    if definition.virtual:
        return _VIRTUAL
    if definition.key and not statement.keys:
        return _NEW_KEY
    return ModifyColumn(definition.name, definition.column(decimals_as_text=statement.decimals_as_text))


def _rename(cursor: Cursor, _: StatementContext) -> tuple[Action, ...]:
    if cursor.accept("COLUMN"):
        old = cursor.column_name()
        cursor.expect("TO")
        return (RenameColumn(old, cursor.column_name()),)
    if cursor.accept_any("INDEX", "KEY"):
        cursor.name()
        cursor.expect("TO")
        cursor.name()
        return (_INDEX,)
    raise cursor.fault("COLUMN or INDEX")


def _alter(cursor: Cursor, _: StatementContext) -> tuple[Action, ...]:
    if not cursor.accept("COLUMN") and cursor.accept_any("INDEX", "CHECK", "CONSTRAINT"):
        cursor.skip_clause()
        return (_INDEX,)
    name = cursor.column_name()
    if cursor.accept("DROP", "DEFAULT"):
        return (SetDefault(name, NULL_DEFAULT),)
    cursor.expect("SET", "DEFAULT")
    return (SetDefault(name, as_written(read_default(cursor))),)


def _option(cursor: Cursor) -> Action:
    if cursor.at_clause_end() and cursor.after_feature():
        return _IN_A_COMMENT
    if cursor.accept_any(*_PARTITION_ROWS):
        cursor.expect("PARTITION")
        cursor.skip_clause()
        return _ROWS
    if not cursor.accept_any(*_OPTION_WORDS):
        raise cursor.fault("a clause of ALTER TABLE")
    cursor.skip_clause()
    return NoEffect("an option of the table")


_VERBS: dict[str, Callable[[Cursor, StatementContext], tuple[Action, ...]]] = {
    "ADD": _add,
    "DROP": _drop,
    "MODIFY": _modify,
    "CHANGE": _change,
    "RENAME": _rename,
    "ALTER": _alter,
}
