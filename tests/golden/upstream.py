"""The TiDB behind golden changefeeds: columns and cells as its text protocol would give them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from golden.corpus import GoldenCase
from support.tidb import Tables

from pipeline.model.source_values import BYTES, ENUM, UpstreamColumn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WORDS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")


def columns_of(table: Mapping[str, Any]) -> tuple[UpstreamColumn, ...]:
    """The columns that TiCDC sends of a table of `expected.json`."""
    return tuple(_column(one) for one in table["columns"] if one.get("generated") != "virtual")


def cells_of(table: Mapping[str, Any]) -> Iterator[dict[str, bytes | None]]:
    """The rows of a table of `expected.json`, as TiDB gives them."""
    names = [column["name"] for column in table["columns"]]
    for row in table["rows"]:
        yield {name: _cell(value) for name, value in zip(names, row, strict=True)}


def tables_of(scenario: str) -> Tables:
    """All rows of a scenario, by the commit ts at which they became what they are: Canal-JSON sends them in full."""
    case = GoldenCase(scenario, f"canal_json_{'large_none_none' if scenario == 'large_rows' else ''}".rstrip("_"))
    tables = Tables()
    keys = {}
    for shown, table in case.final.items():
        schema, _, name = shown.partition(".")
        source = (schema, name)
        tables.columns[source] = columns_of(table)
        keys[source] = [column["name"] for column in table["columns"] if column.get("key") == "PRI"]
    for record in case.records:
        message = json.loads(record.value) if record.kind == "row" else {}
        source = (message.get("database"), message.get("table"))
        if source not in tables.columns:
            continue
        columns = {column.name: column for column in tables.columns[source]}
        (row,), (old,) = message["data"], message["old"] or [None]
        key, was = ([one and one[name] for name in keys[source] or ["k"]] for one in (row, old))
        if old is not None and was != key:
            tables.put(source, record.commit_ts, str(was), None)
        for name in row:
            tables.since.setdefault((*source, name), record.commit_ts)
        cells = {name: _as_cell(columns[name], value) for name, value in row.items()}
        tables.put(source, record.commit_ts, str(key), None if message["type"] == "DELETE" else cells)
    return tables


def _column(shown: Mapping[str, Any]) -> UpstreamColumn:
    word = re.match(r"\w+", shown["type"])[0]
    stored = shown.get("generated") == "stored"
    return UpstreamColumn(shown["name"], word, shown["type"], shown["nullable"], word in _WORDS, stored)


def _cell(value: Any) -> bytes | None:
    if value is None:
        return None
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value.encode()


def _as_cell(column: UpstreamColumn, sent: str | None) -> bytes | None:
    if sent is None:
        return None
    if column.data_type in BYTES:
        return sent.encode("latin-1")
    return (column.members[int(sent) - 1] if column.data_type == ENUM else sent).encode()
