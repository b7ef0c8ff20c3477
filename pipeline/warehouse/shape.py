"""Rows of a changes table as rows of its current table, whatever version wrote them.

A row of an older version shows, in a column that came later, the column's origin default or the converted value of
the column that was forked; a row of a newer version shows NULL in a dropped column.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.columns import IN_UTC, DefaultKind
from pipeline.model.names import quoted, stored_column
from pipeline.model.source_types import SourceType
from pipeline.model.text import Value, parsed, timestamp, under
from pipeline.model.types import STRING, TIMESTAMP
from pipeline.warehouse.conversion import converted
from pipeline.warehouse.layout import Conversion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as SparkColumn

    from pipeline.model.columns import SchemaId
    from pipeline.warehouse.layout import Column, Layout, Version


@dataclass(frozen=True, slots=True)
class Shape:
    """Columns of the current table as expressions over its changes table."""

    columns: dict[str, SparkColumn]
    unrepresentable: SparkColumn


def current_shape(layout: Layout, timezone: str, seen: Sequence[SchemaId] | None = None) -> Shape:
    """How a changes row becomes a current row. `seen`: only these version ids occur (None: any may)."""
    columns: dict[str, SparkColumn] = {}
    lost: dict[str, SparkColumn] = {}
    versions = [v for v in layout.versions if seen is None or v.version in seen]
    for column in layout.current:
        value = _value(layout, column, versions, timezone)
        columns[column.name] = value.column
        if value.lost is not None:
            lost[column.name] = value.lost
    return Shape(columns, with_lost(F.col(change.UNREPRESENTABLE), lost))


@lru_cache(maxsize=1024)
def is_plain(layout: Layout, seen: frozenset[SchemaId], *, key: bool = False) -> bool:
    """Whether a changes row is its current row as it stands, but for the envelope.

    `seen`: the version ids of these rows. `key`: whether only the columns of the key matter.
    """
    versions = [v for v in layout.versions if v.version in seen]
    pairs = [(column, version) for column in (layout.key if key else layout.current) for version in versions]
    return len(versions) == len(seen) and not any(_origin(layout, *pair, "UTC")[0] for pair in pairs)


def dead_in(layout: Layout, version: Version) -> frozenset[str]:
    """Names of the current table's columns that this version had no longer: in them its rows are NULL."""
    carried = version.columns
    return frozenset(c.name for c in layout.current if c.id not in carried and version.number >= c.added)


@dataclass(frozen=True, slots=True)
class Era:
    """Versions whose rows are found in the same way, in a table without a key."""

    dead: frozenset[str] = frozenset()
    """`dead_in`."""
    guesses: tuple[frozenset[str], ...] = ()
    """Columns of unknown default, in which older rows show NULL: the newest alone, then with the one before, …"""


def era_of(layout: Layout, version: Version) -> Era:
    """The era of a version."""
    dead = dead_in(layout, version)
    shown = {c.name: _unknown_before(layout, c) for c in layout.current if c.name not in dead}
    since = {name: number for name, number in shown.items() if 0 < number <= version.number}
    numbers = sorted(set(since.values()), reverse=True)
    return Era(dead, tuple(frozenset(name for name in since if since[name] >= number) for number in numbers))


def _unknown_before(layout: Layout, column: Column) -> int:
    """The version number before which it is unknown what rows show in a column; 0 if that is known."""
    if column.conversions and column.conversions[0].source != column.id:
        return _unknown_before(layout, layout.column(column.conversions[0].source))
    first = min((version.number for version in layout.versions if version.number >= 0), default=0)
    return column.added if column.default.kind is DefaultKind.UNKNOWN and column.added > first else 0


def with_lost(base: SparkColumn, lost: dict[str, SparkColumn]) -> SparkColumn:
    """`_unrepresentable` with these texts of these columns, NULL where there is none, and what it has of others."""
    if not lost:
        return base
    entries = [part for name, text in lost.items() for part in (F.lit(name), text)]
    some = F.coalesce(*lost.values()).isNotNull()
    fresh = F.map_filter(F.create_map(*entries), lambda _, text: text.isNotNull())
    empty = F.create_map().cast(change.ENVELOPE[change.UNREPRESENTABLE])
    kept = F.map_filter(F.coalesce(base, empty), lambda name, _: ~name.isin(*lost))
    both = F.map_concat(kept, fresh)
    return F.when((base.isNotNull() | some) & (F.size(both) > 0), both)


def _value(layout: Layout, column: Column, versions: Sequence[Version], timezone: str) -> Value:
    """One column: as it is for versions that carry it, derived for the others."""
    own = Value(F.col(quoted(column.name)))
    groups: dict[str, tuple[list[SchemaId], Value]] = {}
    for version in versions:
        origin, value = _origin(layout, column, version, timezone)
        if origin:
            groups.setdefault(origin, ([], value))[0].append(version.version)
    result, lost = own.column, None
    for ids, value in groups.values():
        here = F.col(change.SCHEMA_ID).isin(*ids)
        result = F.when(here, value.column).otherwise(result)
        if value.lost is not None:
            lost = F.when(here, value.lost).otherwise(_text(column.name) if lost is None else lost)
    return Value(result, lost)


def _origin(layout: Layout, column: Column, version: Version, timezone: str) -> tuple[str, Value]:
    """Why a version's rows need more than the column itself ('' if they do not), and what they show."""
    own = Value(F.col(quoted(column.name)))
    carried = column.id in version.columns
    due = [c for c in column.conversions if version.number < c.before]
    if carried:
        moved = _name_in(version, column) if _is_replaced(layout, column) else ""
        if not (due or moved):
            return "", own
        value = _converted(layout, column, due, _held(column, moved), timezone)
        return f"rewrite{len(due)} {moved}", value
    stale = next((c for c in layout.columns if c.shown_in == column.id and c.id in version.columns), None)
    if stale is not None:
        shown = Conversion(column.added, stale.id, column.source_type, stale.source_type)
        return _from_other(layout, column, version, (shown,), timezone)
    if version.number >= column.added:
        return "", own
    if column.conversions and column.conversions[0].source != column.id:
        return _from_other(layout, column, version, column.conversions, timezone)
    return _defaulted(layout, column, timezone)


def _text(name: str) -> SparkColumn:
    return F.col(change.UNREPRESENTABLE).getItem(name)


def _text_of(column: Column, was: str) -> SparkColumn:
    return F.coalesce(_text(column.name), _text(was)) if was else _text(column.name)


def _held(column: Column, was: str = "") -> Value:
    """A column as it is, with the text of values that it could not hold; `was`: an earlier name, if it had one."""
    return Value(F.col(quoted(column.name)), _text_of(column, was))


def _is_replaced(layout: Layout, column: Column) -> bool:
    """Whether another column took its name, and shows its values converted."""
    return any(c.conversions and c.conversions[0].source == column.id != c.id for c in layout.columns)


def _from_other(
    layout: Layout, column: Column, version: Version, conversions: Sequence[Conversion], timezone: str
) -> tuple[str, Value]:
    """The values of the column that was forked, or that a stale version has filled, converted."""
    source = layout.column(conversions[0].source)
    reason, held = _origin(layout, source, version, timezone)
    value = _converted(layout, column, conversions, held if reason else _held(source), timezone)
    return f"from {source.id} {reason}", _materialised(value)


def _materialised(value: Value) -> Value:
    """The value of a column that has taken another one's name: without a text of its own it has none."""
    return value if value.lost is not None else Value(value.column, F.lit(None).cast("string"))


def _converted(layout: Layout, column: Column, due: Sequence[Conversion], own: Value, timezone: str) -> Value:
    value = own
    for conversion in due:
        source = layout.column(conversion.source)
        step = converted(value.column, source.type, column.type, conversion.was, conversion.tidb_type, timezone)
        if value.lost is not None and source.narrows and _is_text(conversion.tidb_type):
            from_text = converted(value.lost, STRING, column.type, "", conversion.tidb_type, timezone)
            value = Value(F.coalesce(step.column, from_text.column), step.lost)
        else:
            texts = [text for text in (value.lost, step.lost) if text is not None]
            value = Value(step.column, F.coalesce(*texts) if texts else None)
    return value


def _is_text(tidb_type: str) -> bool:
    """Whether such a column can hold the text of whatever another one could not."""
    return SourceType.of(tidb_type).family in ("TEXT", "BLOB")


def _defaulted(layout: Layout, column: Column, timezone: str) -> tuple[str, Value]:
    if column.default.kind is not DefaultKind.LITERAL:
        return "", Value(F.col(quoted(column.name)))
    return "default", _converted(layout, column, column.conversions, default_value(column, timezone), timezone)


def default_value(column: Column, timezone: str) -> Value:
    """The origin default as a value of the column's type."""
    literal = column.default.text
    if SourceType.of(column.source_type).name != "TIMESTAMP":
        return parsed(F.lit(literal), column.type, timezone)
    text, zone = F.lit(literal.removesuffix(IN_UTC)), "UTC" if literal.endswith(IN_UTC) else timezone
    if column.type == STRING:
        return under(timestamp(text, zone), TIMESTAMP, STRING)
    return parsed(text, column.type, zone)


@dataclass(frozen=True, slots=True)
class DueBackfill:
    """A column that rows in the current table do not show yet: its default or not, and how many conversions they do."""

    column: Column
    done: int
    default_due: bool


def backfill(layout: Layout, due: Sequence[DueBackfill], timezone: str) -> Shape:
    """What rows that are in the current table from before these columns show in them."""
    due_by_id = {item.column.id: item for item in due}
    values: dict[str, SparkColumn] = {}
    lost: dict[str, SparkColumn] = {}
    for item in due:
        value = _backfilled(layout, item.column, due_by_id, timezone)
        values[item.column.name] = value.column
        if value.lost is not None:
            lost[item.column.name] = value.lost
        source = _forked_from(layout, item)
        if source is not None and source.id not in due_by_id and source.in_current:
            lost[source.name] = _text_of(source, _former_name(layout, source))
    return Shape(values, with_lost(F.col(change.UNREPRESENTABLE), lost))


def _forked_from(layout: Layout, item: DueBackfill) -> Column | None:
    """The column whose values a pending one is to show."""
    todo = item.column.conversions[item.done :]
    forked = not item.default_due and bool(todo) and todo[0].source != item.column.id
    return layout.column(todo[0].source) if forked else None


def _backfilled(layout: Layout, column: Column, due_by_id: dict[int, DueBackfill], timezone: str) -> Value:
    item = due_by_id.get(column.id)
    if item is None:
        return _there(layout, column)
    todo, source = column.conversions[item.done :], _forked_from(layout, item)
    if item.default_due:
        return _converted(layout, column, todo, default_value(column, timezone), timezone)
    if source is not None:
        return _materialised(
            _converted(layout, column, todo, _backfilled(layout, source, due_by_id, timezone), timezone)
        )
    return _converted(layout, column, todo, _there(layout, column), timezone)


def _there(layout: Layout, column: Column) -> Value:
    """A column of existing rows. Another column may have taken its name since."""
    return _held(column, _former_name(layout, column))


def _former_name(layout: Layout, column: Column) -> str:
    """What a column was called until another one took its name; empty where none has."""
    carriers = sorted((v for v in layout.versions if column.id in v.columns), key=lambda version: version.number)
    return _name_in(carriers[-1], column) if carriers and _is_replaced(layout, column) else ""


def _name_in(version: Version, column: Column) -> str:
    """What a column was called when a version that carries it was the newest."""
    return next(stored_column(field) for field, number in version.fields if number == column.id)
