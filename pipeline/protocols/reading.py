"""A frame of records as a protocol reads it, for those who look at a few: `ingest.reading` does it for a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.protocols.large.completion import with_kinds_of

if TYPE_CHECKING:
    from contextlib import ExitStack

    from pyspark.sql import DataFrame

    from pipeline.model.messages import Messages, SourceProtocol
    from pipeline.protocols.large.completion import Completion


def prepared_and_read(
    protocol: SourceProtocol, raw: DataFrame, completion: Completion, resources: ExitStack
) -> tuple[DataFrame, Messages]:
    """The prepared frame and what it has, large rows included. `resources` releases what is kept of them.

    It is prepared once more, where messages turn out to be compressed inside, or to have several rows.
    """
    prepared = protocol.prepare(raw)
    messages = protocol.read(prepared)
    while messages.prepare_again:
        prepared = protocol.prepare(raw)
        messages = protocol.read(prepared)
    if completion.is_due(messages):
        prepared = completion.completed(protocol, prepared, resources)
        messages = with_kinds_of(protocol.read(prepared), messages)
    return prepared, messages
