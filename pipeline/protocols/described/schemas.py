"""Simple's table schemas (BOOTSTRAP, DDL) as versions of a table's layout.

A version is known by (database, table, schemaVersion): RENAME and TRUNCATE keep the number, and the `tableID` of a row
is that of its partition (wire-formats.md, "Simple, JSON").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.ddl.defaults import EXPRESSION, default_of
from pipeline.ddl.literals import Literal, LiteralKind
from pipeline.ddl.sql_types import SqlType, family_of
from pipeline.errors import Refused
from pipeline.model.columns import IN_UTC, UNKNOWN_DEFAULT, Default, SchemaId, SourceColumn, TableVersion, literal
from pipeline.model.names import TableName, confusable, folded
from pipeline.model.source_types import MOST_FRACTION_DIGITS
from pipeline.model.tidb_types import TYPES, Parameters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.model.types import WarehouseType

_OF_A_LENGTH = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
_LOST = "\ufffd"
"""What TiCDC makes of bytes of a default that are no UTF-8."""


MOST_SET_MEMBERS, MOST_DIGITS = 64, 65
"""TiDB's own limits."""
_WIDTHS = {"DATETIME": 19, "TIMESTAMP": 19, "TIME": 10}
"""How wide TiDB shows times without fraction digits."""


class NotATableSchema(Refused):
    """A `tableSchema` that TiCDC did not write."""

    def __init__(self, why: str) -> None:
        super().__init__("NOT_A_TABLE_SCHEMA", f"the table schema cannot be read: {why}", "")


def table_version(sent: Mapping[str, Any], overrides: Mapping[str, WarehouseType]) -> TableVersion:
    """The version that a `tableSchema` describes. JSON calls the database `schema`, Avro `database`.

    `overrides`: types of the user's by column name in lower case. Virtual generated columns are listed like any
    other (`virtuals` finds them). Raises `NotATableSchema`.
    """
    try:
        table = TableName(_text(sent["schema"] if "schema" in sent else sent["database"]), _text(sent["table"]))
        columns = tuple(_column(column, overrides) for column in sent["columns"])
        handle = _handle(sent.get("indexes") or (), columns)
        version = SchemaId(int(sent["version"]))
        _refuse_what_no_table_has(columns, version)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise NotATableSchema(f"{type(error).__name__}: {error}") from error
    return TableVersion(table, version, columns, handle, tells_op=True, tells_commit_ts=True)


def sql_type(sent: Mapping[str, Any]) -> SqlType:
    """A column's `dataType`."""
    name, unsigned = _text(sent["mysqlType"]).upper(), bool(sent.get("unsigned"))
    family = family_of(name, unsigned=unsigned, binary=sent.get("charset") == "binary")
    length, decimal = sent.get("length"), sent.get("decimal")
    match TYPES[family].parameters:
        case Parameters.DIGITS:
            precision, scale = int(length or 0), int(decimal or 0)
            if not 0 <= scale <= precision <= MOST_DIGITS:
                raise ValueError(f"DECIMAL({precision},{scale}) is no type")
            return SqlType(family, length=precision, scale=scale)
        case Parameters.BITS:
            return SqlType(family, length=int(length or 1))
        case Parameters.FRACTION:
            return SqlType(family, scale=_fraction_digits(name, length, decimal))
        case Parameters.MEMBERS:
            return SqlType(family, members=tuple(_text(member) for member in sent.get("elements") or ()))
    return SqlType(family, length=int(length or 0), fixed=True) if name in ("CHAR", "BINARY") else SqlType(family)


def _column(sent: Mapping[str, Any], overrides: Mapping[str, WarehouseType]) -> SourceColumn:
    name, kind, nullable = _text(sent["name"]), sql_type(sent["dataType"]), bool(sent["nullable"])
    own = overrides.get(folded(name)) or kind.warehouse_type(decimals_as_text=False)
    return SourceColumn(
        name, own, kind.tidb_type, nullable, _default(sent.get("default"), kind, nullable=nullable),
        unsigned=bool(sent["dataType"].get("unsigned")), members=kind.members, length=_length(sent["dataType"]),
        written=kind.written,
    )  # fmt: skip


def _fraction_digits(name: str, length: int | None, decimal: int | None) -> int:
    """Of a time. Avro says how wide it is shown only: `2024-01-01 10:20:30.123` is 23."""
    if decimal is not None or length is None:
        return int(decimal or 0)
    return min(max(0, int(length) - _WIDTHS[name] - len(".")), MOST_FRACTION_DIGITS)


def _length(sent: Mapping[str, Any]) -> int:
    return int(sent.get("length") or 0) if _text(sent["mysqlType"]).upper() in _OF_A_LENGTH else 0


def _default(sent: object, kind: SqlType, *, nullable: bool) -> Default:
    """What rows from before the column show; unknown where the text may be an expression, or has lost bytes.

    Without a default a NOT NULL column shows the zero value of its type.
    """
    if sent is None:
        return default_of(None, kind, nullable=nullable)
    if kind.family == "BIT":
        return default_of(_bits(sent), kind, nullable=nullable)
    text = _text(sent)
    if _LOST in text or (kind.family in ("TEXT", "JSON", "BLOB") and EXPRESSION.fullmatch(text)):
        return UNKNOWN_DEFAULT
    default = default_of(Literal(LiteralKind.TEXT, text), kind, nullable=nullable)
    return literal(f"{default.text}{IN_UTC}") if (default.text and kind.family == "TIMESTAMP") else default


def _bits(sent: object) -> Literal:
    """JSON has the number, Avro a text of its bytes, each of them a character where it is no UTF-8 by itself."""
    if isinstance(sent, int):
        return Literal(LiteralKind.NUMBER, str(sent))
    text = _text(sent)
    return Literal(LiteralKind.EXPRESSION if _LOST in text else LiteralKind.BYTES, raw=text.encode())


def _handle(indexes: Sequence[Mapping[str, Any]], columns: Sequence[SourceColumn]) -> tuple[str, ...]:
    """The columns of the primary key, in the order of the table; TiCDC names a unique key so where there is none."""
    for index in indexes:
        if index["primary"]:
            named = {folded(_text(name)) for name in index["columns"]}
            return tuple(column.name for column in columns if folded(column.name) in named)
    return ()


def _refuse_what_no_table_has(columns: Sequence[SourceColumn], version: int) -> None:
    names = [confusable(column.name) for column in columns]  # Spark reads them by name
    if "" in names or len({*names}) < len(names):
        raise ValueError("columns have no name, or the same name")
    if not 0 <= version < 2**63:
        raise ValueError(f"version {version} is not valid")
    if any(len(column.members) > MOST_SET_MEMBERS for column in columns if column.tidb_type == "SET"):
        raise ValueError(f"a SET of more than {MOST_SET_MEMBERS} members")


def _text(sent: object) -> str:
    if not isinstance(sent, str):
        raise TypeError(f"{sent!r:.60} is no text")
    sent.encode()  # half a surrogate pair is a ValueError
    return sent
