"""Where raw records stand, as conditions on the columns that Kafka gives them (`messages.RAW`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.conditions import any_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column

    from pipeline.model.messages import TopicPartition


def stands_in(at: TopicPartition) -> Column:
    """Whether a record is of this partition."""
    return (F.col("topic") == at.topic) & (F.col("partition") == at.partition)


def stands_at(places: Iterable[tuple[TopicPartition, int]]) -> Column:
    """Whether a record stands at one of these (partition, offset)."""
    return any_of(stands_in(at) & (F.col("offset") == offset) for at, offset in places)
