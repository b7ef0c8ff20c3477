"""Rows that TiCDC found too large for a Kafka message (`large-message-handle-option`): what is sent is not the row."""

from __future__ import annotations

HANDLE_KEY_ONLY = "HANDLE_KEY_ONLY"
CLAIM_CHECK = "CLAIM_CHECK"
CLAIM_CHECK_OUTSIDE = "CLAIM_CHECK_OUTSIDE"
CLAIM_CHECK_MISSING = "CLAIM_CHECK_MISSING"
CLAIM_CHECK_UNREADABLE = "CLAIM_CHECK_UNREADABLE"
UPSTREAM_GC = "UPSTREAM_GC"
UPSTREAM_ROW_MISSING = "UPSTREAM_ROW_MISSING"
UPSTREAM_ROW_UNREADABLE = "UPSTREAM_ROW_UNREADABLE"
UPSTREAM_FORBIDDEN = "UPSTREAM_FORBIDDEN"
UPSTREAM_UNREACHABLE = "UPSTREAM_UNREACHABLE"
UPSTREAM_UNTRUSTED = "UPSTREAM_UNTRUSTED"
UPSTREAM_NOT_TIDB = "UPSTREAM_NOT_TIDB"

_BY_KEY = "the row was too large, and the message has only its key"

SENTENCES = {
    HANDLE_KEY_ONLY: f"{_BY_KEY} (the changefeed's large-message-handle-option is "
    "handle-key-only); set source.upstream, and redrive it while TiDB still has the row as it was",
    CLAIM_CHECK: "the row was too large and lies in external storage (the changefeed's large-message-handle-option is "
    "claim-check); set source.claim_check.path, and redrive it",
    CLAIM_CHECK_OUTSIDE: "the row was too large, and the message names a place for it that is not below "
    "source.claim_check.path (or written_as); nothing was read there",
    CLAIM_CHECK_MISSING: "the row was too large, and the object that the message names is not there; put it back, and "
    "redrive the row",
    CLAIM_CHECK_UNREADABLE: "the row was too large, and the object that the message names is damaged, larger than "
    "256 MiB, or has another row",
    UPSTREAM_GC: f"{_BY_KEY}, and TiDB no longer has it as it was: garbage collection has passed its commit ts "
    "(tidb_gc_life_time)",
    UPSTREAM_ROW_MISSING: f"{_BY_KEY}, and source.upstream has no such row or table at its commit ts: check that it "
    "is the changefeed's own cluster",
    UPSTREAM_ROW_UNREADABLE: f"{_BY_KEY}, and source.upstream answered with an error, which is in the log, or with "
    "something that is not a row of this table",
    UPSTREAM_FORBIDDEN: f"{_BY_KEY}, and source.upstream refuses this user: it needs SELECT on the table",
    UPSTREAM_UNREACHABLE: f"{_BY_KEY}, and source.upstream did not answer for a minute; redrive the row while TiDB "
    "still has it as it was",
    UPSTREAM_UNTRUSTED: f"{_BY_KEY}, and source.upstream does not encrypt, or its certificate is not signed by "
    "source.upstream.ca_file, or not for this host",
    UPSTREAM_NOT_TIDB: f"{_BY_KEY}, and source.upstream is not TiDB: it has no tidb_snapshot",
}
