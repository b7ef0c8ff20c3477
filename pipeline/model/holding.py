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

NO_OLD_VALUES = "OLD_VALUES_MISSING"
ENTER_BY_THEMSELVES = ("DDL_PENDING", "SCHEMA_PENDING")
"""For these reasons records wait without a person."""

GET_A_KEY = (
    "give it a primary key in TiDB, or with Avro let the changefeed send old values (avro-include-before-value). Let "
    "TiCDC send its rows again, then release it: ticdc-warehouse tables release NAME. Or leave it out with "
    "source.tables"
)
"""What helps a table without a key."""

REPAIR_FIRST = "repair its rows where they differ from the source, because a release passes over the statement"
"""What comes before the release of a table whose statement nobody has applied."""
RECEIVE_FIRST = "set the option, let a run take everything that TiCDC wrote before"
"""What comes before the release of a table whose changes do not say which row they change."""


def way_on(table: TableName | str, reason: str) -> str:
    """What ends the wait of a table that is held for this reason."""
    if reason.startswith(NO_KEY):
        return GET_A_KEY
    release, first = f"ticdc-warehouse tables release {table}", before_release(reason)
    return f"{first}, then {release}" if first else release


def before_release(reason: str) -> str:
    """What comes before the release of a table that is held for this reason; "" for nothing."""
    if reason.startswith(NOT_UNDERSTOOD):
        return REPAIR_FIRST
    return RECEIVE_FIRST if reason.startswith(NO_OLD_VALUES) else ""


def needs_release(reason: str) -> bool:
    """Whether records that wait for this reason need a person; others enter when what they wait for has come."""
    return not reason.startswith(ENTER_BY_THEMSELVES)
