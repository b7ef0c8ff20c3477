"""A look at single rows of a batch: which columns they carry, or how many."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from pipeline.model.columns import SchemaId
from pipeline.model.conditions import any_of
from pipeline.model.names import TableName, folded
from pipeline.model.places import POSITION, stands_in
from pipeline.protocols.described.head import MessageKind, field_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from pipeline.model.places import Partition
    from pipeline.protocols.described.encoding import Encoding
    from pipeline.protocols.described.virtuals import Names, VersionKey


class Samples(NamedTuple):
    """Of some rows, by their versions: the names of their columns, if they say any; how many (`Encoding.width`)."""

    carried: dict[VersionKey, Names]
    widths: dict[VersionKey, set[int]]


def looked_at(prepared: DataFrame, places: Iterable[tuple[Partition, int]], encoding: Encoding) -> Samples:
    """The rows at these positions."""
    positions: dict[Partition, set[int]] = defaultdict(set)
    for partition, position in places:
        positions[partition].add(position)
    if not positions:
        return Samples({}, {})
    here = [stands_in(partition) & F.col(POSITION).isin(*sorted(some)) for partition, some in positions.items()]
    sampled = prepared.where((field_of("kind") == MessageKind.DML) & any_of(here))
    named = [field_of(name).alias(name) for name in ("database", "table", "version")]
    width = encoding.width()
    asked = [encoding.carried().alias("columns"), (F.lit(None) if width is None else width).alias("width")]
    samples = Samples({}, {})
    for row in sampled.select(*named, *asked).collect():
        key = TableName(row.database, row.table).key, SchemaId(row.version)
        if row.columns:
            names = frozenset(folded(name) for name in row.columns)
            samples.carried[key] = samples.carried.get(key, frozenset()) | names
        if row.width is not None:
            samples.widths.setdefault(key, set()).add(row.width)
    return samples
