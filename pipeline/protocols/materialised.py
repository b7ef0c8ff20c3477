"""Values that Spark works out once a row, in columns of their own.

Spark writes an expression out wherever it is used. A change frame asks for a value, for what it lost, and for whether
it could be read. Without such a column Spark would parse the text three times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model import change
from pipeline.model.text import kept

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column

    from pipeline.model.text import Value


@dataclass(frozen=True, slots=True)
class Materialised:
    """A value in columns whose names begin with `name`. `sent` is NULL where nothing was sent."""

    value: Value
    sent: Column
    name: str

    @property
    def columns(self) -> Iterator[Column]:
        """What is selected before the value is asked for."""
        yield self.value.column.alias(self.name)
        if self.value.lost is not None and self.value.text is None:
            yield self.value.lost.alias(self._lost_name)

    @property
    def column(self) -> Column:
        """The value."""
        return F.col(self.name)

    @property
    def lost(self) -> Column | None:
        """The text of what it lost."""
        if self.value.text is not None:
            return F.when(self.column.isNull(), kept(self.value.text))
        return None if self.value.lost is None else F.col(self._lost_name)

    @property
    def unread(self) -> Column | None:
        """Whether something was sent and nothing came of it; None where that cannot be."""
        if self.sent is self.value.column or self.sent is self.value.text:
            return None
        nothing, lost = self.sent.isNotNull() & self.column.isNull(), self.lost
        return nothing if lost is None else nothing & lost.isNull()

    @property
    def _lost_name(self) -> str:
        return f"{self.name}_lost"


def first_unread(values: Iterable[tuple[str, Materialised]], otherwise_fit: Column) -> Column:
    """`change.UNREAD` of rows with these values, each with its target, if nothing else is wrong with the row."""
    names = [F.when(unread, F.lit(name)) for name, value in values if (unread := value.unread) is not None]
    return F.when(otherwise_fit, F.coalesce(*names, F.lit(None).cast("string"))).alias(change.UNREAD)
