"""A storage changefeed's files: rows as CSV and Canal-JSON, schema files, and where each file stands.

Compared with TiCDC's own files in tests/unit/test_simulate_files.py; only `ts`, the encoder's clock, is not a matter of
the data.
"""

from __future__ import annotations

import base64
import json
import re
import time
import zlib
from typing import TYPE_CHECKING, Any

from pipeline.simulate import go
from pipeline.simulate.tables import value_of
from pipeline.simulate.values import Convert, decimal_text, enum_number, moment_text, set_number

if TYPE_CHECKING:
    from pipeline.simulate.database import Op
    from pipeline.simulate.ddl import SimulatedDdl
    from pipeline.simulate.tables import ColumnType, Row, SimulatedColumn, SimulatedTable, Value

LINE_END = "\r\n"
_LETTERS = {"insert": "I", "update": "U", "delete": "D"}
_ESCAPED = re.compile(r"\\.")
_LONG_ESCAPES = {r"\b": r"\u0008", r"\f": r"\u000c"}
_NOW = re.compile(r"^(CURRENT_TIMESTAMP)\([0-6]\)$")
_PHYSICAL_BITS = 18
_WIDTHS = {
    "tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20),
}  # fmt: skip
_PRECISIONS = {
    "float": 12, "double": 22, "year": 4, "tinytext": 255, "text": 65535, "mediumtext": 16777215,
    "longtext": 4294967295, "tinyblob": 255, "blob": 65535, "mediumblob": 16777215, "longblob": 4294967295,
}  # fmt: skip
_SQL_TYPES = {
    "tinyint": -6, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "float": 7, "double": 8, "decimal": 3,
    "bit": -7, "year": 12, "date": 91, "datetime": 93, "timestamp": 93, "time": 92, "char": 1, "varchar": 12,
    "tinytext": 2005, "text": 2005, "mediumtext": 2005, "longtext": 2005, "binary": 2004, "varbinary": 2004,
    "tinyblob": 2004, "blob": 2004, "mediumblob": 2004, "longblob": 2004, "enum": 4, "set": -7, "json": 12,
    "vector": 12,
}  # fmt: skip
"""Java's numbers of types. Of unsigned whole numbers it depends on the value (`_LARGER`)."""
_LARGER = {
    "tinyint": (2**7, 5),
    "smallint": (2**15, 4),
    "mediumint": (2**31, -5),
    "int": (2**31, -5),
    "bigint": (2**63, 3),
}


class CsvCodec:
    """Lines of one table version, with commit ts, is-update and old values, as `[sink.csv]` writes them by default."""

    def __init__(self, table: SimulatedTable, timezone: str = "UTC") -> None:
        self._names = f"{_quoted(table.name)},{_quoted(table.schema)}"
        self._converts = {column.name: _csv_value(column, timezone) for column in table.sent_columns}

    def lines(self, op: Op, before: Row | None, after: Row | None, commit_ts: int) -> str:
        """Return the lines of a row change: of an update two, the row as it was and as it is."""
        if op == "update" and before is not None and after is not None:
            return f"{self._line('D', before, commit_ts, 'true')}{self._line('I', after, commit_ts, 'true')}"
        image = before if after is None else after
        return self._line(_LETTERS[op], image or {}, commit_ts, "false")

    def member(self, column: str, value: Value) -> str:
        """Return the field of a column's value."""
        return r"\N" if value is None else self._converts[column](value)

    def _line(self, letter: str, row: Row, commit_ts: int, update: str) -> str:
        values = (self.member(name, row[name]) for name in self._converts)
        return ",".join((f'"{letter}"', self._names, str(commit_ts), update, *values)) + LINE_END


class CanalCodec:
    """Lines of Canal-JSON of one table version. `extension`: enable-tidb-extension."""

    def __init__(self, table: SimulatedTable, timezone: str = "UTC", *, extension: bool = True) -> None:
        self._extension = extension
        keys = [column.name for column in table.columns if column.name in table.primary_key]
        names = f'"database":{go.json_text(table.schema)},"table":{go.json_text(table.name)}'
        self._head = f'{{"id":0,{names},"pkNames":{_dumped(keys)},"isDdl":false'
        self._columns = {
            column.name: (f"{go.json_text(column.name)}:", column.parsed, _canal_value(column, timezone))
            for column in table.sent_columns
        }
        kinds = {column.name: _mysql_type(column.parsed) for column in table.sent_columns}
        self._kinds = _dumped(kinds)

    def lines(self, op: Op, before: Row | None, after: Row | None, commit_ts: int) -> str:
        """Return the line of a row change; an update has both images in full."""
        image = (before if after is None else after) or {}
        old = f"[{self._image(before)}]" if op == "update" and before is not None else "null"
        moment = commit_ts >> _PHYSICAL_BITS
        types = ",".join(f"{key}{_sql_type(kind, image[name])}" for name, (key, kind, _) in self._columns.items())
        head = f'{self._head},"type":"{op.upper()}","es":{moment},"ts":{clock()},"sql":""'
        tail = f',"_tidb":{{"commitTs":{commit_ts}}}' if self._extension else ""
        rows = f'"old":{old},"data":[{self._image(image)}]'
        return f'{head},"sqlType":{{{types}}},"mysqlType":{self._kinds},{rows}{tail}}}{LINE_END}'

    def member(self, column: str, value: Value) -> str:
        """Return name and value of a column."""
        key, _, convert = self._columns[column]
        return f"{key}{_text(value, convert)}"

    def _image(self, row: Row) -> str:
        return f"{{{','.join(self.member(name, row[name]) for name in self._columns)}}}"


def clock() -> int:
    """Return the encoder's clock in ms."""
    return time.time_ns() // 1_000_000


def schema_file(schema: str, table: SimulatedTable | None, version: int, ddl: SimulatedDdl | None) -> tuple[str, bytes]:
    """Return path and content of the file that describes a version of a table, or a database's DDL."""
    columns = None if table is None else [_schema_column(table, column) for column in table.columns]
    name = "" if table is None else table.name
    total = len(columns or ())
    summed = {
        "Table": name, "Schema": schema, "Version": 0,
        "TableColumns": sorted(columns or [], key=lambda column: str(column["ColumnName"])) if columns else columns,
        "TableColumnsTotal": total,
    }  # fmt: skip
    content = {
        "Table": name, "Schema": schema, "Version": 1, "TableVersion": version,
        "Query": ddl.query if ddl else "", "Type": ddl.action if ddl else 0,
        "TableColumns": columns, "TableColumnsTotal": total,
    }  # fmt: skip
    checksum = zlib.crc32(_indented(summed if columns else {**summed, "TableColumns": []}))
    folder = f"{schema}/{name}/meta" if name else f"{schema}/meta"
    return f"{folder}/schema_{version}_{checksum:010}.json", _indented(content)


def _indented(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=4).translate(go.ESCAPES).encode()


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(go.ESCAPES)


def _schema_column(table: SimulatedTable, column: SimulatedColumn) -> dict[str, Any]:
    kind = column.parsed
    unsigned = kind.unsigned or kind.name in {"bit", "year"}
    described = {"ColumnName": column.name, "ColumnType": kind.name.upper() + (" UNSIGNED" if unsigned else "")}
    described |= {} if column.default is None else {"ColumnDefault": _default(kind, column.default)}
    precision = _precision(kind)
    described |= {"ColumnPrecision": str(precision)} if precision is not None else {}
    scale = kind.length if kind.is_moment else kind.scale
    described |= {"ColumnScale": str(scale)} if scale or kind.name == "decimal" else {}
    described |= {} if column.nullable else {"ColumnNullable": "false"}
    return described | ({"ColumnIsPk": "true"} if column.name in table.primary_key else {})


def _default(kind: ColumnType, text: str) -> str:
    """A default of BIT is its bytes; of a time that is the statement's, its digits are left out."""
    if kind.name != "bit":
        return _NOW.sub(r"\1", text)
    bits = int(str(value_of(kind, text)))
    return bits.to_bytes(max(1, (bits.bit_length() + 7) // 8), "big").decode("utf-8", "replace")


def _precision(kind: ColumnType) -> int | None:
    if kind.is_moment or kind.members or kind.name in {"json", "vector"}:
        return None
    if kind.length is None and kind.name in _WIDTHS:
        return _WIDTHS[kind.name][kind.unsigned]
    return kind.length or _PRECISIONS.get(kind.name)


def _quoted(text: str) -> str:
    return '"{}"'.format(text.replace('"', '""'))


def _csv_value(column: SimulatedColumn, timezone: str) -> Convert:
    """What makes the field of a value."""
    kind = column.parsed
    if kind.is_whole or kind.name == "bit":
        return str
    if kind.name in {"float", "double"}:
        bits: go.Bits = 32 if kind.name == "float" else 64
        return lambda value: go.short_float(value, bits)
    if kind.is_binary:
        return lambda value: f'"{base64.b64encode(value).decode("ascii")}"'
    if kind.name == "decimal":
        digits = decimal_text(kind)
        return lambda value: f'"{digits(value)}"'
    if kind.is_moment:
        moment = moment_text(kind, timezone)
        return lambda value: f'"{moment(value)}"'
    return _quoted


def _canal_value(column: SimulatedColumn, timezone: str) -> Convert:
    """What makes the text of a value."""
    kind = column.parsed
    if kind.name in {"float", "double"}:
        bits: go.Bits = 32 if kind.name == "float" else 64
        return lambda value: go.plain_float(value, bits)
    if kind.is_binary:
        return lambda value: value.decode("latin-1")
    convert: dict[str, Convert] = {"decimal": decimal_text(kind), "enum": enum_number(kind), "set": set_number(kind)}
    return convert.get(kind.name) or (moment_text(kind, timezone) if kind.is_moment else str)


def _text(value: Value, convert: Convert) -> str:
    """TiCDC's encoder of this protocol has no short escapes for backspace and form feed."""
    if value is None:
        return "null"
    text = go.json_text(str(convert(value)))
    return _ESCAPED.sub(lambda escape: _LONG_ESCAPES.get(escape[0], escape[0]), text) if "\\" in text else text


def _mysql_type(kind: ColumnType) -> str:
    return kind.name + (" unsigned" if kind.unsigned else "")


def _sql_type(kind: ColumnType, value: Value) -> int:
    if kind.unsigned and kind.name in _LARGER and isinstance(value, int):
        limit, larger = _LARGER[kind.name]
        if value >= limit:
            return larger
    return _SQL_TYPES[kind.name]
