"""A look at single rows of a batch: which columns they carry."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

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


def carried(
    prepared: DataFrame, places: Iterable[tuple[Partition, int]], encoding: Encoding
) -> dict[VersionKey, Names]:
    """The columns that the rows at these positions have, by their versions; rows that have none say nothing."""
    positions: dict[Partition, set[int]] = defaultdict(set)
    for partition, position in places:
        positions[partition].add(position)
    if not positions:
        return {}
    here = [stands_in(partition) & F.col(POSITION).isin(*sorted(some)) for partition, some in positions.items()]
    sampled = prepared.where((field_of("kind") == MessageKind.DML) & any_of(here))
    named = [field_of(name).alias(name) for name in ("database", "table", "version")]
    columns: dict[VersionKey, Names] = {}
    for row in sampled.select(*named, encoding.carried().alias("columns")).collect():
        if row.columns:
            key = TableName(row.database, row.table).key, SchemaId(row.version)
            names = frozenset(folded(name) for name in row.columns)
            columns[key] = columns.get(key, frozenset()) | names
    return columns
