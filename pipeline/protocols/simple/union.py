"""TiCDC's Avro schema for Simple as Spark decodes it: the record `Message`, then the sentinel (wire-formats.md).

A value begins with the number of the union's branch, which for `Message` is 11 in every message.
"""

from __future__ import annotations

from typing import Any

from pipeline.protocols import end_marker

MESSAGE = b"\x16"
"""The branch number of `Message`."""


def _record(record: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": record, "fields": [{"name": name, "type": of} for name, of in fields.items()]}


def _maybe(of: Any) -> list[Any]:
    return ["null", of]


def _enum(name: str, *symbols: str) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols)}


def _array(of: Any) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _map(of: Any) -> dict[str, Any]:
    return {"type": "map", "values": of}


_DATA_TYPE = _record(
    "DataType",
    mysqlType="string", charset="string", collate="string", length="long", decimal=_maybe("int"),
    elements=_maybe(_array("string")), unsigned=_maybe("boolean"), zerofill=_maybe("boolean"),
)  # fmt: skip
_COLUMN = _record("ColumnSchema", name="string", dataType=_DATA_TYPE, nullable="boolean", default=_maybe("string"))
_INDEX = _record(
    "IndexSchema", name="string", unique="boolean", primary="boolean", nullable="boolean", columns=_array("string")
)
_TABLE = _record(
    "TableSchema",
    database="string", table="string", tableID="long", version="long", columns=_array(_COLUMN), indexes=_array(_INDEX),
)  # fmt: skip
_CHECKSUM = _record("Checksum", version="int", corrupted="boolean", current="long", previous="long")
_VALUE = [
    "null", "long", "float", "double", "string", "bytes",
    _record("Timestamp", location="string", value="string"), _record("UnsignedBigint", value="long"),
]  # fmt: skip
_VALUE_AGAIN = [one["name"] if isinstance(one, dict) else one for one in _VALUE]
"""A record is described once, and then named."""
_DML_TYPE = _enum("DMLType", "INSERT", "UPDATE", "DELETE")
_DDL_TYPE = _enum("DDLType", "CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY")

_WATERMARK = _record("Watermark", version="int", commitTs="long", buildTs="long")
_BOOTSTRAP = _record("Bootstrap", version="int", buildTs="long", tableSchema=_TABLE)
_DDL = _record(
    "DDL",
    version="int", type=_DDL_TYPE, sql="string", commitTs="long", buildTs="long",
    tableSchema=_maybe("TableSchema"), preTableSchema=_maybe("TableSchema"),
)  # fmt: skip
_DML = _record(
    "DML",
    version="int", database="string", table="string", tableID="long", type=_DML_TYPE, commitTs="long", buildTs="long",
    schemaVersion="long", claimCheckLocation=_maybe("string"), handleKeyOnly=_maybe("boolean"),
    checksum=_maybe(_CHECKSUM), data=_maybe(_map(_VALUE)), old=_maybe(_map(_VALUE_AGAIN)),
)  # fmt: skip

SCHEMA: dict[str, Any] = _record(
    "Message",
    type=_enum("MessageType", "WATERMARK", "BOOTSTRAP", "DDL", "DML"),
    payload=[_WATERMARK, _BOOTSTRAP, _DDL, _DML],
    **{end_marker.FIELD: "long"},
)


def _in_bytes(kind: Any) -> Any:
    """The same type with bytes for texts, which Avro writes alike."""
    if isinstance(kind, dict):
        return {key: _in_bytes(part) for key, part in kind.items()}
    if isinstance(kind, list):
        return [_in_bytes(part) for part in kind]
    return "bytes" if kind == "string" else kind


OCTETS: dict[str, Any] = SCHEMA | {
    "fields": [
        field | {"type": [_WATERMARK, _in_bytes(_BOOTSTRAP), _in_bytes(_DDL), _DML]}
        if field["name"] == "payload"
        else field
        for field in SCHEMA["fields"]
    ]
}
"""The same with all texts of BOOTSTRAP and DDL messages as bytes: Avro does not ask whether they are UTF-8."""
