"""TiCDC's Open protocol: batched rows, DDL and resolved events (TiCDC's page "TiCDC Open Protocol").

A record's key is the version and then, for each row, a length and JSON; its value the same without the version.
Compared with TiCDC's own records byte for byte in tests/unit/test_simulate_open.py.
"""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING

from pipeline.model.tidb_types import MYSQL_CODES
from pipeline.simulate import go
from pipeline.simulate.schemas import wrapped
from pipeline.simulate.values import Convert, decimal_text, enum_number, moment_text, set_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline.simulate.tables import ColumnType, Row, SimulatedColumn, SimulatedTable, Value

Record = tuple[bytes, bytes]

_VERSION = struct.pack(">Q", 1)
_ROW, _DDL, _RESOLVED = 1, 2, 3
_BINARY, _HANDLE, _PRIMARY, _UNIQUE, _MULTIPLE, _NULLABLE, _UNSIGNED = 1, 2, 8, 16, 32, 64, 128
_SHORT_BINARY = frozenset({"binary", "varbinary"})
_SHORT_TEXT = frozenset({"char", "varchar"})


class OpenCodec:
    """Encodes the rows of one table version; built once per version and run for every row."""

    def __init__(self, table: SimulatedTable, timezone: str = "UTC") -> None:
        self._names = f'"scm":{go.json_text(table.schema)},"tbl":{go.json_text(table.name)}'
        self._integer_key = table.primary_key[0] if table.has_integer_handle else None
        columns = sorted(table.sent_columns, key=lambda column: column.name)
        self._members = {column.name: (_prefix(table, column), _json(column, timezone)) for column in columns}

    def key(self, image: Row, commit_ts: int, row_id: int = 0) -> bytes:
        """Return a row's key; `row_id` is its hidden row id, where it has one."""
        number = row_id if self._integer_key is None else image[self._integer_key]
        rid = f',"rid":{wrapped(number)}' if isinstance(number, int) and number else ""
        return f'{{"ts":{commit_ts},{self._names}{rid},"t":{_ROW}}}'.encode()

    def value(self, before: Row | None, after: Row | None) -> bytes:
        """Return a row's value: an insert is `u`, an update `u` and `p`, a delete `d`."""
        if after is None:
            return f'{{"d":{self.row(before or {})}}}'.encode()
        old = "" if before is None else f',"p":{self.row(before)}'
        return f'{{"u":{self.row(after)}{old}}}'.encode()

    def member(self, column: str, value: Value) -> str:
        """Return a column of an image: its name, type, flags and value."""
        prefix, convert = self._members[column]
        return f"{prefix}null}}" if value is None else f"{prefix}{convert(value)}}}"

    def row(self, row: Row) -> str:
        """Return one image of a row: its columns in alphabetical order."""
        return f"{{{','.join(self.member(column, row[column]) for column in self._members)}}}"


def record(rows: Iterable[Record]) -> Record:
    """Return key and value of a record that carries these rows."""
    keys, values = zip(*rows, strict=True)
    return _VERSION + b"".join(map(framed, keys)), b"".join(map(framed, values))


def resolved(commit_ts: int) -> Record:
    """Return the record that says: everything up to the ts has been sent to this partition."""
    return record([(f'{{"ts":{commit_ts},"t":{_RESOLVED}}}'.encode(), b"")])


def ddl_message(query: str, action: int, schema: str, table: str, commit_ts: int) -> Record:
    """Return the record of a statement; `action` is TiDB's ActionType, `table` empty for a database's."""
    names = f'"scm":{go.json_text(schema)}' + (f',"tbl":{go.json_text(table)}' if table else "")
    key = f'{{"ts":{commit_ts},{names},"t":{_DDL}}}'
    return record([(key.encode(), f'{{"q":{go.json_text(query)},"t":{action}}}'.encode())])


def framed(data: bytes) -> bytes:
    """Return length and bytes."""
    return struct.pack(">Q", len(data)) + data


def _prefix(table: SimulatedTable, column: SimulatedColumn) -> str:
    handle = table.has_handle and column.name in table.handle
    shown = '"h":true,' if handle else ""
    flags = _flags(table, column, handle=handle)
    return f'{go.json_text(column.name)}:{{"t":{MYSQL_CODES[column.parsed.name]},{shown}"f":{flags},"v":'


def _flags(table: SimulatedTable, column: SimulatedColumn, *, handle: bool) -> int:
    """BINARY says that the charset is: so numbers, moments and JSON have it too."""
    kind = column.parsed
    unique = [names for names in table.unique if column.name in names]
    keys = [*unique, *([table.primary_key] if column.name in table.primary_key else [])]
    facts = {
        _BINARY: not (kind.is_text or kind.members),
        _HANDLE: handle,
        _PRIMARY: column.name in table.primary_key,
        _UNIQUE: bool(unique),
        _MULTIPLE: any(len(names) > 1 for names in keys),
        _NULLABLE: column.nullable,
        _UNSIGNED: kind.unsigned or kind.name in {"bit", "year"},
    }
    return sum(flag for flag, true in facts.items() if true)


def _json(column: SimulatedColumn, timezone: str) -> Convert:
    """What makes the JSON of a value. Text and blobs are base64; short binary strings are quoted as Go does."""
    kind = column.parsed
    if kind.name in _SHORT_BINARY:
        return lambda value: go.json_text(go.quoted(value))
    if kind.is_binary:
        return lambda value: f'"{base64.b64encode(value).decode("ascii")}"'
    if kind.is_text and kind.name not in _SHORT_TEXT:
        return lambda value: f'"{base64.b64encode(value.encode()).decode("ascii")}"'
    return _number(kind) or _words(kind, timezone)


def _number(kind: ColumnType) -> Convert | None:
    if kind.name in {"float", "double"}:
        bits: go.Bits = 32 if kind.name == "float" else 64
        return lambda value: go.json_float(value, bits)
    if kind.members:
        return enum_number(kind) if kind.name == "enum" else set_number(kind)
    return str if kind.is_whole or kind.name == "bit" else None


def _words(kind: ColumnType, timezone: str) -> Convert:
    if kind.name == "decimal" or kind.is_moment:
        convert = decimal_text(kind) if kind.name == "decimal" else moment_text(kind, timezone)
        return lambda value: f'"{convert(value)}"'
    return go.json_text
