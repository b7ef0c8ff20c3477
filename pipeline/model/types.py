"""Warehouse types, and which change of type a table can take. `tidb_types` says which type of TiDB becomes which.

A warehouse type is written as Spark SQL writes it (`int`, `decimal(20,0)`, `timestamp_ntz`), so that it can stand
in JSON, in a cast and in a message alike.
"""

from __future__ import annotations

import re
from typing import NewType

WarehouseType = NewType("WarehouseType", str)

INT = WarehouseType("int")
BIGINT = WarehouseType("bigint")
UNSIGNED_BIGINT = WarehouseType("decimal(20,0)")
FLOAT = WarehouseType("float")
DOUBLE = WarehouseType("double")
STRING = WarehouseType("string")
BINARY = WarehouseType("binary")
DATE = WarehouseType("date")
TIMESTAMP_NTZ = WarehouseType("timestamp_ntz")
TIMESTAMP = WarehouseType("timestamp")
VECTOR = WarehouseType("array<float>")

CALENDAR = frozenset({DATE, TIMESTAMP, TIMESTAMP_NTZ})
"""Types that do not hold every value of their own TiDB types: no zero dates, and no instant twice."""

MAX_DECIMAL_PRECISION = 38
"""What Spark, Iceberg and Parquet hold; TiDB goes to 65."""
MAX_BITS = 64
"""Of a BIT."""

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def decimal(precision: int, scale: int) -> WarehouseType:
    """DECIMAL(p,s), or STRING where p is beyond what a warehouse decimal holds."""
    if precision > MAX_DECIMAL_PRECISION:
        return STRING
    return WarehouseType(f"decimal({precision},{scale})")


def bit(length: int) -> WarehouseType:
    """BIT(n): BIGINT up to 63 bits, DECIMAL(20,0) for 64."""
    return BIGINT if length < MAX_BITS else UNSIGNED_BIGINT


def decimal_parameters(kind: WarehouseType) -> tuple[int, int] | None:
    """(precision, scale) of a decimal type, else None."""
    match = _DECIMAL.fullmatch(kind)
    return (int(match[1]), int(match[2])) if match else None


def widens(old: WarehouseType, new: WarehouseType) -> bool:
    """Whether Iceberg can promote a column from `old` to `new` in place (Iceberg spec, Schema Evolution)."""
    if (old, new) in {(INT, BIGINT), (FLOAT, DOUBLE)}:
        return True
    before, after = decimal_parameters(old), decimal_parameters(new)
    return before is not None and after is not None and before[1] == after[1] and before[0] < after[0]


def absorbs(column: WarehouseType, value: WarehouseType) -> bool:
    """Whether every value of type `value` can be written into `column` without a change of meaning."""
    if column == value or widens(value, column):
        return True
    held, sent = decimal_parameters(column), decimal_parameters(value)
    if held is None:
        return False
    if value == INT:
        return held[0] - held[1] >= 10
    if value == BIGINT:
        return held[0] - held[1] >= 19
    return sent is not None and held[1] == sent[1] and held[0] >= sent[0]
