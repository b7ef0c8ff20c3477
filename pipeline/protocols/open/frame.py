"""From events to the change frame of one table, in Spark expressions.

Each value is parsed once, as a struct of all columns that the table's versions have; which version a row is, its
layout says, and its commit ts where two versions have one layout.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pipeline.model import change
from pipeline.model.change import ARRIVED_AT, ERROR, KEY_BYTES, VALUE_BYTES, Op
from pipeline.model.columns import NULL_DEFAULT
from pipeline.model.messages import EVER, INDEX, RAW
from pipeline.model.projection import Projection
from pipeline.model.types import STRING
from pipeline.protocols import sentinel
from pipeline.protocols.envelope import envelope, unrepresentable
from pipeline.protocols.open import events, framing
from pipeline.protocols.open.events import HEAD, head
from pipeline.protocols.open.values import is_encoded, read_value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column

    from pipeline.model.columns import SchemaId, SourceColumn, TableVersion
    from pipeline.model.messages import Landing
    from pipeline.protocols.open.values import Read

UNREADABLE = "OPEN_VALUE_UNREADABLE"

_SENT, _NUMBER, _BROKEN = "_sent", "_number", "_broken"
_AFTER, _BEFORE, _DELETED = "u", "p", "d"


@dataclass(frozen=True, slots=True)
class Reader:
    """One version and which rows are of it: of its layout, and (`since`, `until`) where another has the same."""

    version: TableVersion
    numbers: tuple[int, ...]
    key_only: bool = False
    since: int = 0
    until: int = EVER

    @property
    def mine(self) -> Column:
        """Whether a row is of this version."""
        same = head(events.NUMBER).isin(*self.numbers)
        if (self.since, self.until) != (0, EVER):
            same = same & head(events.COMMIT_TS).between(self.since, self.until)
        if self.key_only or is_all_handle(self.version):
            same = same & (head(events.DELETE) == F.lit(self.key_only))
        return same


def is_all_handle(version: TableVersion) -> bool:
    """Whether the version has no column but the handle."""
    return len(version.handle or ()) == len(version.columns)


@dataclass(frozen=True, slots=True)
class Recipe:
    """From the table's events to its change frame."""

    parsed: Projection
    frame: Projection


@lru_cache(maxsize=2048)
def recipe(readers: tuple[Reader, ...], landing: Landing, timezone: str, *, old_values: bool) -> Recipe:
    """The expressions of a change frame. They are the same in every batch that has the same versions."""
    names = tuple(dict.fromkeys(column.name for one in readers for column in one.version.columns))
    plan = _Plan(readers, names, landing, timezone)
    after = plan.row(lambda name: F.coalesce(plan.cell(_AFTER, name), plan.cell(_DELETED, name)))
    rows = [after]
    before: list[Column] = []
    if landing.before:
        rows.append(plan.row(plan.before))
        fields = [column.alias(name) for name, column in _targets(rows[-1], landing).items()]
        before = [F.when(_has_before(), F.struct(*fields, unrepresentable([_lost(rows[-1])]))).alias(change.BEFORE)]
    columns = [column.alias(name) for name, column in _targets(after, landing).items()]
    frame = [*_envelope(after, old_values=old_values), *columns, *before, *_bytes(rows)]
    numbers = [F.when(one.mine, F.lit(one.version.version)) for one in readers]
    number = F.coalesce(*numbers, F.lit(None)).cast("bigint").alias(_NUMBER)
    return Recipe(Projection([*(F.col(name) for name in (*RAW, INDEX, HEAD)), plan.parsed, number]), Projection(frame))


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the values of a table are found and read. Columns are numbered, since their names may be anything."""

    readers: tuple[Reader, ...]
    names: tuple[str, ...]
    landing: Landing
    timezone: str

    @property
    def parsed(self) -> Column:
        options = events.LIMITS | {"columnNameOfCorruptRecord": _BROKEN}
        sent = F.from_json(sentinel.in_object(F.col("value"), framing.LENGTH_BYTES), self._shape(self.names), options)
        return sent.cast(self._shape(tuple(f"f{n}" for n in range(len(self.names))))).alias(_SENT)

    def _shape(self, names: tuple[str, ...]) -> StructType:
        coded = {column.name for one in self.readers for column in one.version.columns if is_encoded(column)}
        text, code = StructField("v", StringType()), StructField("t", IntegerType())
        cells = [
            StructField(name, StructType([text, code] if own in coded else [text]))
            for name, own in zip(names, self.names, strict=True)
        ]
        before = cells if self.landing.before else cells[:1]  # that it is there is all that is asked then
        images = {_AFTER: cells, _BEFORE: before, _DELETED: cells}
        fields = [StructField(image, StructType(own)) for image, own in images.items()]
        return StructType([*fields, StructField(sentinel.FIELD, LongType()), StructField(_BROKEN, StringType())])

    def cell(self, image: str, name: str) -> Column:
        """One column of an image; NULL where the image has not got it."""
        return F.col(_SENT).getField(image).getField(f"f{self.names.index(name)}")

    def before(self, name: str) -> Column:
        """The column as it was: an update may leave out in `p` what is as in `u`."""
        updated = F.coalesce(self.cell(_BEFORE, name), self.cell(_AFTER, name))
        return F.when(head(events.DELETE), self.cell(_DELETED, name)).when(_is_update(), updated)

    def row(self, cell: Callable[[str], Column]) -> dict[str, list[Read]]:
        """By target, the ways in which the versions fill it; for one row all but one are NULL."""
        ways: dict[tuple[str, str, SourceColumn], list[SchemaId]] = defaultdict(list)
        for one in self.readers:
            fields = self.landing.fields[one.version.version]
            for column in one.version.columns:
                if column.name in fields:
                    ways[fields[column.name], column.name, _wire(column)].append(one.version.version)
        types = {target.name: target.type for target in self.landing.targets}
        found: dict[str, list[Read]] = defaultdict(list)
        for (target, name, column), versions in ways.items():
            value = cell(name)
            if len(versions) < len(self.readers):
                value = F.when(F.col(_NUMBER).isin(*versions), value)
            found[target].append(read_value(value, column, types[target], self.timezone))
        return found


def _wire(column: SourceColumn) -> SourceColumn:
    """What of a column decides how it is read."""
    return replace(column, type=STRING, nullable=True, default=NULL_DEFAULT)


def _is_update() -> Column:
    return F.col(_SENT).getField(_AFTER).isNotNull() & F.col(_SENT).getField(_BEFORE).isNotNull()


def _has_before() -> Column:
    return head(events.DELETE) | _is_update()


def _targets(row: dict[str, list[Read]], landing: Landing) -> dict[str, Column]:
    return {
        target.name: F.coalesce(*(read.value.column for read in row[target.name]))
        if target.name in row
        else F.lit(None).cast(target.type)
        for target in landing.targets
    }


def _envelope(row: dict[str, list[Read]], *, old_values: bool) -> list[Column]:
    new = Op.INSERT if old_values else Op.UPSERT
    op = F.when(head(events.DELETE), F.lit(Op.DELETE.value)).when(_is_update(), F.lit(Op.UPDATE.value))
    return envelope(
        op=op.otherwise(F.lit(new.value)),
        commit_ts=head(events.COMMIT_TS),
        index=F.col(INDEX),
        schema_id=F.col(_NUMBER),
        lost=[_lost(row)],
    )


def _lost(row: dict[str, list[Read]]) -> dict[str, Column]:
    texts = {name: [read.value.lost for read in reads if read.value.lost is not None] for name, reads in row.items()}
    return {name: F.coalesce(*lost) for name, lost in texts.items() if lost}


def _bytes(rows: Sequence[dict[str, list[Read]]]) -> list[Column]:
    broken = [read.broken for row in rows for reads in row.values() for read in reads]
    whole = events.is_whole(F.col(_SENT)) & F.col(_SENT).getField(_BROKEN).isNull()
    failed = ~whole | F.col(_NUMBER).isNull()
    return [
        F.when(reduce(or_, broken, failed), F.lit(UNREADABLE)).alias(ERROR),
        F.col("key").alias(KEY_BYTES),
        F.col("value").alias(VALUE_BYTES),
        F.col("timestamp").alias(ARRIVED_AT),
        F.lit(None).cast("boolean").alias(change.CHECKSUM),
    ]
