"""How events of each layout are written, besides what they show: a shape lets most of them be taken apart at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.protocols.layouts.known import Layouts
from pipeline.protocols.open import events
from pipeline.protocols.open.events import Familiar
from pipeline.protocols.open.shapes import MOST_COLUMNS, MOST_VALUES, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline.protocols.layouts.routes import Group, Sort
    from pipeline.protocols.open.events import Shapes
    from pipeline.protocols.open.shapes import Wanted

_MOST_SHAPES = 16
"""To hold an event against each of more is dearer than to find out its own."""


@dataclass(slots=True)
class ShapedLayouts(Layouts):
    """Layouts, and the shapes of events by their numbers, of those that are written as TiCDC writes them."""

    written: dict[int, str] = field(default_factory=dict)

    def shapes(self, bits: int) -> Shapes:
        """How events of the layout with this hash are written, by number: of those that a pattern takes apart."""
        shapes = ((number, self.written.get(number)) for number in self.numbers(bits))
        return tuple((number, shape) for number, shape in shapes if shape and width_of(shape) <= MOST_VALUES)

    def likely(self, groups: Iterable[Group]) -> Shapes:
        """How most rows of these groups are written; nothing where most are written in other ways."""
        rows: Counter[int] = Counter()
        for group in groups:
            rows[group.number or 0] += group.rows
        shapes = [(number, self.written.get(number, "")) for number, _ in rows.most_common(events.MOST_LIKELY)]
        fitting = tuple((number, shape) for number, shape in shapes if 0 < width_of(shape) <= MOST_COLUMNS)
        return fitting if 2 * sum(rows[number] for number, _ in fitting) > rows.total() else ()

    def familiar(self, groups: Iterable[Group | Sort], wanted: Wanted) -> Familiar | None:
        """How to recognise rows of these groups, of one table; None where there is more to it than comparing."""
        numbers = sorted({group.number or 0 for group in groups})
        names = {group.name for group in groups}
        if len(names) != 1 or len(numbers) > _MOST_SHAPES or not self.written.keys() >= set(numbers):
            return None
        most = max(width_of(self.written[number]) for number in numbers)
        if most > MOST_COLUMNS:
            return None
        shapes = tuple((number, self.written[number]) for number in numbers)
        return Familiar(names.pop(), shapes, wanted if most <= MOST_VALUES else None)
