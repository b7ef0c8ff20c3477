"""Messages of Simple with keys alone (`handleKeyOnly`), as they would be whole."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np

from pipeline.model.large_rows import Images
from pipeline.model.source_values import BIT, BYTES, ENUM, FLOATING, SET, WHOLE, plain_number
from pipeline.protocols import end_marker
from pipeline.protocols.simple.union import MESSAGE, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pipeline.model.source_values import Columns, SentRow, SentValue, UpstreamColumn

_TIMESTAMP = "timestamp"
_2_64 = 1 << 64


@dataclass(frozen=True, slots=True)
class JsonKeyRows:
    """See `KeyRows`. `timezone`: of the clock that TIMESTAMPs are read by."""

    timezone: str

    def keys(self, value: bytes, columns: Columns) -> Images:
        """`old` has the row before, `data` the row after."""
        return _images(json.loads(value), columns, self._read)

    def whole(self, value: bytes, columns: Columns, rows: Images) -> bytes:
        """All values are texts."""
        message = json.loads(value)
        del message["handleKeyOnly"]
        message |= _sides(rows, columns, self._written)
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()

    def _read(self, column: UpstreamColumn, value: Any) -> SentValue:
        if column.data_type in BYTES:
            return base64.b64decode(value, validate=True)
        return _clock(value) if column.data_type == _TIMESTAMP else _text(value)

    def _written(self, column: UpstreamColumn, value: SentValue) -> Any:
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        return {"location": self.timezone, "value": value} if value and column.data_type == _TIMESTAMP else value


@dataclass(frozen=True, slots=True)
class AvroKeyRows:
    """See `KeyRows`. Every value is a branch of a union. `timezone`: of the clock that TIMESTAMPs are read by."""

    timezone: str

    def keys(self, value: bytes, columns: Columns) -> Images:
        """`old` has the row before, `data` the row after."""
        return _images(_decoded(value)["payload"], columns, _of_branch)

    def whole(self, value: bytes, columns: Columns, rows: Images) -> bytes:
        """Which branch it is the column's type says."""
        message = _decoded(value)
        row = {**message["payload"], "handleKeyOnly": None, **_sides(rows, columns, self._branch)}
        return _encoded({**message, "payload": ("DML", row)})

    def _branch(self, column: UpstreamColumn, value: SentValue) -> Any:
        kind = column.data_type
        if value is None or isinstance(value, bytes):
            return None if value is None else ("bytes", value)
        if kind in WHOLE or kind in (BIT, ENUM, SET):
            number = int(value)
            number -= _2_64 if number >> 63 == 1 else 0
            is_wide = kind == "bigint" and "unsigned" in column.flags
            return ("UnsignedBigint", {"value": number}) if is_wide else ("long", number)
        if kind in FLOATING:
            return kind, float(value)
        return ("Timestamp", {"location": self.timezone, "value": value}) if kind == _TIMESTAMP else ("string", value)


def _images(row: Mapping[str, Any], columns: Columns, read: Callable[[UpstreamColumn, Any], SentValue]) -> Images:
    def key(side: str) -> SentRow | None:
        values = row.get(side)
        return {name: read(columns[name], value) for name, value in values.items()} if values else None

    return Images(key("old"), key("data"))


def _sides(rows: Images, columns: Columns, written: Callable[[UpstreamColumn, SentValue], Any]) -> dict[str, Any]:
    sides = {"data": rows.after, "old": rows.before}
    return {
        side: {name: written(columns[name], value) for name, value in row.items()}
        for side, row in sides.items()
        if row is not None
    }


def _of_branch(column: UpstreamColumn, value: Any) -> SentValue:
    """A key's value of any branch."""
    if column.data_type in BYTES:
        return bytes(value)
    if column.data_type == _TIMESTAMP:
        return _clock(value)
    if isinstance(value, float):
        return plain_number(str(np.float32(value) if column.data_type == "float" else value))
    number = value["value"] if isinstance(value, dict) else value
    if isinstance(number, int):
        is_wrapped = number < 0 and (column.data_type in (BIT, SET) or "unsigned" in column.flags)
        return str(number + _2_64 if is_wrapped else number)
    return _text(number)


def _clock(value: Any) -> str:
    return _text(value["value"])


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a key's value is a text")  # noqa: TRY004 - it is the message that is wrong
    return value


@cache
def _schema() -> Any:
    """TiCDC's record `Message`, without what only Spark reads."""
    fields = [one for one in SCHEMA["fields"] if one["name"] != end_marker.FIELD]
    return fastavro.parse_schema({**SCHEMA, "fields": fields})


def _decoded(value: bytes) -> dict[str, Any]:
    message: Any = fastavro.schemaless_reader(BytesIO(value.removeprefix(MESSAGE)), _schema(), None)
    return dict(message)


def _encoded(message: Mapping[str, Any]) -> bytes:
    written = BytesIO()
    fastavro.schemaless_writer(written, _schema(), message)
    return MESSAGE + written.getvalue()
