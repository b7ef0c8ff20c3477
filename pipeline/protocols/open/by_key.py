"""Events of Open with keys alone (`ohk`), as they would be whole."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

from pipeline.model.large_rows import Images
from pipeline.model.source_values import BIT, BYTES, ENUM, FLOATING, SET, TEXTS, WHOLE, plain_number
from pipeline.model.tidb_types import MYSQL_CODES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.model.source_values import Columns, SentRow, SentValue, UpstreamColumn

_TEXT = 15
_BINARY, _HANDLE, _GENERATED, _NULLABLE, _UNSIGNED = 1, 2, 4, 64, 128
_QUOTED = ("binary", "varbinary")
_JSON_NUMBERS = WHOLE | FLOATING | {BIT, ENUM, SET}
_ESCAPE = re.compile(r"""\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([abfnrtv\\'"]))""")
_SINGLE = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "\\": 92, "'": 39, '"': 34}


class OpenKeyRows:
    """See `KeyRows`."""

    def keys(self, value: bytes, columns: Columns) -> Images:
        """`u` has the row after, `p` or `d` the row before."""
        sent = json.loads(value, parse_int=str, parse_float=str)
        before = sent.get("p") or sent.get("d")
        return Images(*(_read(side, columns) if side else None for side in (before, sent.get("u"))))

    def whole(self, value: bytes, columns: Columns, rows: Images) -> bytes:
        """A delete has `d`, an update `u` and `p`, an insert `u`."""
        handle = {name for side in json.loads(value).values() for name in side}
        sides = {"u": rows.after, "p": rows.before} if rows.after else {"d": rows.before}
        written = (f'"{side}":{_written(row, columns, handle)}' for side, row in sides.items() if row)
        return f"{{{','.join(written)}}}".encode()


def key_of_row(key: bytes) -> bytes:
    """The JSON of a key without the mark."""
    sent = json.loads(key)
    return json.dumps({name: value for name, value in sent.items() if name != "ohk"}, ensure_ascii=False).encode()


def _read(side: Mapping[str, Any], columns: Columns) -> SentRow:
    return {name: _of_json(columns[name], sent["v"]) for name, sent in side.items()}


def _of_json(column: UpstreamColumn, value: str) -> SentValue:
    if column.data_type in _QUOTED:
        return _unquoted(value)
    if column.data_type in BYTES:
        return base64.b64decode(value, validate=True)
    if column.data_type in TEXTS:
        return base64.b64decode(value, validate=True).decode()
    return plain_number(value) if column.data_type in FLOATING else value


def _unquoted(text: str) -> bytes:
    """The bytes that Go has quoted (`quoting`)."""

    def plain(match: re.Match[str]) -> str:
        byte, short, long, single = match.groups()
        if byte or single:
            return bytes([int(byte, 16) if byte else _SINGLE[single]]).decode("utf-8", "surrogateescape")
        return chr(int(short or long, 16))

    return _ESCAPE.sub(plain, text).encode("utf-8", "surrogateescape")


def _written(row: SentRow, columns: Columns, handle: set[str]) -> str:
    members = (
        f"{json.dumps(name, ensure_ascii=False)}:{{{_described(columns[name], handle)},"
        f'"v":{_json(columns[name], value)}}}'
        for name, value in sorted(row.items())
    )
    return f"{{{','.join(members)}}}"


def _described(column: UpstreamColumn, handle: set[str]) -> str:
    """Type and flags; flags of indexes are left out, of which nothing depends."""
    is_handle = column.name in handle
    facts = {
        _BINARY: not column.has_charset,
        _HANDLE: is_handle,
        _GENERATED: column.generated,
        _NULLABLE: column.nullable,
        _UNSIGNED: "unsigned" in column.flags or column.data_type in (BIT, "year"),
    }
    flags = sum(flag for flag, is_so in facts.items() if is_so)
    shown = '"h":true,' if is_handle else ""
    return f'"t":{MYSQL_CODES.get(column.data_type, _TEXT)},{shown}"f":{flags}'


def _json(column: UpstreamColumn, value: SentValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes):
        is_quoted = column.data_type in _QUOTED
        text = "".join(f"\\x{byte:02x}" for byte in value) if is_quoted else base64.b64encode(value).decode()
        return json.dumps(text)
    if column.data_type in _JSON_NUMBERS:
        return value
    if column.data_type in TEXTS:
        value = base64.b64encode(value.encode()).decode()
    return json.dumps(value, ensure_ascii=False)
