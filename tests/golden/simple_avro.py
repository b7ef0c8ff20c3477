"""The Avro schema of Simple's messages, as wire-formats.md describes it, for fastavro."""

from __future__ import annotations

import io
from typing import Any

import fastavro


def _record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": one, "type": kind} for one, kind in fields.items()]}


def _enum(name: str, symbols: str) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": symbols.split()}


def _array(kind: str) -> dict[str, Any]:
    return {"type": "array", "items": kind}


_VALUES = {
    "type": "map",
    "values": ["null", "long", "float", "double", "string", "bytes", "Timestamp", "UnsignedBigint"],
}
_TYPES = {
    one["name"]: one
    for one in (
        _record(
            "DataType", mysqlType="string", charset="string", collate="string", length="long",
            decimal=["null", "int"], elements=["null", _array("string")], unsigned=["null", "boolean"],
            zerofill=["null", "boolean"],
        ),
        _record("ColumnSchema", name="string", dataType="DataType", nullable="boolean", default=["null", "string"]),
        _record(
            "IndexSchema", name="string", unique="boolean", primary="boolean", nullable="boolean",
            columns=_array("string"),
        ),
        _record(
            "TableSchema", database="string", table="string", tableID="long", version="long",
            columns=_array("ColumnSchema"), indexes=_array("IndexSchema"),
        ),
        _record("Checksum", version="int", corrupted="boolean", current="long", previous="long"),
        _record("Watermark", version="int", commitTs="long", buildTs="long"),
        _record("Bootstrap", version="int", buildTs="long", tableSchema="TableSchema"),
        _record(
            "DDL", version="int", type=_enum("DDLType", "CREATE ALTER ERASE RENAME TRUNCATE CINDEX DINDEX QUERY"),
            sql="string", commitTs="long", buildTs="long", tableSchema=["null", "TableSchema"],
            preTableSchema=["null", "TableSchema"],
        ),
        _record("Timestamp", location="string", value="string"),
        _record("UnsignedBigint", value="long"),
        _record(
            "DML", version="int", database="string", table="string", tableID="long",
            type=_enum("DMLType", "INSERT UPDATE DELETE"), commitTs="long", buildTs="long", schemaVersion="long",
            claimCheckLocation=["null", "string"], handleKeyOnly=["null", "boolean"], checksum=["null", "Checksum"],
            data=["null", _VALUES], old=["null", _VALUES],
        ),
        _record(
            "Message", type=_enum("MessageType", "WATERMARK BOOTSTRAP DDL DML"),
            payload=["Watermark", "Bootstrap", "DDL", "DML"],
        ),
    )
}  # fmt: skip
_UNION = fastavro.parse_schema(list(_TYPES.values()))
_NO_IMAGES = b"\0\0"
"""Neither `data` nor `old`."""


def read(message: bytes) -> dict[str, Any]:
    """One message as Simple's JSON has it; every byte must be used."""
    stream = io.BytesIO(message)
    datum: Any = fastavro.schemaless_reader(stream, _UNION, None)
    assert not stream.read()
    kind, payload = datum["type"], datum["payload"]
    return {"type": kind, **payload}


def with_told(message: bytes, **told: Any) -> bytes:
    """A row's message that says more: `checksum`, `handleKeyOnly`, `claimCheckLocation`. All else is as it was sent."""
    row = {**read(message), "data": None, "old": None}
    silent, talking = _written(row), _written({**row, **told})
    images = len(silent) - len(_NO_IMAGES)
    assert message[:images] == silent[:images]
    return talking[: -len(_NO_IMAGES)] + message[images:]


def _written(row: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, _UNION, ("Message", {"type": "DML", "payload": ("DML", row)}))
    return stream.getvalue()
