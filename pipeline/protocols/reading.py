"""A frame of records as a protocol reads it, for those who look at a few: `ingest.reading` does it for a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.model.messages import Messages, SourceProtocol


def prepared_and_read(protocol: SourceProtocol, raw: DataFrame) -> tuple[DataFrame, Messages]:
    """The prepared frame and what it has; prepared once more, where messages turn out to be compressed inside."""
    prepared = protocol.prepare(raw)
    messages = protocol.read(prepared)
    if messages.packed:
        prepared = protocol.prepare(raw)
        messages = protocol.read(prepared)
    return prepared, messages
