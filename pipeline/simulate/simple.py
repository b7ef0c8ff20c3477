"""TiCDC's Simple protocol in JSON: rows, table schemas, DDL, watermarks (TiCDC's page "Simple Protocol").

Every value is a text or null. Compared with TiCDC's own messages in tests/unit/test_simulate_simple.py; only
`buildTs`, the encoder's clock, is not a matter of the data.
"""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.simulate import go
from pipeline.simulate.tables import value_of
from pipeline.simulate.values import Convert, decimal_text, enum_number, moment_text, set_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.simulate.database import Op
    from pipeline.simulate.ddl import SimulatedDdl
    from pipeline.simulate.tables import ColumnType, Row, SimulatedColumn, SimulatedTable, Value

_ACTIONS = {3: "CREATE", 4: "ERASE", 5: "ALTER", 6: "ALTER", 11: "TRUNCATE", 12: "ALTER", 14: "RENAME"}
_OTHER_ACTION = "QUERY"
_LENGTHS = {
    "float": 12, "double": 22, "date": 10, "year": 4, "json": 4294967295,
    "tinytext": 255, "text": 65535, "mediumtext": 16777215, "longtext": 4294967295,
    "vector": -1, "tinyblob": 255, "blob": 65535, "mediumblob": 16777215, "longblob": 4294967295,
}  # fmt: skip
_DIGITS = {"tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20)}
_WITHOUT_FRACTION = {"datetime": 19, "timestamp": 19, "time": 10}


class Identity(NamedTuple):
    """A table as the schema knows it: its id, and the ts of its version (TiDB's `UpdateTS`)."""

    table_id: int
    version: int


class SimpleCodec:
    """Encodes the rows of one table version; built once per version and run for every row.

    `schema` is the JSON text of its `tableSchema`.
    """

    def __init__(self, table: SimulatedTable, identity: Identity, timezone: str = "UTC") -> None:
        self.schema = _dumped(_schema(table, identity))
        self._names = (
            f'"database":{go.json_text(table.schema)},"table":{go.json_text(table.name)},"tableID":{identity.table_id}'
        )
        self._version = identity.version
        columns = sorted(table.sent_columns, key=lambda column: column.name)
        self._members = {column.name: (f"{go.json_text(column.name)}:", _text(column, timezone)) for column in columns}

    def member(self, column: str, value: Value) -> str:
        """Return a column of an image: its name and value."""
        name, convert = self._members[column]
        return f"{name}null" if value is None else f"{name}{convert(value)}"

    def row(self, row: Row) -> str:
        """Return one image of a row: its values by name, in alphabetical order."""
        return f"{{{','.join(self.member(column, row[column]) for column in self._members)}}}"

    def value(self, op: Op, before: Row | None, after: Row | None, commit_ts: int) -> bytes:
        """Return the message of a row change; an update has both images in full."""
        data = "" if after is None else f',"data":{self.row(after)}'
        old = "" if before is None else f',"old":{self.row(before)}'
        head = f'{{"version":1,{self._names},"type":"{op.upper()}","commitTs":{commit_ts},"buildTs":{build_ts()}'
        return f'{head},"schemaVersion":{self._version}{data}{old}}}'.encode()

    def bootstrap(self) -> bytes:
        """Return the message that tells the table's schema to who comes late."""
        return f'{_head("BOOTSTRAP", 0)},"tableSchema":{self.schema}}}'.encode()


def watermark(commit_ts: int) -> bytes:
    """Return the message that says: everything up to the ts has been sent to this partition."""
    return f"{_head('WATERMARK', commit_ts)}}}".encode()


def ddl_message(ddl: SimulatedDdl, after: SimpleCodec | None, before: SimpleCodec | None, commit_ts: int) -> bytes:
    """Return the message of a statement, with the table after it and, for ALTER, before it."""
    schemas = "" if after is None else f',"tableSchema":{after.schema}'
    schemas += "" if before is None else f',"preTableSchema":{before.schema}'
    head = f'{{"version":1,"type":"{_ACTIONS.get(ddl.action, _OTHER_ACTION)}","sql":{go.json_text(ddl.query)}'
    return f'{head},"commitTs":{commit_ts},"buildTs":{build_ts()}{schemas}}}'.encode()


def build_ts() -> int:
    """Return the encoder's clock in ms."""
    return time.time_ns() // 1_000_000


def _head(kind: str, commit_ts: int) -> str:
    return f'{{"version":1,"type":"{kind}","commitTs":{commit_ts},"buildTs":{build_ts()}'


def _dumped(value: object) -> str:
    """JSON as Go writes it: what `go.json_text` escapes stands in texts only."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(go.ESCAPES)


def _schema(table: SimulatedTable, identity: Identity) -> dict[str, Any]:
    return {
        "schema": table.schema,
        "table": table.name,
        "tableID": identity.table_id,
        "version": identity.version,
        "columns": [_column(column) for column in table.columns],
        "indexes": list(_indexes(table)),
    }


def _indexes(table: SimulatedTable) -> Iterator[dict[str, Any]]:
    """A clustered integer key is no index of TiDB's and stands last; without a key the first non-null index is one."""
    key = table.primary_key
    if key and not table.has_integer_handle:
        yield _index("PRIMARY", key, primary=True, nullable=False)
        key = ()
    for names in table.unique:
        nullable = any(table.column(name).nullable for name in names)
        yield _index("uk_" + "_".join(names), names, primary=False, nullable=nullable)
        key = key or (() if nullable or table.primary_key else names)
    if key:
        yield _index("primary", key, primary=True, nullable=False)


def _index(name: str, columns: tuple[str, ...], *, primary: bool, nullable: bool) -> dict[str, Any]:
    return {"name": name, "unique": True, "primary": primary, "nullable": nullable, "columns": list(columns)}


def _column(column: SimulatedColumn) -> dict[str, Any]:
    shown = None if column.default is None else value_of(column.parsed, column.default)
    return {
        "name": column.name,
        "dataType": _data_type(column.parsed),
        "nullable": column.nullable,
        "default": shown if column.parsed.name == "bit" else column.default,
    }


def _data_type(kind: ColumnType) -> dict[str, Any]:
    """Left out: `decimal` 0, flags that are not set. YEAR is unsigned and filled with zeros, BIT is unsigned."""
    words = kind.is_text or kind.members
    charset, collate = ("utf8mb4", "utf8mb4_bin") if words else ("binary", "binary")
    typed: dict[str, Any] = {"mysqlType": kind.name, "charset": charset, "collate": collate, "length": _length(kind)}
    scale = kind.length if kind.name in _WITHOUT_FRACTION else kind.scale
    typed |= {"decimal": scale} if scale else {}
    typed |= {"unsigned": True} if kind.unsigned or kind.name in {"bit", "year"} else {}
    typed |= {"zerofill": True} if kind.name == "year" else {}
    typed |= {"elements": list(kind.members)} if kind.members else {}
    return typed


def _length(kind: ColumnType) -> int:
    if kind.name in _WITHOUT_FRACTION:
        return _WITHOUT_FRACTION[kind.name] + (1 + kind.length if kind.length else 0)
    if kind.name == "enum":
        return max(map(len, kind.members))
    if kind.name == "set":
        return sum(map(len, kind.members)) + len(kind.members) - 1
    if kind.length is None and kind.name in _DIGITS:
        return _DIGITS[kind.name][kind.unsigned]
    return kind.length or _LENGTHS[kind.name]


def _text(column: SimulatedColumn, timezone: str) -> Convert:
    """What makes the JSON of a value: a text, or for TIMESTAMP its zone and text."""
    kind = column.parsed
    if kind.name == "timestamp":
        moment, zone = moment_text(kind, timezone), go.json_text(timezone)
        return lambda value: f'{{"location":{zone},"value":"{moment(value)}"}}'
    if kind.name in {"float", "double"}:
        bits: go.Bits = 32 if kind.name == "float" else 64
        return lambda value: f'"{go.plain_float(value, bits)}"'
    if kind.is_binary:
        return lambda value: f'"{base64.b64encode(value).decode("ascii")}"'
    numbers: dict[str, Convert] = {"decimal": decimal_text(kind), "enum": enum_number(kind), "set": set_number(kind)}
    if kind.name in numbers or kind.is_whole or kind.name == "bit":
        convert = numbers.get(kind.name, str)
        return lambda value: f'"{convert(value)}"'
    if kind.is_moment:
        moment = moment_text(kind, timezone)
        return lambda value: f'"{moment(value)}"'
    return go.json_text
