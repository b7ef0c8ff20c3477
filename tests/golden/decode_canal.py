"""A second reader of Canal-JSON from Kafka.

Types, and members of ENUM and SET, are those that TiDB's own answer has.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from golden.decode_open import columns_at, unsaid
from golden.decode_simple import Sent, named
from golden.values import CALENDAR, Cell, Row, calendar, typed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from golden.corpus import GoldenCase, Record
    from golden.values import Column


def rows(case: GoldenCase, record: Record) -> list[Sent]:
    """The row of a message."""
    sent = _message(record)
    source, commit_ts = (sent["database"], sent["table"]), sent["_tidb"]["commitTs"]
    columns = columns_at(case, ".".join(source), commit_ts)
    (data,), (old,) = sent["data"], sent["old"] or [None]
    op = sent["type"].lower()
    image, former = _row(columns, data), data if op == "delete" else old
    before = _row(columns, former)
    told = frozenset(former or ())
    if before is not None and op == "update":
        before = Row({**image.values, **before.values}, {**unsaid(image, told), **before.lost})
    return [Sent(source, op, commit_ts, None, tuple(sent["pkNames"]), None if op == "delete" else image, before, told)]


def statement(_case: GoldenCase, record: Record) -> tuple[str, str, str]:
    """Schema, table (none, where it is about a database) and text of a DDL."""
    sent = _message(record)
    return sent["database"], sent["table"], sent["sql"]


def _message(record: Record) -> dict[str, Any]:
    assert record.value is not None
    return json.loads(record.value)


def _row(columns: Mapping[str, Column], sent: Mapping[str, str | None] | None) -> Any:
    return None if sent is None else Row.of({name: _cell(columns[name], text) for name, text in sent.items()})


def _cell(column: Column, text: str | None) -> Cell:
    if text is None:
        return Cell(None)
    if column.family in CALENDAR:
        return calendar(column.family, text)
    if column.type == "binary":
        return Cell(text.encode("latin-1"))
    if column.family in ("enum", "set"):
        return Cell(named(column, int(text)))
    return Cell(typed(column.type, text))
