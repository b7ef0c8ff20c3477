"""A second reader of Simple, JSON and Avro: messages, table schemas, rows."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from golden import simple_avro
from golden.values import CALENDAR, Cell, Column, Row, calendar, typed, warehouse_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from golden.corpus import GoldenCase, Record

SchemaKey = tuple[str, str, int]
"""Database, table, version: what a row says of its schema."""

_OPS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete"}
_BIGGEST = 2**64


class Sent(NamedTuple):
    """One row event as a decoder reads it. `schema_id` is None where the protocol numbers no versions.

    `told` are the columns of `before` that were sent.
    """

    source: tuple[str, str]
    op: str
    commit_ts: int
    schema_id: int | None
    handle: tuple[str, ...]
    after: Row | None
    before: Row | None
    told: frozenset[str]


@cache
def message(encoding: str, value: bytes) -> dict[str, Any]:
    """One message as a dictionary, the same for both encodings but for what values look like."""
    return simple_avro.read(value) if encoding == "avro" else json.loads(value)


def described(case: GoldenCase, records: Iterable[Record]) -> dict[SchemaKey, dict[str, Any]]:
    """Every table schema that BOOTSTRAP and DDL messages of these records carry."""
    found = {}
    for record in records:
        if record.kind not in ("bootstrap", "ddl"):
            continue
        sent = _message(case, record)
        for schema in filter(None, (sent.get("tableSchema"), sent.get("preTableSchema"))):
            database = schema["schema"] if "schema" in schema else schema["database"]
            found[database, schema["table"], schema["version"]] = schema
    return found


def schema_key(case: GoldenCase, record: Record) -> SchemaKey:
    """Which schema a row needs."""
    sent = _message(case, record)
    return sent["database"], sent["table"], sent["schemaVersion"]


@cache
def _schemas(case: GoldenCase) -> dict[SchemaKey, tuple[dict[str, Column], tuple[str, ...]]]:
    return {
        key: ({column["name"]: _column(column) for column in schema["columns"]}, _handle(schema))
        for key, schema in described(case, case.records).items()
    }


def rows(case: GoldenCase, record: Record) -> list[Sent]:
    """The one row of a record."""
    sent = _message(case, record)
    key = database, table, version = schema_key(case, record)
    columns, handle = _schemas(case)[key]
    after, before = (_row(columns, sent.get(part)) for part in ("data", "old"))
    told = frozenset(before.values if before else ())
    op = _OPS[sent["type"]]
    return [Sent((database, table), op, sent["commitTs"], version, handle, after, before, told)]


def statement(case: GoldenCase, record: Record) -> tuple[str, str, str]:
    """Schema, table (none, where it is about a database) and text of a DDL."""
    sent = _message(case, record)
    about = sent.get("tableSchema") or sent.get("preTableSchema")
    if not about:
        return "", "", sent["sql"]
    return about["schema"] if "schema" in about else about["database"], about["table"], sent["sql"]


def _message(case: GoldenCase, record: Record) -> dict[str, Any]:
    assert case.encoding
    assert record.value is not None
    return message(case.encoding, record.value)


def _handle(schema: Mapping[str, Any]) -> tuple[str, ...]:
    return next((tuple(index["columns"]) for index in schema["indexes"] or () if index["primary"]), ())


def _column(sent: Mapping[str, Any]) -> Column:
    about = sent["dataType"]
    family = about["mysqlType"]
    length, scale = about.get("length") or 0, about.get("decimal") or 0
    kind = warehouse_type(
        family,
        unsigned=bool(about.get("unsigned")),
        parameters=f"{length},{scale}" if family == "decimal" else str(length),
        decimals_as_text=False,
    )
    return Column(sent["name"], family, kind, tuple(about.get("elements") or ()))


def _row(columns: Mapping[str, Column], sent: Mapping[str, Any] | None) -> Row | None:
    return None if sent is None else Row.of({name: _cell(columns[name], value) for name, value in sent.items()})


def _cell(column: Column, value: Any) -> Cell:
    """A value of either encoding: JSON has texts, Avro numbers and bytes where there are any."""
    if isinstance(value, Mapping):
        value = value["value"]
    if value is None:
        return Cell(None)
    if column.family in CALENDAR:
        return calendar(column.family, value)
    return Cell(_value(column, value))


def _value(column: Column, value: Any) -> Any:
    if column.family in ("enum", "set"):
        return named(column, int(value))
    if column.type == "binary":
        return value if isinstance(value, bytes) else base64.b64decode(value)
    if column.type == "decimal(20,0)" and column.family != "decimal":
        return Decimal(int(value) % _BIGGEST)
    return typed(column.type, value)


def named(column: Column, number: int) -> str:
    """The text of an ENUM's index or a SET's bits."""
    if column.family == "enum":
        return column.members[number - 1] if number else ""
    return ",".join(member for bit, member in enumerate(column.members) if number >> bit & 1)
