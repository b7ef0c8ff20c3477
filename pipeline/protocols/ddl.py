"""The DDL messages of a batch, which are read in the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import BatchFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

MOST = 100_000
"""A batch of more DDL messages is no changefeed; reading them all would fill the driver."""


def collected(messages: DataFrame) -> list[Row]:
    """All rows of a frame of DDL messages. Raises `BatchFailed` (DDL_TOO_MANY) where there are more than `MOST`."""
    rows = messages.limit(MOST + 1).collect()
    if len(rows) > MOST:
        raise BatchFailed(
            "DDL_TOO_MANY",
            f"a batch has more than {MOST:,} DDL messages",
            "set source.max_offsets_per_trigger lower, so that a batch has fewer; nothing of this one was taken",
        )
    return rows
