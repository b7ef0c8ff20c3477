"""Why a table is held, where a release alone does not end it, and what does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.model.names import TableName

NOT_UNDERSTOOD = "DDL_NOT_UNDERSTOOD"
NO_KEY = "NO_HANDLE_KEY"
WITHOUT_KEY = "its rows come without a key, so a delete does not say which row it deletes"
NAMELESS = f"{NO_KEY}: {WITHOUT_KEY}"
"""TiCDC's new architecture sends tables without a PRIMARY KEY so in Avro (wire-formats.md, `new_avro*`)."""

GET_A_KEY = (
    "give it a primary key in TiDB, or let the changefeed send old values (avro-include-before-value). Let TiCDC send "
    "its rows again, then release it: ticdc-warehouse tables release NAME. Or leave its topic out of source.topics or "
    "source.topic_pattern"
)
"""What helps a table without a key."""


REPAIR_FIRST = "repair its rows where they differ from the source, because a release passes over the statement"
"""What comes before the release of a table whose statement nobody has applied."""


def way_on(table: TableName | str, reason: str) -> str:
    """What ends the wait of a table that is held for this reason."""
    if reason.startswith(NO_KEY):
        return GET_A_KEY
    release = f"ticdc-warehouse tables release {table}"
    if reason.startswith(NOT_UNDERSTOOD):
        return f"{REPAIR_FIRST}, then {release}"
    return release
