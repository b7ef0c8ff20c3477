"""Whether a table still has the columns that its layout says, and what undoes it where it has not.

A user may add columns: they stay, and are NULL in new rows. A column of ours can no longer be written, or only wrongly,
if it was renamed, dropped, given another type or made required without a DDL event of the source. Everything here is
pure: schemas come as the JSON of Iceberg's spec, which Iceberg and PyIceberg both give.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pipeline.model import change
from pipeline.model.names import confusable, quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pipeline.model.names import WarehouseName
    from pipeline.warehouse.layout import Layout

COLUMNS_CHANGED = "COLUMNS_CHANGED"

IN_CHANGES, IN_CURRENT = "changes", "current"
"""The two tables of a pair, as `Noted` names them."""

Place = tuple[str, ...]
"""A column, or one of the struct `_before`."""
_STRUCT = "struct"
_SPARK = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp", "uuid": "string"}
_PLAIN = frozenset({"boolean", "int", "float", "double", "string", "binary", "date"})


@dataclass(frozen=True, slots=True)
class Field:
    """A column as the table has it. `type`: as Spark SQL writes it; empty where Spark has no such type."""

    id: int
    type: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class ColumnFault:
    """A column that does not let the table be written, and the Spark SQL that undoes that."""

    sentence: str
    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Alterations:
    """How a table differs from its layout. `not_ours`: columns of users. `lost`: field ids of columns to bring back."""

    faults: tuple[ColumnFault, ...] = ()
    not_ours: tuple[str, ...] = ()
    lost: Mapping[Place, int] | None = None


def of_current(layout: Layout) -> dict[Place, str]:
    """The columns of a current table, with their types."""
    own: dict[Place, str] = {(column.name,): _plain(column.type) for column in layout.current}
    return own | {(name,): change.ENVELOPE[name] for name in (change.COMMIT_TS, change.UNREPRESENTABLE)}


def of_changes(layout: Layout) -> dict[Place, str]:
    """The columns of a changes table, with their types."""
    own: dict[Place, str] = {(column.name,): _plain(column.type) for column in layout.columns}
    wanted: dict[Place, str] = {(name,): kind for name, kind in change.ENVELOPE.items()}
    wanted |= own
    if layout.before:
        lost: dict[Place, str] = {(change.UNREPRESENTABLE,): change.ENVELOPE[change.UNREPRESENTABLE]}
        wanted[change.BEFORE,] = _STRUCT
        wanted |= {(change.BEFORE, *place): kind for place, kind in (own | lost).items()}
    return wanted


def fields(schema: Mapping[str, Any]) -> dict[Place, Field]:
    """The columns of a schema, and those of `_before`."""
    by_place: dict[Place, Field] = {}
    for field in schema["fields"]:
        kind, within = field["type"], field["name"] == change.BEFORE and _is_struct(field["type"])
        by_place[field["name"],] = Field(field["id"], _STRUCT if within else _spark_type(kind), field["required"])
        for member in kind["fields"] if within else ():
            by_place[change.BEFORE, member["name"]] = Field(
                member["id"], _spark_type(member["type"]), member["required"]
            )
    return by_place


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, dict) and kind["type"] == "struct"


def _spark_type(kind: Any) -> str:
    """A type of Iceberg's spec in Spark SQL, without blanks; empty where Spark has none."""
    if isinstance(kind, str):
        plain = _plain(kind)
        if plain.startswith("fixed["):
            return "binary"
        return _SPARK.get(plain, plain if plain in _PLAIN or plain.startswith("decimal(") else "")
    match kind["type"]:
        case "list":
            parts = [_spark_type(kind["element"])]
            return f"array<{parts[0]}>" if all(parts) else ""
        case "map":
            parts = [_spark_type(kind["key"]), _spark_type(kind["value"])]
            return f"map<{','.join(parts)}>" if all(parts) else ""
        case "struct":
            names = [quoted(field["name"]) for field in kind["fields"]]
            parts = [_spark_type(field["type"]) for field in kind["fields"]]
            named = ",".join(f"{name}:{part}" for name, part in zip(names, parts, strict=True))
            return f"struct<{named}>" if all(parts) else ""
    return ""


def _plain(kind: str) -> str:
    return kind.replace(" ", "")


def former_ids(schemas: Iterable[Mapping[str, Any]]) -> dict[Place, int]:
    """The field ids of all columns in these schemas, oldest first; of each name the newest."""
    return {place: field.id for schema in schemas for place, field in fields(schema).items()}


def compared(
    table: WarehouseName,
    wanted: Mapping[Place, str],
    now: Mapping[Place, Field],
    former: Mapping[Place, int],
    claimed: Collection[str] = (),
) -> Alterations:
    """Compare a table's columns with those that are `wanted`.

    `former`: the field ids of columns that it has had, of each name the newest. `claimed`: names of users' columns
    that columns of the source need.
    """
    places = {field.id: place for place, field in now.items()}
    missing = [place for place in wanted if place not in now and place[:-1] in {(), *now}]
    moved = {place: places[former[place]] for place in missing if former.get(place) in places}
    moved = {place: to for place, to in moved.items() if to not in wanted and place[:-1] == to[:-1]}
    others = [place for place in now if place not in wanted and place not in moved.values()]
    gone = [place for place in missing if place not in moved]
    retyped = [place for place in wanted if place in now and now[place].type != wanted[place]]
    faults = [
        *(_renamed(table, place, to) for place, to in moved.items()),
        *(_gone(table, place, wanted) for place in gone),
        *(_retyped(table, place, now[place], wanted) for place in retyped),
        *(_required(table, place) for place in now if place in wanted and now[place].required),
        *_of_others(table, wanted, now, others, claimed),
    ]
    within = [place for place in wanted if place[:-1] in gone]
    ids = {place: former[place] for place in (*gone, *within) if place in former}
    ids |= {place: now[place].id for place in retyped}
    return Alterations(tuple(faults), tuple(place[0] for place in others if len(place) == 1), ids)


def _renamed(table: WarehouseName, place: Place, to: Place) -> ColumnFault:
    sentence = f"the column {_told(place)} of {table} is now called {to[-1]}, but no DDL event has renamed it"
    steps = [to[-1], place[-1]]
    if confusable(to[-1]) == confusable(place[-1]):  # Spark takes such a name for the one that is there
        steps.insert(1, f"{place[-1]}__")
    renames = pairwise(steps)
    return ColumnFault(
        sentence, tuple(_alter(table, f"RENAME COLUMN {quoted(*to[:-1], a)} TO {quoted(b)}") for a, b in renames)
    )


def _gone(table: WarehouseName, place: Place, wanted: Mapping[Place, str]) -> ColumnFault:
    sentence = f"the column {_told(place)} of {table} is gone, but no DDL event has dropped it"
    return ColumnFault(sentence, (_alter(table, f"ADD COLUMN {quoted(*place)} {_written(place, wanted)}"),))


def _retyped(table: WarehouseName, place: Place, now: Field, wanted: Mapping[Place, str]) -> ColumnFault:
    kind = _written(place, wanted)
    has = now.type or "of a type that Spark does not have"
    sentence = f"the column {_told(place)} of {table} is {has} instead of {kind}"
    drop = _alter(table, f"DROP COLUMN {quoted(*place)}")
    return ColumnFault(sentence, (drop, _alter(table, f"ADD COLUMN {quoted(*place)} {kind}")))


def _required(table: WarehouseName, place: Place) -> ColumnFault:
    sentence = f"the column {_told(place)} of {table} is NOT NULL, but new rows can be NULL there"
    return ColumnFault(sentence, (_alter(table, f"ALTER COLUMN {quoted(*place)} DROP NOT NULL"),))


def _of_others(
    table: WarehouseName,
    wanted: Mapping[Place, str],
    now: Mapping[Place, Field],
    others: Sequence[Place],
    claimed: Collection[str],
) -> Iterator[ColumnFault]:
    """What columns of users keep from being written, or read."""
    ours, needed = {confusable(place[0]) for place in wanted}, {confusable(name) for name in claimed}
    for place in others:
        name = place[-1]
        if len(place) > 1:
            if place[:-1] in wanted:
                sentence = f"the pipeline did not make {_told(place)} of {table}, and it writes the struct as a whole"
                yield ColumnFault(sentence, (_alter(table, f"DROP COLUMN {quoted(*place)}"),))
        elif confusable(name) in ours | needed:
            yield _taken(table, name, [place[0] for place in (*now, *wanted)])
        elif not now[place].type:
            sentence = f"the column {name} of {table}, not made by the pipeline, has a type that Spark cannot read"
            yield ColumnFault(sentence, (_alter(table, f"DROP COLUMN {quoted(name)}"),))
        elif now[place].required:
            yield _required(table, place)


def _taken(table: WarehouseName, name: str, names: Sequence[str]) -> ColumnFault:
    taken, number = {confusable(one) for one in names}, 2
    while confusable(f"{name}_{number}") in taken:
        number += 1
    other = f"{table} has a column of that name that the pipeline did not make"
    sentence = f"the source's table has a column {name}, but {other}"
    return ColumnFault(sentence, (_alter(table, f"RENAME COLUMN {quoted(name)} TO {quoted(f'{name}_{number}')}"),))


def _written(place: Place, wanted: Mapping[Place, str]) -> str:
    """A column's type in SQL."""
    if wanted[place] != _STRUCT:
        return wanted[place]
    inner = (f"{quoted(one[-1])}: {kind}" for one, kind in wanted.items() if one[:-1] == place)
    return f"struct<{', '.join(inner)}>"


def _told(place: Place) -> str:
    return ".".join(place)


def _alter(table: WarehouseName, what: str) -> str:
    return f"ALTER TABLE {table.sql} {what}"


def reason(faults: Sequence[ColumnFault]) -> str:
    """Why a table is held."""
    sentences = "; ".join(fault.sentence for fault in faults)
    return f"{COLUMNS_CHANGED}: {sentences}; to undo it: {undone_by(faults)}" if faults else ""


def undone_by(faults: Sequence[ColumnFault]) -> str:
    """The statements, in one line."""
    return "; ".join(statement for fault in faults for statement in fault.statements)


def with_ids(schema: Mapping[str, Any], ids: Mapping[Place, int]) -> dict[str, Any]:
    """A schema in which columns have these field ids, by which files know their values; an id that is taken stays."""
    taken = {field.id for field in fields(schema).values()}
    wanted = {place: number for place, number in ids.items() if number not in taken}
    return {**schema, "fields": [_with_id(field, (field["name"],), wanted) for field in schema["fields"]]}


def _with_id(field: Mapping[str, Any], place: Place, ids: Mapping[Place, int]) -> dict[str, Any]:
    kind = field["type"]
    if place == (change.BEFORE,) and _is_struct(kind):
        kind = {**kind, "fields": [_with_id(one, (*place, one["name"]), ids) for one in kind["fields"]]}
    return {**field, "id": ids.get(place, field["id"]), "type": kind}


@dataclass(frozen=True, slots=True)
class Noted:
    """What a held pair remembers of its columns, by role of the table.

    `claimed`: the names that the source needs. `ids`: the field ids of columns to bring back.
    """

    claimed: Mapping[str, Sequence[str]]
    ids: Mapping[str, Mapping[Place, int]]

    def to_json(self) -> str:
        """As a property keeps it."""
        ids = {role: sorted([list(place), number] for place, number in lost.items()) for role, lost in self.ids.items()}
        return json.dumps({"claimed": {role: sorted(names) for role, names in self.claimed.items()}, "ids": ids})

    @staticmethod
    def from_json(text: str) -> Noted:
        """What `to_json` has written."""
        raw = json.loads(text)
        ids = {role: {tuple(place): number for place, number in lost} for role, lost in raw.get("ids", {}).items()}
        return Noted(raw.get("claimed", {}), ids)


NOTHING_NOTED = Noted({}, {})
