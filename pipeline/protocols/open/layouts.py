"""The layouts that the numbers of events stand for. Each is read once and remembered while the process lives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.protocols.open import events
from pipeline.protocols.open.columns import read_layout
from pipeline.protocols.open.events import Familiar, head
from pipeline.protocols.open.shapes import MOST_COLUMNS, MOST_VALUES, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

    from pipeline.protocols.open.columns import OpenLayout
    from pipeline.protocols.open.events import Shapes
    from pipeline.protocols.open.routes import Group, Sort
    from pipeline.protocols.open.shapes import Wanted

_MOST_SHAPES = 16
"""To hold an event against each of more is dearer than to find out its own."""


@dataclass(slots=True)
class Layouts:
    """Layouts by the numbers of events. Several numbers may have one layout: of changes and deletes, say."""

    _known: dict[int, OpenLayout] = field(default_factory=dict)
    _numbers: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """By `OpenLayout.bits`."""
    _shapes: dict[int, str] = field(default_factory=dict)
    """By number, of those whose events are written as TiCDC writes them."""
    _of_none: set[int] = field(default_factory=set)

    def learn(self, prepared: DataFrame, groups: Iterable[Group]) -> None:
        """Read the layouts that are new, each from an event of the group that shows it."""
        seen = {group.number: group.first for group in groups if group.number is not None}
        firsts = {number: at for number, at in seen.items() if number not in self._known.keys() | self._of_none}
        if not firsts:
            return
        for number, (text, shape) in events.shown(prepared, firsts).items():
            if text is None:
                self._of_none.add(number)
            elif number not in self._known:
                layout = self._known[number] = read_layout(text)
                self._numbers[layout.bits] = (*self._numbers.get(layout.bits, ()), number)
            if text is not None and shape is not None:
                self._shapes[number] = shape

    def knows(self, group: Group | Sort) -> bool:
        """Whether it is a group of rows that a table can have."""
        return group.number in self._known

    def refuses(self, group: Group) -> bool:
        """Whether it is a group of rows that no table can have."""
        return group.number in self._of_none

    def of(self, group: Group | Sort) -> OpenLayout:
        """The layout of a group that it `knows`."""
        return self._known[group.number or 0]

    def numbers(self, bits: int) -> tuple[int, ...]:
        """The numbers of the layout with this hash."""
        return self._numbers.get(bits, ())

    def shapes(self, bits: int) -> Shapes:
        """How events of the layout with this hash are written, by number: of those that a pattern takes apart."""
        shapes = ((number, self._shapes.get(number)) for number in self.numbers(bits))
        return tuple((number, shape) for number, shape in shapes if shape and width_of(shape) <= MOST_VALUES)

    def likely(self, groups: Iterable[Group]) -> Shapes:
        """How most rows of these groups are written; nothing where most are written in other ways."""
        rows: Counter[int] = Counter()
        for group in groups:
            rows[group.number or 0] += group.rows
        shapes = [(number, self._shapes.get(number, "")) for number, _ in rows.most_common(events.MOST_LIKELY)]
        fitting = tuple((number, shape) for number, shape in shapes if 0 < width_of(shape) <= MOST_COLUMNS)
        return fitting if 2 * sum(rows[number] for number, _ in fitting) > rows.total() else ()

    def familiar(self, groups: Iterable[Group | Sort], wanted: Wanted) -> Familiar | None:
        """How to recognise rows of these groups, of one table; None where there is more to it than comparing."""
        numbers = sorted({group.number or 0 for group in groups})
        names = {group.name for group in groups}
        if len(names) != 1 or len(numbers) > _MOST_SHAPES or not self._shapes.keys() >= set(numbers):
            return None
        most = max(width_of(self._shapes[number]) for number in numbers)
        if most > MOST_COLUMNS:
            return None
        shapes = tuple((number, self._shapes[number]) for number in numbers)
        return Familiar(names.pop(), shapes, wanted if most <= MOST_VALUES else None)

    @property
    def refused(self) -> Column:
        """Whether an event is a row that no table can have."""
        if not self._of_none:
            return F.lit(False)
        return F.coalesce(head(events.NUMBER).isin(sorted(self._of_none)), F.lit(False))
