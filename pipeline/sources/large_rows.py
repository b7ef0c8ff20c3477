"""Where rows are that were too large for a message of Kafka, as the settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.protocols.large.claim_checks import ClaimChecks
from pipeline.protocols.large.completion import Completion
from pipeline.protocols.large.upstream import Upstream
from pipeline.sources.storage.stores import store_at

if TYPE_CHECKING:
    from pipeline.settings import Settings


def completion_of(settings: Settings) -> Completion:
    """What completes them. Nothing is asked for yet."""
    given = settings.source.claim_check
    claims = ClaimChecks(given.written_as or given.path, store_at(given.path, given.options)) if given.path else None
    return Completion(claims, _upstream_of(settings))


def _upstream_of(settings: Settings) -> Upstream | None:
    given = settings.source.upstream
    if not (given.host and given.user):
        return None
    password = given.password.get_secret_value() if given.password else ""
    ca_file = str(given.ca_file) if given.ca_file else None
    return Upstream(given.host, given.port, given.user, password, settings.changefeed.timezone, ca_file)
