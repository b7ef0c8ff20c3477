"""How far the messages of a batch reach in each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pipeline.model.places import Partition


class Positioned(Protocol):
    """Messages of one partition."""

    @property
    def at(self) -> Partition:
        """Where they stand."""
        ...


Group = TypeVar("Group", bound=Positioned)


def extremes(
    groups: Iterable[Group], measure: Callable[[Group], int], pick: Callable[[int, int], int]
) -> dict[Partition, int]:
    """By partition, the least or the greatest of a measure."""
    found: dict[Partition, int] = {}
    for group in groups:
        value = measure(group)
        found[group.at] = pick(value, found.get(group.at, value))
    return found
