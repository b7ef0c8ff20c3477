"""Rows that TiCDC found too large for a Kafka message (`large-message-handle-option`): what is sent is not the row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.model.messages import Undecodable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column

    from pipeline.model.messages import MessageHeader
    from pipeline.model.names import TableName

HANDLE_KEY_ONLY = "HANDLE_KEY_ONLY"
CLAIM_CHECK = "CLAIM_CHECK"

SENTENCES = {
    HANDLE_KEY_ONLY: "the row was too large and has only its key: the changefeed's large-message-handle-option is "
    "handle-key-only; with a larger max-message-bytes, or with none, TiCDC sends it whole",
    CLAIM_CHECK: "the row was too large and lies in external storage: the changefeed's large-message-handle-option is "
    "claim-check; with a larger max-message-bytes, or with none, TiCDC sends it whole",
}


def refused(kind: Column, code: str, header: MessageHeader, rows: Mapping[TableName, int]) -> Undecodable:
    """Such rows of a batch, whose `kind` is the code; by table, how many there are."""
    return Undecodable(code, SENTENCES[code], kind == code, sum(rows.values()), header, rows)
