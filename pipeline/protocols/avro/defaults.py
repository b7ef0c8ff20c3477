"""What rows from before an ADD COLUMN show: as TiCDC's Avro schemas tell it, or not (design.md, rule 6).

A default is JSON of the field's Avro type, but bytes are base64 and expressions are text (wire-formats.md,
"Avro"). A schema is whatever somebody has registered: what is no value of its type is unknown, and never an error.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from pipeline.ddl.defaults import EXPRESSION, default_of
from pipeline.ddl.literals import Literal, LiteralKind
from pipeline.ddl.sql_types import SqlType
from pipeline.model import types as t
from pipeline.model.columns import AMBIGUOUS, IN_UTC, NULL_DEFAULT, UNKNOWN_DEFAULT, Default, literal
from pipeline.model.tidb_types import TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pipeline.model.types import WarehouseType
    from registry import AvroColumn

_TWO_64 = 2**64
_RANGES = {row.name: row.range for row in TYPES.values() if row.range} | {"BIGINT UNSIGNED": (-(2**63), _TWO_64 - 1)}
"""Of a BIGINT UNSIGNED as it is sent: it wraps above 2^63-1."""
_LARGEST = {"FLOAT": 3.4028235e38, "DOUBLE": 1.7976931348623157e308}
_WHOLE = re.compile(r"-?[0-9]{1,20}")
_DECIMAL = re.compile(r"-?[0-9]{1,65}(\.[0-9]{1,30})?")
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_SHAPES = {
    "DATE": re.compile(_DATE),
    "DATETIME": re.compile(f"{_DATE}( {_CLOCK})?"),
    "TIMESTAMP": re.compile(f"{_DATE}( {_CLOCK})?"),
    "TIME": re.compile(f"-?[0-9]?{_CLOCK}"),
}
_WITHOUT_ZERO = frozenset({"BLOB", "TIME"})
"""Types whose zero value Avro does not say: BINARY(n) has n zero bytes, and TIME(f) has f digits."""
_UNTOLD_DIGITS = frozenset({"DECIMAL", "FLOAT", "DOUBLE"})
"""Numbers whose default does not say how rows show it as text: 1.5 of a DECIMAL(10,4) is `1.5000` there."""
_UNTOLD_FRACTION = frozenset({"DATETIME", "TIMESTAMP"})
"""The same of their zero values alone."""


def origin_default(column: AvroColumn, kind: str, target: WarehouseType) -> Default:
    """What rows from before the column show, where Avro carries it exactly; `kind` is its family (`fields.family`).

    NOT NULL without default: the type's zero value (ENUM: its first member). DECIMAL in precise mode never shows its
    default, in string mode as the statement wrote it: that is the value, and not its text.
    """
    if not column.default_told:
        return UNKNOWN_DEFAULT
    precise = kind == "DECIMAL" and column.precision is not None
    if column.default is None and (column.has_default or column.nullable) and not precise:
        return NULL_DEFAULT
    if precise or (kind in _UNTOLD_DIGITS and target == t.STRING):
        return UNKNOWN_DEFAULT
    return _certain(_sent(column, kind) if column.has_default else _zero(column, kind, target))


def _certain(text: str | None) -> Default:
    return UNKNOWN_DEFAULT if text is None else literal(text)


def _zero(column: AvroColumn, kind: str, target: WarehouseType) -> str | None:
    if kind == "ENUM":
        first = column.allowed[0] if column.allowed else "\\"
        return None if AMBIGUOUS & set(first) else first
    if kind in _UNTOLD_FRACTION and target == t.STRING:
        return None
    return TYPES[kind].zero if kind in TYPES and kind not in _WITHOUT_ZERO else None


def _sent(column: AvroColumn, kind: str) -> str | None:
    if kind in NUMBERS:
        return NUMBERS[kind](column.default, kind)
    if not isinstance(column.default, str):
        return None
    read = TEXTS.get(kind, _text if column.avro_type == "string" else None)
    return None if read is None else read(column, column.default)


def _whole(sent: object, kind: str) -> str | None:
    least, most = _RANGES[kind]
    if isinstance(sent, str) and _WHOLE.fullmatch(sent):
        sent = int(sent)
    if not isinstance(sent, int) or isinstance(sent, bool) or not least <= sent <= most:
        return None
    return str(sent + _TWO_64 if kind == "BIGINT UNSIGNED" and sent < 0 else sent)


def _floating(sent: object, kind: str) -> str | None:
    if not isinstance(sent, int | float) or isinstance(sent, bool) or not abs(sent) <= _LARGEST[kind]:
        return None
    return str(sent)


def _shaped(kind: str) -> Callable[[AvroColumn, str], str | None]:
    def read(_: AvroColumn, sent: str) -> str | None:
        return sent if _SHAPES[kind].fullmatch(sent) else None

    return read


def _instant(_: AvroColumn, sent: str) -> str | None:
    return f"{sent}{IN_UTC}" if _SHAPES["TIMESTAMP"].fullmatch(sent) else None


def _decimal(_: AvroColumn, sent: str) -> str | None:
    return sent if _DECIMAL.fullmatch(sent) else None


def _text(_: AvroColumn, sent: str) -> str | None:
    """TiDB shows no spaces at the end of a CHAR, and Avro does not tell CHAR from VARCHAR."""
    return None if EXPRESSION.fullmatch(sent) or sent.endswith(" ") else sent


def _json(column: AvroColumn, sent: str) -> str | None:
    if EXPRESSION.fullmatch(sent):
        return None
    printed = default_of(Literal(LiteralKind.TEXT, sent), SqlType("JSON"), nullable=column.nullable)
    return None if printed == UNKNOWN_DEFAULT else printed.text


def _bits(column: AvroColumn, sent: str) -> str | None:
    raw = _bytes(sent)
    number = None if raw is None else int.from_bytes(raw, "big")
    return None if number is None or number >> (column.length or t.MAX_BITS) else str(number)


def _blob(_: AvroColumn, sent: str) -> str | None:
    raw = _bytes(sent)
    return None if raw is None else raw.hex()


def _bytes(sent: str) -> bytes | None:
    try:
        return base64.b64decode(sent, validate=True)
    except (binascii.Error, ValueError):
        return None


def _member(column: AvroColumn, sent: str) -> str | None:
    return sent if sent in column.allowed else None


def _members(column: AvroColumn, sent: str) -> str | None:
    return sent if not sent or set(sent.split(",")) <= set(column.allowed) else None


def _nothing(_column: AvroColumn, _sent: str) -> str | None:
    return None


NUMBERS: Mapping[str, Callable[[object, str], str | None]] = {
    **dict.fromkeys(_RANGES, _whole),
    **dict.fromkeys(_LARGEST, _floating),
}
"""How a default that is sent as a number is read."""
TEXTS: Mapping[str, Callable[[AvroColumn, str], str | None]] = {
    **{kind: _shaped(kind) for kind in ("DATE", "DATETIME", "TIME")},
    "TIMESTAMP": _instant,
    "DECIMAL": _decimal,
    "TEXT": _text,
    "JSON": _json,
    "BIT": _bits,
    "BLOB": _blob,
    "ENUM": _member,
    "SET": _members,
    "VECTOR": _nothing,
}
"""How a default that is sent as a text is read. Of a type that is not known, text is text and all else unknown."""
