"""Which kind a statement is, from its text: Simple sends eight words for TiDB's seventy."""

from __future__ import annotations

from pipeline.ddl.kinds import ActionType
from pipeline.ddl.lexemes import Cursor, LexemeKind, NotParsedError, lexemes

_OBJECTS = ("TABLE", "DATABASE", "SCHEMA", "VIEW", "INDEX", "SEQUENCE", "POLICY", "GROUP")
_A = ActionType
_BY_VERB = {
    ("CREATE", "TABLE"): _A.CREATE_TABLE,
    ("CREATE", "DATABASE"): _A.CREATE_SCHEMA,
    ("CREATE", "SCHEMA"): _A.CREATE_SCHEMA,
    ("CREATE", "VIEW"): _A.CREATE_VIEW,
    ("CREATE", "INDEX"): _A.ADD_INDEX,
    ("CREATE", "SEQUENCE"): _A.CREATE_SEQUENCE,
    ("CREATE", "POLICY"): _A.CREATE_PLACEMENT_POLICY,
    ("CREATE", "GROUP"): _A.CREATE_RESOURCE_GROUP,
    ("DROP", "TABLE"): _A.DROP_TABLE,
    ("DROP", "DATABASE"): _A.DROP_SCHEMA,
    ("DROP", "SCHEMA"): _A.DROP_SCHEMA,
    ("DROP", "VIEW"): _A.DROP_VIEW,
    ("DROP", "INDEX"): _A.DROP_INDEX,
    ("DROP", "SEQUENCE"): _A.DROP_SEQUENCE,
    ("DROP", "POLICY"): _A.DROP_PLACEMENT_POLICY,
    ("DROP", "GROUP"): _A.DROP_RESOURCE_GROUP,
    ("ALTER", "DATABASE"): _A.MODIFY_SCHEMA_CHARSET_AND_COLLATE,
    ("ALTER", "SCHEMA"): _A.MODIFY_SCHEMA_CHARSET_AND_COLLATE,
    ("ALTER", "SEQUENCE"): _A.ALTER_SEQUENCE,
    ("ALTER", "POLICY"): _A.ALTER_PLACEMENT_POLICY,
    ("ALTER", "GROUP"): _A.ALTER_RESOURCE_GROUP,
    ("RENAME", "TABLE"): _A.RENAME_TABLE,
    ("TRUNCATE", "TABLE"): _A.TRUNCATE_TABLE,
    ("TRUNCATE", ""): _A.TRUNCATE_TABLE,
    ("RECOVER", "TABLE"): _A.RECOVER_TABLE,
    ("FLASHBACK", "TABLE"): _A.RECOVER_TABLE,
    ("FLASHBACK", "DATABASE"): _A.RECOVER_SCHEMA,
    ("FLASHBACK", "SCHEMA"): _A.RECOVER_SCHEMA,
    ("FLASHBACK", ""): _A.FLASHBACK_CLUSTER,
}
_VERBS = ("CREATE", "DROP", "ALTER", "RENAME", "TRUNCATE", "RECOVER", "FLASHBACK")


def classify(sql: str) -> ActionType:
    """The kind of a statement; `NONE` for one that this grammar does not know, which is then held as not understood."""
    try:
        cursor = Cursor(lexemes(sql))
    except NotParsedError:
        return _A.NONE
    verb = cursor.accept_any(*_VERBS)
    about = _object(cursor)
    if (verb, about) == ("ALTER", "TABLE"):
        return _altered(cursor)
    return _BY_VERB.get((verb, about), _A.NONE)


def _object(cursor: Cursor) -> str:
    """What the verb is about: the first of these words; attributes come between (`CREATE OR REPLACE … VIEW`)."""
    value = False
    while not cursor.at_end() and (value or cursor.peek().kind is not LexemeKind.NAME):
        word = cursor.accept_any(*_OBJECTS)
        if word:
            return word
        value = cursor.at_symbol("=", "@")  # DEFINER = `root`@`%`
        cursor.take()
    return ""


def _altered(cursor: Cursor) -> ActionType:
    """RENAME [TO | AS] u and EXCHANGE PARTITION name tables; every other clause is about columns, or about none."""
    try:
        cursor.table_name("")
    except NotParsedError:
        return _A.NONE
    if cursor.accept("EXCHANGE"):
        return _A.EXCHANGE_TABLE_PARTITION
    renames = cursor.accept("RENAME") and not cursor.accept_any("COLUMN", "INDEX", "KEY")
    return _A.RENAME_TABLE if renames else _A.MULTI_SCHEMA_CHANGE
