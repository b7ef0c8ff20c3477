"""How a table is partitioned, as its DDL says it: data that lies as JSON in a property of the warehouse table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any

from pipeline.ddl.literals import EXPRESSION, NULL, Literal, LiteralKind
from pipeline.model.names import folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST = 8192
"""As many partitions as TiDB lets a table have."""

UNKNOWN_COLLATION = "unknown"
"""Of a column whose definition stands elsewhere, or is not understood."""


class PartitionKind(StrEnum):
    """How TiDB finds the partition of a row; `OTHER`: in a way that the text does not tell."""

    RANGE = "RANGE"
    RANGE_COLUMNS = "RANGE COLUMNS"
    LIST = "LIST"
    LIST_COLUMNS = "LIST COLUMNS"
    HASH = "HASH"
    KEY = "KEY"
    OTHER = "OTHER"


RANGES = frozenset({PartitionKind.RANGE, PartitionKind.RANGE_COLUMNS})
LISTS = frozenset({PartitionKind.LIST, PartitionKind.LIST_COLUMNS})


class Extreme(Enum):
    """MAXVALUE, which is above every value."""

    MAXVALUE = "MAXVALUE"


MAXVALUE = Extreme.MAXVALUE

Bound = tuple["Literal | Extreme", ...]
"""VALUES LESS THAN: one for each column."""


@dataclass(frozen=True, slots=True)
class NamedPartition:
    """One partition: its name and what the clause after it says.

    RANGE: `below`. LIST: `among`, a tuple for each member, and `default` for whatever is in no partition's list.
    HASH: nothing; its place among the partitions is the remainder.
    """

    name: str
    below: Bound = ()
    among: tuple[tuple[Literal, ...], ...] = ()
    default: bool = False

    @property
    def key(self) -> str:
        """What two spellings of its name have in common."""
        return folded(self.name)


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A column that decides; `collation` in small letters, empty where the text does not say."""

    name: str
    collation: str = ""


@dataclass(frozen=True, slots=True)
class PartitionScheme:
    """How a table is partitioned, its partitions in their order.

    `unsupported`: why it is not known which rows lie in which partition; empty if it is known.
    """

    kind: PartitionKind
    columns: tuple[PartitionColumn, ...] = ()
    partitions: tuple[NamedPartition, ...] = ()
    unsupported: str = ""

    def places(self, names: Iterable[str]) -> list[int | None]:
        """The place of each of these partitions, None where no partition has the name. Names match without case."""
        place_of = {partition.key: place for place, partition in enumerate(self.partitions)}
        return [place_of.get(folded(name)) for name in names]

    def deciding(self, names: Iterable[str]) -> PartitionScheme:
        """The same with only the partitions that decide which rows lie in these. The scheme must have these.

        A span begins where the partition before it ends, so that one decides, too. For what is in no list, all lists
        decide; for a remainder, how many partitions there are.
        """
        places = {place for place in self.places(names) if place is not None}
        if self.kind in RANGES:
            places |= {place - 1 for place in places}
        elif self.kind not in LISTS or any(self.partitions[place].default for place in places):
            return self
        return replace(self, partitions=tuple(one for place, one in enumerate(self.partitions) if place in places))

    def refused(self, reason: str) -> PartitionScheme:
        """The same, where it is not known any more which rows lie in which partition, for this reason."""
        return replace(self, unsupported=reason)

    def having(self, partitions: Iterable[NamedPartition]) -> PartitionScheme:
        """The same with these partitions, refused if they do not fit."""
        changed = replace(self, partitions=tuple(partitions))
        fault = _fault(changed)
        return changed.refused(fault) if fault else changed


def _fault(scheme: PartitionScheme) -> str:
    """What is wrong with the partitions; empty for nothing."""
    if not 0 < len(scheme.partitions) <= MOST:
        return f"{len(scheme.partitions)} partitions"
    if len({partition.key for partition in scheme.partitions}) < len(scheme.partitions):
        return "two partitions have one name"
    return next((fault for partition in scheme.partitions if (fault := _misfit(scheme, partition))), "")


def _misfit(scheme: PartitionScheme, partition: NamedPartition) -> str:
    members = (partition.below,) if partition.below else partition.among
    if any(value == EXPRESSION for member in members for value in member):
        return f"partition {partition.name} has an expression where a value should be"
    says = (bool(partition.below), bool(partition.among) or partition.default)
    wanted = (scheme.kind in RANGES, scheme.kind in LISTS)
    if says != wanted or any(len(member) != len(scheme.columns) for member in members):
        return f"partition {partition.name} does not fit {scheme.kind} of {len(scheme.columns)} columns"
    return ""


def to_json(scheme: PartitionScheme) -> dict[str, Any]:
    """Give the scheme as data that JSON can hold."""
    return {
        "kind": scheme.kind.value,
        "columns": [{"name": column.name, "collation": column.collation} for column in scheme.columns],
        "partitions": [_partition(partition) for partition in scheme.partitions],
        "unsupported": scheme.unsupported,
    }


def from_json(data: Mapping[str, Any]) -> PartitionScheme:
    """Read what `to_json` gave."""
    return PartitionScheme(
        PartitionKind(data["kind"]),
        tuple(PartitionColumn(column["name"], column["collation"]) for column in data["columns"]),
        tuple(_partition_of(partition) for partition in data["partitions"]),
        data["unsupported"],
    )


def _partition(partition: NamedPartition) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": partition.name}
    if partition.below:
        fields["below"] = [_value(value) for value in partition.below]
    if partition.among:
        fields["among"] = [[_value(value) for value in member] for member in partition.among]
    if partition.default:
        fields["default"] = True
    return fields


def _partition_of(data: Mapping[str, Any]) -> NamedPartition:
    return NamedPartition(
        data["name"],
        tuple(MAXVALUE if value == {MAXVALUE.value: ""} else _literal(value) for value in data.get("below", ())),
        tuple(tuple(_literal(value) for value in member) for member in data.get("among", ())),
        data.get("default", False),
    )


def _value(value: Literal | Extreme) -> dict[str, str] | None:
    if isinstance(value, Extreme):
        return {value.value: ""}
    if value.kind is LiteralKind.NULL:
        return None
    return {value.kind.name: value.raw.hex() if value.kind is LiteralKind.BYTES else value.text}


def _literal(data: Mapping[str, str] | None) -> Literal:
    if data is None:
        return NULL
    ((kind, text),) = data.items()
    if kind == LiteralKind.BYTES.name:
        return Literal(LiteralKind.BYTES, raw=bytes.fromhex(text))
    return Literal(LiteralKind[kind], text)
