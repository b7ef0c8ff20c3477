"""Rows that TiCDC found too large for a Kafka message (`large-message-handle-option`): what is sent is not the row."""

from __future__ import annotations

HANDLE_KEY_ONLY = "HANDLE_KEY_ONLY"
CLAIM_CHECK = "CLAIM_CHECK"
CLAIM_CHECK_OUTSIDE = "CLAIM_CHECK_OUTSIDE"
CLAIM_CHECK_MISSING = "CLAIM_CHECK_MISSING"
CLAIM_CHECK_UNREADABLE = "CLAIM_CHECK_UNREADABLE"

SENTENCES = {
    HANDLE_KEY_ONLY: "the row was too large and has only its key: the changefeed's large-message-handle-option is "
    "handle-key-only; with a larger max-message-bytes, or with none, TiCDC sends it whole",
    CLAIM_CHECK: "the row was too large and lies in external storage (the changefeed's large-message-handle-option is "
    "claim-check); set source.claim_check.path, and redrive it",
    CLAIM_CHECK_OUTSIDE: "the row was too large, and the message names a place for it that is not below "
    "source.claim_check.path (or written_as); nothing was read there",
    CLAIM_CHECK_MISSING: "the row was too large, and the object that the message names is not there; put it back, and "
    "redrive the row",
    CLAIM_CHECK_UNREADABLE: "the row was too large, and the object that the message names is damaged, larger than "
    "256 MiB, or has another row",
}
