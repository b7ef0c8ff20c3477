"""The type strings of `warehouse.columns`: `decimal(18,4)`, `enum('a','b')`, checked and written one way."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pipeline.model.types import STRING, WarehouseType

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAIN = (
    "tinyint",
    "int",
    "bigint",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
)
EXPECTED = f"one of {', '.join(PLAIN)}, decimal(p,s) with 1 <= p <= 38 and 0 <= s <= p, enum('a','b')"
LARGEST_PRECISION = 38

_DECIMAL = re.compile(r"decimal\s*\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)", re.IGNORECASE)
_ENUM = re.compile(r"enum\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
_MEMBER = re.compile(r"\s*'((?:[^']|'')*)'\s*(,|$)")


def column_type(text: str) -> str:
    """Give the type in its one spelling: lower case, no spaces, enum members kept; raises ValueError."""
    text = text.strip()
    if text.lower() in PLAIN:
        return text.lower()
    if match := _DECIMAL.fullmatch(text):
        return _decimal(int(match[1]), int(match[2]))
    if match := _ENUM.fullmatch(text):
        return "enum(" + ",".join("'" + name.replace("'", "''") + "'" for name in _members(match[1])) + ")"
    raise ValueError(EXPECTED)


def own_types(columns: Mapping[str, str]) -> dict[str, WarehouseType]:
    """Types of `warehouse.columns` as the warehouse has them, by `schema.table.column`; members of an enum are text."""
    return {name: STRING if members_of(kind) else WarehouseType(kind) for name, kind in columns.items()}


def members_of(column: str) -> tuple[str, ...]:
    """The members that a type of `column_type` names; none if it is no enum."""
    match = _ENUM.fullmatch(column)
    return _members(match[1]) if match else ()


def _decimal(precision: int, scale: int) -> str:
    if not 1 <= precision <= LARGEST_PRECISION or scale > precision:
        raise ValueError(EXPECTED)
    return f"decimal({precision},{scale})"


def _members(text: str) -> tuple[str, ...]:
    members: list[str] = []
    position, more = 0, True
    while more:
        match = _MEMBER.match(text, position)
        if not match:
            raise ValueError("the members of an enum in quotes, separated by commas: enum('a','b')")
        members.append(match[1].replace("''", "'"))
        position, more = match.end(), match[2] == ","
    if position != len(text) or len(set(members)) != len(members):
        raise ValueError("each member of an enum only once, in quotes: enum('a','b')")
    return tuple(members)
