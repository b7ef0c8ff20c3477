"""TiCDC's Avro messages: a key and a value per row change, and the control messages of watermark mode.

A message is `00`, the schema id in four big-endian bytes, and the Avro body (Confluent's header); fastavro
writes the body. In watermark mode a value may instead be `01` + JSON (DDL), `02` + ts (checkpoint) or, on
request, `03` + ts (delete). Proved byte for byte against TiCDC's own messages: see
tests/unit/test_simulate_golden.py.
"""

from __future__ import annotations

import io
import json
import struct
from typing import TYPE_CHECKING, Any

import fastavro

from pipeline.simulate import schemas
from pipeline.simulate.tables import ColumnType, Row, SimulatedColumn, SimulatedTable, SimulationError, Value
from pipeline.simulate.values import Convert, decimal_text, moment_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from pipeline.simulate.schemas import AvroOptions


class TableCodec:
    """Encodes the rows of one table version; built once per version and run for every row.

    `key_schema` and `value_schema` are the texts to register. The ids that the registry gives for them go
    into the messages; they are arguments because the same text may have different ids in different
    registries.
    """

    def __init__(self, table: SimulatedTable, options: AvroOptions) -> None:
        self.table = table
        self.options = options
        self.key_schema = schemas.key_schema(table, options)
        self.value_schema = schemas.value_schema(table, options)
        keys = [table.column(name) for name in table.handle]
        self._key = _RecordWriter(self.key_schema, _converters(keys, options))
        self._value = _RecordWriter(self.value_schema, _converters(table.sent_columns, options))

    def key(self, row: Row, schema_id: int) -> bytes:
        """Return the message key of a row."""
        return self._key.write(schema_id, row, {})

    def value(self, row: Row, schema_id: int, op: str, commit_ts: int) -> bytes:
        """Return the message value of an inserted (`op` = `c`) or updated (`u`) row."""
        extension = {
            "_tidb_op": op,
            "_tidb_commit_ts": commit_ts,
            "_tidb_commit_physical_time": commit_ts >> 18,
        }
        return self._value.write(schema_id, row, extension if self.options.extension else {})

    def delete(self, commit_ts: int) -> bytes | None:
        """Return the message value of a delete: null, or `03` and the commit ts."""
        return None if self.options.deletes == "null" else struct.pack(">BQ", 3, commit_ts)


class _RecordWriter:
    """Writes header and body; its schema is the registered one less what does not change bytes."""

    def __init__(self, text: str, converters: Mapping[str, tuple[str, Convert]]) -> None:
        self._schema = fastavro.parse_schema(_bare(json.loads(text)))
        self._converters = [(field, name, convert) for name, (field, convert) in converters.items()]

    def write(self, schema_id: int, row: Row, extension: Mapping[str, object]) -> bytes:
        body = io.BytesIO()
        body.write(struct.pack(">BI", 0, schema_id))
        datum: dict[str, Any] = {
            field: None if (value := row[name]) is None else convert(value) for field, name, convert in self._converters
        }
        fastavro.schemaless_writer(body, self._schema, {**datum, **extension})
        return body.getvalue()


def ddl_message(query: str, action: int, schema: str, table: str, commit_ts: int) -> bytes:
    """Return a DDL message of watermark mode; `action` is TiDB's ActionType (3: create table)."""
    event = {"query": query, "type": action, "schema": schema, "table": table, "commitTs": commit_ts}
    return b"\x01" + json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


def checkpoint_message(commit_ts: int) -> bytes:
    """Return a checkpoint (watermark) message: everything up to the ts has been sent."""
    return struct.pack(">BQ", 2, commit_ts)


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop defaults and logical types: fastavro checks the former and writes -128 as two bytes."""

    def primitive(typed: Any) -> Any:
        if isinstance(typed, list):
            return [primitive(branch) for branch in typed]
        return typed["type"] if isinstance(typed, dict) else typed

    fields = [{"name": field["name"], "type": primitive(field["type"])} for field in schema["fields"]]
    return {"type": "record", "name": schema["name"], "fields": fields}


def _converters(
    columns: tuple[SimulatedColumn, ...] | list[SimulatedColumn], options: AvroOptions
) -> dict[str, tuple[str, Convert]]:
    converters = {column.name: (schemas.sanitised(column.name), _convert(column, options)) for column in columns}
    fields = [field for field, _ in converters.values()]
    if len(set(fields)) < len(fields) or (options.extension and "_tidb_op" in fields):
        raise SimulationError(
            "AVRO_NAME_TAKEN",
            f"Two fields have one Avro name among {', '.join(fields)}: TiCDC stops here too.",
        )
    return converters


def _convert(column: SimulatedColumn, options: AvroOptions) -> Convert:
    kind = column.parsed
    if kind.name == "decimal":
        return _decimal(kind, options)
    if kind.name == "bigint" and kind.unsigned:
        return str if options.bigint_unsigned == "string" else schemas.wrapped
    if kind.name == "bit":
        return schemas.bit_bytes
    if kind.name == "enum":
        return _enum(column)
    return moment_text(kind, options.timezone) if kind.is_moment else _same


def _same(value: Value) -> Value:
    return value


def _enum(column: SimulatedColumn) -> Convert:
    members = frozenset(column.parsed.members)

    def convert(value: str) -> str:
        if value not in members:
            raise SimulationError("ENUM_REFUSED", f"{value!r} is no member of {column.name!r}: TiCDC's encoder fails.")
        return value

    return convert


def _decimal(kind: ColumnType, options: AvroOptions) -> Convert:
    """Precise: the unscaled number in the fewest two's complement bytes. String: all digits of the scale."""
    digits = decimal_text(kind)

    def unscaled(value: Decimal) -> bytes:
        number = int(digits(value).replace(".", ""))
        magnitude = number if number >= 0 else ~number
        return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)

    return unscaled if options.decimal == "precise" else digits
