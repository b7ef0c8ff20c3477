"""What the keys of `state` hold: the values, and the codecs that write them as text.

A codec is the only place that knows the text of a value. Tables of earlier versions are read by the same codecs, so a
codec never writes another text for a value, and reads what it has ever written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from pipeline.model.names import Name, TableName, WarehouseName
from pipeline.warehouse.alterations import Noted
from pipeline.warehouse.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pipeline.model.columns import SchemaId
    from pipeline.model.places import PartitionId

T = TypeVar("T")
N = TypeVar("N", int, str)

PartitionTs = tuple[str, int, int]
"""Stream, partition, and a commit ts or frontier of it."""


class State(StrEnum):
    """`held`: records wait in `_pipeline.held`; `dropped`: the source is gone, the pair is kept."""

    LIVE = "live"
    HELD = "held"
    RELEASING = "releasing"
    DROPPED = "dropped"


class StoredBinding(NamedTuple):
    """A source name meant a pair for changes with a commit ts in (`since`, `until`], by the statement `cause`.

    `pair`: the uuid of a pair that has been removed; the others say this themselves.
    """

    schema: str
    table: str
    since: int
    until: int
    cause: str = ""
    pair: str = ""


class Place(NamedTuple):
    """Where a change stands in its source; `number`: the event's in its record."""

    stream: str
    partition: int
    position: int
    number: int


class BoundAt(NamedTuple):
    """Where in a batch a pair got a name. `entered`: the commit ts of the newest statement about names before it."""

    batch: int
    entered: int
    schema: str
    table: str


class LayoutNotes(NamedTuple):
    """What a batch has to say of a layout that it changed: lines of `ddl_history`, and versions that were new to it."""

    batch: int
    notes: Sequence[Sequence[str]]
    met: Collection[SchemaId]


class StoredNames(NamedTuple):
    """Which pair (its uuid) each name meant before a batch."""

    batch: int
    names: Mapping[Name, str]


class SourceNames(NamedTuple):
    """What the source called tables before and after a batch, by the names that the protocol sends."""

    batch: int
    before: Mapping[Name, TableName]
    after: Mapping[Name, TableName]


class Tried(NamedTuple):
    """How far the newest try of a batch was resolved (a frontier), and what it had read of streams in time."""

    batch: int
    resolved: int
    ends: dict[PartitionId, int]


class UnderWay(NamedTuple):
    """A redrive that has begun, and the fields of its selection."""

    operation: str
    selection: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """How a value is written as text. `form`: the same in words, for docs/reference/state.md."""

    form: str
    decode: Callable[[str], T]
    encode: Callable[[T], str]

    def described(self, form: str) -> Codec[T]:
        """The same codec, in words that say more."""
        return replace(self, form=form)


def _json(build: Callable[[Any], T], plain: Callable[[T], object]) -> Codec[T]:
    """JSON: `build` makes the value of what was parsed, `plain` is the inverse."""
    return Codec("JSON", lambda text: build(json.loads(text)), lambda value: json.dumps(plain(value)))


def _sorted_set(kind: type[N]) -> Codec[frozenset[N]]:
    return _json(lambda raw: frozenset(map(kind, raw)), sorted)


INTEGER: Codec[int] = Codec("integer, in decimal", int, str)
COMMIT_TS = INTEGER.described("commit ts, in decimal")
TEXT: Codec[str] = Codec("text", str, str)
FLAG: Codec[bool] = Codec("`true`", lambda text: text == "true", lambda flag: "true" if flag else "")
STATE: Codec[State] = Codec("", State, lambda state: state.value)
LAYOUT: Codec[Layout] = Codec("JSON (`warehouse.layout.Layout`)", Layout.from_json, Layout.to_json)
NOTED: Codec[Noted] = Codec("JSON (`warehouse.alterations.Noted`)", Noted.from_json, Noted.to_json)

WAREHOUSE_NAME: Codec[WarehouseName] = _json(lambda raw: WarehouseName(*raw), lambda name: [name.namespace, name.name])
TABLE_NAME: Codec[TableName] = _json(lambda raw: TableName(*raw), lambda name: [name.schema, name.table])
NAME_KEY: Codec[Name] = _json(lambda raw: (raw[0], raw[1]), list)
TEXTS: Codec[frozenset[str]] = _sorted_set(str)
NUMBERS: Codec[frozenset[int]] = _sorted_set(int)
TEXT_BY_TEXT: Codec[dict[str, str]] = _json(dict, dict)
BOUND_AT: Codec[BoundAt] = _json(lambda raw: BoundAt(*raw), list)
BINDINGS: Codec[tuple[StoredBinding, ...]] = _json(lambda raw: tuple(StoredBinding(*row) for row in raw), list)
PLACES: Codec[frozenset[Place]] = _json(lambda raw: frozenset(Place(*row) for row in raw), sorted)
HELD_NAMES: Codec[tuple[tuple[str, str, str, int], ...]] = _json(lambda raw: tuple((*row,) for row in raw), list)
PARTITION_TS: Codec[tuple[PartitionTs, ...]] = _json(lambda raw: tuple((*row,) for row in raw), sorted)
"""One for each partition."""


def _read_between(text: str) -> tuple[int, int]:
    least, _, greatest = text.partition(":")
    return int(least), int(greatest)


BETWEEN: Codec[tuple[int, int]] = Codec("`<least>:<greatest>`", _read_between, lambda ends: f"{ends[0]}:{ends[1]}")


def _read_ends(nested: Mapping[str, Mapping[str, int]]) -> dict[PartitionId, int]:
    return {
        (stream, int(partition)): position
        for stream, partitions in nested.items()
        for partition, position in partitions.items()
    }


def _nested(ends: Mapping[PartitionId, int]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (stream, partition), position in sorted(ends.items()):
        nested.setdefault(stream, {})[str(partition)] = position
    return nested


ENDS: Codec[dict[PartitionId, int]] = Codec(
    "JSON: {stream: {partition: position}}",
    lambda text: _read_ends(json.loads(text)),
    lambda ends: json.dumps(_nested(ends), separators=(",", ":")),
)
"""The position after the last record that was read of each partition, by the identity of its stream."""
TRIED: Codec[Tried] = _json(
    lambda raw: Tried(raw[0], raw[1], _read_ends(raw[2])),
    lambda tried: [tried.batch, tried.resolved, _nested(tried.ends)],
)


def _read_places(rows: Iterable[Sequence[Any]]) -> dict[Name, set[Place]]:
    places: dict[Name, set[Place]] = {}
    for schema, table, *place in rows:
        places.setdefault((schema, table), set()).add(Place(*place))
    return places


def _place_rows(places: Mapping[Name, Collection[Place]]) -> list[list[Any]]:
    return sorted([*name, *place] for name, of_name in places.items() for place in of_name)


PLACES_BY_NAME: Codec[Mapping[Name, Collection[Place]]] = _json(_read_places, _place_rows)


def _read_called(rows: Iterable[Sequence[str]]) -> dict[Name, TableName]:
    return {(schema, table): TableName(*source) for schema, table, *source in rows}


def _called_rows(called: Mapping[Name, TableName]) -> list[list[str]]:
    return [[*name, source.schema, source.table] for name, source in sorted(called.items())]


SOURCE_NAMES: Codec[SourceNames] = _json(
    lambda raw: SourceNames(raw["batch"], _read_called(raw["before"]), _read_called(raw["after"])),
    lambda names: {
        "batch": names.batch,
        "before": _called_rows(names.before),
        "after": _called_rows(names.after),
    },
)
STORED_NAMES: Codec[StoredNames] = _json(
    lambda raw: StoredNames(raw["batch"], {(schema, table): uuid for schema, table, uuid in raw["names"]}),
    lambda before: {"batch": before.batch, "names": [[*name, uuid] for name, uuid in sorted(before.names.items())]},
)
LAYOUT_NOTES: Codec[LayoutNotes] = _json(
    lambda raw: LayoutNotes(raw["batch"], raw["notes"], frozenset(raw.get("met", ()))),
    lambda saved: {"batch": saved.batch, "notes": [list(note) for note in saved.notes], "met": sorted(saved.met)},
)
UNDER_WAY: Codec[UnderWay] = _json(
    lambda raw: UnderWay(raw["operation"], raw["selection"]),
    lambda redrive: {"operation": redrive.operation, "selection": dict(redrive.selection)},
)
