"""Which of the newest rows carry the row as it was, by their texts: to decode them would take a plan a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.change import Op
from pipeline.protocols.described.head import MessageKind, field_of
from pipeline.protocols.layouts.head import KIND, ROW, head
from pipeline.protocols.open.framing import value_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

    from pipeline.model.messages import TableMessages

_OPEN_OLD, _SIMPLE_OLD = '}},"p":{', '"old":{'
"""How old images begin. No value has these: within a JSON text each quotation mark has a backslash before it, and a
value of Simple is no object."""


@dataclass(frozen=True, slots=True)
class OldImages:
    """How many rows there are, how many updates with the row as it was and, where that can be known, without it.

    `bare_deletes`: whether deletes have their key alone.
    """

    rows: int
    updates: int
    without: int = 0
    bare_deletes: bool = False


def of_open(prepared: DataFrame, tables: Iterable[TableMessages]) -> OldImages:
    """An update without the row as it was looks like an insert."""
    with_old = F.contains(value_json(F.col("value")), F.lit(_OPEN_OLD))
    rows, updates = _counted(prepared.where(head(KIND) == ROW), with_old)
    return OldImages(rows, updates, bare_deletes=any(map(_has_bare_deletes, tables)))


def of_simple(prepared: DataFrame) -> OldImages:
    """In JSON: an update says that it is one."""
    update = field_of("op") == Op.UPDATE.value
    with_old = F.contains(F.col("value").cast("string"), F.lit(_SIMPLE_OLD))
    rows, updates, without = _counted(
        prepared.where(field_of("kind") == MessageKind.DML), update & with_old, update & ~with_old
    )
    return OldImages(rows, updates, without)


def _counted(rows: DataFrame, *conditions: Column) -> tuple[int, ...]:
    counts = rows.agg(F.count(F.lit(1)), *(F.count_if(condition) for condition in conditions)).first()
    return tuple(counts or (0,) * (1 + len(conditions)))


def _has_bare_deletes(table: TableMessages) -> bool:
    """Whether deletes have their key alone, though the table has more columns."""
    whole = any(
        len(seen.version.columns) > len(seen.version.handle or ()) for seen in table.versions if not seen.key_only
    )
    return whole and any(seen.key_only for seen in table.versions)
