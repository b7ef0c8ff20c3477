"""A second reader of the Open protocol.

What its messages do not say of a column (ENUM members, precision), TiDB's own answer says.
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_right
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from golden.decode_simple import Sent, named
from golden.expected import expected_table
from golden.values import CALENDAR, Cell, Column, Row, calendar, typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from golden.corpus import GoldenCase, Record

_VERSION = (1).to_bytes(8, "big")
_LENGTH = 8
_MANY = 10_000
"""More than there are rows in a record."""
_ROW = 1
_BINARY = 1
_TEXT_OR_BLOB = range(249, 253)
_ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))")
_GO = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def rows(case: GoldenCase, record: Record) -> list[Sent]:
    """The rows of a record, in order."""
    assert record.key is not None
    assert record.value is not None
    assert record.key.startswith(_VERSION)
    keys, values = (list(_framed(part)) for part in (record.key[len(_VERSION) :], record.value))
    return [_sent(case, key, value) for key, value in zip(keys, values, strict=True)]


def singly(records: Iterable[Record]) -> Iterator[Record]:
    """The rows of a topic in records of their own, as TiCDC sends them where `max-batch-size` is 1."""
    for record in records:
        if record.kind != "row":
            yield replace(record, seq=record.seq * _MANY)
            continue
        assert record.key is not None
        assert record.value is not None
        parts = zip(_cut(record.key[len(_VERSION) :]), _cut(record.value), strict=True)
        for number, (key, value) in enumerate(parts):
            about = json.loads(key)
            name, seq = f"{about['scm']}.{about['tbl']}", record.seq * _MANY + number
            bytes_of = {"key": _VERSION + _with_length(key), "value": _with_length(value)}
            yield replace(record, seq=seq, commit_ts=about["ts"], table=name, **bytes_of)


def statement(_case: GoldenCase, record: Record) -> tuple[str, str, str]:
    """Schema, table (none, where it is about a database) and text of a DDL."""
    assert record.key is not None
    assert record.value is not None
    [about], [said] = (list(_framed(part)) for part in (record.key[len(_VERSION) :], record.value))
    return about["scm"], about.get("tbl", ""), said["q"]


def _framed(data: bytes) -> Iterator[dict[str, Any]]:
    return map(json.loads, _cut(data))


def _with_length(data: bytes) -> bytes:
    return len(data).to_bytes(_LENGTH, "big") + data


def _cut(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        start = at + _LENGTH
        at = start + int.from_bytes(data[at:start], "big")
        assert start < at <= len(data)
        yield data[start:at]


def _sent(case: GoldenCase, key: dict[str, Any], value: dict[str, Any]) -> Sent:
    assert key["t"] == _ROW
    source = key["scm"], key["tbl"]
    columns = columns_at(case, ".".join(source), key["ts"])
    after, before = _row(columns, value.get("u")), _row(columns, value.get("p", value.get("d")))
    told = frozenset(before.values if before else ())
    op = "delete" if "d" in value else "update" if "p" in value else "insert"
    if after is not None and before is not None:
        before = Row({**after.values, **before.values}, {**unsaid(after, told), **before.lost})
    handle = tuple(name for name, column in value.get("u", value.get("d")).items() if column.get("h"))
    return Sent(source, op, key["ts"], None, handle, after, before, told)


def unsaid(after: Row, told: frozenset[str]) -> dict[str, str]:
    """What an update's former row has lost of the columns that were not told: the same as the row after it."""
    return {name: text for name, text in after.lost.items() if name not in told}


def columns_at(case: GoldenCase, source: str, commit_ts: int) -> Mapping[str, Column]:
    """The columns of a table by name, as TiDB's answer after this commit ts has them."""
    found = _layouts(case)[source]
    return found[bisect_right(found, commit_ts, key=lambda one: one[0]) - 1][1]


@cache
def _layouts(case: GoldenCase) -> dict[str, list[tuple[int, dict[str, Column]]]]:
    """Columns by source table, from the commit ts of each step at which TiDB was asked."""
    found: dict[str, list[tuple[int, dict[str, Column]]]] = {}
    for step in case.steps:
        for source, dump in step.get("tables", {}).items():
            columns = {column.name: column for column in expected_table(case, source, dump).columns}
            found.setdefault(source, []).append((step["commit_ts"], columns))
    return found


def _row(columns: Mapping[str, Column], sent: Mapping[str, Any] | None) -> Row | None:
    return None if sent is None else Row.of({name: _cell(columns[name], one) for name, one in sent.items()})


def _cell(column: Column, sent: Mapping[str, Any]) -> Cell:
    value = sent["v"]
    if value is None:
        return Cell(None)
    if column.family in CALENDAR:
        return calendar(column.family, value)
    return Cell(_value(column, sent["t"], sent["f"], value))


def _value(column: Column, mysql_type: int, flags: int, value: Any) -> Any:
    if mysql_type in _TEXT_OR_BLOB:
        data = base64.b64decode(value)
        return data if flags & _BINARY else data.decode()
    if column.type == "binary":
        return unquoted(value)
    if column.family in ("enum", "set"):
        return named(column, value)
    return typed(column.type, value)


def unquoted(text: str) -> bytes:
    """The bytes of a string as Go quotes it, without the quotes."""
    return _ESCAPE.sub(_unescaped, text.encode())


def _unescaped(match: re.Match[bytes]) -> bytes:
    byte, short, long, letter = match.groups()
    if byte:
        return bytes([int(byte, 16)])
    if letter:
        return _GO.get(letter, letter)
    return chr(int(short or long, 16)).encode()
