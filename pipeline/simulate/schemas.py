"""The Avro schemas that TiCDC registers for a table, as text (TiCDC's Avro page, "Key and value schemas").

Proved against the registry texts of the golden data: see tests/unit/test_simulate_golden.py.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pipeline.simulate.tables import ColumnType, SimulatedColumn, SimulatedTable, value_of

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]

_UNSAFE_TOPIC = re.compile(r"[^A-Za-z0-9._-]")
_UNSAFE = re.compile(r"[^A-Za-z0-9_]")
_AVRO_TYPES = {
    "tinyint": "int", "smallint": "int", "mediumint": "int", "int": "int", "year": "int",
    "bigint": "long", "float": "float", "double": "double", "bit": "bytes",
}  # fmt: skip
_TIDB_TYPES = {
    "tinyint": "INT", "smallint": "INT", "mediumint": "INT", "int": "INT", "bigint": "BIGINT",
    "vector": "TiDBVECTORFloat32",
}  # fmt: skip
_EXTENSION: tuple[Json, ...] = (
    {"default": "", "name": "_tidb_op", "type": "string"},
    {"default": 0, "name": "_tidb_commit_ts", "type": "long"},
    {"default": 0, "name": "_tidb_commit_physical_time", "type": "long"},
)
_LARGEST_PLAIN_FLOAT = 1e21  # Go's JSON writes whole floats below this without a fraction


@dataclass(frozen=True, slots=True)
class AvroOptions:
    """A changefeed's Avro settings, named as in its sink URI.

    `extension`: enable-tidb-extension. `decimal`: avro-decimal-handling-mode. `bigint_unsigned`:
    avro-bigint-unsigned-handling-mode. `deletes`: what a delete's value is, Kafka's null or, as TiCDC's new
    architecture does in watermark mode, `03` and the commit ts. `timezone`: the zone that TIMESTAMP texts are
    in.
    """

    extension: bool = True
    decimal: Literal["precise", "string"] = "precise"
    bigint_unsigned: Literal["long", "string"] = "long"
    deletes: Literal["null", "commit-ts"] = "null"
    namespace: str = "default"
    timezone: str = "UTC"


def sanitised(name: str) -> str:
    """Return an Avro name: what is not `[A-Za-z0-9_]` becomes `_`, a leading digit gets one."""
    safe = _UNSAFE.sub("_", name)
    return f"_{safe}" if safe[:1].isdigit() else safe


def topic_of(prefix: str, schema: str, table: str) -> str:
    """Return the topic of a table, `tidb_{schema}_{table}`, with what Kafka refuses as `_`."""
    return _UNSAFE_TOPIC.sub("_", f"{prefix}_{schema}_{table}")


def subject_of(topic: str, part: Literal["key", "value"]) -> str:
    """Return the registry subject: the topic with `.` as `_`, then `-key` or `-value`."""
    return f"{topic.replace('.', '_')}-{part}"


def key_schema(table: SimulatedTable, options: AvroOptions) -> str:
    """Return the text of the key schema: the handle columns, never nullable, in table order."""
    columns = (table.column(name) for name in table.handle)
    return _record(table, [_field(column, options, nullable=False) for column in columns], options)


def value_schema(table: SimulatedTable, options: AvroOptions) -> str:
    """Return the text of the value schema: the sent columns, then the extension fields if they are on."""
    fields = [_field(column, options, nullable=column.nullable) for column in table.sent_columns]
    return _record(table, [*fields, *(_EXTENSION if options.extension else ())], options)


def avro_type(kind: ColumnType, options: AvroOptions) -> str:
    """Return the primitive Avro type that carries a TiDB type."""
    if kind.name == "decimal":
        return "bytes" if options.decimal == "precise" else "string"
    if kind.name == "bigint" and kind.unsigned:
        return options.bigint_unsigned
    if kind.name == "int" and kind.unsigned:
        return "long"
    return "bytes" if kind.is_binary else _AVRO_TYPES.get(kind.name, "string")


def bit_bytes(value: int) -> bytes:
    """Return a BIT value as TiCDC sends it: big-endian without leading zero bytes, `00` for zero."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def wrapped(value: int) -> int:
    """Return a BIGINT UNSIGNED as the long that TiCDC sends: two's complement, negative above 2^63-1."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _record(table: SimulatedTable, fields: Iterable[Json], options: AvroOptions) -> str:
    return json.dumps(
        {
            "type": "record",
            "name": sanitised(table.name),
            "namespace": f"{sanitised(options.namespace)}.{sanitised(table.schema)}",
            "fields": list(fields),
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def _field(column: SimulatedColumn, options: AvroOptions, *, nullable: bool) -> Json:
    """DECIMAL in precise mode never shows its default, so its union, if any, begins with null."""
    kind, name, typed = column.parsed, sanitised(column.name), _typed(column.parsed, options)
    shown = None if "logicalType" in typed else _default(column, kind, options)
    if not nullable:
        return {**({} if shown is None else {"default": shown}), "name": name, "type": typed}
    return {"default": shown, "name": name, "type": ["null", typed] if shown is None else [typed, "null"]}


def _typed(kind: ColumnType, options: AvroOptions) -> Json:
    parameters = {"tidb_type": _tidb_type(kind)}
    if kind.name == "bit":
        parameters = {"length": str(kind.length), **parameters}
    elif kind.members:
        allowed = ",".join(member.replace(",", "\\,") for member in kind.members)
        parameters = {"allowed": allowed, **parameters}
    typed: Json = {"type": avro_type(kind, options), "connect.parameters": parameters}
    if kind.name == "decimal" and options.decimal == "precise":
        typed |= {"logicalType": "decimal", "precision": kind.length, "scale": kind.scale}
    return typed


def _tidb_type(kind: ColumnType) -> str:
    if kind.is_text:
        return "TEXT"
    if kind.is_binary:
        return "BLOB"
    word = _TIDB_TYPES.get(kind.name, kind.name.upper())
    return f"{word} UNSIGNED" if kind.unsigned and word in {"INT", "BIGINT"} else word


def _default(column: SimulatedColumn, kind: ColumnType, options: AvroOptions) -> Any:
    """Return the default as the schema shows it; bytes come as base64 text, which is not Avro's way."""
    text = column.default
    if text is None:
        return None
    avro = avro_type(kind, options)
    if avro == "string":
        return text.partition("(")[0] if text.startswith("CURRENT_TIMESTAMP") else text
    value = value_of(kind, text)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if kind.name == "bit" and isinstance(value, int):
        return base64.b64encode(bit_bytes(value)).decode("ascii")
    if isinstance(value, float):
        return _go_number(column.normalise(value))
    return wrapped(value) if isinstance(value, int) else value


def _go_number(value: Any) -> float | int:
    """Return the number as Go's JSON writes it: a whole float has no fraction."""
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < _LARGEST_PLAIN_FLOAT else number
