"""Partitioned tables: definitions kept from DDL text, and which rows go when partitions do.

Text in, data out, and no exception, as in `ddl`.
"""

from __future__ import annotations

from pipeline.ddl.partitions.changes import applied
from pipeline.ddl.partitions.created import created_like, partitioning
from pipeline.ddl.partitions.rows import (
    Deciding,
    Edge,
    Everything,
    Members,
    Ranges,
    Remainders,
    RowPredicate,
    Value,
    ValueKind,
    ValueRange,
    predicate,
)
from pipeline.ddl.partitions.scheme import (
    MAXVALUE,
    NamedPartition,
    PartitionColumn,
    PartitionKind,
    PartitionScheme,
    from_json,
    to_json,
)

__all__ = [
    "MAXVALUE",
    "Deciding",
    "Edge",
    "Everything",
    "Members",
    "NamedPartition",
    "PartitionColumn",
    "PartitionKind",
    "PartitionScheme",
    "Ranges",
    "Remainders",
    "RowPredicate",
    "Value",
    "ValueKind",
    "ValueRange",
    "applied",
    "created_like",
    "from_json",
    "partitioning",
    "predicate",
    "to_json",
]
