"""The layouts that the numbers of rows stand for. Each is read once and remembered while the process lives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.protocols.layouts.head import NUMBER, head

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column

    from pipeline.protocols.layouts.columns import RowLayout
    from pipeline.protocols.layouts.routes import Group, Sort


@dataclass(slots=True)
class Layouts:
    """Layouts by the numbers of rows. Several numbers may have one layout: of changes and deletes, say."""

    _known: dict[int, RowLayout] = field(default_factory=dict)
    _numbers: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """By `RowLayout.bits`."""
    _of_none: set[int] = field(default_factory=set)

    def unread(self, groups: Iterable[Group]) -> dict[int, int]:
        """The numbers that are new, each with the position of a row that has it."""
        seen = {group.number: group.first for group in groups if group.number is not None}
        return {number: at for number, at in seen.items() if number not in self._known.keys() | self._of_none}

    def learn(self, layouts: Mapping[int, RowLayout | None]) -> None:
        """Remember what numbers stand for; None for one that no table can have."""
        for number, layout in layouts.items():
            if layout is None:
                self._of_none.add(number)
            elif number not in self._known:
                self._known[number] = layout
                self._numbers[layout.bits] = (*self._numbers.get(layout.bits, ()), number)

    def knows(self, group: Group | Sort) -> bool:
        """Whether it is a group of rows that a table can have."""
        return group.number in self._known

    def refuses(self, group: Group) -> bool:
        """Whether it is a group of rows that no table can have."""
        return group.number in self._of_none

    def of(self, group: Group | Sort) -> RowLayout:
        """The layout of a group that it `knows`."""
        return self._known[group.number or 0]

    def numbers(self, bits: int) -> tuple[int, ...]:
        """The numbers of the layout with this hash."""
        return self._numbers.get(bits, ())

    @property
    def of_none(self) -> frozenset[int]:
        """The numbers of rows that no table can have."""
        return frozenset(self._of_none)

    @property
    def refused(self) -> Column:
        """Whether an event is a row that no table can have."""
        if not self._of_none:
            return F.lit(False)
        return F.coalesce(head(NUMBER).isin(sorted(self._of_none)), F.lit(False))
