"""What a DDL statement makes of a table's partitioning."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.ddl.actions import (
    AddPartitions,
    CoalescePartitions,
    DropPartitions,
    ExchangePartition,
    PartitionBy,
    RemovePartitioning,
    RenameColumn,
    ReorganizePartitions,
    UnclearPartitions,
)
from pipeline.ddl.partitions.reading import numbered
from pipeline.ddl.partitions.scheme import PartitionKind, PartitionScheme
from pipeline.model.names import folded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.ddl.actions import Action
    from pipeline.ddl.partitions.scheme import NamedPartition


def applied(scheme: PartitionScheme | None, action: Action) -> PartitionScheme | None:
    """The partitioning after one statement. None: the table has none, or it was never seen.

    What the definitions do not tell any more makes the scheme unsupported, until the table is partitioned anew.
    """
    match action:
        case PartitionBy():
            return action.scheme
        case RemovePartitioning():
            return None
        case RenameColumn() if scheme is not None:
            return _renamed(scheme, action)
    return scheme if scheme is None or scheme.unsupported else _redefined(scheme, action)


def _redefined(scheme: PartitionScheme, action: Action) -> PartitionScheme:
    match action:
        case AddPartitions():
            return _added(scheme, action)
        case CoalescePartitions():
            return _coalesced(scheme, action.number)
        case DropPartitions():
            return _replaced(scheme, action.names, ())
        case ReorganizePartitions():
            return _replaced(scheme, action.names, action.partitions)
    doubt = _doubt(action)
    return scheme.refused(doubt) if doubt else scheme


def _doubt(action: Action) -> str:
    """Why the definitions do not tell any more where rows lie; empty if they do."""
    match action:
        case UnclearPartitions():
            return f"a statement that was not understood has changed its partitions: {action.reason}"
        case ExchangePartition(validation=False):
            return f"partition {action.name} took in rows without validation, so they may belong to another partition"
    return ""


def _added(scheme: PartitionScheme, action: AddPartitions) -> PartitionScheme:
    if action.partitions:
        return scheme.having((*scheme.partitions, *action.partitions))
    if scheme.kind is not PartitionKind.HASH:
        why = f"{action.number} partitions were added by number, but partitions of {scheme.kind} have no numbers"
        return scheme.refused(why)
    return scheme.having((*scheme.partitions, *numbered(len(scheme.partitions), action.number)))


def _coalesced(scheme: PartitionScheme, number: int) -> PartitionScheme:
    if scheme.kind is not PartitionKind.HASH:
        return scheme.refused(f"partitions of {scheme.kind} were coalesced")
    return scheme.having(scheme.partitions[:-number])


def _replaced(scheme: PartitionScheme, names: Sequence[str], new: Sequence[NamedPartition]) -> PartitionScheme:
    """Put others, or none, in the place of these."""
    places = set(scheme.places(names))
    if None in places:
        return scheme.refused(f"not all of the partitions {', '.join(names)} are known")
    if scheme.kind is PartitionKind.HASH:
        return scheme.refused("partitions of HASH were dropped or reorganized by name")
    first = min(place for place in places if place is not None)
    left = [partition for place, partition in enumerate(scheme.partitions) if place not in places]
    return scheme.having((*left[:first], *new, *left[first:]))


def _renamed(scheme: PartitionScheme, action: RenameColumn) -> PartitionScheme:
    old = folded(action.old)
    return replace(
        scheme,
        columns=tuple(
            replace(column, name=action.new) if folded(column.name) == old else column for column in scheme.columns
        ),
    )
