"""What several protocols make of a value alike: moments as text, DECIMAL with its scale, ENUM and SET as numbers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from decimal import Decimal

    from pipeline.simulate.tables import ColumnType

Convert = Callable[[Any], Any]


def decimal_text(kind: ColumnType) -> Callable[[Decimal], str]:
    """Return what writes a DECIMAL with all digits of its scale."""
    return lambda value: f"{value:.{kind.scale}f}"


def moment_text(kind: ColumnType, timezone: str) -> Convert:
    """Return what writes DATE, DATETIME and TIMESTAMP with the column's fraction digits; text passes as it is."""
    zone, digits = ZoneInfo(timezone), kind.length or 0

    def convert(value: str | date | datetime) -> str:
        if isinstance(value, str):
            return value
        if not isinstance(value, datetime):
            return value.isoformat()
        local = value.astimezone(zone) if value.tzinfo else value
        return local.replace(tzinfo=None).isoformat(" ", "microseconds")[: 20 + digits if digits else 19]

    return convert


def enum_number(kind: ColumnType) -> Callable[[str], int]:
    """Return what gives an ENUM's index, from 1 on; 0 is the invalid value."""
    numbers = {member: number for number, member in enumerate(kind.members, 1)}
    return lambda value: numbers.get(value, 0)


def set_number(kind: ColumnType) -> Callable[[str], int]:
    """Return what gives a SET's bit mask."""
    bits = {member: 1 << number for number, member in enumerate(kind.members)}
    return lambda value: sum(bits[member] for member in value.split(",")) if value else 0
