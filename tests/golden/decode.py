"""A second reader of TiCDC's Avro, small and slow: fastavro and dictionaries instead of Spark and Iceberg.

It tells what the changes tables must hold and which commit ts a current row must carry. Replayed, it proves
that the expectations themselves are right: its tables must equal TiDB's at every step.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import fastavro
from golden.values import CALENDAR, Cell, Column, Row, calendar, freeze, vector, warehouse_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from golden.corpus import GoldenCase, Record

OPS = {"c": "insert", "u": "update", "d": "delete", None: "upsert"}
_FAMILIES = {"text": "varchar", "blob": "varbinary", "tidbvectorfloat32": "vector"}
_UNSIGNED = "decimal(20,0)"
_ROW = 0
_DELETE = 3
_BEFORE = "_ticdc_before"
_DDL = 1


@dataclass(frozen=True, slots=True)
class Event:
    """One row event. `commit_ts` is None where the record does not carry it; `row` of a delete is its key."""

    record: Record
    offset: int
    table: str
    op: str
    commit_ts: int | None
    schema_id: int
    key: tuple[Any, ...]
    row: Row
    before: Row | None = None
    gone: tuple[Any, ...] | None = None
    """The key that an update of a table without a key takes away."""


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """One registered schema: which table's, and which source columns it has."""

    table: str
    parsed: Any
    columns: tuple[Column, ...]
    never_null: tuple[str, ...]

    def read(self, body: bytes) -> dict[str, Any]:
        """One datum; every byte must be used."""
        stream = io.BytesIO(body)
        datum = fastavro.schemaless_reader(stream, self.parsed)
        assert not stream.read()
        return datum

    def row(self, datum: dict[str, Any]) -> Row:
        """The source columns of a datum as the warehouse holds them."""
        return Row.of({column.name: _cell(column, datum[column.name]) for column in self.columns})


@cache
def writer_schema(text: str) -> WriterSchema:
    """Read a registered schema. TiCDC's own fields have no TiDB type."""
    raw = json.loads(text)
    schema = raw["namespace"].partition(".")[2]
    columns = (_column(field["name"], _branch(field["type"])) for field in raw["fields"])
    return WriterSchema(
        f"{schema}.{raw['name']}",
        fastavro.parse_schema(json.loads(text)),
        tuple(column for column in columns if column is not None),
        tuple(field["name"] for field in raw["fields"] if isinstance(field["type"], dict)),
    )


def _branch(avro: Any) -> Any:
    return next(branch for branch in avro if branch != "null") if isinstance(avro, list) else avro


def _column(name: str, avro: Any) -> Column | None:
    if not isinstance(avro, dict) or avro["type"] == "record":
        return None
    sent = avro["connect.parameters"]
    family, _, sign = sent["tidb_type"].lower().partition(" ")
    family = _FAMILIES.get(family, family)
    parameters = sent.get("length", "")
    if "precision" in avro:
        parameters = f"{avro['precision']},{avro['scale']}"
    kind = warehouse_type(
        family,
        unsigned=bool(sign) and not (family == "int" and avro["type"] == "int"),
        parameters=parameters or "1",
        decimals_as_text=avro["type"] == "string",
    )
    return Column(name, family, kind)


def _cell(column: Column, value: Any) -> Cell:
    if value is None:
        return Cell(None)
    if column.family in CALENDAR:
        return calendar(column.family, value)
    if column.family == "bit":
        value = int.from_bytes(value, "big")
    elif column.type == _UNSIGNED and column.family == "bigint":
        value = int(value) % 2**64
    return Cell(_typed(column.type, value))


def _typed(kind: str, value: Any) -> Any:
    if kind == _UNSIGNED:
        return Decimal(value)
    if kind == "array<float>":
        return vector(value)
    return format(value, "f") if kind == "string" and isinstance(value, Decimal) else value


def events(case: GoldenCase, records: Iterable[Record] | None = None) -> list[Event]:
    """Every row event of the records (all of them, unless given), with its offset: topics begin at 0."""
    schemas = {entry.id: writer_schema(entry.schema) for entry in case.schemas}
    ends: Counter[tuple[str, int]] = Counter()
    found = []
    for record in case.records if records is None else records:
        offset = ends[record.topic, record.partition]
        ends[record.topic, record.partition] += 1
        if record.kind == "row" and not nameless(case, record):
            found.append(_event(schemas, record, offset))
    return found


def nameless(case: GoldenCase, record: Record) -> bool:
    """Whether neither a key nor old values tell which row it is of."""
    return record.key is None and not case.has_before


def _event(schemas: dict[int, WriterSchema], record: Record, offset: int) -> Event:
    if record.value is None or record.value[0] == _DELETE:
        assert record.key is not None
        key_id, key_schema, key_body = _split(schemas, record.key)
        key_row = key_schema.row(key_schema.read(key_body))
        commit_ts = None if record.value is None else int.from_bytes(record.value[1:], "big")
        return Event(record, offset, key_schema.table, "delete", commit_ts, key_id, _key(key_row), key_row)
    value_id, schema, body = _split(schemas, record.value)
    datum = schema.read(body)
    op, commit_ts, row = OPS[datum.get("_tidb_op")], datum.get("_tidb_commit_ts"), schema.row(datum)
    old = datum.get(_BEFORE)
    before = None if old is None else schema.row(old)
    if record.key is None:
        key_row, was = _narrowed(row, schema.never_null), _narrowed(before, schema.never_null)
    else:
        _, key_schema, key_body = _split(schemas, record.key)
        key_row, was = key_schema.row(key_schema.read(key_body)), None
    gone = None if was is None or op != "update" else _key(was)
    return Event(record, offset, schema.table, op, commit_ts, value_id, _key(key_row), row, before, gone)


def _key(row: Row) -> tuple[Any, ...]:
    return tuple((name, freeze(value), row.lost.get(name)) for name, value in row.values.items())


def _narrowed(row: Row | None, names: Iterable[str]) -> Row | None:
    """A row of a table without a key: what is never NULL stands for one."""
    return None if row is None else Row({name: row.values[name] for name in names}, row.lost)


def _split(schemas: dict[int, WriterSchema], message: bytes) -> tuple[int, WriterSchema, bytes]:
    assert message[0] == _ROW
    number = int.from_bytes(message[1:5], "big")
    return number, schemas[number], message[5:]


def statement(record: Record) -> dict[str, Any]:
    """A DDL message's JSON."""
    assert record.value is not None
    assert record.value[0] == _DDL
    return json.loads(record.value[1:])


def replayed(found: Iterable[Event]) -> dict[str, dict[tuple[Any, ...], Event]]:
    """The tables after these events, applied one by one: table → key → the event that left the row there."""
    tables: dict[str, dict[tuple[Any, ...], Event]] = {}
    for event in found:
        rows = tables.setdefault(event.table, {})
        if event.gone is not None:
            rows.pop(event.gone, None)
        if event.op == "delete":
            rows.pop(event.key, None)
        else:
            rows[event.key] = event
    return tables


def newest_value_schemas(case: GoldenCase) -> dict[str, int]:
    """Table → id of the value schema that was registered last."""
    return {writer_schema(entry.schema).table: entry.id for entry in case.schemas if entry.subject.endswith("-value")}


def columns_of(case: GoldenCase) -> dict[str, tuple[Column, ...]]:
    """Table → columns of its newest value schema."""
    return {
        writer_schema(entry.schema).table: writer_schema(entry.schema).columns
        for entry in case.schemas
        if entry.subject.endswith("-value")
    }
