"""Messages of Canal-JSON with keys alone (`onlyHandleKey`), as they would be whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pipeline.model.change import Op
from pipeline.model.large_rows import Images
from pipeline.model.source_values import BYTES, TEXTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.model.source_values import Columns, SentRow, SentValue, UpstreamColumn

_LATIN_1 = "iso-8859-1"
_NUMBERS = {
    "tinyint": -6, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "bit": -7, "set": -7, "enum": 4, "year": 12,
    "float": 7, "double": 8, "decimal": 3, "date": 91, "time": 92, "datetime": 93, "timestamp": 93, "char": 1,
    **dict.fromkeys(TEXTS, 2005), **dict.fromkeys(BYTES, 2004),
}  # fmt: skip
"""`sqlType` (java.sql.Types) by the type's name; all others are 12."""
_VARCHAR = 12
_LARGE = {"tinyint": (7, 5), "smallint": (15, 4), "int": (31, -5), "bigint": (63, 3)}
"""Of an unsigned number with more than so many bits: its `sqlType`."""


class CanalKeyRows:
    """See `KeyRows`."""

    def keys(self, value: bytes, columns: Columns) -> Images:
        """With only-output-updated-columns `old` has nothing of a key that has not changed."""
        message = json.loads(value)
        (key,) = message["data"]
        key = _read(key, columns)
        if message["type"] == Op.UPDATE.upper():
            (old,) = message["old"] or [{}]
            return Images({**key, **_read(old or {}, columns)}, key)
        return Images(key, None) if message["type"] == Op.DELETE.upper() else Images(None, key)

    def whole(self, value: bytes, columns: Columns, rows: Images) -> bytes:
        """Types are written with their parameters (content-compatible) where those of the key are."""
        message = json.loads(value)
        in_full = any("(" in word for word in message["mysqlType"].values())
        row = rows.after or rows.before or {}
        message |= {
            "sqlType": {name: _number(column, row[name]) for name, column in columns.items()},
            "mysqlType": {
                name: column.column_type if in_full else f"{column.data_type}{column.flags}"
                for name, column in columns.items()
            },
            "data": [_written(row)],
            "old": [_written(rows.before)] if rows.before and rows.after else None,
        }
        del message["_tidb"]["onlyHandleKey"]
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def _read(values: Mapping[str, Any], columns: Columns) -> SentRow:
    return {
        name: value.encode(_LATIN_1) if columns[name].data_type in BYTES else value for name, value in values.items()
    }


def _written(row: SentRow) -> dict[str, str | None]:
    return {name: value.decode(_LATIN_1) if isinstance(value, bytes) else value for name, value in row.items()}


def _number(column: UpstreamColumn, value: SentValue) -> int:
    bits, large = _LARGE.get(column.data_type, (64, 0))
    if isinstance(value, str) and "unsigned" in column.flags and large and int(value) >> bits:
        return large
    return _NUMBERS.get(column.data_type, _VARCHAR)
