"""Values as a warehouse row holds them (design.md, 4.4), for what TiDB prints and for what TiCDC sends alike.

A `Cell` is a value and, where the warehouse type cannot hold it, the text that `_unrepresentable` keeps.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

CALENDAR = frozenset({"date", "datetime", "timestamp"})
_LONGEST_DECIMAL = 38
_LONGEST_LONG = 63


class Cell(NamedTuple):
    """One value of one column."""

    value: Any
    lost: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A source column: its name in the warehouse, its type there, and how its values are read.

    `family` is a TiDB type without length and sign: `bigint`, `decimal`. `members` are those of an ENUM or SET.
    """

    name: str
    family: str
    type: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One row: values by warehouse column, and `_unrepresentable` by column."""

    values: dict[str, Any]
    lost: dict[str, str]

    @staticmethod
    def of(cells: dict[str, Cell]) -> Row:
        """The row of these cells."""
        lost = {name: cell.lost for name, cell in cells.items() if cell.lost is not None}
        return Row({name: cell.value for name, cell in cells.items()}, lost)

    def of_columns(self, names: list[str]) -> tuple[Any, ...]:
        """These columns alone, as something that can be counted."""
        return tuple((freeze(self.values.get(name)), self.lost.get(name)) for name in names)


def freeze(value: Any) -> Any:
    """The value as a hashable one."""
    return tuple(value) if isinstance(value, list) else value


def plain(value: Any) -> Any:
    """A value that Arrow gives for a column, whatever engine read it, as one that can be counted."""
    if isinstance(value, dt.datetime) and value.tzinfo:
        return value.astimezone(dt.UTC)
    if isinstance(value, dict):
        return frozenset((name, plain(inner)) for name, inner in value.items())
    if isinstance(value, list):
        pairs = [(one["key"], one["value"]) if isinstance(one, dict) else one for one in value]  # of a map, by Polars
        return frozenset(pairs) if pairs and isinstance(pairs[0], tuple) else tuple(pairs)
    return value


_FIXED = {
    "tinyint": "int", "smallint": "int", "mediumint": "int", "int": "int", "bigint": "bigint", "year": "int",
    "float": "float", "double": "double", "date": "date", "datetime": "timestamp_ntz",
    "timestamp": "timestamp", "vector": "array<float>", "binary": "binary", "varbinary": "binary",
}  # fmt: skip
_WIDER = {"int": "bigint", "bigint": "decimal(20,0)"}


def warehouse_type(family: str, *, unsigned: bool, parameters: str, decimals_as_text: bool) -> str:
    """The warehouse type of a TiDB type: design.md, 4.4, line by line."""
    if unsigned and family in _WIDER:
        return _WIDER[family]
    if family == "bit":
        return "bigint" if int(parameters) <= _LONGEST_LONG else "decimal(20,0)"
    if family == "decimal":
        precision = int(parameters.partition(",")[0])
        return "string" if decimals_as_text or precision > _LONGEST_DECIMAL else f"decimal({parameters})"
    if family.endswith("blob"):
        return "binary"
    return _FIXED.get(family, "string")


def single(number: float) -> float:
    """The nearest 32-bit float."""
    return struct.unpack("<f", struct.pack("<f", number))[0]


def vector(text: str) -> list[float]:
    """A VECTOR's text as 32-bit floats."""
    return [single(number) for number in json.loads(text)]


_READERS: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "bigint": int,
    "float": lambda number: single(float(number)),
    "double": float,
    "array<float>": vector,
}


def typed(kind: str, value: Any) -> Any:
    """A value of this warehouse type, of its text or of a number; neither bytes nor dates."""
    read = Decimal if kind.startswith("decimal") else _READERS.get(kind, str)
    return read(value)


def calendar(family: str, text: str) -> Cell:
    """DATE, DATETIME or TIMESTAMP; a date that no calendar has is lost and keeps its text."""
    if re.match(r"0000|\d{4}-00|\d{4}-\d\d-00", text):
        return Cell(None, text)
    if family == "date":
        return Cell(dt.date.fromisoformat(text))
    moment = dt.datetime.fromisoformat(text)
    return Cell(moment.replace(tzinfo=dt.UTC) if family == "timestamp" else moment)
