"""The protocols of TiCDC, one line each: what settings, commands and the micro-batch need to know of one by its name.

What reads their messages stands under the same names in `pipeline.protocols.build`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.model.messages import Ordering

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class ProtocolFacts:
    """What there is to know of a protocol before any message is read."""

    ordering: Ordering
    needs_registry: bool = False
    """Whether its messages name schemas of a registry."""
    encodings: tuple[str, ...] = ()
    """Values of `source.encoding`; none where it has one form only."""
    own_keys: tuple[str, ...] = ()
    """How keys of `changefeed` begin that have a meaning with this protocol only."""
    old_values_optional: bool = False
    """Whether a changefeed may be without old values (`changefeed.enable-old-value`)."""
    watermarks_optional: bool = False
    """Whether a changefeed sends watermarks only if an option says so."""
    commit_ts_optional: bool = False
    """Whether messages of Kafka may be without a commit ts. Then their changes apply by offset."""
    has_large_rows: bool = False
    """Whether a row that is too large for a message may lie elsewhere (`claim-check`)."""
    sources: tuple[str, ...] = ("kafka",)
    """The kinds of source from which it is read (`source.kind`)."""


PROTOCOLS: Mapping[str, ProtocolFacts] = {
    "avro": ProtocolFacts(Ordering.BY_OFFSET, needs_registry=True, own_keys=("avro-",), watermarks_optional=True),
    "simple": ProtocolFacts(Ordering.BY_COMMIT_TS, encodings=("json", "avro"), has_large_rows=True),
    "open-protocol": ProtocolFacts(Ordering.BY_COMMIT_TS, old_values_optional=True, has_large_rows=True),
    "canal-json": ProtocolFacts(
        Ordering.BY_COMMIT_TS,
        own_keys=("date-separator",),
        commit_ts_optional=True,
        has_large_rows=True,
        sources=("kafka", "storage"),
    ),
    "csv": ProtocolFacts(Ordering.BY_COMMIT_TS, own_keys=("csv", "date-separator"), sources=("storage",)),
}
"""By `source.protocol`."""


def facts_of(name: object) -> ProtocolFacts | None:
    """What there is to know of a protocol, by whatever a user has written as its name."""
    return PROTOCOLS.get(name) if isinstance(name, str) else None
