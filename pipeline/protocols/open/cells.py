"""The texts of a row event's values, as one array for each event: a number as it is written, a text without its quotes.

An event that is written as its layout's others are (`shapes`) is taken apart by one pattern; any other is read as JSON,
which takes several times as long. The two give the same, but that a number that is NULL has an empty text in the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pipeline.model.projection import once
from pipeline.protocols import end_marker
from pipeline.protocols.layouts.head import DELETE as IS_DELETE
from pipeline.protocols.layouts.head import NUMBER, head
from pipeline.protocols.open import events, framing
from pipeline.protocols.open.shapes import ARRAY, DELETE, INSERT, UPDATE, is_listed, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

    from pipeline.protocols.open.events import Shapes
    from pipeline.protocols.open.shapes import Wanted

_CELLS, _SENT, _BROKEN = "_cells", "_sent", "_broken"
_READ = "_read"
"""Whether the cells have been read as JSON."""
_AFTER, _BEFORE, _DELETED = "u", "p", "d"


class Side(IntEnum):
    """Of a change: the row as it is, and as it was. A delete has the same on both."""

    AFTER = 0
    BEFORE = 1


@dataclass(frozen=True)
class Cells:
    """The array of the events of one table. `shapes`: how they are written, by the number of their layout."""

    wanted: Wanted
    shapes: Shapes

    def steps(self, made: Sequence[Column], kept: Sequence[Column], *, at_once: bool) -> list[list[Column]]:
        """What is selected beside the event, in turn. The first makes these columns, the others keep them.

        `at_once`: events have `ARRAY`.
        """
        return [
            [*made, F.col(ARRAY) if at_once else self._by_shape().alias(ARRAY)],
            [*kept, _read_array().alias(_CELLS), self._by_json],
            [*kept, F.coalesce(_CELLS, self._read()).alias(_CELLS), F.col(_CELLS).isNull().alias(_READ)],
        ]

    @property
    def columns(self) -> list[Column]:
        """What there is when all steps are done."""
        return [F.col(_CELLS), F.col(_READ)]

    @property
    def readable(self) -> Column:
        """Whether an event could be taken apart."""
        return F.col(_CELLS).isNotNull()

    @property
    def is_update(self) -> Column:
        """Whether an event has the row as it was beside the row as it is."""
        return F.get(F.col(_CELLS), F.lit(0)) == UPDATE

    @property
    def has_before(self) -> Column:
        """Whether there is a row as it was."""
        return head(IS_DELETE) | self.is_update

    def text(self, side: Side, name: str, *, is_number: bool) -> Column:
        """The text of a column's value; NULL where it was not sent, or is NULL."""
        text = self._at(side, self._index[name])
        return F.when((text != "") | F.col(_READ), text) if is_number else text

    def code(self, side: Side, name: str) -> Column:
        """The type code beside a value, of a column that is `coded`."""
        return self._at(side, len(self.wanted.names) + self.wanted.coded.index(name)).try_cast("int")

    def _at(self, side: Side, place: int) -> Column:
        return F.get(F.col(_CELLS), F.lit(1 + side * (len(self.wanted.names) + len(self.wanted.coded)) + place))

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.wanted.names)}

    def _by_shape(self) -> Column:
        value, array = framing.value_json(F.col("value")), F.lit(None).cast("string")
        for number, shape in self.shapes:
            mine = once() & (head(NUMBER) == F.lit(number))
            array = F.when(mine, listed(value, shape, self.wanted)).otherwise(array)
        return array

    @property
    def _by_json(self) -> Column:
        """What JSON tells of an event that the array has not got. Fields are numbered: names may be anything."""
        text = F.when(once() & ~is_listed(ARRAY), end_marker.in_object(F.col("value"), framing.LENGTH_BYTES))
        options = events.LIMITS | {"columnNameOfCorruptRecord": _BROKEN}
        sent = F.from_json(text, self._schema(self.wanted.names), options)
        return sent.cast(self._schema(tuple(map(_field, range(len(self.wanted.names)))))).alias(_SENT)

    def _schema(self, names: tuple[str, ...]) -> StructType:
        text, code = StructField("v", StringType()), StructField("t", IntegerType())
        cells = [
            StructField(name, StructType([text, code] if own in self.wanted.coded else [text]))
            for name, own in zip(names, self.wanted.names, strict=True)
        ]
        before = cells if self.wanted.before else cells[:1]  # that it is there is all that is asked then
        images = {_AFTER: cells, _BEFORE: before, _DELETED: cells}
        fields = [StructField(image, StructType(own)) for image, own in images.items()]
        return StructType([*fields, StructField(end_marker.FIELD, LongType()), StructField(_BROKEN, StringType())])

    def _read(self) -> Column:
        """The array, from JSON."""
        sent = F.col(_SENT)
        updated = sent.getField(_AFTER).isNotNull() & sent.getField(_BEFORE).isNotNull()
        kind = F.when(head(IS_DELETE), DELETE).when(updated, UPDATE).otherwise(INSERT)

        def after(name: str) -> Column:
            return F.coalesce(self._sent(_AFTER, name), self._sent(_DELETED, name))

        def before(name: str) -> Column:
            """An update may leave out in `p` what is as in `u`."""
            as_it_was = F.coalesce(self._sent(_BEFORE, name), self._sent(_AFTER, name))
            return F.when(head(IS_DELETE), self._sent(_DELETED, name)).when(updated, as_it_was)

        sides = [after, before] if self.wanted.before else [after]
        texts = [
            [
                *(side(name)["v"] for name in self.wanted.names),
                *(side(name)["t"].cast("string") for name in self.wanted.coded),
            ]
            for side in sides
        ]
        whole = events.is_whole(sent) & sent.getField(_BROKEN).isNull()
        return F.when(whole, F.array(kind, *(text for side in texts for text in side)))

    def _sent(self, image: str, name: str) -> Column:
        """One column of an image; NULL where the image has not got it."""
        return F.col(_SENT).getField(image).getField(_field(self._index[name]))


def _read_array() -> Column:
    return F.from_json(F.when(is_listed(ARRAY), F.col(ARRAY)), "array<string>", events.LIMITS)


def _field(place: int) -> str:
    return f"f{place}"
