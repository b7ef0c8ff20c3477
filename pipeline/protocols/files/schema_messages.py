"""A schema file as the message of Simple that says the same (`protocols.described.statements`).

Sources: wire-formats.md, "Storage sink"; TiDB's ActionType numbers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pipeline.ddl import ActionType
from pipeline.protocols.files.head import DAMAGED

if TYPE_CHECKING:
    from pyspark.sql import Row

_TYPES = {ActionType.DROP_TABLE: "ERASE", ActionType.RENAME_TABLE: "RENAME", ActionType.RENAME_TABLES: "RENAME"}
_OF_NO_TABLE = {
    ActionType.CREATE_SCHEMA, ActionType.DROP_SCHEMA, ActionType.MODIFY_SCHEMA_CHARSET_AND_COLLATE,
    ActionType.CREATE_VIEW, ActionType.DROP_VIEW,
}  # fmt: skip
_UNSIGNED = " UNSIGNED"
_BINARY = ("BLOB", "BINARY")


def message_of(statement: Row) -> dict[str, Any] | None:
    """The message of a `head.statement`; None where the content is no schema file."""
    file = statement.file
    if file.kind == DAMAGED:
        return {
            "sql": f"-- SCHEMA_FILE_DAMAGED: {file.path} is not as TiCDC wrote it",
            "commitTs": file.version,
            "type": "QUERY",
            "tableSchema": {"schema": file.schema_name, "table": file.table_name},
        }
    try:
        written = json.loads(statement.content or "")
        return _message(written)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _message(written: dict[str, Any]) -> dict[str, Any]:
    sql, kind = str(written.get("Query") or ""), _action(written.get("Type"))
    columns = written.get("TableColumns") or []
    message: dict[str, Any] = {"sql": sql, "commitTs": int(written["TableVersion"]), "type": "QUERY"}
    if not written["Table"] or not columns or kind in _OF_NO_TABLE:
        return message
    message["type"] = _TYPES.get(kind, "ALTER") if kind is not None else "ALTER"
    message["tableSchema"] = {
        "schema": written["Schema"],
        "table": written["Table"],
        "version": int(written["TableVersion"]),
        "columns": [_column(column) for column in columns],
        "indexes": _primary_key(columns),
    }
    return message


def _action(number: object) -> ActionType | None:
    try:
        return ActionType(int(str(number)))
    except ValueError:
        return None


def _column(written: dict[str, Any]) -> dict[str, Any]:
    name = str(written["ColumnType"]).upper()
    unsigned = name.endswith(_UNSIGNED)
    name = name.removesuffix(_UNSIGNED)
    sent: dict[str, Any] = {"mysqlType": name, "unsigned": unsigned}
    if name.endswith(_BINARY):
        sent["charset"] = "binary"
    if written.get("ColumnPrecision"):
        sent["length"] = int(written["ColumnPrecision"])
    if written.get("ColumnScale"):
        sent["decimal"] = int(written["ColumnScale"])
    if written.get("ColumnElems"):
        sent["elements"] = list(written["ColumnElems"])
    return {
        "name": written["ColumnName"],
        "dataType": sent,
        "nullable": written.get("ColumnNullable") != "false",
        "default": written.get("ColumnDefault"),
    }


def _primary_key(columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = [column["ColumnName"] for column in columns if column.get("ColumnIsPk") == "true"]
    return [{"name": "PRIMARY", "primary": True, "columns": names}] if names else []
