"""Where rows are that were too large for a message of Kafka, as the settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.protocols.large.claim_checks import ClaimChecks
from pipeline.protocols.large.completion import Completion
from pipeline.sources.storage.stores import store_at

if TYPE_CHECKING:
    from pipeline.settings.sections import SourceSection


def completion_of(source: SourceSection) -> Completion:
    """What completes them. Nothing is asked for yet."""
    given = source.claim_check
    if given.path is None:
        return Completion()
    return Completion(ClaimChecks(given.written_as or given.path, store_at(given.path, given.options)))
